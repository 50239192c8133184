// A tensor-core kernel as someone else has it, with markers at its values: a warp per 16 queries,
// products through mma.sync, K and V through shared memory, P packed for the second product.
#include <cuda_fp16.h>

#include "lanescope.h"

constexpr int warps = 2, rows = 16 * warps, keys = 16, head_dim = 64;

// D[16][8] += A[16][16] B[16][8] (PTX ISA, mma.m16n8k16).
__device__ void mma(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ unsigned pair(__half low, __half high) {
  const __half2 both = __halves2half2(low, high);
  return *reinterpret_cast<const unsigned*>(&both);
}
__device__ unsigned pair(float low, float high) {
  return pair(__float2half(low), __float2half(high));
}

__global__ void tensor_cores(const __half* q, const __half* k, const __half* v, __half* o,
                             float* lse, int len_q, int len_kv, int group, float scale,
                             bool causal) {
  __shared__ __half k_smem[keys][head_dim], v_smem[keys][head_dim];
  const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  const int first = blockIdx.x * rows, head = blockIdx.y;
  q += (long long)head * len_q * head_dim;
  k += (long long)(head / group) * len_kv * head_dim;
  v += (long long)(head / group) * len_kv * head_dim;
  const int row[2] = {16 * warp + g, 16 * warp + g + 8};  // of the tile

  unsigned q_rmem[4][4];  // [16 columns of d][register]
  for (int i = 0; i < 4; ++i) {
    for (int reg = 0; reg < 4; ++reg) {
      const int query = first + row[reg % 2], d = 16 * i + 2 * t + reg / 2 * 8;
      const bool is_there = query < len_q;
      q_rmem[i][reg] = is_there ? pair(q[query * head_dim + d], q[query * head_dim + d + 1]) : 0;
    }
  }
  float m[2] = {-INFINITY, -INFINITY}, l[2] = {}, acc[8][4] = {};
  const float scale_log2 = scale * 1.44269504f;
  for (int tile = 0; tile * keys < len_kv; ++tile) {
    lanescope::phase::load();
    __syncthreads();
    for (int i = threadIdx.x; i < keys * head_dim; i += 32 * warps) {
      const int key = tile * keys + i / head_dim, d = i % head_dim;
      k_smem[i / head_dim][d] = key < len_kv ? k[key * head_dim + d] : __half(0.0f);
      v_smem[i / head_dim][d] = key < len_kv ? v[key * head_dim + d] : __half(0.0f);
    }
    __syncthreads();
    lanescope::tile(lanescope::k_smem, tile, &k_smem[0][0], lanescope::rows(head_dim));
    lanescope::tile(lanescope::v_smem, tile, &v_smem[0][0], lanescope::rows(head_dim));

    lanescope::phase::qk();
    float s[2][4] = {};  // [8 keys][register]
    for (int n = 0; n < 2; ++n) {
      for (int i = 0; i < 4; ++i) {
        const __half* b = &k_smem[8 * n + g][16 * i + 2 * t];
        mma(s[n], q_rmem[i], pair(b[0], b[1]), pair(b[8], b[9]));
      }
      for (int reg = 0; reg < 4; ++reg) {
        const int col = 8 * n + 2 * t + reg % 2, key = tile * keys + col;
        const int query = first + row[reg / 2];
        const bool sees = key < len_kv && (!causal || key <= query + len_kv - len_q);
        s[n][reg] = sees ? s[n][reg] * scale_log2 : -INFINITY;
        lanescope::inject(lanescope::s, tile, row[reg / 2], col, s[n][reg]);
        lanescope::trace(lanescope::s, tile, row[reg / 2], col, s[n][reg]);
      }
    }

    lanescope::phase::softmax();
    unsigned p[4];
    for (int half = 0; half < 2; ++half) {
      float top = m[half];
      for (int n = 0; n < 2; ++n) top = fmaxf(top, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
      top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
      top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
      const float base = top == -INFINITY ? 0 : top;
      float alpha = exp2f(m[half] - base), sum = 0;
      m[half] = top;
      lanescope::inject(lanescope::alpha, tile, row[half], 0, alpha);
      for (int n = 0; n < 2; ++n) {
        const float p0 = exp2f(s[n][2 * half] - base), p1 = exp2f(s[n][2 * half + 1] - base);
        sum += p0 + p1;
        p[2 * n + half] = pair(p0, p1);
        lanescope::inject(lanescope::p, tile, row[half], 8 * n + 2 * t, p[2 * n + half]);
        lanescope::trace(lanescope::p, tile, row[half], 8 * n + 2 * t, p[2 * n + half]);
      }
      sum += __shfl_xor_sync(~0u, sum, 1);
      sum += __shfl_xor_sync(~0u, sum, 2);
      l[half] = l[half] * alpha + sum;
      lanescope::trace(lanescope::m, tile, row[half], 0, m[half]);
      lanescope::trace(lanescope::alpha, tile, row[half], 0, alpha);
      lanescope::trace(lanescope::l, tile, row[half], 0, l[half]);
      for (int n = 0; n < 8; ++n) {
        acc[n][2 * half] *= alpha;
        acc[n][2 * half + 1] *= alpha;
      }
    }

    lanescope::phase::pv();
    for (int n = 0; n < 8; ++n) {
      const int d = 8 * n + g;
      mma(acc[n], p, pair(v_smem[2 * t][d], v_smem[2 * t + 1][d]),
          pair(v_smem[2 * t + 8][d], v_smem[2 * t + 9][d]));
      for (int reg = 0; reg < 4; ++reg) {
        const int col = 8 * n + 2 * t + reg % 2;
        lanescope::trace(lanescope::o, tile, row[reg / 2], col, acc[n][reg]);
      }
    }
  }
  lanescope::phase::epilogue();
  for (int half = 0; half < 2; ++half) {
    const int query = first + row[half];
    if (query >= len_q) continue;
    const long long at = (long long)head * len_q + query;
    const float norm = l[half] > 0 ? 1 / l[half] : 0;
    for (int n = 0; n < 8; ++n) {
      for (int i = 0; i < 2; ++i) {
        o[at * head_dim + 8 * n + 2 * t + i] = __float2half(acc[n][2 * half + i] * norm);
      }
    }
    if (t == 0) lse[at] = l[half] > 0 ? (m[half] + log2f(l[half])) * 0.693147181f : -INFINITY;
  }
}

// What the lab needs of it.
#include "gates/module/plain_kernel.h"

static const char* launch(const lanescope::PlainRun& r) {
  const dim3 grid((r.len_q + rows - 1) / rows, r.batch * r.heads);
  tensor_cores<<<grid, 32 * warps>>>((const __half*)r.q, (const __half*)r.k, (const __half*)r.v,
                                     (__half*)r.o, r.lse, r.len_q, r.len_kv, r.heads / r.heads_kv,
                                     r.scale, r.causal);
  return nullptr;
}

extern "C" const lanescope::Module* lanescope_module() {
  static const lanescope::PlainKernel mine{"tensor_cores", lanescope::ElementType::f16, head_dim,
                                           rows, keys};
  return lanescope::plain_module(mine, launch);
}
