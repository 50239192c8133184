// Errors, by CUDA's names and in CUDA's words.

#include <algorithm>
#include <iterator>

#include "debug/ptx/cudart.h"

namespace lanescope::cudart {
namespace {

struct ErrorText {
  Error error;
  const char* name;
  const char* text;
};
constexpr ErrorText error_texts[] = {
    {success, "cudaSuccess", "no error"},
    {invalid_value, "cudaErrorInvalidValue", "invalid argument"},
    {out_of_memory, "cudaErrorMemoryAllocation", "out of memory"},
    {invalid_configuration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {invalid_symbol, "cudaErrorInvalidSymbol", "invalid device symbol"},
    {invalid_device_function, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {invalid_device, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {invalid_ptx, "cudaErrorInvalidPtx", "a PTX JIT compilation failed"},
    {invalid_handle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {illegal_state, "cudaErrorIllegalState",
     "the operation cannot be performed in the present state"},
    {illegal_address, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {launch_timeout, "cudaErrorLaunchTimeout", "the launch timed out and was terminated"},
    {assertion, "cudaErrorAssert", "device-side assert triggered"},
    {misaligned_address, "cudaErrorMisalignedAddress", "misaligned address"},
    {launch_failure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cooperative_too_large, "cudaErrorCooperativeLaunchTooLarge",
     "too many blocks in cooperative launch"},
    {not_supported, "cudaErrorNotSupported", "operation not supported"},
    {capture_unsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {capture_invalidated, "cudaErrorStreamCaptureInvalidated",
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

}  // extern "C"

}  // namespace lanescope::cudart
