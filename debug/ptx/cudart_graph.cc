// Graphs: what streams are asked for while they are being captured, done at each launch.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>

#include "debug/ptx/cudart_stream.h"

namespace lanescope::cudart {
namespace {

/// By the streams that are being captured; under the device's lock.
std::map<Stream, std::shared_ptr<Capture>>& captures() {
  static auto& all = *new std::map<Stream, std::shared_ptr<Capture>>;
  return all;
}

}  // namespace

std::shared_ptr<Capture> capture_of(Stream stream) {
  const LockedDevice locked;
  const auto at = captures().find(stream);
  return at == captures().end() ? nullptr : at->second;
}

void join_capture(Stream stream, const std::shared_ptr<Capture>& capture) {
  const LockedDevice locked;
  captures()[stream] = capture;
}

Error in_stream(Stream stream, Work work) {
  const LockedDevice locked;
  const auto at = captures().find(stream);
  if (at == captures().end()) {
    locked->settle();
    return work();
  }
  at->second->nodes.push_back(std::make_shared<const Work>(std::move(work)));
  return success;
}

namespace {

/// cudaGraph_t and cudaGraphExec_t are WorkList*, a node is what a list holds.
WorkList* list_of(void* graph) { return static_cast<WorkList*>(graph); }

Error add(void** node, void* graph, Work work) {
  if (!graph) return note(invalid_value);
  list_of(graph)->push_back(std::make_shared<const Work>(std::move(work)));
  if (node) *node = const_cast<Work*>(list_of(graph)->back().get());
  return success;
}

Error instantiate(void** executable, void* graph) {
  if (!executable || !graph) return note(invalid_value);
  *executable = new WorkList(*list_of(graph));
  return success;
}

Error do_all(const WorkList& list) {
  for (const auto& work : list) {
    if (const Error error = (*work)(); error != success) return error;
  }
  return success;
}

struct KernelNode {  // cudaKernelNodeParams
  const void* function;
  Dim3 grid, block;
  unsigned shared;
  void** arguments;
};
struct FillNode {  // cudaMemsetParams
  void* memory;
  std::size_t pitch;
  unsigned value, element_bytes;
  std::size_t width, height;
};
struct HostNode {  // cudaHostNodeParams
  void (*function)(void*);
  void* data;
};

}  // namespace

extern "C" {

Error cudaStreamBeginCapture(Stream stream, int) {
  const LockedDevice locked;
  if (captures().contains(stream)) return note(illegal_state);
  auto capture = std::make_shared<Capture>();
  capture->origin = stream;
  captures()[stream] = std::move(capture);
  return success;
}
Error cudaStreamEndCapture(Stream stream, void** graph) {
  const LockedDevice locked;
  const std::shared_ptr<Capture> capture = capture_of(stream);
  if (!graph || !capture || capture->origin != stream) return note(illegal_state);
  std::erase_if(captures(), [&](const auto& entry) { return entry.second == capture; });
  *graph = nullptr;
  if (capture->broken) return note(capture_invalidated);
  *graph = new WorkList(capture->nodes);
  return success;
}
Error cudaStreamIsCapturing(Stream stream, int* status) {
  constexpr int none = 0, active = 1, invalidated = 2;
  const std::shared_ptr<Capture> capture = capture_of(stream);
  *status = !capture ? none : capture->broken ? invalidated : active;
  return success;
}
Error cudaThreadExchangeStreamCaptureMode(int*) { return success; }

Error cudaGraphCreate(void** graph, unsigned) {
  *graph = new WorkList;
  return success;
}
Error cudaGraphAddKernelNode(void** node, void* graph, void* const*, std::size_t,
                             const KernelNode* kernel) {
  if (!graph || !kernel) return note(invalid_value);
  // A launch in a captured stream keeps its arguments.
  auto capture = std::make_shared<Capture>();
  const Stream own = capture.get();
  const LockedDevice locked;
  join_capture(own, capture);
  const Error error = launch({kernel->function, kernel->grid, kernel->block, kernel->shared},
                             kernel->arguments, own);
  captures().erase(own);
  return error != success ? error : add(node, graph, *capture->nodes.at(0));
}
Error cudaGraphAddMemcpyNode1D(void** node, void* graph, void* const*, std::size_t, void* to,
                               const void* from, std::size_t bytes, int kind) {
  return add(node, graph, [=] { return copy(to, from, bytes, kind); });
}
Error cudaGraphAddMemsetNode(void** node, void* graph, void* const*, std::size_t,
                             const FillNode* wish) {
  if (!wish) return note(invalid_value);
  return add(node, graph, [fills = *wish]() -> Error {
    for (std::size_t row = 0; row < fills.height; ++row) {
      char* first = static_cast<char*>(fills.memory) + row * fills.pitch;
      const Error error = fill(first, 0, fills.width * fills.element_bytes);
      if (error != success) return error;
      for (std::size_t i = 0; i < fills.width; ++i) {
        std::memcpy(first + i * fills.element_bytes, &fills.value, fills.element_bytes);
      }
    }
    return success;
  });
}
Error cudaGraphAddHostNode(void** node, void* graph, void* const*, std::size_t,
                           const HostNode* wish) {
  if (!wish) return note(invalid_value);
  return add(node, graph, [host = *wish] {
    host.function(host.data);
    return success;
  });
}
Error cudaGraphAddEmptyNode(void** node, void* graph, void* const*, std::size_t) {
  return add(node, graph, [] { return success; });
}
Error cudaGraphAddChildGraphNode(void** node, void* graph, void* const*, std::size_t, void* child) {
  if (!child) return note(invalid_value);
  return add(node, graph, [list = *list_of(child)] { return do_all(list); });
}
Error cudaGraphGetNodes(void* graph, void** nodes, std::size_t* count) {
  if (!graph || !count) return note(invalid_value);
  const WorkList& list = *list_of(graph);
  for (std::size_t i = 0; nodes && i < std::min(*count, list.size()); ++i) {
    nodes[i] = const_cast<Work*>(list[i].get());
  }
  *count = list.size();
  return success;
}

Error cudaGraphInstantiate(void** executable, void* graph, unsigned long long) {
  return instantiate(executable, graph);
}
Error cudaGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
  return instantiate(executable, graph);
}
struct UpdateResult {  // cudaGraphExecUpdateResultInfo
  int result;
  void* from;
  void* to;
};
Error cudaGraphExecUpdate(void* executable, void* graph, UpdateResult* result) {
  if (!executable || !graph) return note(invalid_value);
  *list_of(executable) = *list_of(graph);
  if (result) *result = {};
  return success;
}
Error cudaGraphUpload(void*, Stream) { return success; }
Error cudaGraphLaunch(void* executable, Stream stream) {
  if (!executable) return note(invalid_value);
  return in_stream(stream, [list = *list_of(executable)] { return do_all(list); });
}
Error cudaGraphDestroy(void* graph) {
  delete list_of(graph);
  return success;
}
Error cudaGraphExecDestroy(void* executable) {
  delete list_of(executable);
  return success;
}

}  // extern "C"

}  // namespace lanescope::cudart
