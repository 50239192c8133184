// Streams and events: what is asked of them is done when they are told of it, so that an event is a
// moment of the host's, and the time between two of them that which the machine took.

#include "debug/ptx/cudart_stream.h"

#include <chrono>

namespace {

using namespace lanescope::cudart;
using Clock = std::chrono::steady_clock;

struct Moment {
  Clock::time_point time;
  bool recorded = false;
  std::shared_ptr<Capture> capture = nullptr;  ///< of the stream that it was recorded in
};
Moment* moment_of(Event event) { return static_cast<Moment*>(event); }

Error make_stream(Stream* stream) {
  *stream = new char;
  return success;
}
Error make_event(Event* event) {
  *event = new Moment;
  return success;
}
Error record(Event event, Stream stream) {
  if (!event) return note(invalid_handle);
  moment_of(event)->capture = capture_of(stream);
  if (moment_of(event)->capture) return success;
  device()->settle();
  moment_of(event)->time = Clock::now();
  moment_of(event)->recorded = true;
  return success;
}

/// What a stream is asked for is done; of one that is being captured nobody can know when.
Error wait_for(Stream stream) {
  if (const std::shared_ptr<Capture> capture = capture_of(stream)) {
    capture->broken = true;
    return note(capture_unsupported);
  }
  return wait();
}

}  // namespace

extern "C" {

Error cudaStreamCreate(Stream* stream) { return make_stream(stream); }
Error cudaStreamCreateWithFlags(Stream* stream, unsigned) { return make_stream(stream); }
Error cudaStreamCreateWithPriority(Stream* stream, unsigned, int) { return make_stream(stream); }
Error cudaStreamDestroy(Stream stream) {
  delete static_cast<char*>(stream);
  return success;
}
Error cudaStreamSynchronize(Stream stream) { return wait_for(stream); }
Error cudaStreamQuery(Stream stream) { return wait_for(stream); }
Error cudaStreamWaitEvent(Stream stream, Event event, unsigned) {
  if (!event) return note(invalid_handle);
  if (moment_of(event)->capture) join_capture(stream, moment_of(event)->capture);
  return success;
}
Error cudaStreamGetPriority(Stream, int* priority) {
  *priority = 0;
  return success;
}
Error cudaStreamGetFlags(Stream, unsigned* flags) {
  *flags = 0;
  return success;
}
Error cudaStreamGetDevice(Stream, int* id) {
  *id = 0;
  return success;
}
Error cudaStreamGetId(Stream stream, unsigned long long* id) {
  *id = reinterpret_cast<std::uintptr_t>(stream);
  return success;
}
/// Hints on caches.
Error cudaStreamSetAttribute(Stream, int, const void*) { return success; }
Error cudaStreamAddCallback(Stream stream, void (*function)(Stream, Error, void*), void* data,
                            unsigned) {
  return in_stream(stream, [=] {
    function(stream, failure(), data);
    return success;
  });
}
Error cudaLaunchHostFunc(Stream stream, void (*function)(void*), void* data) {
  return in_stream(stream, [=] {
    function(data);
    return success;
  });
}

Error cudaEventCreate(Event* event) { return make_event(event); }
Error cudaEventCreateWithFlags(Event* event, unsigned) { return make_event(event); }
Error cudaEventDestroy(Event event) {
  delete moment_of(event);
  return success;
}
Error cudaEventRecord(Event event, Stream stream) { return record(event, stream); }
Error cudaEventRecordWithFlags(Event event, Stream stream, unsigned) {
  return record(event, stream);
}
Error cudaEventSynchronize(Event) { return wait(); }
Error cudaEventQuery(Event) { return wait(); }
Error cudaEventElapsedTime(float* milliseconds, Event from, Event to) {
  if (failure() != success) return note(failure());
  if (!from || !to || !moment_of(from)->recorded || !moment_of(to)->recorded) {
    return note(invalid_handle);
  }
  *milliseconds =
      std::chrono::duration<float, std::milli>(moment_of(to)->time - moment_of(from)->time).count();
  return success;
}
Error cudaEventElapsedTime_v2(float* milliseconds, Event from, Event to) {
  return cudaEventElapsedTime(milliseconds, from, to);
}

}  // extern "C"
