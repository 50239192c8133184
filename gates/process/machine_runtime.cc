#include "gates/process/machine_runtime.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <span>
#include <sstream>
#include <string>

#include "gates/build/needed_libraries.h"
#include "gates/machine_headers.h"
#include "gates/module/ptx_module.h"
#include "gates/process/child.h"
#include "reference/error.h"

namespace lanescope {
namespace {

const ptx::RuntimeEntry* loaded = nullptr;
std::string loaded_path;
PtxModuleFunction* ptx_module = nullptr;
MarkedCudaFunction* mark_ptx = nullptr;
const Module* opened = nullptr;  ///< of a kernel given as PTX, on a GPU
std::string opened_path;

/// What the runtime at `path` writes, in a process of its own: this one may have CUDA's.
std::string ask(const std::filesystem::path& path,
                const std::function<void(const ptx::RuntimeEntry&, std::span<char>)>& question) {
  char text[4096] = "";
  run_in_child({std::as_writable_bytes(std::span(text))}, [&] {
    try {
      load_machine_runtime(path);
      question(*loaded, text);
    } catch (const Error& error) {
      std::snprintf(text, sizeof text, "%s", error.what());
    }
  });
  return text;
}

}  // namespace

void load_machine_runtime(const std::filesystem::path& path) {
  if (loaded) return;
  void* library = dlopen(on_machine_runtime(path).c_str(), RTLD_NOW | RTLD_LOCAL);
  void* entry = library ? dlsym(library, "lanescope_runtime") : nullptr;
  if (!entry) {
    throw EnvironmentError(std::string("cannot load the SIMT machine's CUDA runtime: ") +
                           dlerror());
  }
  loaded = reinterpret_cast<ptx::RuntimeEntryFunction*>(entry)();
  loaded_path = std::filesystem::absolute(path).string();
  if (std::strcmp(loaded->headers, LANESCOPE_SOURCE_HASH) != 0) {
    throw MismatchError(
        path.string() +
        " is of another build than this program: ./lanescope brings both up to date");
  }
  ptx_module = reinterpret_cast<PtxModuleFunction*>(dlsym(library, ptx_module_function));
  mark_ptx = reinterpret_cast<MarkedCudaFunction*>(dlsym(library, ptx_mark_function));
}

void rewrite_marked_ptx(const std::filesystem::path& path, const char* ptx,
                        const ptx::MarkerRun& run, const ptx::MarkerBuffers& buffers, int file) {
  const std::string why = ask(path, [&](const ptx::RuntimeEntry& runtime, std::span<char> text) {
    runtime.rewrite(ptx, run, buffers, file, text.data(), text.size());
  });
  if (!why.empty()) throw UsageError(why);
}

void demand_markers_of(const std::filesystem::path& path, const std::string& module,
                       const char* ptx) {
  const std::string why = ask(path, [&](const ptx::RuntimeEntry& runtime, std::span<char> text) {
    runtime.compare(module.c_str(), ptx, text.data(), text.size());
  });
  if (!why.empty()) throw MismatchError(why);
}

std::vector<std::string> marked_lines(const std::filesystem::path& path, const char* ptx,
                                      SiteId site) {
  std::istringstream text(ask(path, [&](const ptx::RuntimeEntry& runtime, std::span<char> lines) {
    runtime.marked_lines(ptx, site, lines.data(), lines.size());
  }));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

const Module& open_ptx_module(const std::filesystem::path& path, bool on_cuda) {
  char why[4096] = "";
  const Module* module = ptx_module(path.c_str(), on_cuda, why, sizeof why);
  if (!module) throw UsageError(why);
  if (on_cuda) opened = module;
  opened_path = std::filesystem::absolute(path).string();
  return *module;
}

std::string ptx_path_of(const Module& module) {
  return opened && opened->run == module.run ? opened_path : std::string();
}

MarkedCudaFunction* ptx_mark() { return mark_ptx; }

std::string machine_runtime_path() { return loaded_path; }

const ptx::RuntimeEntry* machine_runtime() {
  return loaded && loaded->has_modules() ? loaded : nullptr;
}

}  // namespace lanescope
