// Streams and events: what is asked of them is done when they are told of it, so that an event is a
// moment of the host's, and the time between two of them that which the machine took.

#include <chrono>
#include <cstdio>

#include "debug/ptx/cudart.h"

namespace {

using namespace lanescope::cudart;
using Clock = std::chrono::steady_clock;

struct Moment {
  Clock::time_point time;
  bool recorded = false;
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
Error record(Event event) {
  if (!event) return note(invalid_handle);
  *moment_of(event) = {Clock::now(), true};
  return success;
}

/// The machine keeps no launches for later.
Error refuse_graphs() {
  std::fputs("lanescope: CUDA graphs are not executed\n", stderr);
  return note(not_supported);
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
Error cudaStreamSynchronize(Stream) { return note(failure()); }
Error cudaStreamQuery(Stream) { return note(failure()); }
Error cudaStreamWaitEvent(Stream, Event, unsigned) { return success; }
Error cudaStreamIsCapturing(Stream, int* status) {
  *status = 0;
  return success;
}

Error cudaEventCreate(Event* event) { return make_event(event); }
Error cudaEventCreateWithFlags(Event* event, unsigned) { return make_event(event); }
Error cudaEventDestroy(Event event) {
  delete moment_of(event);
  return success;
}
Error cudaEventRecord(Event event, Stream) { return record(event); }
Error cudaEventRecordWithFlags(Event event, Stream, unsigned) { return record(event); }
Error cudaEventSynchronize(Event) { return note(failure()); }
Error cudaEventQuery(Event) { return note(failure()); }
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

Error cudaStreamBeginCapture(Stream, int) { return refuse_graphs(); }
Error cudaStreamEndCapture(Stream, void**) { return refuse_graphs(); }
Error cudaGraphInstantiate(void**, void*, unsigned long long) { return refuse_graphs(); }
Error cudaGraphLaunch(void*, Stream) { return refuse_graphs(); }
Error cudaGraphDestroy(void*) { return success; }
Error cudaGraphExecDestroy(void*) { return success; }

}  // extern "C"
