// A kernel for the CPU as someone else has it: its own signature, no word of the lab.
#include <cmath>
#include <vector>

void my_attention(const _Float16* q, const _Float16* k, const _Float16* v, _Float16* o, int len_q,
                  int len_kv, int d, float scale, bool causal) {
  for (int row = 0; row < len_q; ++row) {
    const int keys = causal ? std::min(len_kv, std::max(0, row + len_kv - len_q + 1)) : len_kv;
    std::vector<float> p(keys), out(d);
    float m = -INFINITY, l = 0;
    for (int j = 0; j < keys; ++j) {
      for (int i = 0; i < d; ++i) p[j] = std::fma((float)q[row * d + i], (float)k[j * d + i], p[j]);
      m = std::fmax(m, p[j] *= scale);
    }
    for (int j = 0; j < keys; ++j) l += p[j] = std::exp(p[j] - m);
    for (int j = 0; j < keys; ++j) {
      for (int i = 0; i < d; ++i) out[i] = std::fma(p[j], (float)v[j * d + i], out[i]);
    }
    for (int i = 0; i < d; ++i) o[row * d + i] = (_Float16)(keys > 0 ? out[i] / l : 0);
  }
}

// What the lab needs of it.
#include "gates/module/plain_kernel.h"

static const char* launch(const lanescope::PlainRun& r) {
  for (int head = 0; head < r.batch * r.heads; ++head) {
    const int own = head * r.len_q * 64, shared = head / (r.heads / r.heads_kv) * r.len_kv * 64;
    my_attention((const _Float16*)r.q + own, (const _Float16*)r.k + shared,
                 (const _Float16*)r.v + shared, (_Float16*)r.o + own, r.len_q, r.len_kv, 64,
                 r.scale, r.causal);
  }
  return nullptr;
}

extern "C" const lanescope::Module* lanescope_module() {
  static const lanescope::PlainKernel mine{
      "my_attention", lanescope::ElementType::f16, 64, 64, 64, lanescope::Products::fp32_fma,
      false};
  return lanescope::plain_module(mine, launch);
}
