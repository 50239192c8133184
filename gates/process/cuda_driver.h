#pragma once

#include <dlfcn.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>

#include "gates/process/marked_cuda.h"

namespace lanescope {

/// CUDA's driver, as far as the lab calls it itself (CUDA Driver API). It is looked for by its
/// name, since a machine may have none. Every function returns 0, or an error.
class CudaDriver {
 public:
  /// A function of the driver's interface; nullptr where there is none.
  template <class Function>
  static Function* find(const char* name) {
    static void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    return library ? reinterpret_cast<Function*>(dlsym(library, name)) : nullptr;
  }
  /// Calls a function of the driver's. Returns its error; −1: there is no such function.
  template <class... Parameters>
  static int call(const char* name, Parameters... parameters) {
    const auto function = find<int(Parameters...)>(name);
    return function ? function(parameters...) : -1;
  }

  /// "CUDA_ERROR_INVALID_PTX".
  static std::string error_name(int error) {
    const char* name = "the driver says no more";
    call("cuGetErrorName", error, &name);
    return name;
  }

  /// Loads a module, compiled by the driver where it is PTX: of a version that it does not know, as
  /// one of the newest that it does. Returns why it cannot be, or nothing.
  static std::string load(const std::string& text, void** module) {
    static char log[2048];
    const auto error_of = [module](const std::string& image) {
      constexpr int error_log_buffer = 5, error_log_bytes = 6;  // CUjit_option
      int options[] = {error_log_buffer, error_log_bytes};
      void* values[] = {log, std::bit_cast<void*>(std::uintptr_t{sizeof log})};
      return call("cuModuleLoadDataEx", module, static_cast<const void*>(image.c_str()), 2u,
                  static_cast<int*>(options), static_cast<void**>(values));
    };
    constexpr int unsupported_version = 222;  // CUDA_ERROR_UNSUPPORTED_PTX_VERSION
    int error = error_of(text);
    if (error == unsupported_version) {
      const std::string older = with_version_in(log, text);
      if (!older.empty()) error = error_of(older);
    }
    if (error == 0) return {};
    return "the driver does not compile the PTX (" + error_name(error) + "): " + log;
  }

  /// The PTX as one of the version that ptxas says is its own ("current version is '9.0'"); empty:
  /// it says none.
  static std::string with_version_in(const std::string& said, const std::string& text) {
    const std::string words = "current version is '", directive = "\n.version ";
    const std::size_t at = said.find(words), version = text.find(directive);
    const std::size_t end = said.find('\'', at + words.size());
    if (at == said.npos || end == said.npos || version == text.npos) return {};
    const std::size_t begin = at + words.size(), first = version + directive.size();
    std::string older = text;
    return older.replace(first, text.find('\n', first) - first, said.substr(begin, end - begin));
  }

  /// Tells a rewritten module where the buffers of its markers are, which the device uses in the
  /// host's memory. Returns why that cannot be, or nothing.
  static std::string place_buffers(const MarkedCuda& marked, const char* variable_name,
                                   void* module) {
    void* addresses[4] = {};
    for (int i = 0; i < 4; ++i) {
      const MarkedCuda::Buffer& buffer = marked.buffers[i];
      if (buffer.bytes == 0) continue;
      constexpr unsigned is_mapped = 2;  // CU_MEMHOSTREGISTER_DEVICEMAP
      if (call("cuMemHostRegister_v2", buffer.data, static_cast<std::size_t>(buffer.bytes),
               is_mapped) != 0 ||
          call("cuMemHostGetDevicePointer_v2", &addresses[i], buffer.data, 0u) != 0) {
        return "the device cannot use the buffers of the markers";
      }
    }
    void* variable = nullptr;
    std::size_t bytes = 0;
    if (call("cuModuleGetGlobal_v2", &variable, &bytes, module, variable_name) != 0 ||
        call("cuMemcpyHtoD_v2", variable, static_cast<const void*>(addresses), sizeof addresses) !=
            0) {
      return "the rewritten module lacks its variable";
    }
    return {};
  }
  static void give_back_buffers(const MarkedCuda& marked) {
    for (const MarkedCuda::Buffer& buffer : marked.buffers) {
      if (buffer.bytes > 0) call("cuMemHostUnregister", buffer.data);
    }
  }

  static int attribute(void* function, int which) {
    int value = -1;
    call("cuFuncGetAttribute", &value, which, function);
    return value;
  }
  static constexpr int local_bytes = 3, registers = 4, most_dynamic_shared = 8;
};

}  // namespace lanescope
