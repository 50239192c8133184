#include <cmath>

#include "reference/elementary.h"
#include "reference/stage_errors.h"
#include "reference/stages.h"

namespace lanescope::reference {

using namespace stage_errors;

// Weights are the alphas of partials against their maximum: what is held of the m_i beyond their
// value cancels against the anchors of o_i and l_i. Each sum is a chain of fused multiply-adds.
Partial combine(const std::vector<Partial>& partials, bool converts) {
  const Bounded& first = partials.front().o;
  const Index rows = first.value.rows(), d = first.value.cols();
  Partial all{Bounded::exact(Array::Zero(rows, d)),
              Bounded::exact(Array::Constant(rows, 1, -infinity)),
              Bounded::exact(Array::Zero(rows, 1))};
  for (const Partial& part : partials) all.m = row_maximum(part.m, all.m);
  Array o_magnitude = Array::Zero(rows, d), l_magnitude = Array::Zero(rows, 1);
  const auto add = [](Bounded& sum, Array& magnitude, const Bounded& x, const Number& w,
                      Index row) {
    for (Index col = 0; col < sum.value.cols(); ++col) {
      const double value = x.value(row, col), size = std::abs(value);
      sum.value(row, col) += value * w.value;
      magnitude(row, col) += size * w.value;
      sum.error(row, col) += x.error(row, col) * (w.value + w.error) + size * w.error;
    }
  };
  for (const Partial& part : partials) {
    for (Index row = 0; row < rows; ++row) {
      const Number w = weight(part.m, all.m, row, converts);
      add(all.o, o_magnitude, part.o, w, row);
      add(all.l, l_magnitude, part.l, w, row);
    }
  }
  const double rounding = gamma(static_cast<std::int64_t>(partials.size()));
  all.o.error += rounding * (o_magnitude + all.o.error) + dot_flush;
  all.l.error += rounding * (l_magnitude + all.l.error);
  for (const Partial& part : partials) {
    const Mask open = part.m.error >= anything;
    all.m.error = open.select(anything, all.m.error);
    all.l.error = (open || part.l.error >= anything).select(anything, all.l.error);
    all.o.error = (open.replicate(d) || part.o.error >= anything).select(anything, all.o.error);
  }
  return {settled(all.o), settled(all.m), settled(all.l)};
}

// o_final = o·(1/l·factor): the quotient of the anchored o and l, in which the common shift
// cancels, then a division and a multiplication in fp32, the error of the factor, and the rounding
// to the type of the output. lse = (m + lg2(l))·ln2: m as held carries the shift that l lacks, so
// it cancels here too; lg2's own error, the addition, the rounded constant ln2 and the
// multiplication (3u).
Outputs epilogue(const Bounded& o, const Bounded& l, const Bounded& m, const Factor& factor,
                 const Arithmetic& arithmetic, bool converts) {
  const Index rows = o.value.rows(), d = o.value.cols();
  const double rounding = quotient_error(arithmetic);
  Outputs out{Bounded::exact(Array::Zero(rows, d)), Bounded::exact(Array::Zero(rows, 1))};
  for (Index row = 0; row < rows; ++row) {
    if (l.value(row) == 0) continue;
    const double smallest = std::abs(l.value(row)) - l.error(row);
    for (Index col = 0; col < d; ++col) {
      const double quotient = o.value(row, col) / l.value(row);
      const double error = smallest > 0
                               ? (o.error(row, col) + std::abs(quotient) * l.error(row)) / smallest
                               : any_number;
      out.o_final.value(row, col) = factor.value * quotient;
      out.o_final.error(row, col) =
          factor.value * error +
          (rounding * factor.value + factor.error) * (std::abs(quotient) + error);
    }
  }
  out.o_final = rounded(out.o_final, operand_type(arithmetic.operands));
  const Mask open = (l.error >= anything || m.error >= anything).replicate(d);
  out.o_final.error = (open || o.error >= anything).select(anything, out.o_final.error);
  out.o_final = settled(out.o_final);

  for (Index row = 0; row < rows; ++row) {
    if (l.value(row) == 0) {
      out.lse.value(row) = -infinity;
      continue;
    }
    const double log2_l = natural_log(l.value(row)) * log2_e;
    const double sum = m.value(row) + log2_l;
    const double smallest = std::abs(l.value(row)) - l.error(row);
    double error = smallest > 0 ? l.error(row) / smallest * log2_e : any_number;
    error += conversion(converts, m.value(row));
    error += lg2_error * std::fmax(1, std::abs(log2_l) + m.error(row) + error);
    out.lse.value(row) = sum * ln_2;
    out.lse.error(row) = ln_2 * (error + 3 * unit * (std::abs(sum) + error));
    if (l.error(row) >= anything || m.error(row) >= anything) out.lse.error(row) = anything;
  }
  out.lse = settled(out.lse);
  return out;
}

}  // namespace lanescope::reference
