// A kernel as someone else has it, with markers at its values: a warp per query, a lane per key.
#include <cuda_fp16.h>

#include "lanescope.h"

constexpr int rows = 8, keys = 32, head_dim = 64;  // of a block's tiles

__global__ void row_per_warp(const __half* q, const __half* k, const __half* v, __half* o,
                             float* lse, int len_q, int len_kv, int heads, int group, float scale,
                             bool causal) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, head = blockIdx.x;
  const int query = blockIdx.y * rows + warp;
  lanescope::row_tile(head / heads, head % heads, blockIdx.y);
  q += (head * (long long)len_q + query) * head_dim;
  o += (head * (long long)len_q + query) * head_dim;
  k += head / group * (long long)len_kv * head_dim;
  v += head / group * (long long)len_kv * head_dim;
  const float to_base_2 = scale * 1.44269504f;
  float m = -INFINITY, l = 0, acc[2] = {};
  if (query >= len_q) return;
  const int visible = causal ? query + len_kv - len_q + 1 : len_kv;
  for (int tile = 0; tile * keys < len_kv; ++tile) {
    const int key = tile * keys + lane;
    float s = 0;
    for (int d = 0; key < len_kv && d < head_dim; ++d) {
      s = fmaf(__half2float(q[d]), __half2float(k[key * head_dim + d]), s);
    }
    s = key < len_kv && key < visible ? s * to_base_2 : -INFINITY;
    lanescope::inject(lanescope::s, tile, warp, lane, s);
    lanescope::trace(lanescope::s, tile, warp, lane, s);

    float top = s;
    for (int i = 16; i > 0; i /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, i));
    const float m_new = fmaxf(m, top);
    float alpha = m_new == -INFINITY ? 1 : exp2f(m - m_new);
    float p = m_new == -INFINITY ? 0 : exp2f(s - m_new);
    m = m_new;
    float sum = p;
    for (int i = 16; i > 0; i /= 2) sum += __shfl_xor_sync(~0u, sum, i);
    l = fmaf(l, alpha, sum);
    lanescope::inject(lanescope::alpha, tile, warp, 0, alpha);
    lanescope::inject(lanescope::p, tile, warp, lane, p);
    lanescope::trace(lanescope::m, tile, warp, 0, m);
    lanescope::trace(lanescope::alpha, tile, warp, 0, alpha);
    lanescope::trace(lanescope::p, tile, warp, lane, p);
    lanescope::trace(lanescope::l, tile, warp, 0, l);

    acc[0] *= alpha;
    acc[1] *= alpha;
    for (int j = 0; j < keys && tile * keys + j < len_kv; ++j) {
      const float weight = __shfl_sync(~0u, p, j);
      const __half* row = v + (tile * keys + j) * head_dim;
      acc[0] = fmaf(weight, __half2float(row[lane]), acc[0]);
      acc[1] = fmaf(weight, __half2float(row[lane + 32]), acc[1]);
    }
    lanescope::trace(lanescope::o, tile, warp, lane, acc[0]);
    lanescope::trace(lanescope::o, tile, warp, lane + 32, acc[1]);
  }
  const float norm = l > 0 ? 1 / l : 0;
  o[lane] = __float2half(acc[0] * norm);
  o[lane + 32] = __float2half(acc[1] * norm);
  if (lane == 0) {
    lse[head * (long long)len_q + query] = l > 0 ? (m + log2f(l)) * 0.693147181f : -INFINITY;
  }
}

// What the lab needs of it.
#include "gates/module/plain_kernel.h"

static const char* launch(const lanescope::PlainRun& r) {
  const dim3 grid(r.batch * r.heads, (r.len_q + rows - 1) / rows);
  row_per_warp<<<grid, 32 * rows>>>((const __half*)r.q, (const __half*)r.k, (const __half*)r.v,
                                    (__half*)r.o, r.lse, r.len_q, r.len_kv, r.heads,
                                    r.heads / r.heads_kv, r.scale, r.causal);
  return nullptr;
}

extern "C" const lanescope::Module* lanescope_module() {
  static const lanescope::PlainKernel mine{"row_per_warp", lanescope::ElementType::f16,
                                           head_dim,       rows,
                                           keys,           lanescope::Products::fp32_fma};
  return lanescope::plain_module(mine, launch);
}
