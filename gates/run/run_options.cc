#include "gates/run/run_options.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <map>
#include <sstream>

#include "debug/dump/input_file.h"
#include "debug/text/nearest.h"
#include "gates/build/marked_module.h"
#include "gates/build/module_build.h"
#include "gates/process/machine_runtime.h"
#include "gates/run/presets.h"
#include "reference/error.h"
#include "reference/inputs.h"

namespace lanescope {
namespace {

std::int64_t parse_number(const std::string& text, const std::string& what) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    throw UsageError(what + ": '" + text + "' is not a number from 0 on");
  }
  return value;
}

/// "a=1,b=2" as its parts.
std::map<std::string, std::string> parse_pairs(const std::string& text, const std::string& option) {
  std::map<std::string, std::string> pairs;
  std::istringstream in(text + (text.ends_with(',') ? "," : ""));  // an empty part is one
  for (std::string part; std::getline(in, part, ',');) {
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos) {
      throw UsageError(option + ": '" + part + "' is not of the form name=value");
    }
    if (!pairs.emplace(part.substr(0, equals), part.substr(equals + 1)).second) {
      throw UsageError(option + ": " + part.substr(0, equals) + " is given twice");
    }
  }
  return pairs;
}

void parse_where(const std::string& text, RunRequest& request) {
  for (const auto& [name, value] : parse_pairs(text, "--where")) {
    const Range range = parse_range(value, "--where " + name);
    if (name == "block") {
      request.blocks = range;
    } else if (name == "tile") {
      request.tiles = range;
    } else if (name == "warp") {
      request.warps = range;
    } else if (name == "lane") {
      request.lanes = range;
    } else {
      throw UsageError("--where: there is no '" + name + "'; there is: block, tile, warp, lane");
    }
  }
}

Layout parse_layout(const std::string& text) {
  if (text == "bhsd") return Layout::bhsd;
  if (text == "bshd") return Layout::bshd;
  throw UsageError("--layout: there is no '" + text + "'; layouts: bhsd, bshd");
}

void check_input(const std::string& text) {
  std::string known;
  for (const std::string& kind : input_kinds()) {
    if (text == kind) return;
    known += kind + ", ";
  }
  throw UsageError("--input: there is no '" + text + "'; inputs: " + known +
                   "or a .safetensors file with q, k, v");
}

void check_rounds_by_choice(const RunOptions& options, std::string_view backend) {
  if (options.arch.empty() || backend == "sim") return;
  throw UsageError("--arch chooses the rounding rules of sim, and this runs on " +
                   std::string(backend) + ": add --backend sim");
}

/// A module is one exact thing: what is asked for beside it must be what it is.
ModuleFile open_given_module(const RunOptions& options, Gate gate,
                             const std::optional<ElementType>& dtype,
                             const std::optional<std::pair<int, int>>& tile) {
  if (!std::filesystem::exists(options.kernel)) {
    throw UsageError("there is no module " + options.kernel);
  }
  const bool on_machine =
      options.backend == "sim" || (options.backend == "auto" && !cuda_device_answers());
  ModuleFile module = open_module_at(options.kernel, options.stale_ok, on_machine);
  const auto demand = [&](bool holds, const std::string& what) {
    if (!holds) throw UsageError("the module " + options.kernel + " is " + what);
  };
  const auto ptx = ptx_beside(options.kernel);
  if (ptx && !options.untraced && !module->marked_ptx) {
    if (const auto marked = marked_module(*module, read_markers(*ptx), gate, *ptx)) {
      if (!is_ptx_path(options.kernel)) {
        demand_markers_of(build_machine_runtime(), options.kernel, marked->module.marked_ptx);
      }
      module.describe_as(marked->module, marked);
    }
  }
  demand(module->gate == gate, std::string("gate ") + name_of(module->gate));
  demand(!dtype || *dtype == module->dtype, std::string("for ") + name_of(module->dtype));
  demand(options.backend == "auto" || options.backend == module->backend,
         std::string("for the backend ") + module->backend);
  demand(!tile || *tile == std::pair(module->br, module->bc),
         "of tile " + tile_text(module->br, module->bc));
  demand(!options.untraced || std::string_view(module->trace) == "off", "traced");
  demand(!options.checked || module->checked,
         "not compiled for the memory checker (gates/meson.build: checked_flags)");
  demand(options.specimen.empty(), "built: no specimen can be planted into it");
  return module;
}

std::string kernel_name(const RunOptions& options) {
  if (options.specimen.empty()) return options.kernel;
  demand_kernel(options.kernel);
  std::string wish = options.kernel + "+" + options.specimen;
  std::vector<std::string> known;
  for (const DeclaredSpecimen& specimen : declared_specimens()) {
    if (specimen.kernel == wish) return wish;
    if (!specimen.kernel.starts_with(options.kernel + "+")) continue;
    known.emplace_back(specimen.kernel.substr(options.kernel.size() + 1));
  }
  throw UsageError("kernel " + options.kernel + " has no specimen '" + options.specimen + "'" +
                   did_you_mean(options.specimen, known) +
                   "; there is: " + (known.empty() ? "none" : listed(known)));
}

std::string trace_note(const Module& module) {
  const std::string_view trace = module.trace;
  if (trace == "on") return {};
  return "This build is set to -Dtrace=" + std::string(trace) +
         (trace == "off" ? ": nothing is traced"
                         : ": traced values become text, which `run` prints") +
         ", and only what the gate leaves is judged. ./lanescope -Dtrace=on sets it back";
}

}  // namespace

Range parse_range(const std::string& text, const std::string& what) {
  const std::size_t dots = text.find("..");
  const std::int64_t first = parse_number(text.substr(0, dots), what);
  const std::int64_t last =
      dots == std::string::npos ? first : parse_number(text.substr(dots + 2), what);
  if (last < first) throw UsageError(what + ": '" + text + "' ends before it begins");
  return {first, last + 1};
}

Problem parse_shape(const std::string& preset, const std::string& shape, bool causal) {
  Problem p = find_preset(preset.empty() ? "debug" : preset).problem;
  p.causal = causal;
  bool kv_heads = false, kv_length = false;
  for (const auto& [name, text] : parse_pairs(shape, "--shape")) {
    const std::int64_t value = parse_number(text, "--shape " + name);
    if (value == 0) throw UsageError("--shape " + name + ": must be 1 or more");
    if (name == "b") {
      p.batch = value;
    } else if (name == "h") {
      p.heads = value;
    } else if (name == "hkv") {
      p.heads_kv = value;
      kv_heads = true;
    } else if (name == "s") {
      p.len_q = value;
    } else if (name == "skv") {
      p.len_kv = value;
      kv_length = true;
    } else if (name == "d") {
      p.d = value;
    } else {
      throw UsageError("--shape: there is no '" + name + "'; there is: b, h, hkv, s, skv, d");
    }
  }
  if (!kv_heads) p.heads_kv = p.heads;
  if (!kv_length) p.len_kv = p.len_q;
  if (p.heads % p.heads_kv != 0) {
    throw UsageError("--shape: h=" + std::to_string(p.heads) +
                     " is no multiple of hkv=" + std::to_string(p.heads_kv));
  }
  std::int64_t size = 2;
  for (const std::int64_t side : {p.batch, p.heads, std::max(p.len_q, p.len_kv), p.d}) {
    if (__builtin_mul_overflow(size, side, &size) || size > std::int64_t{1} << 40) {
      throw UsageError("--shape: a tensor of this shape passes 1 TiB");
    }
  }
  return p;
}

std::optional<std::pair<int, int>> parse_tile(const std::string& text) {
  if (text.empty()) return std::nullopt;
  const std::size_t x = text.find('x');
  if (x == std::string::npos) throw UsageError("--tile-shape: '" + text + "' is not like 64x32");
  const auto side = [](const std::string& digits) {
    constexpr std::int64_t most = std::numeric_limits<int>::max();  // there is no such tile
    return static_cast<int>(std::min(parse_number(digits, "--tile-shape"), most));
  };
  return std::pair(side(text.substr(0, x)), side(text.substr(x + 1)));
}

const simt::RuleSet& parse_rules(const std::string& name) {
  std::string known;
  for (const simt::RuleSet& rules : simt::rule_sets) {
    if (name == rules.name) return rules;
    known += (known.empty() ? "" : ", ") + std::string(rules.name);
  }
  throw UsageError("--arch: there is no '" + name + "'; rounding rules: " + known);
}

PreparedRun prepare(const RunOptions& options) {
  RunRequest request;
  if (!options.arch.empty()) request.rules = &parse_rules(options.arch);
  std::vector<std::string> warnings;
  request.input = options.input;
  request.seed = options.seed;
  request.splits = options.splits;
  request.threads = options.threads;
  request.schedule = options.schedule;
  request.timeout_seconds = options.timeout_seconds.value_or(default_timeout_seconds);
  parse_where(options.where, request);
  const std::optional<ElementType> dtype =
      options.dtype.empty() ? std::nullopt : std::optional(parse_dtype(options.dtype));
  const Gate gate = parse_gate(options.gate);
  const auto tile = parse_tile(options.tile_shape);
  const Layout layout = parse_layout(options.layout);

  std::optional<ModuleFile> given;
  if (is_module_path(options.kernel)) given = open_given_module(options, gate, dtype, tile);
  if (options.input.ends_with(".safetensors")) {
    if (!options.shape.empty() || !options.preset.empty()) {
      throw UsageError("--shape and --preset do not go with an input file: it has a shape");
    }
    // A file of F32 becomes what the kernel takes.
    InputFile file = read_input_file(options.input, layout, dtype, options.causal,
                                     given ? (*given)->dtype : ElementType::f16);
    request.problem = file.problem;
    request.inputs = std::move(file.inputs);
    warnings = std::move(file.warnings);
  } else {
    check_input(options.input);
    request.problem = parse_shape(options.preset, options.shape, options.causal);
  }

  if (given) {
    const Module& module = **given;
    check_rounds_by_choice(options, module.backend);
    const bool has_d = !request.inputs.q.dims.empty() || !options.preset.empty() ||
                       parse_pairs(options.shape, "--shape").contains("d");
    if (!has_d) request.problem.d = std::min<std::int64_t>(request.problem.d, module.head_dim);
    return {options.kernel, std::move(*given), std::move(request), std::move(warnings), {}};
  }
  const std::string backend = choose_backend(options.backend);
  check_rounds_by_choice(options, backend);
  const bool from_file = !request.inputs.q.dims.empty();
  const auto type = from_file ? std::optional(request.inputs.type()) : dtype;
  const ModuleName name = choose_module({kernel_name(options), gate, type, request.problem.d, tile,
                                         backend, options.untraced, options.checked});
  ModuleFile module = open_module(name);
  std::string note = options.untraced || options.checked ? "" : trace_note(*module);
  return {name.text(), std::move(module), std::move(request), std::move(warnings), std::move(note)};
}

}  // namespace lanescope
