#pragma once

#include <cstdint>
#include <string>

#include "debug/element_type.h"
#include "reference/tensor.h"

namespace lanescope {

/// One attention forward problem: O = softmax(Q·Kᵀ / sqrt(d)) · V.
/// q, o: [batch, heads, len_q, d]; k, v: [batch, heads_kv, len_kv, d]; lse: [batch, heads, len_q].
/// Query head h reads kv head h / (heads / heads_kv). With `causal`, query i sees the keys
/// j <= i + len_kv - len_q (aligned to the lower right corner).
struct Problem {
  std::int64_t batch = 1;
  std::int64_t heads = 1;
  std::int64_t heads_kv = 1;
  std::int64_t len_q = 1;
  std::int64_t len_kv = 1;
  std::int64_t d = 64;
  bool causal = false;

  std::int64_t kv_head(std::int64_t head) const { return head / (heads / heads_kv); }
  /// Keys that query `row` sees: [0, visible_keys(row)).
  std::int64_t visible_keys(std::int64_t row) const {
    if (!causal) return len_kv;
    const std::int64_t end = row + 1 + len_kv - len_q;
    return end < 0 ? 0 : end < len_kv ? end : len_kv;
  }
  bool operator==(const Problem&) const = default;
};

/// Q, K, V as the kernel gets them: f16, bf16, or e4m3 with a scale per head, by which its elements
/// are multiplied.
struct Inputs {
  Tensor q, k, v;
  /// f32 [batch, heads], [batch, heads_kv] twice; without dimensions where the inputs are not e4m3.
  Tensor q_scale = {}, k_scale = {}, v_scale = {};
  ElementType type() const { return q.type; }
  bool scaled() const { return !q_scale.dims.empty(); }
};

}  // namespace lanescope
