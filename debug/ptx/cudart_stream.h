#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "debug/ptx/cudart.h"

// What streams are asked for, and graphs of it: CUDA C++ Programming Guide, "CUDA Graphs".

namespace lanescope::cudart {

/// Something that a stream is asked for, as often as it is wanted.
using Work = std::function<Error()>;

/// Work in the order in which it was asked for, which is one of those that CUDA may take.
using WorkList = std::vector<std::shared_ptr<const Work>>;

/// A graph that streams are being captured for.
struct Capture {
  Stream origin = nullptr;  ///< the stream that began it
  WorkList nodes;
  bool broken = false;  ///< a stream of it was waited for meanwhile
};

/// Does the work, or where the stream is being captured keeps it for launches of the graph.
Error in_stream(Stream stream, Work work);
/// What the stream is being captured for; nullptr: nothing.
std::shared_ptr<Capture> capture_of(Stream stream);
/// The stream goes on behind what was captured (cudaStreamWaitEvent).
void join_capture(Stream stream, const std::shared_ptr<Capture>& capture);

/// A kernel's launch.
struct LaunchWish {
  const void* function = nullptr;
  Dim3 grid{1, 1, 1}, block{1, 1, 1};
  std::size_t shared = 0;
  Dim3 cluster{1, 1, 1};
  bool cooperative = false;
  bool overlaps = false;  ///< the one before it in the stream
};
/// Launches it in a stream. `arguments`: a pointer to each; what they point to is read at once.
Error launch(const LaunchWish& wish, void* const* arguments, Stream stream);

Error copy(void* to, const void* from, std::size_t bytes, int kind);
Error fill(void* memory, int value, std::size_t bytes);

}  // namespace lanescope::cudart
