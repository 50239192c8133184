#pragma once

#include <cstdint>

namespace lanescope {

/// One attention forward problem: O = softmax(Q·Kᵀ / sqrt(d)) · V.
/// q, o: [batch, heads, len_q, d]; k, v: [batch, heads_kv, len_kv, d]; lse: [batch, heads, len_q].
/// Query head h reads kv head h / (heads / heads_kv). With `causal`, query i sees the keys
/// j <= i + len_kv - len_q (aligned to the lower right corner). Travels as it is from the command
/// line to the module (gates/module/module.h).
struct Problem {
  std::int64_t batch = 1;
  std::int64_t heads = 1;
  std::int64_t heads_kv = 1;
  std::int64_t len_q = 1;
  std::int64_t len_kv = 1;
  std::int64_t d = 64;
  bool causal = false;

  /// Rows of Q of all heads, and of K.
  std::int64_t queries() const { return batch * heads * len_q; }
  std::int64_t keys() const { return batch * heads_kv * len_kv; }
  std::int64_t kv_head(std::int64_t head) const { return head / (heads / heads_kv); }
  /// Keys that query `row` sees: [0, visible_keys(row)).
  std::int64_t visible_keys(std::int64_t row) const {
    if (!causal) return len_kv;
    const std::int64_t end = row + 1 + len_kv - len_q;
    return end < 0 ? 0 : end < len_kv ? end : len_kv;
  }
  bool operator==(const Problem&) const = default;
};

}  // namespace lanescope
