// A kernel of float32 as people write their first: K and V tiles in shared memory, expf, a quad of
// lanes per query row. For nvcc, and for the SIMT machine where there is none.
#include "kernels/device/cuda_words.h"

constexpr int D = 64, Br = 32, Bc = 32, threads = 4 * Br;

__global__ void tiled_attention(const float* __restrict__ q, const float* __restrict__ k,
                                const float* __restrict__ v, float* o, float* lse, int len_q,
                                int len_kv, int group, float scale, bool causal) {
  __shared__ float q_tile[Br][D + 1], k_tile[Bc][D + 1], v_tile[Bc][D], p[Br][Bc + 1];
  const int row = threadIdx.x / 4, part = threadIdx.x % 4, first_query = blockIdx.x * Br;
  const int query = first_query + row;
  q += (long long)blockIdx.y * len_q * D;
  o += (long long)blockIdx.y * len_q * D;
  k += (long long)(blockIdx.y / group) * len_kv * D;
  v += (long long)(blockIdx.y / group) * len_kv * D;
  for (int i = threadIdx.x; i < Br * D; i += threads) {
    q_tile[i / D][i % D] = first_query + i / D < len_q ? q[first_query * D + i] : 0.f;
  }
  float acc[D / 4] = {}, m = -INFINITY, l = 0.f;
  for (int first = 0; first < len_kv; first += Bc) {
    __syncthreads();
    for (int i = threadIdx.x; i < Bc * D; i += threads) {
      const bool in = first + i / D < len_kv;
      k_tile[i / D][i % D] = in ? k[first * D + i] : 0.f;
      v_tile[i / D][i % D] = in ? v[first * D + i] : 0.f;
    }
    __syncthreads();
    float top = -INFINITY;
    for (int j = part; j < Bc; j += 4) {
      float s = 0.f;
      for (int d = 0; d < D; ++d) s += q_tile[row][d] * k_tile[j][d];
      s *= scale;
      if (first + j >= len_kv || (causal && first + j > query + len_kv - len_q)) s = -INFINITY;
      p[row][j] = s;
      top = fmaxf(top, s);
    }
    top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, 1));
    top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, 2));
    const float m_new = fmaxf(m, top), shift = m_new == -INFINITY ? 0.f : m_new;
    float sum = 0.f;
    for (int j = part; j < Bc; j += 4) sum += p[row][j] = expf(p[row][j] - shift);
    sum += __shfl_xor_sync(0xffffffff, sum, 1);
    sum += __shfl_xor_sync(0xffffffff, sum, 2);
    const float alpha = expf(m - shift);
    l = l * alpha + sum;
    m = m_new;
    __syncwarp();
    for (int i = 0; i < D / 4; ++i) {
      acc[i] *= alpha;
      for (int j = 0; j < Bc; ++j) acc[i] += p[row][j] * v_tile[j][part + 4 * i];
    }
  }
  if (query >= len_q) return;
  for (int i = 0; i < D / 4; ++i) o[query * D + part + 4 * i] = l > 0.f ? acc[i] / l : 0.f;
  if (part == 0) lse[blockIdx.y * (long long)len_q + query] = l > 0.f ? m + logf(l) : -INFINITY;
}

// What the lab needs of it.
#include "gates/module/plain_kernel.h"

static const char* launch(const lanescope::PlainRun& r) {
  const dim3 grid((r.len_q + Br - 1) / Br, r.batch * r.heads);
  lanescope::launch(grid, dim3(threads), 0, tiled_attention, (const float*)r.q, (const float*)r.k,
                    (const float*)r.v, (float*)r.o, r.lse, r.len_q, r.len_kv, r.heads / r.heads_kv,
                    r.scale, r.causal);
  return nullptr;
}

extern "C" const lanescope::Module* lanescope_module() {
  static const lanescope::PlainKernel mine{
      "tiled_attention", lanescope::ElementType::f32, D, Br, Bc, lanescope::Products::fp32_fma};
  return lanescope::plain_module(mine, launch);
}
