#include "reference/attention.h"

#include <algorithm>

#include "reference/arithmetic.h"
#include "reference/elementary.h"
#include "reference/online.h"
#include "reference/parallel.h"

namespace lanescope::reference {
namespace {

constexpr std::int64_t block_rows = 64;

/// Query rows [first, first + rows) of one head against its keys: k, v [len_kv, d].
/// Writes o [rows, d] and lse [rows].
void attend(const Array& q, const Array& k, const Array& v, const Problem& problem,
            std::int64_t first, double* o, double* lse) {
  const Index rows = q.rows();
  const std::int64_t seen = problem.visible_keys(first + rows - 1);
  Array s = product_transposed(q, k.top_rows(seen));
  s *= softmax_scale(problem);
  for (Index row = 0; row < rows; ++row) {
    s.fill_row(row, -infinity, problem.visible_keys(first + row));
  }

  const Array m = seen == 0 ? Array::Constant(rows, 1, -infinity) : s.row_maxima();
  const Array shift = (m == -infinity).select(0, m);
  Array l(rows, 1);
  for (Index key = 0; key < seen; ++key) {
    for (Index row = 0; row < rows; ++row) {
      s(row, key) = power_of_e(s(row, key) - shift(row));
      l(row) += s(row, key);
    }
  }

  const Array sums = product(s, v.top_rows(seen));
  for (Index row = 0; row < rows; ++row) {
    const bool empty = l(row) == 0;
    for (Index col = 0; col < problem.d; ++col) {
      o[row * problem.d + col] = empty ? sums(row, col) : sums(row, col) / l(row);
    }
    lse[row] = empty ? -infinity : m(row) + natural_log(l(row));
  }
}

}  // namespace

AttentionResult attention(const Inputs& inputs, const Problem& problem, int threads) {
  const std::int64_t queries = problem.batch * problem.heads * problem.len_q;
  AttentionResult result;
  result.o.resize(static_cast<std::size_t>(queries * problem.d));
  result.lse.resize(static_cast<std::size_t>(queries));

  const std::int64_t group = problem.heads / problem.heads_kv;  // query heads of one kv head
  const auto scale = [&](const Tensor& of_heads, std::int64_t head) {
    return inputs.scaled() ? of_heads.at(head) : 1.0;
  };
  const std::int64_t blocks = (problem.len_q + block_rows - 1) / block_rows;
  for (std::int64_t kv = 0; kv < problem.batch * problem.heads_kv; ++kv) {
    const std::int64_t keys = problem.len_kv, d = problem.d;
    const Array k = load_rows(inputs.k, kv * keys, keys, keys, d) * scale(inputs.k_scale, kv);
    const Array v = load_rows(inputs.v, kv * keys, keys, keys, d) * scale(inputs.v_scale, kv);
    parallel_for(group * blocks, threads, [&](std::int64_t task) {
      const std::int64_t first = task % blocks * block_rows;
      const std::int64_t row = (kv * group + task / blocks) * problem.len_q + first;
      const std::int64_t rows = std::min(block_rows, problem.len_q - first);
      const Array q = load_rows(inputs.q, row, rows, rows, d) *
                      scale(inputs.q_scale, kv * group + task / blocks);
      attend(q, k, v, problem, first, result.o.data() + row * d, result.lse.data() + row);
    });
  }
  return result;
}

}  // namespace lanescope::reference
