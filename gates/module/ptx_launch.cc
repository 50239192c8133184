#include "gates/module/ptx_launch.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "debug/ptx/exec_session.h"
#include "debug/ptx/marked_text.h"
#include "debug/text/text.h"
#include "gates/module/launch_words.h"
#include "gates/module/shared_scratch.h"
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

Sides sides(const std::vector<std::string>& texts, const LaunchWords& words) {
  Sides all = {1, 1, 1};
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const double side = whole_number(texts[i], words, 0x7fffffff);
    if (side < 1) throw UsageError("\"" + printable(texts[i], 120) + "\" is below 1");
    all[i] = static_cast<std::uint32_t>(side);
  }
  return all;
}

/// Memory with `count` whole numbers, each `step` above the one before: "count, first, step".
template <class T>
std::uint64_t progression(std::string_view inside, const LaunchWords& words,
                          SharedScratch& scratch) {
  const std::vector<std::string> parts = split_list(inside);
  if (parts.size() != 3) {
    throw UsageError("\"" + printable(inside, 120) + "\" is not: how many, the first, the step");
  }
  constexpr double most_numbers = 1 << 26;
  const double count = whole_number(parts[0], words, most_numbers);
  const double most = std::ldexp(1.0, std::min<int>(53, 8 * sizeof(T) - 1)) - 1;
  const double first = whole_number(parts[1], words, most),
               step = whole_number(parts[2], words, most);
  if (count < 1 || !(std::fabs(first + (count - 1) * step) <= most)) {
    throw UsageError("\"" + printable(inside, 120) + "\": there are no such numbers");
  }
  std::vector<T> numbers(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<T>(first + static_cast<double>(i) * step);
  }
  return scratch.of_bytes(static_cast<double>(numbers.size() * sizeof(T)), numbers.data());
}

/// The bits of a parameter.
std::uint64_t argument(const std::string& text, const ptx::Variable& parameter, const PlainRun& r,
                       const LaunchWords& words, SharedScratch& scratch) {
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
  const bool numbers = call == "i32" || call == "i64";
  if (tensor != tensors.end() || call == "scratch" || numbers) {
    if (parameter.bytes != 8) {
      throw UsageError("\"" + printable(text, 120) + "\" is an address, and the parameter " +
                       printable(parameter.name, 120) + " has " +
                       std::to_string(8 * parameter.bytes) + " bits");
    }
    if (tensor != tensors.end()) return reinterpret_cast<std::uint64_t>(tensor->second);
    if (call == "i32") return progression<std::int32_t>(inside, words, scratch);
    if (call == "i64") return progression<std::int64_t>(inside, words, scratch);
    return scratch.of_words(inside, words);
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
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(whole_number(text, words, most)));
}

PtxLaunch::Part part_of(const LaunchDescription::Launch& how, const std::string& where) {
  const std::string path = how.ptx.string();
  PtxLaunch::Part part{ptx::parse_file(path), how, {}, {}};
  if (part.how.kernel.empty()) part.how.kernel = only_kernel(part.module);
  if (part.how.kernel.empty()) throw UsageError(path + " has several kernels: which?");
  part.module.contracts = how.fmad;
  const ptx::Function* function = part.module.find_function(part.how.kernel);
  if (!function || !function->is_entry || !function->has_body) {
    throw UsageError(path + " has no kernel " + printable(part.how.kernel, 200));
  }
  part.threads = function->threads;
  part.parameters = parameters_of(*function);
  const std::size_t given = how.arguments.size(), taken = part.parameters.size();
  if (given > taken || given + how.hidden.size() < taken) {
    throw UsageError(where + std::to_string(given) + " arguments, and the kernel takes " +
                     std::to_string(taken) + ":" + parameters_text(part.parameters));
  }
  return part;
}

/// Of tensor cores, that they take the declared type somewhere; else it is another one.
void demand_products(const std::vector<PtxLaunch::Part>& parts, ElementType declared,
                     const std::string& where) {
  constexpr std::pair<ElementType, std::string_view> types[] = {{ElementType::f16, ".f16.f16"},
                                                                {ElementType::bf16, ".bf16.bf16"}};
  std::set<ElementType> taken;
  for (const PtxLaunch::Part& part : parts) {
    for (const ptx::Statement& s : part.module.find_function(part.how.kernel)->statements) {
      if (s.opcode.find("mma") == s.opcode.npos) continue;
      for (const auto& [type, words] : types) {
        if (s.opcode.find(words) != s.opcode.npos) taken.insert(type);
      }
    }
  }
  const bool is_16_bits = declared == ElementType::f16 || declared == ElementType::bf16;
  if (!is_16_bits || taken.empty() || taken.contains(declared)) return;
  throw UsageError(where + "dtype is " + name_of(declared) + ", and the kernel multiplies " +
                   name_of(*taken.begin()) + " alone");
}

PtxLaunch::Values values_of(const PtxLaunch::Part& part, const std::string& where,
                            const PlainRun& r, const LaunchWords& words, SharedScratch& scratch) {
  PtxLaunch::Values values;
  values.grid = sides(part.how.grid, words);
  values.block = part.threads;
  if (!part.how.block.empty()) values.block = sides(part.how.block, words);
  if (values.block[0] == 0) {
    throw UsageError(where + "block is missing, and the PTX has no .reqntid");
  }
  for (std::size_t i = 0; i < part.parameters.size(); ++i) {
    const std::size_t given = part.how.arguments.size();
    if (i < given) {
      values.arguments.push_back(
          argument(part.how.arguments[i], part.parameters[i], r, words, scratch));
      continue;
    }
    const auto bytes = static_cast<double>(part.how.hidden[i - given]);
    const double blocks = double{1} * values.grid[0] * values.grid[1] * values.grid[2];
    values.arguments.push_back(bytes == 0 ? 0 : scratch.of_bytes(bytes * blocks));
  }
  values.shared = static_cast<std::size_t>(whole_number(part.how.shared, words, 0x7fffffff));
  return values;
}

}  // namespace

PtxLaunch::PtxLaunch(const std::string& path) : path_(path) {
  if (!std::filesystem::exists(launch_description_path(path))) {
    const ptx::Module module = ptx::parse_file(path);
    refuse_undescribed(path, module, only_kernel(module));
  }
  description_ = read_launch_description(path);
  const std::string where = launch_description_path(path).string() + ": ";
  for (const LaunchDescription::Launch& launch : description_.launches) {
    parts_.push_back(part_of(launch, where));
    name_ += (name_.empty() ? "" : " + ") + ptx::readable_name(parts_.back().how.kernel);
  }
  demand_products(parts_, description_.dtype, where);
}

std::vector<PtxLaunch::Values> PtxLaunch::values(const PlainRun& r,
                                                 const Allocate& allocate) const {
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
  SharedScratch scratch(allocate);
  std::vector<Values> values;
  for (const Part& part : parts_) values.push_back(values_of(part, where, r, words, scratch));
  return values;
}

}  // namespace lanescope
