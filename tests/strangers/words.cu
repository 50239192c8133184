// A kernel in CUDA C++ without inline PTX, as someone else has it: for nvcc, and for the SIMT
// machine where there is none. Its own words end where the lab's begin; what is changed in them is
// the include.
#include "kernels/device/cuda_words.h"

constexpr int rows = 4, head_dim = 64;  // a warp per query row, 32 keys at a time

__device__ float warp_max(float x) {
  for (int i = 16; i > 0; i >>= 1) x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, i));
  return x;
}
__device__ float warp_sum(float x) {
  for (int i = 16; i > 0; i >>= 1) x += __shfl_xor_sync(0xffffffff, x, i);
  return x;
}

__global__ void __launch_bounds__(32 * rows)
    warp_per_row(const __half* __restrict__ q, const __half* __restrict__ k,
                 const __half* __restrict__ v, __half* o, float* lse, int len_q, int len_kv,
                 int group, float scale, bool causal) {
  __shared__ float k_tile[32][head_dim + 1], v_tile[32][head_dim];
  LANESCOPE_DYNAMIC_SHARED(float, q_tile);
  const int lane = threadIdx.x, warp = threadIdx.y, thread = warp * 32 + lane;
  const int row = blockIdx.x * rows + warp, head = blockIdx.y;
  q += (long long)head * len_q * head_dim;
  o += (long long)head * len_q * head_dim;
  k += (long long)(head / group) * len_kv * head_dim;
  v += (long long)(head / group) * len_kv * head_dim;
  for (int d = lane; d < head_dim; d += warpSize) {
    q_tile[warp * head_dim + d] =
        row < len_q ? __half2float(__ldg(&q[row * head_dim + d])) * scale : 0.f;
  }
  float m = -INFINITY, l = 0, acc[2] = {0, 0};
  for (int first = 0; first < len_kv; first += 32) {
    __syncthreads();
    for (int i = thread; i < 32 * head_dim; i += blockDim.x * blockDim.y) {
      const int j = i / head_dim, d = i % head_dim;
      const bool in = first + j < len_kv;
      k_tile[j][d] = in ? __half2float(k[(first + j) * head_dim + d]) : 0.f;
      v_tile[j][d] = in ? __half2float(v[(first + j) * head_dim + d]) : 0.f;
    }
    __syncthreads();
    const int key = first + lane;
    float s = 0;
    for (int d = 0; d < head_dim; ++d) s = fmaf(q_tile[warp * head_dim + d], k_tile[lane][d], s);
    if (key >= len_kv || (causal && key > row + len_kv - len_q)) s = -INFINITY;
    const float m_new = fmaxf(m, warp_max(s)), shift = m_new == -INFINITY ? 0.f : m_new;
    const float alpha = __expf(m - shift), p = __expf(s - shift);
    l = l * alpha + warp_sum(p);
    acc[0] *= alpha;
    acc[1] *= alpha;
    for (int j = 0; j < 32; ++j) {
      const float weight = __shfl_sync(0xffffffff, p, j);
      acc[0] = fmaf(weight, v_tile[j][lane], acc[0]);
      acc[1] = fmaf(weight, v_tile[j][lane + 32], acc[1]);
    }
    m = m_new;
  }
  if (row >= len_q) return;
  o[row * head_dim + lane] = __float2half(l > 0 ? acc[0] / l : 0.f);
  o[row * head_dim + lane + 32] = __float2half(l > 0 ? acc[1] / l : 0.f);
  if (lane == 0) lse[head * len_q + row] = l > 0 ? m + __logf(l) : -INFINITY;
}

// What the lab needs of it.
#include "gates/module/plain_kernel.h"

static const char* launch(const lanescope::PlainRun& r) {
  const dim3 grid((r.len_q + rows - 1) / rows, r.batch * r.heads), block(32, rows);
  lanescope::launch(grid, block, rows * head_dim * sizeof(float), warp_per_row, (const __half*)r.q,
                    (const __half*)r.k, (const __half*)r.v, (__half*)r.o, r.lse, r.len_q, r.len_kv,
                    r.heads / r.heads_kv, r.scale, r.causal);
  return nullptr;
}

extern "C" const lanescope::Module* lanescope_module() {
  static const lanescope::PlainKernel mine{"warp_per_row",
                                           lanescope::ElementType::f16,
                                           head_dim,
                                           rows,
                                           32,
                                           lanescope::Products::fp32_fma};
  return lanescope::plain_module(mine, launch);
}
