#include "reference/possible.h"

#include <algorithm>
#include <cmath>

#include "reference/elementary.h"
#include "reference/stage_errors.h"

namespace lanescope::reference {

using namespace stage_errors;

namespace {

/// The keys of a row with exponents that may be off: Σ 2^x without overflow, and with it
/// 2^(y) / (2^(y) + Σ_{i≠j} 2^(x_i)).
class Sum {
 public:
  explicit Sum(const Array& exponents) : exponents_(exponents) {
    at_ = std::max_element(exponents.begin(), exponents.end()) - exponents.begin();
    top_ = exponents(at_);
    for (Index i = 0; i < exponents.size(); ++i) {
      if (i != at_) rest_ += power_of_2(exponents(i) - top_);
    }
  }
  /// log2 of the sum.
  double log2() const { return top_ + natural_log(1 + rest_) * log2_e; }
  /// The weight of key j with exponent y among the others. The largest is left out of the sum
  /// rather than subtracted, which would leave nothing but rounding.
  double weight(Index j, double y) const {
    const double others = j == at_ ? rest_ : 1 + rest_ - power_of_2(exponents_(j) - top_);
    return others == 0 ? 1 : 1 / (1 + others * power_of_2(top_ - y));
  }

 private:
  const Array& exponents_;
  Index at_;
  double top_;
  double rest_ = 0;
};

/// Scores in base 2 of one row, and how far what a kernel has for them may be off, but for what all
/// have in common.
struct Scores {
  Array value, error;  ///< [keys that the row sees, 1]
  double least_l = 0;  ///< what l comes to at least
};

/// The exponents that p and the alphas behind it were computed from are rounded, u·|x| each, and
/// the |x| of a key sum to the distance from the largest score, and twice what p's exponent may lie
/// above 0; each ex2 is wrong by its error.
void add_rounding(Scores& scores, std::int64_t tiles, double residue, double above) {
  const double largest = scores.value.largest(), off = scores.error.largest();
  scores.error += 2 * unit * (largest - scores.value + scores.error + off + 2 * above);
  scores.error += static_cast<double>(tiles + 2) * 2 * ex2_error;
  scores.least_l = power_of_2(-residue) / 2;
}

struct Block {
  const OnlineBlock& block;
  const Walk& walk;
  std::int64_t tiles;
};

/// Scores of `row` with their errors, in base 2; no keys where they are not all numbers.
Scores scores_of(const Block& b, Index row) {
  const Array q = b.block.q_tile().row(row);
  Scores scores;
  const auto seen = [&](std::int64_t tile) {
    return Index{b.block.visible(tile)[static_cast<std::size_t>(row)]};
  };
  Index keys = 0;
  for (std::int64_t tile = 0; tile < b.tiles; ++tile) keys += seen(tile);
  scores.value = scores.error = Array::Zero(keys, 1);
  const Factor factor = b.block.softmax_factor();
  Index first = 0;
  for (std::int64_t tile = 0; tile < b.tiles; ++tile) {
    const Index count = seen(tile);
    if (count == 0) continue;
    Visible visible(1);
    visible[0] = static_cast<int>(count);
    const Bounded s = qk(q, b.block.k_tile(tile).top_rows(count), visible, b.block.score_factor(),
                         b.walk.arithmetic);
    const bool open = !s.value.is_finite().all() || (s.error >= any_number).any();
    if (open) return {};
    for (Index i = 0; i < count; ++i, ++first) {
      const double value = s.value(i), error = s.error(i);
      scores.value(first) = factor.value * value;
      scores.error(first) = factor.value * error + factor.error * (std::abs(value) + error);
    }
  }
  if (keys == 0) return {};
  const double largest = scores.value.abs().largest() + scores.error.largest();
  const double residue = factor.none() ? 0 : unit * largest;
  if (largest >= 0x1p126 || residue > 60) return {};
  add_rounding(scores, b.tiles, residue, b.walk.rescale.above);
  if (b.walk.arithmetic.any_softmax) {
    scores.error += 2 * scores.value.map([](double s) { return conversion(true, s); }) +
                    static_cast<double>(b.tiles + 2) * 2 * more_of_weight;
  }
  return scores;
}

/// o / l of one row, before the output's own rounding: the middle of what it can be, and half of
/// the width. [1, width]
Bounded quotient_of(const Block& b, Index row, const Scores& scores) {
  const Array low_exponents = scores.value - scores.error;
  const Array high_exponents = scores.value + scores.error;
  const Sum low_sum(low_exponents), high_sum(high_exponents);
  const Index width = b.walk.width, keys = scores.value.size();
  constexpr double negligible = 0x1p-40;
  Array sure(1, width), least(1, width, infinity), most(1, width, -infinity);
  Array magnitude(1, width), largest(1, width), left_out(1, width);
  double given = 0;
  Index key = 0;
  const Accumulation& products = b.walk.arithmetic.products;
  for (std::int64_t tile = 0; tile < b.tiles; ++tile) {
    const Index count = b.block.visible(tile)[static_cast<std::size_t>(row)];
    const Array v = b.block.v_tile(tile);
    const Array size = products.magnitude(v, b.walk.arithmetic.operands);
    for (Index i = 0; i < count; ++i, ++key) {
      const double at_least = high_sum.weight(key, low_exponents(key));
      const double at_most = low_sum.weight(key, high_exponents(key));
      given += at_least;
      for (Index col = 0; col < width; ++col) {
        const double value = v(i, col);
        sure(col) += at_least * value;
        magnitude(col) += at_most * size(i, col);
        largest(col) = std::fmax(largest(col), size(i, col));
        if (at_most > negligible) {
          least(col) = std::fmin(least(col), value);
          most(col) = std::fmax(most(col), value);
        } else {
          left_out(col) += at_most * std::abs(value);
        }
      }
    }
  }
  const double open = std::fmax(0, 1 - given);
  Bounded o{sure + open * (least + most) / 2, open * (most - least) / 2 + left_out};
  // A kernel rounds p, whose sum l is of the p before, adds up tile by tile, and divides.
  const ElementType p_type = b.walk.arithmetic.p_type;
  const Format format = format_of(p_type);
  const bool narrow_p = p_type != ElementType::f32;
  const double relative =
      (narrow_p ? std::ldexp(1.0, -format.fraction_bits - 1) : 0) +
      static_cast<double>(b.tiles) * (products.relative_error(b.walk.bc) + gamma(2)) +
      gamma(keys + 4 * b.tiles + 2 * b.walk.splits + 8) +
      (b.walk.arithmetic.any_softmax ? static_cast<double>(b.tiles + 1) * more_of_sum : 0) +
      0x1p-40;
  const double absolute =
      (narrow_p ? std::ldexp(1.0, format.min_exponent - format.fraction_bits - 1) : 0) + ex2_flush;
  o.error += relative * magnitude.min(largest) + (static_cast<double>(keys) * absolute * largest +
                                                  static_cast<double>(b.tiles) * dot_flush) /
                                                     scores.least_l;
  const double most_l = static_cast<double>(keys) * power_of_2(b.walk.rescale.above);
  if ((largest * most_l >= 0x1p126).any()) o.error.fill_row(0, anything);
  return o;
}

Bounded lse_of(const Block& b, const Scores& scores) {
  const Array low_exponents = scores.value - scores.error;
  const Array high_exponents = scores.value + scores.error;
  const double low = Sum(low_exponents).log2(), high = Sum(high_exponents).log2();
  const double middle = (low + high) / 2;
  const double l = static_cast<double>(scores.value.size());
  double error = (high - low) / 2 + lg2_error * std::fmax(1, natural_log(l) * log2_e) +
                 gamma(scores.value.size() + 3 * b.tiles) * log2_e;
  error += 4 * unit * (std::abs(middle) + error);
  // What each tile but the first one may rescale by in the place of 1.
  if (b.walk.arithmetic.any_maximum) {
    error += rescaled_by_one(b.tiles, scores.value.abs().largest());
  }
  return {Array::Constant(1, 1, ln_2 * middle), Array::Constant(1, 1, ln_2 * error)};
}

void keep_narrower(Bounded& all, Index row, const Bounded& other) {
  for (Index col = 0; col < all.value.cols(); ++col) {
    if (!std::isfinite(all.value(row, col)) || !(other.error(0, col) < all.error(row, col)))
      continue;
    all.value(row, col) = other.value(0, col);
    all.error(row, col) = other.error(0, col);
  }
}

}  // namespace

void narrow(Outputs& outputs, const std::vector<Index>& rows, const Inputs& inputs,
            const Problem& problem, const Walk& walk, std::int64_t batch, std::int64_t head,
            std::int64_t q_tile) {
  if (rows.empty()) return;
  Walk whole = walk;
  whole.splits = 1;
  const OnlineBlock block(inputs, problem, whole, batch, head, q_tile);
  const Block all{block, walk, block.needed_tiles()};
  const Factor& factor = block.output_factor();
  for (const Index row : rows) {
    const Scores scores = scores_of(all, row);
    if (scores.value.size() == 0) continue;
    Bounded o = quotient_of(all, row, scores);
    o.error =
        factor.value * o.error +
        (quotient_error(walk.arithmetic) * factor.value + factor.error) * (o.value.abs() + o.error);
    o.value *= factor.value;
    keep_narrower(outputs.o_final, row, rounded(o, operand_type(walk.arithmetic.operands)));
    keep_narrower(outputs.lse, row, lse_of(all, scores));
  }
}

}  // namespace lanescope::reference
