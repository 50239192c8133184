#pragma once

// The few words that CUDA and C++ spell differently. Everything else that a kernel may use is a
// function of kernels/device/device.h.
#if defined(__CUDACC__)
#define LANESCOPE_DEVICE __device__ __forceinline__
#define LANESCOPE_DEVICE_CALL __device__ __noinline__
#define LANESCOPE_UNROLL _Pragma("unroll")
#else
#define LANESCOPE_DEVICE inline
#define LANESCOPE_DEVICE_CALL
#define LANESCOPE_UNROLL
#endif
