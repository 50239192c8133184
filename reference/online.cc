#include "reference/online.h"

#include <algorithm>
#include <cmath>

#include "reference/elementary.h"

namespace lanescope::reference {
namespace {

/// `x` with columns of `fill` appended up to `cols`.
Bounded widened(const Bounded& x, Index cols, double fill) {
  const Index rows = x.value.rows();
  Bounded wide{Array::Constant(rows, cols, fill), Array::Zero(rows, cols)};
  wide.value.set_corner(x.value);
  wide.error.set_corner(x.error);
  return wide;
}

int most(const Visible& keys) { return *std::max_element(keys.begin(), keys.end()); }

/// What a dot product of elements of q and k is multiplied by to be a score in base 2. The constant
/// is rounded to fp32, and so is each multiplication with a scale, which is fp32 already; one that
/// is too small for a normal number is wrong by up to 2^-150, which the other scale may enlarge.
Factor scores_of(const Inputs& inputs, const Problem& problem, std::int64_t batch,
                 std::int64_t head) {
  const double constant = softmax_scale(problem) * log2_e;
  if (!inputs.scaled()) return {constant, unit * constant};
  const double q = inputs.q_scale.at(batch * problem.heads + head);
  const double k = inputs.k_scale.at(batch * problem.heads_kv + problem.kv_head(head));
  const double factor = constant * q * k;
  return {factor, 3 * unit * factor + 0x1p-149 * (1 + std::fmax(q, k))};
}

/// What o / l is multiplied by to be the output.
Factor output_of(const Inputs& inputs, const Problem& problem, std::int64_t batch,
                 std::int64_t head) {
  if (!inputs.scaled()) return {1, 0};
  const double v = inputs.v_scale.at(batch * problem.heads_kv + problem.kv_head(head));
  return {v, unit * v + 0x1p-149};
}

}  // namespace

double softmax_scale(const Problem& problem) {
  return 1 / std::sqrt(static_cast<double>(problem.d));
}

OnlineBlock::OnlineBlock(const Inputs& inputs, const Problem& problem, const Walk& walk,
                         std::int64_t batch, std::int64_t head, std::int64_t q_tile,
                         std::int64_t split)
    : inputs_(inputs),
      problem_(problem),
      walk_(walk),
      score_factor_(scores_of(inputs, problem, batch, head)),
      output_factor_(output_of(inputs, problem, batch, head)) {
  const std::int64_t tiles = (problem.len_kv + walk.bc - 1) / walk.bc;
  split_tiles_ = (tiles + walk.splits - 1) / walk.splits;
  first_tile_ = split * split_tiles_;
  const std::int64_t first = q_tile * walk.br;
  const std::int64_t rows = std::min(walk.br, walk.heads_per_tile * problem.len_q - first);
  first_q_row_ = (batch * problem.heads + head) * problem.len_q + first;
  first_kv_row_ = (batch * problem.heads_kv + problem.kv_head(head)) * problem.len_kv;
  for (std::int64_t row = 0; row < rows; ++row) {
    visible_.push_back(static_cast<int>(problem.visible_keys((first + row) % problem.len_q)));
  }
  q_ = load_rows(inputs.q, first_q_row_, rows, rows, walk.width);
  m_ = Bounded::exact(Array::Constant(rows, 1, -infinity));
  l_ = Bounded::exact(Array::Zero(rows, 1));
  o_ = Bounded::exact(Array::Zero(rows, walk.width));
}

Factor OnlineBlock::score_factor() const {
  switch (walk_.scores) {
    case ScoreUnit::raw:
      return {};
    case ScoreUnit::base_e:
      return {score_factor_.value * ln_2, score_factor_.error * ln_2};
    case ScoreUnit::base_2:
      break;
  }
  return score_factor_;
}

Factor OnlineBlock::softmax_factor() const {
  switch (walk_.scores) {
    case ScoreUnit::raw:
      return score_factor_;
    case ScoreUnit::base_e:
      return {log2_e, unit * log2_e};
    case ScoreUnit::base_2:
      break;
  }
  return {};
}

double OnlineBlock::maximum_factor() const {
  return walk_.maxima == ScoreUnit::raw      ? score_factor_.value
         : walk_.maxima == ScoreUnit::base_e ? log2_e
                                             : 1;
}

std::int64_t OnlineBlock::needed_tiles() const {
  const std::int64_t all = (most(visible_) + walk_.bc - 1) / walk_.bc;
  return std::clamp<std::int64_t>(all - first_tile_, 0, split_tiles_);
}

Visible OnlineBlock::visible(std::int64_t tile) const {
  const auto bc = static_cast<int>(walk_.bc), before = static_cast<int>(first_tile_ + tile) * bc;
  Visible seen = visible_;
  for (int& keys : seen) keys = std::clamp(keys - before, 0, bc);
  return seen;
}

Array OnlineBlock::q_tile() const {
  Array tile = Array::Zero(walk_.br, walk_.width);
  tile.set_corner(q_);
  return tile;
}

Array OnlineBlock::k_tile(std::int64_t tile) const { return kv_tile(inputs_.k, tile); }
Array OnlineBlock::v_tile(std::int64_t tile) const { return kv_tile(inputs_.v, tile); }

Array OnlineBlock::kv_tile(const Tensor& tensor, std::int64_t tile) const {
  const std::int64_t first = (first_tile_ + tile) * walk_.bc;
  const std::int64_t keys = std::min(walk_.bc, problem_.len_kv - first);
  return load_rows(tensor, first_kv_row_ + first, keys, walk_.bc, walk_.width);
}

TileState OnlineBlock::step(std::int64_t tile, const Array* m_held) {
  const Arithmetic& arithmetic = walk_.arithmetic;
  const Visible seen = visible(tile);
  const Index keys = most(seen);  // keys that no row sees add exact zeros
  const Array k = k_tile(tile).top_rows(keys), v = v_tile(tile).top_rows(keys);

  TileState state;
  Bounded s = qk(q_, k, seen, score_factor(), arithmetic);
  if (walk_.injected == Injected::scores) {
    s = Bounded::exact(round_values(s.value, ElementType::f32));
  }
  Softmax next =
      softmax(s, softmax_factor(), m_, l_, {walk_.rescale, m_held}, arithmetic, converts_maxima());
  state.s = widened(s, walk_.bc, -infinity);
  state.m_prev = m_;
  state.m = next.m;
  state.l = shifted(next.l, next.m.error);
  if (walk_.injected == Injected::weights) {
    next.alpha = Bounded::exact(round_values(next.alpha.value, ElementType::f32));
    next.p = Bounded::exact(round_values(next.p.value, walk_.injected_p));
    next.weights = Bounded::exact(round_values(next.p.value, arithmetic.p_type));
    next.m =
        Bounded::exact(next.m.value);  // P and alpha as given depend on no maximum that is held
    m_ = Bounded::exact(m_.value);
  }
  state.alpha = shifted(next.alpha, next.m.error + m_.error);
  state.p = widened(shifted(next.p, next.m.error), walk_.bc, 0);

  o_ = pv(next.weights, next.alpha, v, o_, arithmetic);
  m_ = next.m;
  l_ = next.l;
  state.o = shifted(o_, m_.error);
  return state;
}

Partial OnlineBlock::partial() const {
  if (walk_.injected != Injected::partials) return {o_, m_, l_};
  const auto given = [](const Bounded& x) {
    return Bounded::exact(round_values(x.value, ElementType::f32));
  };
  // Rounded as it is held.
  const double unit_of_m = maximum_factor();
  Bounded m = given({m_.value * (1 / unit_of_m), m_.error});
  m.value *= unit_of_m;
  return {given(o_), m, given(l_)};
}

}  // namespace lanescope::reference
