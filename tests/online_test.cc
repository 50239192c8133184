// The recurrence tile by tile against the textbook: any tile, splits of the keys and their
// combination, rows without keys, injected values.

#include "reference/online.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "reference/attention.h"
#include "reference/elementary.h"
#include "reference/inputs.h"
#include "tests/support/catch.h"
#include "tests/support/reference_values.h"

namespace lanescope::reference {
namespace {

using testing::difference;
using testing::walk_of;

using reference::infinity;

TEST_CASE("reference: the recurrence ends where the textbook does, for any tile shape") {
  for (const std::string& kind : input_kinds()) {
    for (const auto& [causal, type] : {std::pair{false, ElementType::bf16},
                                       {true, ElementType::bf16},
                                       {true, ElementType::e4m3}}) {
      const Problem problem{1, 4, 2, 50, 90, 32, causal};
      const Inputs inputs = generate_inputs(problem, type, kind, 1);
      const AttentionResult want = attention(inputs, problem);
      for (const auto& [br, bc] : {std::pair{64, 64}, {32, 48}, {16, 128}, {7, 5}}) {
        INFO(kind << " causal " << causal << " " << br << " x " << bc);
        double worst_o = 0, worst_lse = 0;
        for (std::int64_t head = 0; head < 4; ++head) {
          for (std::int64_t q_tile = 0; q_tile * br < 50; ++q_tile) {
            OnlineBlock block(inputs, problem, walk_of(br, bc, 48), 0, head, q_tile);
            for (std::int64_t tile = 0; tile * bc < 90; ++tile) block.step(tile);
            const Outputs got = block.finish();
            const auto row = static_cast<std::size_t>(head * 50 + q_tile * br);
            const std::vector<double> o(want.o.begin() + std::ptrdiff_t(row) * 32, want.o.end());
            worst_o = std::max(worst_o, difference(got.o_final.value.left_cols(32), o, 0, 0.01));
            worst_lse = std::max(worst_lse, difference(got.lse.value.data(), &want.lse[row],
                                                       std::size_t(block.rows()), 1));
            for (Index col = 32; col < 48; ++col) {
              CHECK((got.o_final.value.col(col) == 0).all());
            }
          }
        }
        CHECK(worst_o < 1e-11);
        CHECK(worst_lse < 1e-13);
      }
    }
  }
}

TEST_CASE("reference: splits of the keys, combined, give the textbook's result", "[quick]") {
  for (const std::string& kind : input_kinds()) {
    for (const bool causal : {false, true}) {
      const Problem problem{1, 4, 2, 20, 90, 32, causal};
      const Inputs inputs = generate_inputs(problem, ElementType::f16, kind, 1);
      const AttentionResult want = attention(inputs, problem);
      double largest_v = 0;
      for (std::int64_t i = 0; i < inputs.v.size(); ++i) {
        largest_v = std::max(largest_v, std::abs(inputs.v.at(i)));
      }
      for (const int splits : {1, 2, 3, 7, 30}) {
        for (const int heads : {1, 2}) {
          INFO(kind << " causal " << causal << ", " << splits << " splits, " << heads << " heads");
          Walk walk = walk_of(16, 8, 48);
          walk.splits = splits;
          walk.heads_per_tile = heads;
          double worst_o = 0, worst_lse = 0;
          for (int head = 0; head < 4; head += heads) {
            for (int q_tile = 0; q_tile * 16 < heads * 20; ++q_tile) {
              std::vector<Partial> partials;
              std::int64_t tiles = 0;
              for (int split = 0; split < splits; ++split) {
                OnlineBlock block(inputs, problem, walk, 0, head, q_tile, split);
                for (std::int64_t tile = 0; tile < block.needed_tiles(); ++tile) block.step(tile);
                tiles += block.needed_tiles();
                partials.push_back(block.partial());
              }
              CHECK(tiles <= 12);  // 90 keys, 8 to a tile: no tile is another split's, too
              const Partial all = combine(partials);
              const Outputs got = epilogue(all.o, all.l, all.m, Factor{}, walk.arithmetic);
              const auto row = static_cast<std::size_t>(head * 20 + q_tile * 16);
              const std::vector<double> o(want.o.begin() + std::ptrdiff_t(row) * 32, want.o.end());
              worst_o = std::max(worst_o, difference(got.o_final.value.left_cols(32), o, 0, 0.01));
              worst_lse = std::max(worst_lse, difference(got.lse.value.data(), &want.lse[row],
                                                         std::size_t(got.lse.value.rows()), 1));
              // Parts add to what a single walk is wrong by: the weights, an ex2 each, and the sum
              // of the parts, none of which is larger than l times the largest v.
              Walk whole = walk;
              whole.splits = 1;
              OnlineBlock block(inputs, problem, whole, 0, head, q_tile);
              for (std::int64_t tile = 0; tile < block.needed_tiles(); ++tile) block.step(tile);
              const Partial one = block.partial();
              const Array added = (splits + 8) * unit * one.l.value;
              CHECK((all.l.error <= 2 * one.l.error + added).all());
              const Array o_added = Array::Ones(added.rows(), 48) * (added * largest_v);
              CHECK((all.o.error <= 2 * one.o.error + o_added + 0x1p-100).all());
            }
          }
          CHECK(worst_o < 1e-11);
          CHECK(worst_lse < 1e-13);
        }
      }
    }
  }
}

TEST_CASE("reference: the bound of the combine covers fp32, and not much more") {
  // Parts as a kernel would hold them, combined in float with ex2 truncated.
  std::uint32_t state = 1;
  const auto random = [&] {
    state = state * 1664525u + 1013904223u;
    return state / 4294967296.0;
  };
  double largest = 0;
  for (const int splits : {1, 2, 5, 40}) {
    std::vector<Partial> parts;
    for (int i = 0; i < splits; ++i) {
      Array o(16, 8), m(16, 1), l(16, 1);
      for (double& x : o) x = static_cast<float>(random() * 16 - 8);
      for (double& x : m) x = static_cast<float>(random() * 12 - 6);
      for (double& x : l) x = static_cast<float>(1 + random() * 30);
      parts.push_back({Bounded::exact(o), Bounded::exact(m), Bounded::exact(l)});
    }
    const Partial want = combine(parts);
    for (Index row = 0; row < 16; ++row) {
      float o[8] = {}, l = 0;
      for (const Partial& part : parts) {
        const float shifted =
            static_cast<float>(part.m.value(row)) - static_cast<float>(want.m.value(row));
        const double exact = std::exp2(static_cast<double>(shifted));
        float weight = static_cast<float>(exact);
        if (weight > exact) weight = std::nextafterf(weight, 0);
        l = std::fma(static_cast<float>(part.l.value(row)), weight, l);
        for (int c = 0; c < 8; ++c) {
          o[c] = std::fma(static_cast<float>(part.o.value(row, c)), weight, o[c]);
        }
      }
      CHECK(std::abs(l - want.l.value(row)) <= want.l.error(row));
      for (int c = 0; c < 8; ++c) {
        const double error = std::abs(o[c] - want.o.value(row, c));
        CHECK(error <= want.o.error(row, c));
        if (splits > 1) largest = std::max(largest, error / want.o.error(row, c));
      }
    }
  }
  CHECK(largest > 0.05);
}

TEST_CASE("reference: rows that see no key have O = 0 and lse = -infinity") {
  const Problem problem{1, 1, 1, 20, 8, 16, true};
  const Inputs inputs = generate_inputs(problem, ElementType::f16, "random", 0);
  const AttentionResult whole = attention(inputs, problem);
  OnlineBlock block(inputs, problem, walk_of(16, 4, 16), 0, 0, 0);
  CHECK(block.needed_tiles() == 1);
  const TileState state = block.step(0);
  const Outputs out = block.finish();
  for (std::int64_t row = 0; row < 12; ++row) {
    CHECK(whole.lse[std::size_t(row)] == -infinity);
    for (std::int64_t i = 0; i < 16; ++i) CHECK(whole.o[std::size_t(row * 16 + i)] == 0);
    CHECK(state.m.value(row) == -infinity);
    CHECK(state.m.error(row) == 0);
    CHECK(state.alpha.value(row) == 0);
    CHECK(state.alpha.error(row) == 1);  // multiplies zeros: whatever a kernel has there is right
    CHECK(state.l.value(row) == 0);
    CHECK(state.l.error(row) == 0);
    CHECK((state.p.value.row(row) == 0).all());
    CHECK((state.p.error.row(row) == 0).all());
    CHECK((out.o_final.value.row(row) == 0).all());
    CHECK((out.o_final.error.row(row) == 0).all());
    CHECK(out.lse.value(row) == -infinity);
  }
  CHECK(state.s.error.is_finite().all());
  CHECK(state.o.error.is_finite().all());
  CHECK(std::isfinite(out.lse.value(12)));
}

TEST_CASE("reference: m follows large rises alone, and the result is the textbook's", "[quick]") {
  for (const RescaleRule rule : {RescaleRule{8, false}, RescaleRule{6, true}}) {
    for (const std::string& kind : input_kinds()) {
      const Problem problem{1, 1, 1, 40, 300, 32, true};
      const Inputs inputs = generate_inputs(problem, ElementType::f16, kind, 1);
      const AttentionResult want = attention(inputs, problem);
      Walk walk = walk_of(40, 16, 32);
      OnlineBlock always(inputs, problem, walk, 0, 0, 0);
      walk.rescale = rule;
      OnlineBlock seldom(inputs, problem, walk, 0, 0, 0);
      int stayed = 0, followed = 0;
      for (std::int64_t tile = 0; tile < seldom.needed_tiles(); ++tile) {
        const TileState all = always.step(tile), few = seldom.step(tile);
        for (Index row = 0; row < 40; ++row) {
          INFO(kind << " by sums: " << rule.by_sums << " tile " << tile << " row " << row);
          const double before = few.m_prev.value(row), m = few.m.value(row), top = all.m.value(row);
          const double least = rule.by_sums ? rule.above - 2 : rule.above;  // of four keys a lane
          CHECK((m == before || m > before + least));
          CHECK((m == -infinity ? top == -infinity : (m <= top && top <= m + rule.above)));
          if (m == before && m > -infinity) CHECK(few.alpha.value(row) == 1);
          if (before > -infinity) (m == before ? stayed : followed) += m < top || m != before;
          double sum[4] = {};
          for (Index key = 0; key < 16; ++key) sum[key / 2 % 4] += few.p.value(row, key);
          const double largest =
              rule.by_sums ? *std::max_element(sum, sum + 4) : few.p.value.row(row).largest();
          CHECK(largest <= std::exp2(rule.above) * (1 + 1e-12));
          CHECK(few.l.value(row) ==
                Approx(all.l.value(row) * (m > -infinity ? std::exp2(top - m) : 1)));
        }
      }
      const bool never_by_little = kind == "equal" || kind == "steep";
      CHECK((stayed > 0) == !never_by_little);
      if (kind == "rising" || kind == "lone") CHECK(followed > 0);
      const Outputs got = seldom.finish();
      // A score is off by a few roundings of its size, and its weight by as much; V is within 4.
      double score = 1;
      for (const double lse : want.lse) {
        if (std::isfinite(lse)) score = std::max(score, std::abs(lse));
      }
      CHECK(difference(got.o_final.value, want.o, 0, 0.01) < 16 * 0x1p-53 * score * 4 / 0.01);
      CHECK(difference(got.lse.value, want.lse, 0, 1) < 1e-13);
    }
  }
}

TEST_CASE("reference: m follows a sum of P that is too large, or no number", "[quick]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Bounded l_prev = Bounded::exact(Array::Constant(6, 1, 1));
  Bounded m_prev = Bounded::exact(Array::Zero(6, 1));
  m_prev.value(5) = -infinity;
  Bounded s = Bounded::exact(Array::Constant(6, 16, -infinity));
  s.value(0, 0) = s.value(0, 9) = 11.5;  // one lane's: their sum is 2^12.5
  s.value(1, 0) = s.value(1, 2) = 11.5;  // of two lanes: 2^11.5 each
  s.value(2, 3) = s.value(2, 10) = 11;   // 2^12 is not too large: open, for ex2 is not exact
  s.value(3, 15) = nan;
  s.value(3, 14) = 3;
  s.value(4, 5) = 130;   // P is no fp32
  s.value(5, 5) = -200;  // the first score of the row
  const auto of = [&](const Array* held) {
    return softmax(s, Factor{}, m_prev, l_prev, {{12, true}, held}, Arithmetic{});
  };
  const Softmax got = of(nullptr);
  CHECK(got.m.value(0) == 11.5);
  CHECK(got.m.value(1) == 0);
  CHECK(got.m.error(1) == 0);
  CHECK(got.m.error(2) == 11);
  CHECK(got.m.value(3) == 3);
  CHECK(got.m.value(4) == 130);
  CHECK(got.m.value(5) == -200);
  for (const Index row : {0, 3, 4, 5}) CHECK(got.m.error(row) == 0);
  for (const double took : {0.0, 11.0}) {
    const Array held = Array::Constant(6, 1, took);
    const Softmax followed = of(&held);
    CHECK(followed.m.value(2) == took);
    CHECK(followed.m.error(2) == 0);
    CHECK(followed.m.value(0) == 11.5);  // not open: whatever is held
    CHECK(followed.m.value(1) == 0);
  }
}

TEST_CASE("reference: where errors leave a rise open, m is either, or what a kernel holds") {
  const Bounded m_prev = Bounded::exact(Array::Zero(3, 1)), l_prev = m_prev;
  Bounded s{Array::Constant(3, 1, 8), Array::Constant(3, 1, 1e-3)};
  s.value(1) = 8.01;
  s.value(2) = 7.99;
  const Arithmetic arithmetic;
  const auto of = [&](const Array* held) {
    return softmax(s, Factor{}, m_prev, l_prev, {{8}, held}, arithmetic);
  };
  const Softmax open = of(nullptr);
  CHECK(open.m.error(0) > 8);
  CHECK(open.m.error(0) < 8.01);
  CHECK(open.p.error(0) < 0.01 * open.p.value(0));  // anchored: m is common to all
  for (const double took : {0.0, 8.0}) {
    const Array held = Array::Constant(3, 1, took);
    const Softmax followed = of(&held);
    CHECK(followed.m.value(0) == took);
    CHECK(followed.m.error(0) < 1.01e-3);
    CHECK(followed.m.value(1) == 8.01);  // not open: whatever is held
    CHECK(followed.m.value(2) == 0);
    CHECK(followed.p.value(0) == Approx(std::exp2(8 - took)));
  }
}

TEST_CASE("reference: what is injected is rounded and has no error") {
  const Problem problem{1, 1, 1, 32, 96, 32, false};
  const Inputs inputs = generate_inputs(problem, ElementType::f16, "random", 0);
  Walk walk = walk_of(32, 32, 32);
  OnlineBlock truth(inputs, problem, walk, 0, 0, 0);
  walk.injected = Injected::scores;
  OnlineBlock from_scores(inputs, problem, walk, 0, 0, 0);
  walk.injected = Injected::weights;
  walk.injected_p = walk.arithmetic.p_type = ElementType::f16;
  OnlineBlock from_weights(inputs, problem, walk, 0, 0, 0);
  for (std::int64_t tile = 0; tile < 3; ++tile) {
    const TileState t = truth.step(tile), s = from_scores.step(tile), w = from_weights.step(tile);
    CHECK((s.s.value == round_values(t.s.value, ElementType::f32)).all());
    CHECK((s.s.error == 0).all());
    CHECK((s.m.error == 0).all());
    CHECK((s.l.error < t.l.error).all());
    CHECK((w.p.value == round_values(t.p.value, ElementType::f16)).all());
    CHECK((w.p.error == 0).all());
    CHECK((w.alpha.value == round_values(t.alpha.value, ElementType::f32)).all());
    CHECK((w.alpha.error == 0).all());
    CHECK((w.o.error < t.o.error).all());
  }
}

}  // namespace
}  // namespace lanescope::reference
