#pragma once

// The words of CUDA C++ over the vocabulary: a kernel that is written in them, and in no inline
// PTX, compiles for the SIMT machine with this include in the place of cuda_fp16.h and cuda_bf16.h.
// Under nvcc it is those two. What differs on the machine:
//   - expf, logf, sqrtf and the like are the C library's: nvcc's differ in their last bits. exp2f,
//     __expf, __exp2f, __logf and __log2f have a GPU's bits.
//   - A launch is lanescope::launch (gates/module/plain_kernel.h) in the place of <<<>>>; blockDim
//     and gridDim are those of such a launch.
//   - Dynamic shared memory is LANESCOPE_DYNAMIC_SHARED(float, box) in the place of
//     extern __shared__ float box[].
//   - What __shared__ declares starts with what the block before left, not with a pattern, and the
//     memory checker does not know it.
#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define LANESCOPE_DYNAMIC_SHARED(type, name) extern __shared__ type name[]
#else

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <type_traits>

#include "kernels/device/device.h"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
// The lanes of a block take turns on a thread of their own.
#define __shared__ static thread_local
#define LANESCOPE_DYNAMIC_SHARED(type, name) \
  type* const name = reinterpret_cast<type*>(lanescope::simt::shared_memory())

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  operator uint3() const { return {x, y, z}; }
};

namespace lanescope::cuda_words {

/// The launch under way: one at a time.
struct Dimensions {
  dim3 grid, block;
};
inline Dimensions launched;

inline uint3 place_in(const dim3& size, std::int64_t index) {
  return {static_cast<unsigned>(index % size.x), static_cast<unsigned>(index / size.x % size.y),
          static_cast<unsigned>(index / size.x / size.y)};
}
inline uint3 thread_place() { return place_in(launched.block, simt::thread_index()); }
inline uint3 block_place() { return place_in(launched.grid, simt::block_index()); }

/// A 16-bit number as the functions and operators of cuda_fp16.h and cuda_bf16.h have it: computed
/// in fp32 and rounded once more, which for +, −, · and / gives the nearest.
template <class E>
struct Narrow {
  std::uint16_t bits;
  Narrow() = default;
  Narrow(float x) : bits(device::narrow<E>(x).bits) {}
  operator float() const { return device::widen(E{bits}); }
  Narrow& operator+=(Narrow x) { return *this = Narrow(float(*this) + float(x)); }
  Narrow& operator-=(Narrow x) { return *this = Narrow(float(*this) - float(x)); }
  Narrow& operator*=(Narrow x) { return *this = Narrow(float(*this) * float(x)); }
  Narrow& operator/=(Narrow x) { return *this = Narrow(float(*this) / float(x)); }
  friend Narrow operator+(Narrow a, Narrow b) { return a += b; }
  friend Narrow operator-(Narrow a, Narrow b) { return a -= b; }
  friend Narrow operator*(Narrow a, Narrow b) { return a *= b; }
  friend Narrow operator/(Narrow a, Narrow b) { return a /= b; }
};
template <class E>
struct Pair {
  Narrow<E> x, y;
};

/// The value of lane `source`, 32 bits at a time.
template <class V>
V shuffled(V value, int source, unsigned mask, simt::Here here) {
  static_assert(std::is_trivially_copyable_v<V>);
  constexpr std::size_t count = (sizeof(V) + 3) / 4;
  std::uint32_t words[count] = {};
  std::memcpy(words, &value, sizeof(V));
  for (std::uint32_t& word : words) {
    word = simt::shuffle(simt::Shuffle::index, word, source, mask, here);
  }
  std::memcpy(&value, words, sizeof(V));
  return value;
}

}  // namespace lanescope::cuda_words

#define threadIdx (lanescope::cuda_words::thread_place())
#define blockIdx (lanescope::cuda_words::block_place())
#define blockDim (lanescope::cuda_words::launched.block)
#define gridDim (lanescope::cuda_words::launched.grid)
inline constexpr int warpSize = 32;

// Vectors.
#define LANESCOPE_VECTORS(type, name)                              \
  struct __align__(2 * sizeof(type)) name##2 {                     \
    type x, y;                                                     \
  };                                                               \
  struct __align__(16) name##4 {                                   \
    type x, y, z, w;                                               \
  };                                                               \
  inline name##2 make_##name##2(type x, type y) { return {x, y}; } \
  inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
LANESCOPE_VECTORS(float, float)
LANESCOPE_VECTORS(int, int)
LANESCOPE_VECTORS(unsigned, uint)
#undef LANESCOPE_VECTORS

// 16-bit numbers.
using __half = lanescope::cuda_words::Narrow<lanescope::device::f16>;
using __nv_bfloat16 = lanescope::cuda_words::Narrow<lanescope::device::bf16>;
using half = __half;
using nv_bfloat16 = __nv_bfloat16;
using __half2 = lanescope::cuda_words::Pair<lanescope::device::f16>;
using __nv_bfloat162 = lanescope::cuda_words::Pair<lanescope::device::bf16>;
using half2 = __half2;

inline float __half2float(__half x) { return x; }
inline __half __float2half(float x) { return x; }
inline __half __float2half_rn(float x) { return x; }
inline float __bfloat162float(__nv_bfloat16 x) { return x; }
inline __nv_bfloat16 __float2bfloat16(float x) { return x; }
inline __nv_bfloat16 __float2bfloat16_rn(float x) { return x; }
inline float2 __half22float2(__half2 x) { return {x.x, x.y}; }
inline __half2 __floats2half2_rn(float x, float y) { return {x, y}; }
inline __half2 __float22half2_rn(float2 x) { return {x.x, x.y}; }
inline __half2 __halves2half2(__half x, __half y) { return {x, y}; }
inline float __low2float(__half2 x) { return x.x; }
inline float __high2float(__half2 x) { return x.y; }
inline float2 __bfloat1622float2(__nv_bfloat162 x) { return {x.x, x.y}; }
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {x, y}; }

// Lanes together (CUDA C++ Programming Guide, warp shuffle and warp vote functions): a shuffle
// stays among the `width` lanes side by side that hold the calling one.
inline void __syncthreads(lanescope::simt::Here here = std::source_location::current()) {
  lanescope::simt::block_barrier(here);
}
inline void __syncwarp(unsigned mask = lanescope::device::full_warp,
                       lanescope::simt::Here here = std::source_location::current()) {
  lanescope::simt::warp_barrier(mask, here);
}
template <class V>
V __shfl_sync(unsigned mask, V value, int source, int width = 32,
              lanescope::simt::Here here = std::source_location::current()) {
  const int first = lanescope::device::lane() & -width;
  return lanescope::cuda_words::shuffled(value, first + (source & (width - 1)), mask, here);
}
template <class V>
V __shfl_xor_sync(unsigned mask, V value, int distance, int width = 32,
                  lanescope::simt::Here here = std::source_location::current()) {
  const int lane = lanescope::device::lane(), source = lane ^ distance;
  const bool behind = source >= (lane & -width) + width;
  return lanescope::cuda_words::shuffled(value, behind ? lane : source, mask, here);
}
template <class V>
V __shfl_up_sync(unsigned mask, V value, unsigned distance, int width = 32,
                 lanescope::simt::Here here = std::source_location::current()) {
  const int lane = lanescope::device::lane(), source = lane - static_cast<int>(distance);
  const bool before = source < (lane & -width);
  return lanescope::cuda_words::shuffled(value, before ? lane : source, mask, here);
}
template <class V>
V __shfl_down_sync(unsigned mask, V value, unsigned distance, int width = 32,
                   lanescope::simt::Here here = std::source_location::current()) {
  const int lane = lanescope::device::lane(), source = lane + static_cast<int>(distance);
  const bool behind = source >= (lane & -width) + width;
  return lanescope::cuda_words::shuffled(value, behind ? lane : source, mask, here);
}
inline unsigned __ballot_sync(unsigned mask, int predicate,
                              lanescope::simt::Here here = std::source_location::current()) {
  return lanescope::simt::ballot(predicate != 0, mask, here);
}
inline int __any_sync(unsigned mask, int predicate,
                      lanescope::simt::Here here = std::source_location::current()) {
  return lanescope::simt::ballot(predicate != 0, mask, here) != 0;
}
inline int __all_sync(unsigned mask, int predicate,
                      lanescope::simt::Here here = std::source_location::current()) {
  return lanescope::simt::ballot(predicate != 0, mask, here) == mask;
}

// Arithmetic (CUDA C++ Programming Guide, intrinsic functions; PTX ISA, ex2.approx, lg2.approx).
inline float __exp2f(float x) { return lanescope::device::ex2(x); }
inline float __expf(float x) { return lanescope::device::ex2(x * 1.4426950408889634f); }
inline float __log2f(float x) { return lanescope::device::lg2(x); }
inline float __logf(float x) { return lanescope::device::lg2(x) * lanescope::device::ln2; }
inline float __fmaf_rn(float a, float b, float c) { return lanescope::device::fma(a, b, c); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
inline unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
inline unsigned max(unsigned a, unsigned b) { return a > b ? a : b; }
inline float min(float a, float b) { return std::fmin(a, b); }
inline float max(float a, float b) { return lanescope::device::max(a, b); }

inline int __popc(unsigned x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
template <class V>
V __ldg(const V* from) {
  return *from;
}

/// Returns what was there before.
template <class V>
V atomicAdd(V* to, V x) {
  V seen, sum;
  __atomic_load(to, &seen, __ATOMIC_SEQ_CST);
  do sum = seen + x;
  while (!__atomic_compare_exchange(to, &seen, &sum, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
  return seen;
}

#endif
