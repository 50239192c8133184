// Modules that a program loads while it runs, and launches of their kernels. A module's handle is
// its number, from 1 on, that of a kernel what Device::handle_of gives.

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "debug/ptx/cuda.h"

extern "C" {
lanescope::cudart::Error cudaFuncSetAttribute(const void* function, int attribute, int value);
}

namespace {

using namespace lanescope::cudart;
using ModuleHandle = void*;

int number_of(ModuleHandle module) {
  return static_cast<int>(reinterpret_cast<std::uintptr_t>(module)) - 1;
}

/// What is wrong with a text goes where the program asked for it, as ptxas's words do.
void write_log(int count, const int* options, void** values) {
  constexpr int buffer = 5, bytes = 6;  // CU_JIT_ERROR_LOG_BUFFER and its _SIZE_BYTES
  char* log = nullptr;
  std::size_t room = 0;
  for (int i = 0; i < count; ++i) {
    if (options[i] == buffer) log = static_cast<char*>(values[i]);
    if (options[i] == bytes) room = reinterpret_cast<std::uintptr_t>(values[i]);
  }
  if (log && room > 0) log[device()->refusal().copy(log, room - 1)] = '\0';
}

Error load(ModuleHandle* module, const void* image) {
  if (!module || !image) return note(invalid_value);
  const LockedDevice locked;
  const int number = locked->load_image(image);
  if (number < 0) return note(invalid_ptx);
  *module = std::bit_cast<ModuleHandle>(static_cast<std::uintptr_t>(number) + 1);
  return success;
}

Error load_with_log(ModuleHandle* module, const void* image, unsigned count, const int* options,
                    void** values) {
  const Error error = load(module, image);
  if (error == invalid_ptx) write_log(static_cast<int>(count), options, values);
  return error;
}

Error load_file(ModuleHandle* module, const char* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return note(file_not_found);
  const std::string image{std::istreambuf_iterator<char>(file), {}};
  return load(module, image.c_str());
}

Error unload(ModuleHandle module) {
  const LockedDevice locked;
  if (!locked->has_module(number_of(module))) return note(invalid_handle);
  locked->remove_module(number_of(module));
  return success;
}

Error find_kernel(const void** kernel, ModuleHandle module, const char* name) {
  const LockedDevice locked;
  if (!kernel || !name) return note(invalid_value);
  if (!locked->has_module(number_of(module))) return note(invalid_handle);
  *kernel = locked->handle_of(number_of(module), name);
  return *kernel ? success : note(symbol_not_found);
}

Error find_global(void** memory, std::size_t* bytes, ModuleHandle module, const char* name) {
  const LockedDevice locked;
  if (!name) return note(invalid_value);
  if (!locked->has_module(number_of(module))) return note(invalid_handle);
  const auto [at, size] = locked->find_variable(number_of(module), name);
  if (!at) return note(symbol_not_found);
  if (memory) *memory = at;
  if (bytes) *bytes = size;
  return success;
}

/// Where each argument lies in a buffer that has them as the kernel wants them (the driver's
/// `extra`); empty where the buffer is too short, or there is none.
std::vector<void*> arguments_in(const lanescope::ptx::Program& program, void** extra) {
  constexpr std::uintptr_t end = 0, buffer = 1, size = 2;  // CU_LAUNCH_PARAM_...
  char* begin = nullptr;
  std::size_t bytes = 0;
  for (void** at = extra; at && reinterpret_cast<std::uintptr_t>(*at) != end; at += 2) {
    if (reinterpret_cast<std::uintptr_t>(*at) == buffer) begin = static_cast<char*>(at[1]);
    if (reinterpret_cast<std::uintptr_t>(*at) == size) bytes = *static_cast<std::size_t*>(at[1]);
  }
  std::vector<void*> all;
  for (std::size_t i = 0; begin && i < program.parameters.size(); ++i) {
    const std::size_t offset = program.parameter_offsets[i];
    if (offset + program.parameters[i].bytes > bytes) return {};
    all.push_back(begin + offset);
  }
  return all;
}

Result launch_with(const LaunchWish& wish, Stream stream, void* const* arguments, void** extra) {
  const LockedDevice locked;
  const Device::Kernel* kernel = locked->find_kernel(wish.function);
  if (!kernel) return result_of(no_kernel(wish.function, invalid_handle));
  if (arguments && extra) return invalid_value;
  if (arguments) return result_of(launch(wish, arguments, stream));
  const std::vector<void*> in_buffer = arguments_in(*kernel->program, extra);
  if (in_buffer.size() < kernel->program->parameters.size()) return invalid_value;
  return result_of(launch(wish, in_buffer.data(), stream));
}

/// CUlaunchConfig
struct Configuration {
  Dim3 grid, block;
  unsigned shared;
  Stream stream;
  const LaunchAttribute* attributes;
  unsigned attribute_count;
};

}  // namespace

extern "C" {

Result cuModuleLoadData(ModuleHandle* module, const void* image) {
  return result_of(load(module, image));
}
Result cuModuleLoadDataEx(ModuleHandle* module, const void* image, unsigned count,
                          const int* options, void** values) {
  return result_of(load_with_log(module, image, count, options, values));
}
Result cuModuleLoadFatBinary(ModuleHandle* module, const void* image) {
  return result_of(load(module, image));
}
Result cuModuleLoad(ModuleHandle* module, const char* path) {
  return result_of(load_file(module, path));
}
Result cuModuleUnload(ModuleHandle module) { return result_of(unload(module)); }
Result cuModuleGetFunction(const void** function, ModuleHandle module, const char* name) {
  return result_of(find_kernel(function, module, name));
}
Result cuModuleGetGlobal_v2(void** memory, std::size_t* bytes, ModuleHandle module,
                            const char* name) {
  return result_of(find_global(memory, bytes, module, name));
}

// Libraries are modules that belong to no context.
Result cuLibraryLoadData(ModuleHandle* library, const void* image, const int* options,
                         void** values, unsigned count, const int*, void**, unsigned) {
  return result_of(load_with_log(library, image, count, options, values));
}
Result cuLibraryLoadFromFile(ModuleHandle* library, const char* path, const int*, void**, unsigned,
                             const int*, void**, unsigned) {
  return result_of(load_file(library, path));
}
Result cuLibraryUnload(ModuleHandle library) { return result_of(unload(library)); }
Result cuLibraryGetModule(ModuleHandle* module, ModuleHandle library) {
  *module = library;
  return success;
}
Result cuLibraryGetKernel(const void** kernel, ModuleHandle library, const char* name) {
  return result_of(find_kernel(kernel, library, name));
}
Result cuLibraryGetGlobal(void** memory, std::size_t* bytes, ModuleHandle library,
                          const char* name) {
  return result_of(find_global(memory, bytes, library, name));
}
Result cuKernelGetFunction(const void** function, const void* kernel) {
  *function = kernel;
  return success;
}
Result cuKernelSetAttribute(int attribute, int value, const void* kernel, int) {
  return result_of(cudaFuncSetAttribute(kernel, attribute, value));
}

Error cudaLibraryLoadData(ModuleHandle* library, const void* image, const int* options,
                          void** values, unsigned count, const int*, void**, unsigned) {
  return load_with_log(library, image, count, options, values);
}
Error cudaLibraryLoadFromFile(ModuleHandle* library, const char* path, const int*, void**, unsigned,
                              const int*, void**, unsigned) {
  return load_file(library, path);
}
Error cudaLibraryUnload(ModuleHandle library) { return unload(library); }
Error cudaLibraryGetKernel(const void** kernel, ModuleHandle library, const char* name) {
  return find_kernel(kernel, library, name);
}
Error cudaLibraryGetGlobal(void** memory, std::size_t* bytes, ModuleHandle library,
                           const char* name) {
  return find_global(memory, bytes, library, name);
}
Error cudaKernelSetAttributeForDevice(const void* kernel, int attribute, int value, int) {
  return cudaFuncSetAttribute(kernel, attribute, value);
}

Result cuFuncSetAttribute(const void* function, int attribute, int value) {
  return result_of(cudaFuncSetAttribute(function, attribute, value));
}
Result cuFuncSetCacheConfig(const void*, int) { return success; }
Result cuFuncGetAttribute(int* value, int attribute, const void* function) {
  const LockedDevice locked;
  const Device::Kernel* kernel = locked->find_kernel(function);
  if (!kernel) return result_of(no_kernel(function, invalid_handle));
  const lanescope::ptx::Program& program = *kernel->program;
  switch (attribute) {  // CUfunction_attribute
    case 0:
      *value = program.max_threads > 0 ? program.max_threads : 1024;
      return success;
    case 1:
      *value = static_cast<int>(program.shared_bytes);
      return success;
    case 3:
      *value = static_cast<int>(program.local_bytes);
      return success;
    case 5:
      *value = program.architecture;
      return success;
    case 6:
      *value = 90;
      return success;
    case 8:
      *value = static_cast<int>(kernel->most_dynamic_shared);
      return success;
    default:
      *value = 0;
      return success;
  }
}
Result cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int threads,
                                                   std::size_t shared) {
  return result_of(
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared));
}

Result cuLaunchKernel(const void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                      unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                      Stream stream, void** arguments, void** extra) {
  const LaunchWish wish{function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared};
  return launch_with(wish, stream, arguments, extra);
}
Result cuLaunchCooperativeKernel(const void* function, unsigned grid_x, unsigned grid_y,
                                 unsigned grid_z, unsigned block_x, unsigned block_y,
                                 unsigned block_z, unsigned shared, Stream stream,
                                 void** arguments) {
  LaunchWish wish{function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared};
  wish.cooperative = true;
  return launch_with(wish, stream, arguments, nullptr);
}
Result cuLaunchKernelEx(const Configuration* c, const void* function, void** arguments,
                        void** extra) {
  LaunchWish wish{function, c->grid, c->block, c->shared};
  take_attributes(wish, c->attributes, c->attribute_count);
  return launch_with(wish, c->stream, arguments, extra);
}

}  // extern "C"
