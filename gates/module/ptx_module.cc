#include "gates/module/ptx_module.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "debug/ptx/runtime.h"
#include "debug/text/text.h"
#include "gates/module/launch_description.h"
#include "gates/module/launch_words.h"
#include "gates/module/plain_kernel.h"
#include "reference/error.h"

namespace lanescope {
namespace {

using Sides = std::array<std::uint32_t, 3>;

/// A kernel given as PTX, as it is launched.
class PtxKernel {
 public:
  explicit PtxKernel(const std::string& path) : path_(path) {
    std::ifstream file(path, std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(file), {}};
    if (!file) throw UsageError("cannot read " + path);
    ptx::Module module = ptx::parse(std::move(text), path);
    const std::string alone = only_kernel(module);
    if (!std::filesystem::exists(launch_description_path(path))) refuse_undescribed(module, alone);
    description_ = read_launch_description(path);
    if (description_.kernel.empty()) description_.kernel = alone;
    if (description_.kernel.empty()) throw UsageError(path + " has several kernels: which?");
    name_ = ptx::readable_name(description_.kernel);
    if (const ptx::Function* f = module.find_function(description_.kernel)) threads_ = f->threads;
    module.contracts = description_.fmad;
    ptx::Device& device = ptx::Device::instance();
    module_ = device.add_module(std::move(module));
    program_ = device.find_kernel(module_, description_.kernel).program.get();
    const std::size_t given = description_.arguments.size(), taken = program_->parameters.size();
    if (given > taken || given + description_.hidden.size() < taken) {
      throw UsageError(launch_description_path(path).string() + ": " + std::to_string(given) +
                       " arguments, and the kernel takes " + std::to_string(taken) + ":" +
                       parameters_text(program_->parameters));
    }
  }

  const LaunchDescription& description() const { return description_; }
  const char* name() const { return name_.c_str(); }

  /// Returns why the kernel does not take such a problem, or an empty text. What goes wrong in it
  /// the device knows.
  std::string launch(const ModuleRun& run) {
    ptx::Device& device = ptx::Device::instance();
    const PlainRun plain = plain::plain_run_of(run);
    std::string refusal;
    std::vector<void*> scratch;
    const ModuleBuffer buffers[] = {run.q, run.k, run.v, run.o, run.lse};
    for (const ModuleBuffer& buffer : buffers) {
      if (buffer.bytes > 0) device.map(guarded(buffer), guarded_bytes(buffer));
    }
    try {
      launch(plain, scratch);
    } catch (const UsageError& error) {
      refusal = error.what();
    }
    for (void* memory : scratch) device.release(memory);
    for (const ModuleBuffer& buffer : buffers) {
      if (buffer.bytes > 0) device.unmap(guarded(buffer));
    }
    return refusal;
  }

 private:
  static std::string only_kernel(const ptx::Module& module) {
    std::string name;
    for (const ptx::Function& function : module.functions) {
      if (!function.is_entry || !function.has_body) continue;
      if (!name.empty()) return {};
      name = function.name;
    }
    return name;
  }
  static std::string parameters_text(const std::vector<ptx::Variable>& parameters) {
    std::string text;
    for (const ptx::Variable& p : parameters) {
      text += "\n  ." + std::string(ptx::name_of(p.type)) + " " + printable(p.name, 120);
    }
    return text;
  }
  [[noreturn]] void refuse_undescribed(const ptx::Module& module, const std::string& kernel) const {
    std::string text = "how to launch " + path_ +
                       " is not known: " + launch_description_path(path_).string() +
                       " says it, like {\"grid\": [\"cdiv(len_q, 64)\", \"batch * heads\"], "
                       "\"block\": 128, \"arguments\": [\"q\", \"k\", \"v\", \"o\", \"scale\"]}";
    if (const ptx::Function* function = module.find_function(kernel)) {
      std::vector<ptx::Variable> parameters;
      for (const int i : function->parameters) {
        parameters.push_back(function->variables[static_cast<std::size_t>(i)]);
      }
      text += "; the kernel " + printable(kernel, 120) + " takes:" + parameters_text(parameters);
    }
    throw UsageError(text);
  }

  LaunchWords words_of(const PlainRun& r) const {
    constexpr double log2_e = 1.4426950408889634;
    const auto whole = [](std::int64_t n) { return static_cast<double>(n); };
    const double d = description_.head_dim;
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

  double whole(const std::string& text, const LaunchWords& words, double most) const {
    const double value = evaluate(text, words);
    if (value != std::floor(value) || !(std::fabs(value) <= most)) {
      throw UsageError("\"" + printable(text, 120) + "\" is " + number_text(value, 6) +
                       ", no whole number of its range");
    }
    return value;
  }
  Sides sides(const std::vector<std::string>& texts, const LaunchWords& words) const {
    Sides all = {1, 1, 1};
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const double side = whole(texts[i], words, 0x7fffffff);
      if (side < 1) throw UsageError("\"" + printable(texts[i], 120) + "\" is below 1");
      all[i] = static_cast<std::uint32_t>(side);
    }
    return all;
  }

  void* allocate(double bytes, std::vector<void*>& scratch) const {
    void* memory = ptx::Device::instance().allocate(static_cast<std::size_t>(bytes), false);
    if (!memory) throw UsageError("there is no memory for scratch of " + number_text(bytes, 12));
    scratch.push_back(memory);
    return memory;
  }
  /// The bits of a parameter.
  std::uint64_t argument(const std::string& text, const ptx::Variable& parameter, const PlainRun& r,
                         const LaunchWords& words, std::vector<void*>& scratch) const {
    const auto bits_of = [](const void* at) { return reinterpret_cast<std::uint64_t>(at); };
    const std::map<std::string_view, const void*> tensors = {
        {"q", r.q}, {"k", r.k}, {"v", r.v}, {"o", r.o}, {"lse", r.lse}, {"null", nullptr}};
    const auto tensor = tensors.find(text);
    const auto [call, inside] = split_call(text);
    if (tensor != tensors.end() || call == "scratch") {
      if (parameter.bytes != 8) {
        throw UsageError("\"" + printable(text, 120) + "\" is an address, and the parameter " +
                         printable(parameter.name, 120) + " has " +
                         std::to_string(8 * parameter.bytes) + " bits");
      }
      if (tensor != tensors.end()) return bits_of(tensor->second);
      constexpr double most = 0x1p40;
      return bits_of(allocate(std::max(1.0, whole(std::string(inside), words, most)), scratch));
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

  void launch(const PlainRun& r, std::vector<void*>& scratch) {
    const std::string where = launch_description_path(path_).string() + ": ";
    if (description_.causal && *description_.causal != r.causal) {
      throw UsageError(where + "the kernel is" + (*description_.causal ? "" : " not") +
                       " compiled for causal problems (--causal)");
    }
    const LaunchWords words = words_of(r);
    for (const std::string& condition : description_.conditions) {
      if (evaluate(condition, words) == 0) {
        throw UsageError(where + "the kernel takes problems with " + printable(condition, 120));
      }
    }
    const Sides grid = sides(description_.grid, words);
    Sides block = threads_;
    if (!description_.block.empty()) block = sides(description_.block, words);
    if (block[0] == 0) throw UsageError(where + "block is missing, and the PTX has no .reqntid");
    std::vector<std::uint64_t> values;
    for (std::size_t i = 0; i < program_->parameters.size(); ++i) {
      const ptx::Variable& parameter = program_->parameters[i];
      const std::size_t given = description_.arguments.size();
      if (i < given) {
        values.push_back(argument(description_.arguments[i], parameter, r, words, scratch));
        continue;
      }
      const auto bytes = static_cast<double>(description_.hidden[i - given]);
      const double blocks = double{1} * grid[0] * grid[1] * grid[2];
      values.push_back(
          bytes == 0 ? 0 : reinterpret_cast<std::uint64_t>(allocate(bytes * blocks, scratch)));
    }
    std::vector<void*> pointers;
    for (std::uint64_t& value : values) pointers.push_back(&value);
    const double shared = whole(description_.shared, words, 0x7fffffff);
    ptx::Device& device = ptx::Device::instance();
    const auto outcome = device.launch(device.find_kernel(module_, description_.kernel), grid,
                                       block, static_cast<std::size_t>(shared), pointers.data());
    if (outcome == ptx::Device::Outcome::refused_sides) throw UsageError(where + device.refusal());
  }

  std::string path_;
  LaunchDescription description_;
  std::string name_;  ///< of the kernel, for people
  Sides threads_{};   ///< that the PTX asks for
  int module_ = 0;
  const ptx::Program* program_ = nullptr;
};

PtxKernel* kernel = nullptr;

ModuleStatus machine(char* name, int name_bytes, char* arch, int arch_bytes) {
  std::snprintf(name, static_cast<std::size_t>(name_bytes), "SIMT machine");
  std::snprintf(arch, static_cast<std::size_t>(arch_bytes), "any");
  return ModuleStatus::ok;
}

ModuleStatus run(ModuleRun* r) {
  const std::string refusal = kernel->launch(*r);
  return refusal.empty() ? ModuleStatus::ok : plain::refuse(r, refusal.c_str());
}

const Module* make_module() {
  const LaunchDescription& d = kernel->description();
  static PlainKernel plain;
  plain = {kernel->name(), d.dtype, d.head_dim,
           d.br,           d.bc,    d.tensor_cores ? Products::tensor_core : Products::fp32_fma,
           d.writes_lse()};
  static Module module;
  module = *plain_module(plain, nullptr);
  module.checked = true;
  module.device = machine;
  module.run = run;
  return &module;
}

}  // namespace
}  // namespace lanescope

extern "C" const lanescope::Module* lanescope_ptx_module(const char* path, char* why,
                                                         std::size_t why_bytes) {
  using namespace lanescope;
  static std::string opened;
  static const Module* module = nullptr;
  if (module && opened == path) return module;
  try {
    if (module) throw UsageError("another kernel given as PTX is open: " + opened);
    static std::unique_ptr<PtxKernel> only;
    only = std::make_unique<PtxKernel>(path);
    kernel = only.get();
    opened = path;
    return module = make_module();
  } catch (const std::exception& error) {
    std::snprintf(why, why_bytes, "%s", error.what());
    return nullptr;
  }
}
