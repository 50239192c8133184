#include "gates/build/module_file.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <string_view>

#include "gates/build/module_trial.h"
#include "gates/build/needed_libraries.h"
#include "reference/error.h"

namespace lanescope {
namespace {

/// Meanwhile what is printed goes to stderr: what a module prints is no result of this program.
class StdoutToStderr {
 public:
  StdoutToStderr() {
    std::fflush(stdout);
    kept_ = dup(STDOUT_FILENO);
    if (kept_ >= 0) dup2(STDERR_FILENO, STDOUT_FILENO);
  }
  ~StdoutToStderr() {
    if (kept_ < 0) return;
    std::fflush(stdout);
    dup2(kept_, STDOUT_FILENO);
    close(kept_);
  }
  StdoutToStderr(const StdoutToStderr&) = delete;
  StdoutToStderr& operator=(const StdoutToStderr&) = delete;

 private:
  int kept_;
};

}  // namespace

bool is_ptx_path(const std::string& path) { return path.ends_with(".ptx"); }

ModuleFile::ModuleFile(const std::filesystem::path& path, bool on_machine) {
  const std::string file = on_machine && needs_cuda_runtime(path)
                               ? on_machine_runtime(path)
                               : std::filesystem::absolute(path).string();
  try_module(path, file);
  const StdoutToStderr quiet;
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    throw EnvironmentError("cannot load the module " + path.string() + ": " + dlerror());
  }
  library_ = std::shared_ptr<void>(library, [](void* handle) {
    const StdoutToStderr quiet_end;
    dlclose(handle);
  });
  module_ = reinterpret_cast<decltype(&lanescope_module)>(dlsym(library, "lanescope_module"))();
  if (on_machine && std::string_view(module_->backend) == "cuda") {
    Module adapted = *module_;
    adapted.backend = "sim";
    adapted.checked = true;
    adapted.passes = [](ModulePass*, int) { return 0; };
    on_machine_ = std::make_shared<const Module>(adapted);
    module_ = on_machine_.get();
  }
}

}  // namespace lanescope
