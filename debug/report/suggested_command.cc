#include "debug/report/suggested_command.h"

namespace lanescope {
namespace {

/// `text` as one word of a POSIX shell.
std::string shell_word(std::string_view text) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=,:+@%";
  if (!text.empty() && text.find_first_not_of(plain) == text.npos) return std::string(text);
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

}  // namespace

std::string shape_option(const Problem& p) {
  std::string text = "b=" + std::to_string(p.batch) + ",h=" + std::to_string(p.heads);
  if (p.heads_kv != p.heads) text += ",hkv=" + std::to_string(p.heads_kv);
  text += ",s=" + std::to_string(p.len_q);
  if (p.len_kv != p.len_q) text += ",skv=" + std::to_string(p.len_kv);
  return text + ",d=" + std::to_string(p.d);
}

std::string show_command_text(std::string_view path, std::string_view name, const Divergence& at) {
  std::string command = "lanescope show " + shell_word(path) + " " + std::string(name);
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
  const std::string command = "lanescope report " + shell_word(path);
  return other.empty() ? command : command + " " + shell_word(other);
}

}  // namespace lanescope
