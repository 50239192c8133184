#pragma once
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "wgmma.gen.h"
namespace sm90a {
#define DEV static __device__ __forceinline__
DEV uint32_t smem_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}
DEV int lane() { return threadIdx.x % 32; }

// ---- mbarrier
DEV void barrier_init(uint32_t bar, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}
DEV void barrier_init_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
DEV void barrier_arrive(uint32_t bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
DEV void barrier_expect(uint32_t bar, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes)
               : "memory");
}
DEV uint32_t map_to(uint32_t address, int rank) {
  uint32_t r;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(address), "r"(rank));
  return r;
}
DEV void barrier_arrive_remote(uint32_t bar, int rank) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(map_to(bar, rank)) : "memory");
}
/// The same, and what this thread wrote before is seen by who waits in the other block.
DEV void barrier_arrive_remote_release(uint32_t bar, int rank) {
  asm volatile(
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(map_to(bar, rank))
      : "memory");
}
DEV bool barrier_try(uint32_t bar, uint32_t parity) {
  uint32_t done;
  asm volatile(
      "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, "
      "p;\n}\n"
      : "=r"(done)
      : "r"(bar), "r"(parity)
      : "memory");
  return done;
}
DEV void barrier_wait(uint32_t bar, uint32_t parity) {
  while (!barrier_try(bar, parity)) {
  }
}
DEV void barrier_wait_cluster(uint32_t bar, uint32_t parity) {
  uint32_t done;
  do {
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], "
        "%2;\nselp.u32 %0, 1, 0, p;\n}\n"
        : "=r"(done)
        : "r"(bar), "r"(parity)
        : "memory");
  } while (!done);
}
/// Place in a ring of `Slots` and the parity of this time round.
template <int Slots>
struct Ring {
  int slot = 0;
  uint32_t parity = 0;
  __device__ __forceinline__ void advance() {
    if (++slot == Slots) {
      slot = 0;
      parity ^= 1;
    }
  }
};

// ---- TMA
DEV void prefetch_map(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
constexpr uint64_t evict_first = 0x12f0000000000000ull, evict_last = 0x14f0000000000000ull;
DEV void tma_load(uint32_t to, const CUtensorMap* map, uint32_t bar, int x, int y, int z,
                  uint64_t hint) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(to),
      "l"(map), "r"(bar), "r"(x), "r"(y), "r"(z), "l"(hint)
      : "memory");
}
DEV void tma_load_multicast(uint32_t to, const CUtensorMap* map, uint32_t bar, int x, int y, int z,
                            uint16_t ctas, uint64_t hint) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::"
      "cluster.L2::cache_hint [%0], [%1, {%3, %4, %5}], [%2], %6, %7;" ::"r"(to),
      "l"(map), "r"(bar), "r"(x), "r"(y), "r"(z), "h"(ctas), "l"(hint)
      : "memory");
}
DEV void tma_store(const CUtensorMap* map, uint32_t from, int x, int y, int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
      "r"(from), "r"(x), "r"(y), "r"(z)
      : "memory");
}
DEV void tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
DEV void tma_store_wait_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
DEV void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// ---- wgmma
/// Descriptor of 128-byte-swizzled shared memory: lead, stride in bytes.
DEV uint64_t descriptor(uint32_t address, int lead, int stride) {
  return (1ull << 62) | (uint64_t(stride >> 4) << 32) | (uint64_t(lead >> 4) << 16) |
         ((address & 0x3ffff) >> 4);
}
DEV void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEV void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int Pending>
DEV void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}
/// The compiler may not move accesses to these registers across.
template <class R, int Count>
DEV void pin(R (&x)[Count]) {
#pragma unroll
  for (int i = 0; i < Count; ++i) {
    if constexpr (sizeof(R) == 4 && R(0.5f) == R(0))
      asm volatile("" : "+r"(x[i])::"memory");
    else
      asm volatile("" : "+f"(x[i])::"memory");
  }
}

// ---- others
template <int Registers>
DEV void registers_up() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}
template <int Registers>
DEV void registers_down() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}
DEV void named_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
DEV void named_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
DEV bool any_of_warpgroup(int id, bool x) {
  int any;
  asm volatile(
      "{\n.reg .pred p, q;\nsetp.ne.b32 p, %2, 0;\nbar.red.or.pred q, %1, 128, p;\nselp.b32 %0, 1, "
      "0, q;\n}\n"
      : "=r"(any)
      : "r"(id), "r"(int(x))
      : "memory");
  return any;
}
DEV void cluster_sync() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
DEV int cluster_rank() {
  uint32_t r;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return r;
}
DEV void store_remote(uint32_t address, int rank, int x) {
  asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(map_to(address, rank)), "r"(x) : "memory");
}
DEV bool elect() {
  uint32_t p;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}\n"
               : "=r"(p));
  return p;
}
DEV float ex2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
DEV float lg2(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
template <class T>
DEV uint32_t pack(float low, float high);
template <>
__device__ __forceinline__ uint32_t pack<__half>(float low, float high) {
  uint32_t r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
template <>
__device__ __forceinline__ uint32_t pack<__nv_bfloat16>(float low, float high) {
  uint32_t r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
DEV void stmatrix_x4(uint32_t to, const uint32_t* x) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
               "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3])
               : "memory");
}

/// 2^x on the FMA pipes: t = round(x) by a magic sum, r = x − t in [−1/2, 1/2], 2^r by a minimax
/// polynomial (relative error 7.5e-5 of degree 3, 2.6e-6 of degree 4), times 2^t built from the
/// magic sum's low bits. NaN stays NaN; below −126.5 the result is 0. For x ≤ 100.
template <int Degree>
DEV float ex2_polynomial(float x) {
  asm("max.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(-127.0f));
  const float magic = 12582912.0f + 127.0f;
  const float t = __fadd_rn(x, magic);
  const float r = __fsub_rn(x, __fsub_rn(t, magic));
  float p;
  if constexpr (Degree == 3) {
    p = __fmaf_rn(r, 0.055171669074864024f, 0.24261112219433098f);
    p = __fmaf_rn(p, r, 0.6932609854573362f);
    p = __fmaf_rn(p, r, 0.9999280735404955f);
  } else {
    p = __fmaf_rn(r, 0.009570101908089415f, 0.05591786031930501f);
    p = __fmaf_rn(p, r, 0.2402474482794381f);
    p = __fmaf_rn(p, r, 0.6931218147367706f);
    p = __fmaf_rn(p, r, 0.9999992614457146f);
  }
  return p * __uint_as_float(__float_as_uint(t) << 23);
}
}  // namespace sm90a
