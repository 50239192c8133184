// Errors, by CUDA's names and in CUDA's words.

#include <algorithm>
#include <iterator>

#include "debug/ptx/cudart.h"

namespace lanescope::cudart {
namespace {

struct ErrorText {
  Error error;
  const char* name;
  const char* of_driver;  ///< nullptr: the driver's calls do not return it
  const char* text;
};
constexpr ErrorText error_texts[] = {
    {success, "cudaSuccess", "CUDA_SUCCESS", "no error"},
    {invalid_value, "cudaErrorInvalidValue", "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {out_of_memory, "cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {invalid_configuration, "cudaErrorInvalidConfiguration", nullptr,
     "invalid configuration argument"},
    {invalid_symbol, "cudaErrorInvalidSymbol", nullptr, "invalid device symbol"},
    {invalid_device_function, "cudaErrorInvalidDeviceFunction", nullptr, "invalid device function"},
    {invalid_device, "cudaErrorInvalidDevice", "CUDA_ERROR_INVALID_DEVICE",
     "invalid device ordinal"},
    {invalid_ptx, "cudaErrorInvalidPtx", "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {file_not_found, "cudaErrorFileNotFound", "CUDA_ERROR_FILE_NOT_FOUND", "file not found"},
    {invalid_handle, "cudaErrorInvalidResourceHandle", "CUDA_ERROR_INVALID_HANDLE",
     "invalid resource handle"},
    {illegal_state, "cudaErrorIllegalState", "CUDA_ERROR_ILLEGAL_STATE",
     "the operation cannot be performed in the present state"},
    {symbol_not_found, "cudaErrorSymbolNotFound", "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {illegal_address, "cudaErrorIllegalAddress", "CUDA_ERROR_ILLEGAL_ADDRESS",
     "an illegal memory access was encountered"},
    {launch_timeout, "cudaErrorLaunchTimeout", "CUDA_ERROR_LAUNCH_TIMEOUT",
     "the launch timed out and was terminated"},
    {assertion, "cudaErrorAssert", "CUDA_ERROR_ASSERT", "device-side assert triggered"},
    {misaligned_address, "cudaErrorMisalignedAddress", "CUDA_ERROR_MISALIGNED_ADDRESS",
     "misaligned address"},
    {launch_failure, "cudaErrorLaunchFailure", "CUDA_ERROR_LAUNCH_FAILED",
     "unspecified launch failure"},
    {cooperative_too_large, "cudaErrorCooperativeLaunchTooLarge",
     "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "too many blocks in cooperative launch"},
    {not_supported, "cudaErrorNotSupported", "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {capture_unsupported, "cudaErrorStreamCaptureUnsupported",
     "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {capture_invalidated, "cudaErrorStreamCaptureInvalidated",
     "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
};

const ErrorText* text_of(Error error) {
  const auto* found = std::find_if(std::begin(error_texts), std::end(error_texts),
                                   [&](const ErrorText& text) { return text.error == error; });
  return found == std::end(error_texts) ? nullptr : found;
}

thread_local Error last_error = success;

std::recursive_mutex& device_mutex() {
  static auto& mutex = *new std::recursive_mutex;  // until the very end: modules say goodbye late
  return mutex;
}

}  // namespace

LockedDevice::LockedDevice() : lock_(device_mutex()) {}

Error note(Error error) {
  if (error != success) last_error = error;
  return error;
}

Error failure() {
  const LockedDevice locked;
  if (locked->failure().empty()) return success;
  if (locked->refused()) return invalid_ptx;
  switch (locked->fault()) {
    case ptx::FaultKind::illegal_address:
      return illegal_address;
    case ptx::FaultKind::misaligned_address:
      return misaligned_address;
    case ptx::FaultKind::timeout:
      return launch_timeout;
    case ptx::FaultKind::assertion:
      return assertion;
    default:
      return launch_failure;
  }
}

Error no_kernel(const void* function, Error otherwise) {
  if (failure() != success) return note(failure());
  return note(device()->has_kernel(function) ? invalid_ptx : otherwise);
}

Error wait() {
  device()->settle();
  return note(failure());
}

extern "C" {

Error cudaGetLastError() {
  const Error error = last_error;
  // What a kernel did stays until the process ends.
  last_error = failure();
  return error != success ? error : last_error;
}
Error cudaPeekAtLastError() { return last_error != success ? last_error : failure(); }
const char* cudaGetErrorName(Error error) {
  const ErrorText* text = text_of(error);
  return text ? text->name : "unrecognized error code";
}
const char* cudaGetErrorString(Error error) {
  const ErrorText* text = text_of(error);
  return text ? text->text : "unrecognized error code";
}

Error cuGetErrorName(Error error, const char** name) {
  const ErrorText* text = text_of(error);
  *name = text ? text->of_driver : nullptr;
  return *name ? success : invalid_value;
}
Error cuGetErrorString(Error error, const char** words) {
  const ErrorText* text = text_of(error);
  *words = text && text->of_driver ? text->text : nullptr;
  return *words ? success : invalid_value;
}

}  // extern "C"

}  // namespace lanescope::cudart
