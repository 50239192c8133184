#include "reference/reach.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/elementary.h"

namespace lanescope::reference {

Reach::Reach(const OnlineBlock& block)
    : score_factor_(block.score_factor().value),
      softmax_factor_(block.softmax_factor().value),
      output_factor_(block.output_factor().value),
      largest_p_(power_of_2(block.walk().rescale.above)),
      told_part_(format_of(block.walk().arithmetic.p_type).fraction_bits < 4 ? 0.5 : 0x1p-4) {
  const Array q = block.q_tile().top_rows(block.rows());
  q_norm_ = q.square().row_sums().sqrt();
  keys_ = Array::Zero(q.rows(), 1);
  m_ = Array::Zero(q.rows(), 1);
  low_ = Array::Constant(q.rows(), q.cols(), infinity);
  high_ = Array::Constant(q.rows(), q.cols(), -infinity);
}

void Reach::step(const Array& k, const Array& v, const Visible& visible) {
  k_norm_ = k.square().row_sums().sqrt();
  const int most = visible.empty() ? 0 : *std::max_element(visible.begin(), visible.end());
  if (most == 0) return;
  k_largest_ = std::fmax(k_largest_, k_norm_.top_rows(most).largest());
  Array low, high;  // of the first `counted` rows of v
  int counted = 0;
  for (Index row = 0; row < static_cast<Index>(visible.size()); ++row) {
    const int seen = visible[static_cast<std::size_t>(row)];
    keys_(row) += seen;
    if (seen == 0) continue;
    if (seen != counted) {
      const Array own = v.top_rows(seen);
      low = own.column_minima();
      high = own.column_maxima();
      counted = seen;
    }
    for (Index col = 0; col < v.cols(); ++col) {
      low_(row, col) = std::min(low_(row, col), low(col));
      high_(row, col) = std::max(high_(row, col), high(col));
    }
  }
}

void Reach::merge(const Reach& other) {
  k_largest_ = std::fmax(k_largest_, other.k_largest_);
  keys_ += other.keys_;
  low_ = low_.min(other.low_);
  high_ = high_.max(other.high_);
}

double Reach::of(SiteId site, Index row, Index col) const {
  const auto rows_of_v = [&] {
    if (keys_(row) == 0) return 0.0;
    const double low = low_(row, col), high = high_(row, col);
    return std::fmax(high - low, std::fmax(std::abs(low), std::abs(high)) * told_part_);
  };
  const double base_2 = score_factor_ * softmax_factor_;
  switch (site) {
    case SiteId::s:
      return 2 * q_norm_(row) * k_norm_(col) * score_factor_;
    case SiteId::m_prev:
    case SiteId::m:
    case SiteId::m_partial:
      return 2 * q_norm_(row) * k_largest_ * base_2;
    case SiteId::alpha:
      return m_(row) == -std::numeric_limits<double>::infinity()
                 ? std::numeric_limits<double>::infinity()
                 : 1;
    case SiteId::p:
      return largest_p_;
    case SiteId::l:
    case SiteId::l_partial:
      return keys_(row) * largest_p_;
    case SiteId::o:
    case SiteId::o_partial:
      return keys_(row) * largest_p_ * rows_of_v();
    case SiteId::o_final:
      return output_factor_ * rows_of_v();
    case SiteId::lse:
      return 2 *
             (ln_2 * q_norm_(row) * k_largest_ * base_2 + natural_log(std::fmax(keys_(row), 1)));
    default:
      return 0;
  }
}

bool says_nothing(double bound, double reach, ElementType type) {
  constexpr double flushed = 0x1p-100;  // far above what flushes to zero come to
  if (!(2 * bound >= reach && bound > flushed)) return false;
  const Format format = format_of(type);
  return bound > std::ldexp(1.0, format.min_exponent - format.fraction_bits);
}

}  // namespace lanescope::reference
