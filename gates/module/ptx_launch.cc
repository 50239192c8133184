#include "gates/module/ptx_launch.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "debug/ptx/exec_session.h"
#include "debug/ptx/marked_text.h"
#include "debug/text/text.h"
#include "gates/module/launch_words.h"
#include "reference/error.h"

namespace lanescope {
namespace {

using Sides = PtxLaunch::Sides;

std::vector<ptx::Variable> parameters_of(const ptx::Function& function) {
  std::vector<ptx::Variable> parameters;
  for (const int i : function.parameters) {
    parameters.push_back(function.variables[static_cast<std::size_t>(i)]);
  }
  return parameters;
}

std::string only_kernel(const ptx::Module& module) {
  std::string name;
  for (const ptx::Function& function : module.functions) {
    if (!function.is_entry || !function.has_body) continue;
    if (!name.empty()) return {};
    name = function.name;
  }
  return name;
}
std::string parameters_text(const std::vector<ptx::Variable>& parameters) {
  std::string text;
  for (const ptx::Variable& p : parameters) {
    text += "\n  ." + std::string(ptx::name_of(p.type)) + " " + printable(p.name, 120);
  }
  return text;
}
/// Says what the file that describes the launch of `kernel` has to say.
[[noreturn]] void refuse_undescribed(const std::string& path, const ptx::Module& module,
                                     const std::string& kernel) {
  std::string text = "how to launch " + path +
                     " is not known: " + launch_description_path(path).string() +
                     " says it, like {\"grid\": [\"cdiv(len_q, 64)\", \"batch * heads\"], "
                     "\"block\": 128, \"arguments\": [\"q\", \"k\", \"v\", \"o\", \"scale\"]}";
  if (const ptx::Function* function = module.find_function(kernel)) {
    text += "; the kernel " + printable(kernel, 120) +
            " takes:" + parameters_text(parameters_of(*function));
  }
  throw UsageError(text);
}

LaunchWords words_of(const LaunchDescription& description, const PlainRun& r) {
  constexpr double log2_e = 1.4426950408889634;
  const auto whole = [](std::int64_t n) { return static_cast<double>(n); };
  const double d = description.head_dim;
  LaunchWords words;
  words.numbers = {{"batch", whole(r.batch)},
                   {"heads", whole(r.heads)},
                   {"heads_kv", whole(r.heads_kv)},
                   {"len_q", whole(r.len_q)},
                   {"len_kv", whole(r.len_kv)},
                   {"d", whole(r.d)},
                   {"head_dim", d},
                   {"causal", r.causal ? 1 : 0},
                   {"scale", r.scale},
                   {"scale_log2", r.scale * log2_e}};
  // Elements from one to the next along batch, head, row and column; rows are contiguous.
  const auto strides = [&](std::int64_t heads, std::int64_t rows) {
    return std::array<double, 4>{whole(heads * rows) * d, whole(rows) * d, d, 1};
  };
  const std::map<std::string, std::array<double, 4>> of = {
      {"q", strides(r.heads, r.len_q)},
      {"k", strides(r.heads_kv, r.len_kv)},
      {"v", strides(r.heads_kv, r.len_kv)},
      {"o", strides(r.heads, r.len_q)},
      {"lse", {whole(r.heads * r.len_q), whole(r.len_q), 1, 0}}};
  words.of_words["stride"] = [of](const std::string& tensor, double side) {
    const auto at = of.find(tensor);
    if (at == of.end() || !(side == 0 || side == 1 || side == 2 || side == 3)) {
      throw UsageError("stride(" + printable(tensor) + ", " + std::to_string(side) +
                       "): it is of q, k, v, o or lse, along 0 (batch) to 3 (column)");
    }
    return at->second[static_cast<std::size_t>(side)];
  };
  return words;
}

double whole(const std::string& text, const LaunchWords& words, double most) {
  const double value = evaluate(text, words);
  if (value != std::floor(value) || !(std::fabs(value) <= most)) {
    throw UsageError("\"" + printable(text, 120) + "\" is " + number_text(value, 6) +
                     ", no whole number of its range");
  }
  return value;
}
Sides sides(const std::vector<std::string>& texts, const LaunchWords& words) {
  Sides all = {1, 1, 1};
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const double side = whole(texts[i], words, 0x7fffffff);
    if (side < 1) throw UsageError("\"" + printable(texts[i], 120) + "\" is below 1");
    all[i] = static_cast<std::uint32_t>(side);
  }
  return all;
}

std::uint64_t allocate(double bytes, const PtxLaunch::Allocate& scratch) {
  void* memory = scratch(static_cast<std::size_t>(bytes));
  if (!memory) throw UsageError("there is no memory for scratch of " + number_text(bytes, 12));
  return reinterpret_cast<std::uint64_t>(memory);
}

/// The bits of a parameter.
std::uint64_t argument(const std::string& text, const ptx::Variable& parameter, const PlainRun& r,
                       const LaunchWords& words, const PtxLaunch::Allocate& scratch) {
  const std::map<std::string_view, const void*> tensors = {{"q", r.q},
                                                           {"k", r.k},
                                                           {"v", r.v},
                                                           {"o", r.o},
                                                           {"lse", r.lse},
                                                           {"lse_base_2", r.lse},
                                                           {"q_scale", r.q_scale},
                                                           {"k_scale", r.k_scale},
                                                           {"v_scale", r.v_scale},
                                                           {"null", nullptr}};
  const auto tensor = tensors.find(text);
  const auto [call, inside] = split_call(text);
  if (tensor != tensors.end() || call == "scratch") {
    if (parameter.bytes != 8) {
      throw UsageError("\"" + printable(text, 120) + "\" is an address, and the parameter " +
                       printable(parameter.name, 120) + " has " +
                       std::to_string(8 * parameter.bytes) + " bits");
    }
    if (tensor != tensors.end()) return reinterpret_cast<std::uint64_t>(tensor->second);
    constexpr double most = 0x1p40;
    return allocate(std::max(1.0, whole(std::string(inside), words, most)), scratch);
  }
  if (parameter.type == ptx::Type::f32) {
    return std::bit_cast<std::uint32_t>(static_cast<float>(evaluate(text, words)));
  }
  if (parameter.type == ptx::Type::f64) {
    return std::bit_cast<std::uint64_t>(evaluate(text, words));
  }
  if (parameter.bytes > 8 || !ptx::is_integer(parameter.type)) {
    throw UsageError("the parameter " + printable(parameter.name, 120) + " has " +
                     std::to_string(parameter.bytes) + " bytes of ." +
                     std::string(ptx::name_of(parameter.type)) + ": no word stands for such");
  }
  const double most = std::ldexp(1.0, std::min(53, 8 * static_cast<int>(parameter.bytes)));
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(whole(text, words, most)));
}

}  // namespace

PtxLaunch::PtxLaunch(const std::string& path) : path_(path), module_(ptx::parse_file(path)) {
  const std::string alone = only_kernel(module_);
  if (!std::filesystem::exists(launch_description_path(path))) {
    refuse_undescribed(path, module_, alone);
  }
  description_ = read_launch_description(path);
  if (description_.kernel.empty()) description_.kernel = alone;
  if (description_.kernel.empty()) throw UsageError(path + " has several kernels: which?");
  name_ = ptx::readable_name(description_.kernel);
  module_.contracts = description_.fmad;
  const ptx::Function* function = module_.find_function(description_.kernel);
  if (!function || !function->is_entry || !function->has_body) {
    throw UsageError(path + " has no kernel " + printable(description_.kernel, 200));
  }
  threads_ = function->threads;
  parameters_ = parameters_of(*function);
  const std::size_t given = description_.arguments.size(), taken = parameters_.size();
  if (given > taken || given + description_.hidden.size() < taken) {
    throw UsageError(launch_description_path(path).string() + ": " + std::to_string(given) +
                     " arguments, and the kernel takes " + std::to_string(taken) + ":" +
                     parameters_text(parameters_));
  }
}

PtxLaunch::Values PtxLaunch::values(const PlainRun& r, const Allocate& scratch) const {
  const std::string where = launch_description_path(path_).string() + ": ";
  if (description_.causal && *description_.causal != r.causal) {
    throw UsageError(where + "the kernel is" + (*description_.causal ? "" : " not") +
                     " compiled for causal problems (--causal)");
  }
  const LaunchWords words = words_of(description_, r);
  for (const std::string& condition : description_.conditions) {
    if (evaluate(condition, words) == 0) {
      throw UsageError(where + "the kernel takes problems with " + printable(condition, 120));
    }
  }
  Values values;
  values.grid = sides(description_.grid, words);
  values.block = threads_;
  if (!description_.block.empty()) values.block = sides(description_.block, words);
  if (values.block[0] == 0) {
    throw UsageError(where + "block is missing, and the PTX has no .reqntid");
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const std::size_t given = description_.arguments.size();
    if (i < given) {
      values.arguments.push_back(
          argument(description_.arguments[i], parameters_[i], r, words, scratch));
      continue;
    }
    const auto bytes = static_cast<double>(description_.hidden[i - given]);
    const double blocks = double{1} * values.grid[0] * values.grid[1] * values.grid[2];
    values.arguments.push_back(bytes == 0 ? 0 : allocate(bytes * blocks, scratch));
  }
  values.shared = static_cast<std::size_t>(whole(description_.shared, words, 0x7fffffff));
  return values;
}

}  // namespace lanescope
