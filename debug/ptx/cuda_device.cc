// The driver's device, contexts, streams and events, and its functions by name.

#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "debug/ptx/cuda.h"
#include "debug/ptx/cuda_missing.h"

extern "C" {
using lanescope::cudart::Error;
using lanescope::cudart::Event;
using lanescope::cudart::Stream;
Error cudaDeviceGetAttribute(int* value, int attribute, int id);
Error cudaMemGetInfo(std::size_t* free, std::size_t* total);
Error cudaStreamCreate(Stream* stream);
Error cudaStreamDestroy(Stream stream);
Error cudaStreamSynchronize(Stream stream);
Error cudaStreamWaitEvent(Stream stream, Event event, unsigned flags);
Error cudaLaunchHostFunc(Stream stream, void (*function)(void*), void* data);
Error cudaEventCreate(Event* event);
Error cudaEventDestroy(Event event);
Error cudaEventRecord(Event event, Stream stream);
Error cudaEventSynchronize(Event event);
Error cudaEventElapsedTime(float* milliseconds, Event from, Event to);
}

namespace lanescope::cudart {

Result result_of(Error error) {
  switch (error) {
    case invalid_configuration:
      return invalid_value;
    case invalid_symbol:
    case invalid_device_function:
      return symbol_not_found;
    default:
      return error;
  }
}

}  // namespace lanescope::cudart

namespace {

using namespace lanescope::cudart;
using Context = void*;

char the_context;
thread_local Context current_context = nullptr;

Result make_context(Context* context) {
  if (!context) return invalid_value;
  *context = current_context = &the_context;
  return success;
}

/// A function of the driver's by its name in the documentation: the latest of its forms. What only
/// says that it is not supported is not found: who asks has another way.
void* function_named(const char* name) {
  Dl_info here{};
  dladdr(reinterpret_cast<const void*>(&cuTensorMapEncodeTiled), &here);
  void* library = dlopen(here.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  void* function = nullptr;
  for (const char* form : {"_v4", "_v3", "_v2", ""}) {
    const std::string symbol = std::string(name) + form;
    if (library && !function && !is_missing(symbol)) function = dlsym(library, symbol.c_str());
  }
  if (library) dlclose(library);
  return function;
}

}  // namespace

extern "C" {

Result cuInit(unsigned) { return success; }
Result cuDriverGetVersion(int* version) { return cudaDriverGetVersion(version); }
Result cuDeviceGetCount(int* count) {
  *count = 1;
  return success;
}
Result cuDeviceGet(int* device, int id) {
  *device = id;
  return id == 0 ? success : invalid_device;
}
Result cuDeviceGetName(char* name, int bytes, int) {
  std::snprintf(name, static_cast<std::size_t>(bytes), "SIMT machine");
  return success;
}
Result cuDeviceGetUuid_v2(void* id, int) {
  std::memset(id, 0, 16);
  return success;
}
Result cuDeviceTotalMem_v2(std::size_t* bytes, int) {
  *bytes = global_bytes;
  return success;
}
Result cuDeviceGetAttribute(int* value, int attribute, int id) {
  return result_of(cudaDeviceGetAttribute(value, attribute, id));
}
Result cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  return result_of(cudaMemGetInfo(free, total));
}

Result cuCtxCreate_v2(Context* context, unsigned, int) { return make_context(context); }
Result cuCtxCreate_v4(Context* context, void*, unsigned, int) { return make_context(context); }
Result cuCtxDestroy_v2(Context) {
  current_context = nullptr;
  return success;
}
Result cuDevicePrimaryCtxRetain(Context* context, int) {
  *context = &the_context;
  return success;
}
Result cuDevicePrimaryCtxRelease_v2(int) { return success; }
Result cuDevicePrimaryCtxSetFlags_v2(int, unsigned) { return success; }
Result cuDevicePrimaryCtxGetState(int, unsigned* flags, int* active) {
  *flags = 0;
  *active = 1;
  return success;
}
Result cuCtxSetCurrent(Context context) {
  current_context = context;
  return success;
}
Result cuCtxGetCurrent(Context* context) {
  *context = current_context;
  return success;
}
Result cuCtxPushCurrent_v2(Context context) { return cuCtxSetCurrent(context); }
Result cuCtxPopCurrent_v2(Context* context) {
  if (context) *context = current_context;
  return success;
}
Result cuCtxGetDevice(int* device) { return cuDeviceGet(device, 0); }
Result cuCtxSynchronize() { return result_of(wait()); }
Result cuCtxSetCacheConfig(int) { return success; }
Result cuCtxSetLimit(int, std::size_t) { return success; }

Result cuStreamCreate(Stream* stream, unsigned) { return result_of(cudaStreamCreate(stream)); }
Result cuStreamCreateWithPriority(Stream* stream, unsigned, int) {
  return result_of(cudaStreamCreate(stream));
}
Result cuStreamDestroy_v2(Stream stream) { return result_of(cudaStreamDestroy(stream)); }
Result cuStreamSynchronize(Stream stream) { return result_of(cudaStreamSynchronize(stream)); }
Result cuStreamQuery(Stream stream) { return result_of(cudaStreamSynchronize(stream)); }
Result cuStreamWaitEvent(Stream stream, Event event, unsigned flags) {
  return result_of(cudaStreamWaitEvent(stream, event, flags));
}
Result cuStreamGetCtx(Stream, Context* context) { return cuDevicePrimaryCtxRetain(context, 0); }
Result cuLaunchHostFunc(Stream stream, void (*function)(void*), void* data) {
  return result_of(cudaLaunchHostFunc(stream, function, data));
}

Result cuEventCreate(Event* event, unsigned) { return result_of(cudaEventCreate(event)); }
Result cuEventDestroy_v2(Event event) { return result_of(cudaEventDestroy(event)); }
Result cuEventRecord(Event event, Stream stream) {
  return result_of(cudaEventRecord(event, stream));
}
Result cuEventSynchronize(Event event) { return result_of(cudaEventSynchronize(event)); }
Result cuEventQuery(Event event) { return result_of(cudaEventSynchronize(event)); }
Result cuEventElapsedTime_v2(float* milliseconds, Event from, Event to) {
  return result_of(cudaEventElapsedTime(milliseconds, from, to));
}

/// cudaDriverEntryPointQueryResult and CUdriverProcAddressQueryResult
constexpr int entry_found = 0, entry_not_found = 1;

Error cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned,
                                       unsigned long long, int* status) {
  *function = function_named(name);
  if (status) *status = *function ? entry_found : entry_not_found;
  return *function || status ? success : note(invalid_value);
}
Error cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long flags,
                              int* status) {
  return cudaGetDriverEntryPointByVersion(name, function, 0, flags, status);
}
Result cuGetProcAddress_v2(const char* name, void** function, int, std::uint64_t, int* status) {
  *function = function_named(name);
  if (status) *status = *function ? entry_found : entry_not_found;
  return *function ? success : symbol_not_found;
}
Result cuGetProcAddress(const char* name, void** function, int version, std::uint64_t flags) {
  return cuGetProcAddress_v2(name, function, version, flags, nullptr);
}

}  // extern "C"
