#include "gates/build/module_build.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "debug/report/suggested_command.h"
#include "gates/build/needed_libraries.h"
#include "gates/build/ninja.h"
#include "gates/build/ninja_record.h"
#include "gates/build/this_build.h"
#include "gates/process/cuda_process.h"
#include "gates/process/machine_runtime.h"
#include "gates/process/marked_cuda.h"
#include "reference/error.h"

namespace lanescope {
namespace {

/// Where modules lie: where they were built, or where LANESCOPE_MODULES says.
std::filesystem::path module_folder() {
  const char* moved = std::getenv("LANESCOPE_MODULES");
  return moved && *moved ? moved : this_build::module_folder();
}

/// What ninja calls a file of the build folder, or one like it that lies elsewhere.
std::string target_of(const std::filesystem::path& file) {
  const std::string inside =
      std::filesystem::relative(file, this_build::build_root()).generic_string();
  return inside.starts_with("..") ? "gates/" + file.filename().string() : inside;
}

bool holds_text(const std::filesystem::path& file, const std::string& text) {
  std::ifstream in(file, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  return bytes.find(text) != bytes.npos;
}

/// Whether the file of a module is what ninja would make of the sources at hand.
bool is_current(const std::filesystem::path& module) {
  const std::filesystem::path root = this_build::build_root();
  const std::string target = target_of(module), name = module.filename().string();
  if (root / target != module.lexically_normal() || !is_newer_than_includes(root, target)) {
    return false;
  }
  // What was edited while it was compiled is older than it is.
  return holds_text(module, hash_of_sources_at_hand(name.substr(0, name.find('.'))));
}

std::string ninja_command() { return "ninja -C " + shell_word(this_build::build_root()); }

/// `of_modules`: what goes into one of the files, it was compiled of.
void build(const std::vector<std::filesystem::path>& files, const std::string& what,
           bool of_modules) {
  static std::mutex mutex;
  static std::set<std::string>
      up_to_date;  // once in a process: its runs are all of the same sources
  const std::lock_guard lock(mutex);
  const char* ninja = std::getenv("LANESCOPE_NINJA");
  if (ninja && *ninja) {
    std::vector<std::string> targets;
    for (const std::filesystem::path& file : files) {
      if (up_to_date.contains(file) || (of_modules && is_current(file))) continue;
      targets.push_back(target_of(file));
    }
    if (!targets.empty() && run_ninja(ninja, targets) != 0) {
      throw UsageError(what + " does not compile: the compiler's words are above");
    }
    up_to_date.insert(files.begin(), files.end());
  }
  for (const std::filesystem::path& file : files) {
    if (std::filesystem::exists(file)) continue;
    throw EnvironmentError(file.string() + " is not built: use the launcher " +
                           shell_word(this_build::source_root() + "/lanescope") + ", or " +
                           ninja_command() + " " + shell_word(target_of(file)));
  }
}

}  // namespace

void build_files(const std::vector<std::filesystem::path>& files, const std::string& what) {
  build(files, what, false);
}

std::filesystem::path module_path(const std::string& name) {
  return module_folder() / (name + ".so");
}

std::vector<std::string> warnings_of_module(const std::string& name) {
  std::vector<std::string> warnings;
  std::ifstream file(module_path(name).string() + ".warnings");
  for (std::string line; std::getline(file, line);) warnings.push_back(line);
  return warnings;
}

void build_modules(const std::vector<std::string>& names) {
  std::vector<std::filesystem::path> files;
  for (const std::string& name : names) files.push_back(module_path(name));
  build(files, "the module " + names.front() + (names.size() > 1 ? " or one of the others" : ""),
        true);
}

std::filesystem::path build_machine_runtime() {
  const std::filesystem::path file = module_folder() / ptx::runtime_library;
  build_files({file}, "the SIMT machine's CUDA runtime");
  return file;
}

std::filesystem::path marked_cuda_path() { return module_folder() / marked_cuda_library; }

std::filesystem::path build_marked_cuda() {
  build_files({marked_cuda_path()}, "the library that launches marked kernels");
  return marked_cuda_path();
}

std::filesystem::path build_module(const std::string& name) {
  build_modules({name});
  return module_path(name);
}

ModuleFile open_module(const ModuleName& name) {
  build_module(name.text());
  return open_built_module(name);
}

ModuleFile open_built_module(const ModuleName& name) {
  ModuleFile module(module_path(name.text()));
  demand_fresh("the module " + name.text(), name.kernel, module->source_hash,
               "Build it again: ./lanescope does, or " + ninja_command());
  return module;
}

ModuleFile open_module_at(const std::filesystem::path& path, bool stale_ok, bool on_machine) {
  if (is_ptx_path(path)) {
    load_machine_runtime(build_machine_runtime());
    return ModuleFile(open_ptx_module(path, !on_machine));
  }
  if (on_machine && needs_cuda_runtime(path)) load_machine_runtime(build_machine_runtime());
  ModuleFile module(path, on_machine);
  if (!stale_ok) {
    demand_fresh("the module " + path.string(), module->kernel, module->source_hash,
                 "Build it again, or give diff --stale-ok");
  }
  return module;
}

bool cuda_device_answers() { return CudaProcess::instance().device_answers(); }

std::string choose_backend(const std::string& wish) {
  const std::vector<std::string> built = declared_backends();
  const bool cuda_built = std::find(built.begin(), built.end(), "cuda") != built.end();
  if (wish == "auto") return cuda_built && cuda_device_answers() ? "cuda" : "sim";
  if (wish == "sim") return wish;
  if (wish != "cuda")
    throw UsageError("there is no backend '" + wish + "'; backends: auto, sim, cuda");
  if (!cuda_built) {
    throw EnvironmentError(
        "this build has no cuda modules: nvcc was missing when it was configured, "
        "or -Dbackends leaves cuda out");
  }
  if (!cuda_device_answers()) {
    throw EnvironmentError("no CUDA device answers (driver missing or no GPU): use --backend sim");
  }
  return wish;
}

}  // namespace lanescope
