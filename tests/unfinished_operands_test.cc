// Right operands at the wrong moment: a factor inside the loop over the depth, a maximum before its
// reduction has ended, an alpha that was kept; and operands that stand twice.
#include <array>
#include <cmath>

#include "reference/elementary.h"
#include "tests/support/catch.h"
#include "tests/support/diagnosed.h"

namespace lanescope {
namespace {

using Catch::Matchers::ContainsSubstring;
using reference::Array;
using testing::change;
using testing::diagnosis_of;
using testing::held;
using testing::joined;
using testing::named;
using testing::synthetic_dump;

constexpr Problem several_tiles{1, 1, 1, 32, 96, 32, false};
constexpr int rows = 32, keys = 32;
constexpr std::int64_t tiles = 3;

double factor_of_scores() { return reference::log2_e / std::sqrt(32.0); }

/// Σ over the columns [first, end) of row `row` of a and row `other` of b.
double dot(const Array& a, int row, const Array& b, int other, int first, int end) {
  double sum = 0;
  for (int i = first; i < end; ++i) sum += a(row, i) * b(other, i);
  return sum;
}

/// Σ over the keys [first, end) of P·V.
double weighted(const Array& p, int row, const Array& v, int col, int first, int end) {
  double sum = 0;
  for (int key = first; key < end; ++key) sum += p(row, key) * v(key, col);
  return sum;
}

/// o of all tiles becomes step(tile, row, col, o of before).
template <class Step>
void recompute_output(Dump& dump, const Step& step) {
  Array o = Array::Zero(rows, 32);
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    change(dump, SiteId::o, 0, tile,
           [&](int row, int col) { return static_cast<float>(step(tile, row, col, o(row, col))); });
    o = held(dump, SiteId::o, 0, tile, rows);
  }
}

TEST_CASE("unfinished operands: the factor of s inside the loop over d") {
  Dump dump = synthetic_dump({.problem = several_tiles});
  const Array q = held(dump, SiteId::q_smem, 0, 0, rows);
  const double factor = factor_of_scores();
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    const Array k = held(dump, SiteId::k_smem, 0, tile, keys);
    change(dump, SiteId::s, 0, tile, [&](int row, int col) {
      const double first = factor * dot(q, row, k, col, 0, 16);
      return static_cast<float>(factor * (first + dot(q, row, k, col, 16, 32)));
    });
  }
  const Diagnosis diagnosis = diagnosis_of(dump);
  INFO(joined(diagnosis.evidence));
  CHECK(named(diagnosis) == "qk s scale_repeated");
  CHECK_THAT(joined(diagnosis.evidence), ContainsSubstring("after every 16 columns"));
}

TEST_CASE("unfinished operands: the middle matrices of a fragment of Q or K are exchanged") {
  // More columns than keys: the operand cannot be solved for.
  const Dump right = synthetic_dump({.problem = {1, 1, 1, 32, 32, 64, false}});
  const Array q = held(right, SiteId::q_smem, 0, 0, 32), k = held(right, SiteId::k_smem, 0, 0, 32);
  const double factor = reference::log2_e / std::sqrt(64.0);
  const auto taken = [](const Array& x, int row, int col) {
    return x(row / 16 * 16 + col % 16 / 8 * 8 + row % 8,
             col / 16 * 16 + row % 16 / 8 * 8 + col % 8);
  };
  for (const bool of_q : {true, false}) {
    Dump dump = right;
    change(dump, SiteId::s, 0, 0, [&](int row, int key) {
      double dot = 0;
      for (int i = 0; i < 64; ++i) {
        dot += (of_q ? taken(q, row, i) : q(row, i)) * (of_q ? k(key, i) : taken(k, key, i));
      }
      return static_cast<float>(factor * dot);
    });
    const Diagnosis diagnosis = diagnosis_of(dump);
    INFO(joined(diagnosis.evidence));
    CHECK(named(diagnosis) == "qk s permuted");
    CHECK_THAT(joined(diagnosis.evidence), ContainsSubstring(of_q ? "Q is read" : "K is read"));
  }
}

TEST_CASE("unfinished operands: all warps take the queries of the first") {
  Dump dump = synthetic_dump({.problem = several_tiles});
  const Array q = held(dump, SiteId::q_smem, 0, 0, rows);
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    const Array k = held(dump, SiteId::k_smem, 0, tile, keys);
    change(dump, SiteId::s, 0, tile, [&](int row, int col) {
      return static_cast<float>(factor_of_scores() * dot(q, row % 16, k, col, 0, 32));
    });
  }
  const Diagnosis diagnosis = diagnosis_of(dump);
  INFO(joined(diagnosis.evidence));
  CHECK(named(diagnosis) == "qk s operand_of_other_row");
}

TEST_CASE("unfinished operands: alpha inside the loop over the keys, or kept from before") {
  const Dump right = synthetic_dump({.problem = several_tiles});
  const auto p = [&](std::int64_t tile) { return held(right, SiteId::p, 0, tile, rows); };
  const auto v = [&](std::int64_t tile) { return held(right, SiteId::v_smem, 0, tile, keys); };
  const auto alpha = [&](std::int64_t tile) { return held(right, SiteId::alpha, 0, tile, rows); };
  const std::array<Array, tiles> ps = {p(0), p(1), p(2)}, vs = {v(0), v(1), v(2)},
                                 alphas = {alpha(0), alpha(1), alpha(2)};
  const auto pv = [&](std::int64_t tile, int row, int col, int first, int end) {
    const auto i = static_cast<std::size_t>(tile);
    return weighted(ps[i], row, vs[i], col, first, end);
  };
  Dump dump = right;
  recompute_output(dump, [&](std::int64_t tile, int row, int col, double before) {
    const double a = alphas[static_cast<std::size_t>(tile)](row);
    return a * (a * before + pv(tile, row, col, 0, 16)) + pv(tile, row, col, 16, 32);
  });
  Diagnosis diagnosis = diagnosis_of(dump);
  INFO(joined(diagnosis.evidence));
  CHECK(named(diagnosis) == "pv o rescaled_twice");
  CHECK_THAT(joined(diagnosis.evidence), ContainsSubstring("before every 16 keys"));

  recompute_output(dump, [&](std::int64_t tile, int row, int col, double before) {
    const double a = alphas[static_cast<std::size_t>(tile)](row);
    for (int key = 0; key < 32; ++key) before = a * before + pv(tile, row, col, key, key + 1);
    return before;
  });
  diagnosis = diagnosis_of(dump);
  INFO(joined(diagnosis.evidence));
  CHECK(named(diagnosis) == "pv o rescaled_twice");
  CHECK_THAT(joined(diagnosis.evidence), ContainsSubstring("before every key of the tile"));

  recompute_output(dump, [&](std::int64_t tile, int row, int col, double before) {
    auto i = static_cast<std::size_t>(tile);
    while (i > 0 && alphas[i](row) == 1) --i;
    return alphas[i](row) * before + pv(tile, row, col, 0, 32);
  });
  diagnosis = diagnosis_of(dump);
  INFO(joined(diagnosis.evidence));
  CHECK(named(diagnosis) == "pv o stale_operand");
  CHECK_THAT(joined(diagnosis.evidence), ContainsSubstring("the last alpha"));
}

TEST_CASE("unfinished operands: P by the maximum of the lane's own columns") {
  Dump dump = synthetic_dump({.problem = several_tiles});
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    const Array s = held(dump, SiteId::s, 0, tile, rows),
                m_prev = held(dump, SiteId::m_prev, 0, tile, rows);
    change(dump, SiteId::p, 0, tile, [&](int row, int col) {
      double top = m_prev(row);
      for (int other = 0; other < keys; ++other) {
        if (other / 2 % 4 == col / 2 % 4) top = std::fmax(top, s(row, other));
      }
      return std::exp2(s(row, col) - top);
    });
  }
  const Diagnosis diagnosis = diagnosis_of(dump);
  INFO(joined(diagnosis.evidence));
  CHECK(named(diagnosis) == "softmax p incomplete_reduction");
  CHECK_THAT(joined(diagnosis.evidence), ContainsSubstring("before it was reduced"));
}

TEST_CASE("columns of d that stand twice are no permutation") {
  Dump dump = synthetic_dump({.problem = several_tiles});
  const Array q = held(dump, SiteId::q_smem, 0, 0, rows);
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    const Array k = held(dump, SiteId::k_smem, 0, tile, keys);
    change(dump, SiteId::s, 0, tile, [&](int row, int col) {
      double sum = dot(q, row, k, col, 0, 16);
      for (int i = 16; i < 32; ++i) sum += q(row, i) * k(col, i - 16);
      return static_cast<float>(factor_of_scores() * sum);
    });
  }
  const Diagnosis diagnosis = diagnosis_of(dump);
  INFO(joined(diagnosis.evidence));
  CHECK(named(diagnosis) == "qk s contribution_repeated");
  CHECK_THAT(joined(diagnosis.evidence), ContainsSubstring("16..31 are those of 0..15"));
}

TEST_CASE("a row's own operand, as it is held, is no other row's") {
  Dump dump = synthetic_dump({.problem = several_tiles});
  const Array p = held(dump, SiteId::p, 0, 0, rows);
  change(dump, SiteId::l, 0, 0, [&](int row, int) {
    double sum = 0;
    for (int key = 0; key < keys; ++key) sum += p(row, key);
    return static_cast<float>(sum);
  });
  const Diagnosis diagnosis = diagnosis_of(dump);
  INFO(joined(diagnosis.evidence));
  CHECK(diagnosis.cause != Cause::operand_of_other_row);
}

}  // namespace
}  // namespace lanescope
