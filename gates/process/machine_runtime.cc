#include "gates/process/machine_runtime.h"

#include <dlfcn.h>

#include <cstring>
#include <string>

#include "gates/machine_headers.h"
#include "gates/module/ptx_module.h"
#include "reference/error.h"

namespace lanescope {
namespace {

const ptx::RuntimeEntry* loaded = nullptr;
PtxModuleFunction* ptx_module = nullptr;

}  // namespace

void load_machine_runtime(const std::filesystem::path& path) {
  if (loaded) return;
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* entry = library ? dlsym(library, "lanescope_runtime") : nullptr;
  if (!entry) {
    throw EnvironmentError(std::string("cannot load the SIMT machine's CUDA runtime: ") +
                           dlerror());
  }
  loaded = reinterpret_cast<ptx::RuntimeEntryFunction*>(entry)();
  if (std::strcmp(loaded->headers, LANESCOPE_SOURCE_HASH) != 0) {
    throw MismatchError(
        path.string() +
        " is of another build than this program: ./lanescope brings both up to date");
  }
  ptx_module = reinterpret_cast<PtxModuleFunction*>(dlsym(library, ptx_module_function));
}

const Module& open_ptx_module(const std::filesystem::path& path) {
  char why[4096] = "";
  const Module* module = ptx_module(path.c_str(), why, sizeof why);
  if (!module) throw UsageError(why);
  return *module;
}

const ptx::RuntimeEntry* machine_runtime() {
  return loaded && loaded->has_modules() ? loaded : nullptr;
}

}  // namespace lanescope
