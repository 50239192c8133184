#include "gates/measure/resources.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <span>
#include <sstream>
#include <utility>

#include "debug/text/progress.h"
#include "gates/build/module_build.h"
#include "gates/measure/hold_to_budgets.h"
#include "gates/measure/occupancy.h"
#include "gates/process/child.h"
#include "gates/run/run_options.h"
#include "reference/error.h"

namespace lanescope {
namespace {

constexpr int most_passes = 8;

std::string ptxas_report(const std::filesystem::path& module) {
  const std::filesystem::path path = std::filesystem::path(module).replace_extension(".resources");
  std::ifstream in(path);
  std::ostringstream report;
  report << in.rdbuf();
  if (!in || report.str().empty()) {
    throw EnvironmentError("there is no " + path.string() + ": it holds what ptxas said of " +
                           module.string() + ", and gates/build/compile_cuda.sh, which the build " +
                           "compiles with, writes it");
  }
  return report.str();
}

/// "13.0" of "nvcc 13.0 -O3 ...".
std::string compiler_version(const std::string& flags) {
  std::istringstream parts(flags);
  std::string compiler, version;
  parts >> compiler >> version;
  return version.empty() ? "unknown" : version;
}

ModuleName name_of_module(const Module& module) {
  ModuleName name;
  name.kernel = module.kernel;
  name.gate = module.gate;
  name.dtype = module.dtype;
  name.head_dim = module.head_dim;
  name.br = module.br;
  name.bc = module.bc;
  name.backend = module.backend;
  name.untraced = std::string_view(module.trace) == "off";
  return name;
}

/// The functions that the module launches, with their figures; one of them is not judged yet.
std::vector<ResourceUse> measure(const Module& module, const ModuleName& name,
                                 const std::filesystem::path& path) {
  const std::vector<CompiledFunction> functions = parse_ptxas(ptxas_report(path));
  ModulePass passes[most_passes];
  int count = 0;
  run_in_child(
      {std::as_writable_bytes(std::span(passes)), std::as_writable_bytes(std::span(&count, 1))},
      [&] { count = module.passes(passes, most_passes); });
  std::vector<ResourceUse> uses;
  for (const ModulePass& pass : std::vector(passes, passes + count)) {
    const std::string entry = std::string(pass.name) + "_entry";
    const auto function = std::find_if(
        functions.begin(), functions.end(),
        [&](const CompiledFunction& f) { return f.name.find(entry) != std::string::npos; });
    if (function == functions.end()) {
      throw EnvironmentError("ptxas said nothing of " + entry + " of " + path.string() +
                             ": build the module again");
    }
    ResourceUse use;
    use.now = {name.text(),
               pass.name,
               function->figures,
               function->arch,
               compiler_version(module.compile_flags),
               module.source_hash};
    use.traced = !name.untraced;
    use.threads = pass.threads;
    use.shared_static = function->figures.shared;
    Figures& figures = use.now.figures;
    figures.shared += pass.shared_bytes;
    const auto blocks = blocks_per_multiprocessor(
        function->arch, {pass.threads, static_cast<int>(figures.registers), figures.shared});
    if (!blocks) {
      throw UsageError("how many blocks a multiprocessor of " + function->arch +
                       " holds is not known (gates/measure/occupancy.cc)");
    }
    figures.blocks = *blocks;
    if (pass.blocks >= 0) use.driver_blocks = pass.blocks;
    uses.push_back(use);
  }
  return uses;
}

std::vector<ModuleName> wanted_modules(const ResourceOptions& options) {
  const std::vector<std::string> backends = declared_backends();
  if (std::find(backends.begin(), backends.end(), "cuda") == backends.end()) {
    throw EnvironmentError(
        "this build has no cuda modules: nvcc was missing when it was configured (CUDA Toolkit 12 "
        "or later brings it), or -Dbackends leaves cuda out");
  }
  demand_kernel(options.kernel);
  std::vector<ModuleName> wanted;
  for (ModuleName name : declared_modules()) {
    if (name.kernel != options.kernel || name.backend != "cuda") continue;
    const std::string tile = tile_text(name.br, name.bc);
    if (!options.gate.empty() && parse_gate(options.gate) != name.gate) continue;
    if (!options.dtype.empty() && parse_dtype(options.dtype) != name.dtype) continue;
    if (options.d != 0 && options.d != name.head_dim) continue;
    if (!options.tile_shape.empty() && options.tile_shape != tile) continue;
    const bool is_specimen = name.kernel.find('+') != std::string::npos;
    for (const bool untraced : {true, false}) {
      if (untraced && is_specimen) continue;  // there is none
      name.untraced = untraced;
      wanted.push_back(name);
    }
  }
  if (wanted.empty()) {
    throw UsageError("kernel " + options.kernel +
                     " has no cuda module with that gate, type, head dimension and tile: see "
                     "`lanescope list`");
  }
  return wanted;
}

bool is_at_hand(const ModuleName& name) {
  if (!std::filesystem::exists(module_path(name.text()))) return false;
  try {
    open_built_module(name);
    return true;
  } catch (const Error&) {  // of other sources, or half written
    return false;
  }
}

/// Takes the modules out of `names` that there are, with their other builds: those of one row.
std::vector<ModuleName> take_those_at_hand(std::vector<ModuleName>& names) {
  const auto row_of = [](ModuleName name) {
    name.untraced = false;
    return name.text();
  };
  std::set<std::string> missing;
  Progress progress("which modules are at hand", std::ssize(names), "modules");
  for (const ModuleName& name : names) {
    if (!missing.contains(row_of(name)) && !is_at_hand(name)) missing.insert(row_of(name));
    progress.step();
  }
  const auto rest = std::stable_partition(names.begin(), names.end(), [&](const ModuleName& name) {
    return !missing.contains(row_of(name));
  });
  const std::vector<ModuleName> at_hand(names.begin(), rest);
  names.erase(names.begin(), rest);
  return at_hand;
}

/// What was measured, not judged yet.
struct Measurements {
  ResourceReport report;
  std::vector<ModuleName> modules;  ///< of each use

  void add(const Module& module, const ModuleName& name, const std::filesystem::path& path) {
    // What -Dtrace=printf or off makes of a traced module is not what its budget is of.
    if (!name.untraced && std::string_view(module.trace) != "on") return;
    for (ResourceUse& use : measure(module, name, path)) {
      report.uses.push_back(std::move(use));
      modules.push_back(name);
    }
  }
};

Measurements measure_file(const ResourceOptions& options) {
  if (options.record) throw UsageError("--record takes a kernel of the build, not a module");
  if (!std::filesystem::exists(options.kernel)) {
    throw UsageError("there is no module " + options.kernel);
  }
  const ModuleFile module = open_module_at(options.kernel, false, false);
  if (std::string_view(module->backend) != "cuda") {
    throw UsageError("the module " + options.kernel + " is for the backend " + module->backend +
                     ": only cuda modules have registers and spills");
  }
  Measurements found;
  found.report.kernel = module->kernel;
  found.add(*module, name_of_module(*module), options.kernel);
  return found;
}

/// As measure_resources says: what is at hand first.
Measurements measure_kernel(
    const ResourceOptions& options,
    const std::function<void(const ResourceReport& part, std::size_t to_come)>& measured) {
  Measurements found;
  found.report.kernel = options.kernel;
  std::vector<ModuleName> to_build = wanted_modules(options);
  const auto add_all = [&](const std::vector<ModuleName>& names) {
    std::vector<std::string> texts;
    for (const ModuleName& name : names) texts.push_back(name.text());
    if (!texts.empty()) build_modules(texts);
    for (const ModuleName& name : names) {
      found.add(*open_built_module(name), name, module_path(name.text()));
    }
  };
  add_all(take_those_at_hand(to_build));
  if (measured && !found.report.uses.empty() && !to_build.empty()) {
    measured(found.report, to_build.size());
  }
  add_all(to_build);
  return found;
}

}  // namespace

ResourceReport measure_resources(
    const ResourceOptions& options,
    const std::function<void(const ResourceReport& part, std::size_t to_come)>& measured) {
  const bool is_file = options.kernel.ends_with(".so");
  Measurements found = is_file ? measure_file(options) : measure_kernel(options, measured);
  if (found.report.uses.empty()) {
    throw UsageError(options.kernel +
                     " is not traced into a buffer (-Dtrace), and there is no build "
                     "without tracing to measure");
  }
  hold_to_budgets(options, found.modules, !is_file, found.report);
  return std::move(found.report);
}

}  // namespace lanescope
