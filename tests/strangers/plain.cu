// A kernel as someone else has it: its own signature, no word of the lab.
#include <cuda_fp16.h>

// One thread per query row.
__global__ void my_attention(const __half* q, const __half* k, const __half* v, __half* o,
                             float* lse, int len_q, int len_kv, int group, float scale,
                             bool causal) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= len_q) return;
  q += (blockIdx.y * (long long)len_q + row) * 64;
  o += (blockIdx.y * (long long)len_q + row) * 64;
  k += blockIdx.y / group * (long long)len_kv * 64;
  v += blockIdx.y / group * (long long)len_kv * 64;
  float m = -INFINITY, l = 0, acc[64] = {};
  for (int j = 0; j < len_kv && (!causal || j <= row + len_kv - len_q); ++j) {
    float s = 0;
    for (int d = 0; d < 64; ++d) s = fmaf(__half2float(q[d]), __half2float(k[j * 64 + d]), s);
    s *= scale;
    const float m_new = fmaxf(m, s), alpha = expf(m - m_new), p = expf(s - m_new);
    for (int d = 0; d < 64; ++d) acc[d] = fmaf(p, __half2float(v[j * 64 + d]), acc[d] * alpha);
    l = fmaf(l, alpha, p);
    m = m_new;
  }
  for (int d = 0; d < 64; ++d) o[d] = __float2half(l > 0 ? acc[d] / l : 0.0f);
  lse[blockIdx.y * (long long)len_q + row] = l > 0 ? m + logf(l) : -INFINITY;
}

// What the lab needs of it.
#include "gates/module/plain_kernel.h"

static const char* launch(const lanescope::PlainRun& r) {
  const dim3 grid((r.len_q + 127) / 128, r.batch * r.heads);
  my_attention<<<grid, 128>>>((const __half*)r.q, (const __half*)r.k, (const __half*)r.v,
                              (__half*)r.o, r.lse, r.len_q, r.len_kv, r.heads / r.heads_kv, r.scale,
                              r.causal);
  return nullptr;
}

extern "C" const lanescope::Module* lanescope_module() {
  static const lanescope::PlainKernel mine{
      "my_attention", lanescope::ElementType::f16, 64, 128, 1, lanescope::Products::fp32_fma};
  return lanescope::plain_module(mine, launch);
}
