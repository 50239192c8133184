#include "gates/process/machine_runtime.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <span>
#include <string>

#include "gates/machine_headers.h"
#include "gates/module/ptx_module.h"
#include "gates/process/child.h"
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

void rewrite_marked_ptx(const std::filesystem::path& path, const char* ptx,
                        const ptx::MarkerRun& run, const ptx::MarkerBuffers& buffers, int file) {
  char why[4096] = "";
  run_in_child({std::as_writable_bytes(std::span(why))}, [&] {
    try {
      load_machine_runtime(path);
      loaded->rewrite(ptx, run, buffers, file, why, sizeof why);
    } catch (const Error& error) {
      std::snprintf(why, sizeof why, "%s", error.what());
    }
  });
  if (*why) throw UsageError(why);
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
