#pragma once

#include <cuda_runtime.h>

#include "gates/module/module.h"

namespace lanescope {

/// A stream, the events and the graph that time what is launched into it; they go back by
/// themselves.
class LaunchTimer {
 public:
  LaunchTimer() = default;
  LaunchTimer(const LaunchTimer&) = delete;
  LaunchTimer& operator=(const LaunchTimer&) = delete;
  ~LaunchTimer() {
    if (replay_) cudaGraphExecDestroy(replay_);
    if (graph_) cudaGraphDestroy(graph_);
    if (stream_) cudaStreamDestroy(stream_);
    for (const cudaEvent_t event : events_) {
      if (event) cudaEventDestroy(event);
    }
  }

  /// Fills `timing`: captures as many launches as take about `sample_microseconds` into a graph,
  /// and replays it once more than samples are wanted, without a pause, an event between any two.
  /// The replays before the first event bring the clocks up and are not counted.
  template <class Launch>
  cudaError_t measure(const Launch& launch, ModuleTiming& timing) {
    timing.samples = ::max(1, ::min(timing.samples, ModuleTiming::most_samples));
    cudaError_t error = cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
    for (int i = 0; error == cudaSuccess && i <= timing.samples; ++i) {
      error = cudaEventCreate(&events_[i]);
    }
    float microseconds = 0;
    for (int i = 0; error == cudaSuccess && i < 2; ++i) {  // the second time, it is loaded
      error = record(launch, 1);
      if (error == cudaSuccess) error = elapsed(0, microseconds);
    }
    if (error != cudaSuccess) return error;
    const float least = ::max(microseconds, 1.0f);
    timing.launches = ::max(1, ::min(static_cast<int>(sample_microseconds / least), most_launches));
    const int warming =
        ::max(1, static_cast<int>(warming_microseconds / (least * timing.launches)));

    error = capture(launch, timing.launches);
    for (int i = 0; error == cudaSuccess && i < warming; ++i) {
      error = cudaGraphLaunch(replay_, stream_);
    }
    const auto replay = [&](cudaStream_t stream) { return cudaGraphLaunch(replay_, stream); };
    if (error == cudaSuccess) error = record(replay, timing.samples);
    for (int i = 0; error == cudaSuccess && i < timing.samples; ++i) {
      error = elapsed(i, timing.microseconds[i]);
      timing.microseconds[i] /= static_cast<float>(timing.launches);
    }
    return error;
  }

 private:
  static constexpr float sample_microseconds = 2000, warming_microseconds = 50000;
  static constexpr int most_launches = 256;

  /// `count` launches with an event before, between and behind them; returns at their end.
  template <class Launch>
  cudaError_t record(const Launch& launch, int count) {
    cudaError_t error = cudaEventRecord(events_[0], stream_);
    for (int i = 1; error == cudaSuccess && i <= count; ++i) {
      error = launch(stream_);
      if (error == cudaSuccess) error = cudaEventRecord(events_[i], stream_);
    }
    const cudaError_t ran = cudaStreamSynchronize(stream_);
    return error == cudaSuccess ? ran : error;
  }

  /// From event `index` to the one after it.
  cudaError_t elapsed(int index, float& microseconds) const {
    float milliseconds = 0;
    const cudaError_t error =
        cudaEventElapsedTime(&milliseconds, events_[index], events_[index + 1]);
    microseconds = 1000 * milliseconds;
    return error;
  }

  template <class Launch>
  cudaError_t capture(const Launch& launch, int launches) {
    cudaError_t error = cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed);
    if (error != cudaSuccess) return error;
    for (int i = 0; error == cudaSuccess && i < launches; ++i) error = launch(stream_);
    const cudaError_t ended = cudaStreamEndCapture(stream_, &graph_);
    if (error == cudaSuccess) error = ended;
    return error == cudaSuccess ? cudaGraphInstantiate(&replay_, graph_, 0) : error;
  }

  cudaStream_t stream_ = nullptr;
  cudaEvent_t events_[ModuleTiming::most_samples + 1] = {};
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t replay_ = nullptr;
};

inline cudaError_t describe(ModuleDevice& device) {
  const struct {
    int& value;
    cudaDeviceAttr attribute;
  } wanted[] = {{device.multiprocessors, cudaDevAttrMultiProcessorCount},
                {device.clock_khz, cudaDevAttrClockRate},
                {device.memory_clock_khz, cudaDevAttrMemoryClockRate},
                {device.memory_bus_bits, cudaDevAttrGlobalMemoryBusWidth},
                {device.l2_bytes, cudaDevAttrL2CacheSize}};
  int index = 0;
  cudaError_t error = cudaGetDevice(&index);
  for (const auto& one : wanted) {
    if (error == cudaSuccess) error = cudaDeviceGetAttribute(&one.value, one.attribute, index);
  }
  return error;
}

/// Fills `timing` with how long `launch(stream)`, which has run before, takes.
template <class Launch>
cudaError_t time_launches(const Launch& launch, ModuleTiming& timing) {
  const cudaError_t error = describe(timing.device);
  return error == cudaSuccess ? LaunchTimer().measure(launch, timing) : error;
}

}  // namespace lanescope
