#include "debug/report/suggested_command.h"

#include "debug/simt/numerics.h"

namespace lanescope {
namespace {

std::string called_as = "lanescope", file_of_program = "lanescope";

/// "3" or "0..3", the end included.
std::string range_option(const Range& range) {
  const std::string first = std::to_string(range.begin);
  return range.count() == 1 ? first : first + ".." + std::to_string(range.end - 1);
}

/// The rounding rules that sim was asked for; empty: those that it has without.
std::string rules_option(const DumpInfo& info) {
  for (const simt::RuleSet& rules : simt::rule_sets) {
    if (&rules != &simt::hopper && info.backend == "sim" && info.arch == rules.arch)
      return rules.name;
  }
  return {};
}

}  // namespace

std::string shell_word(std::string_view text) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=,:+@%";
  if (!text.empty() && text.find_first_not_of(plain) == text.npos) return std::string(text);
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

void set_program(std::string_view called, std::string_view file) {
  called_as = shell_word(called);
  file_of_program = shell_word(file);
}

const std::string& program_name() { return called_as; }
const std::string& program_file() { return file_of_program; }

std::string where_option(const DumpInfo& info) {
  std::string text;
  if (info.blocks.count() < info.block_count()) text = "block=" + range_option(info.blocks);
  if (info.tiles.count() < info.kv_tiles()) {
    text += (text.empty() ? "tile=" : ",tile=") + range_option(info.tiles);
  }
  return text;
}

std::string run_text(const DumpInfo& info, std::string_view gate) {
  const bool by_path = is_module_path(info.module);
  const std::size_t plus = info.kernel.find('+');
  std::string text = shell_word(by_path ? info.module : info.kernel.substr(0, plus));
  if (!gate.empty()) text += " " + std::string(gate);
  const auto option = [&](const char* name, std::string_view value) {
    if (!value.empty()) text += std::string(" --") + name + " " + shell_word(value);
  };
  const bool from_file = info.input.ends_with(".safetensors");
  if (!from_file) option("shape", shape_option(info.problem));
  if (info.problem.causal) text += " --causal";
  option("backend", info.backend);
  if (!by_path) {
    option("specimen", plus == std::string::npos ? "" : info.kernel.substr(plus + 1));
    option("dtype", name_of(info.dtype));
    option("tile-shape", std::to_string(info.br) + "x" + std::to_string(info.bc));
    if (info.module.ends_with(".untraced")) text += " --untraced";
  }
  if (info.input != "random") option("input", info.input);
  if (info.seed != 0) option("seed", std::to_string(info.seed));
  if (info.splits > 1) option("splits", std::to_string(info.splits));
  option("arch", rules_option(info));
  option("where", where_option(info));
  return text;
}

std::string shape_option(const Problem& p) {
  std::string text = "b=" + std::to_string(p.batch) + ",h=" + std::to_string(p.heads);
  if (p.heads_kv != p.heads) text += ",hkv=" + std::to_string(p.heads_kv);
  text += ",s=" + std::to_string(p.len_q);
  if (p.len_kv != p.len_q) text += ",skv=" + std::to_string(p.len_kv);
  return text + ",d=" + std::to_string(p.d);
}

std::string show_command_text(std::string_view path, std::string_view name, const Divergence& at) {
  std::string command = program_name() + " show " + shell_word(path) + " " + std::string(name);
  const auto option = [&](const char* option_name, std::int64_t value) {
    if (value >= 0) command += std::string(" --") + option_name + " " + std::to_string(value);
  };
  option("block", at.block);
  option("tile", at.tile);
  if (at.reg >= 0) {  // else the lane is the one that wrote the element, and no way to find it
    option("warp", at.warp);
    option("lane", at.lane);
  }
  return command;
}

std::string report_command_text(std::string_view path, std::string_view other) {
  const std::string command = program_name() + " report " + shell_word(path);
  return other.empty() ? command : command + " " + shell_word(other);
}

}  // namespace lanescope
