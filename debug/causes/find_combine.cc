#include <algorithm>
#include <cmath>

#include "debug/causes/combine_parts.h"
#include "debug/causes/linear.h"
#include "reference/elementary.h"

namespace lanescope {
namespace {

using Array = Scene::Array;

using reference::infinity;
using reference::ln_2, reference::log2_e;

/// "row 3: split 0 with 17.25, split 1 with 12.5": the factors of a row whose values are wrong.
std::string factors_text(const Scene& scene, const Parts& parts, const Factors& factor) {
  for (const Element& e : scene.elements()) {
    if (!e.wrong) continue;
    std::string text = "row " + std::to_string(e.row) + ":";
    for (std::size_t i = 0; i < parts.count() && i < 4; ++i) {
      text += (i ? ", split " : " split ") + std::to_string(i) + " with " +
              value_text(factor(i)(e.row));
    }
    return text + (parts.count() > 4 ? ", ..." : "");
  }
  return {};
}

/// 0 where it would be divided by 0.
Array divided(const Array& x, const Array& by) { return x * (by == 0).select(0, 1 / by); }

void try_output(const Scene& scene, const Parts& parts, Findings& findings) {
  const Formulas fits(scene, findings);
  const Factors weight = [&](std::size_t i) { return parts.weight[i]; };
  const Array o = sum_of_parts(parts.o, weight), l = sum_of_parts(parts.l, weight);
  try_divisor(scene, o, l, true, fits);
  fits(Cause::normalised_twice, "O = sum of w_i O_i / l^2", divided(o, l.square()));
  for (const Mistake& mistake : combine_mistakes(parts)) {
    const Factors both = [&](std::size_t i) { return mistake.factor(i) * parts.weight[i]; };
    const std::string text =
        "the part of each split stands with a factor, the same in all columns of "
        "a row: " +
        mistake.text;
    const std::size_t before = findings.size();
    fits(mistake.cause, text, divided(sum_of_parts(parts.o, both), l));
    fits(mistake.cause, text + "; so do the l_i in the sum l",
         divided(sum_of_parts(parts.o, both), sum_of_parts(parts.l, both)));
    fits(mistake.cause, "the l_i stand with a factor in the sum l: " + mistake.text,
         divided(o, sum_of_parts(parts.l, both)));
    for (std::size_t i = before; i < findings.size(); ++i) {
      findings[i].evidence.push_back(factors_text(scene, parts, mistake.factor));
    }
  }
}

/// The parts of one split with the weights of another.
void try_exchange(const Scene& scene, const Parts& parts, Findings& findings) {
  const Formulas fits(scene, findings);
  const std::size_t count = parts.count(), before = findings.size();
  const Factors weight = [&](std::size_t i) { return parts.weight[i]; };
  const Array l = sum_of_parts(parts.l, weight), own_o = sum_of_parts(parts.o, weight);
  const auto attempt = [&](const std::string& which, const auto& other) {
    Array o = 0 * parts.o[0], own_l = 0 * l;
    for (std::size_t i = 0; i < count; ++i) {
      o += parts.o[other(i)] * parts.weight[i];
      own_l += parts.l[other(i)] * parts.weight[i];
    }
    fits(Cause::wrong_source, "O_i is that of split " + which, divided(o, l));
    fits(Cause::wrong_source, "the weight is that of another split: O_i and l_i are of " + which,
         divided(o, own_l));
    fits(Cause::wrong_source, "l_i is that of split " + which, divided(own_o, own_l));
  };
  // l_i, or O_i, is the same split's for all.
  for (std::size_t split = 0; count > 1 && split < count; ++split) {
    const std::string of = " of split " + std::to_string(split) + " in the place of each split's";
    Array o = 0 * parts.o[0], of_o = o, sum = 0 * l;
    for (std::size_t i = 0; i < count; ++i) {
      o += parts.o[i] * parts.weight[i];
      of_o += parts.o[split] * parts.weight[i];
      sum += parts.l[split] * parts.weight[i];
    }
    fits(Cause::wrong_source, "it takes l" + of, divided(o, sum));
    fits(Cause::wrong_source, "it takes O" + of, divided(of_o, l));
  }
  // Splits that are taken some at a time, O_i or m_i by its number among these.
  for (std::size_t some = 2; some < count; some *= 2) {
    const std::string which = "i % " + std::to_string(some);
    attempt(which, [=](std::size_t i) { return i % some; });
    const Factors other = [&](std::size_t i) { return parts.weight[i % some]; };
    fits(Cause::wrong_source, "the weight of O_i and l_i is that of split " + which,
         divided(sum_of_parts(parts.o, other), sum_of_parts(parts.l, other)));
  }
  attempt("i xor 1", [=](std::size_t i) { return (i ^ 1) % count; });
  for (std::size_t by = 1; by < count; ++by) {
    attempt("(i + " + std::to_string(by) + ") % splits",
            [=](std::size_t i) { return (i + by) % count; });
  }
  // Which of them it is. Of two splits, exchanged weights are inverse ones.
  for (std::size_t i = before; i < findings.size(); ++i) {
    findings[i].bits += std::log2(2.0 * static_cast<double>(count));
  }
}

/// What a lane holds of a row before goes into the next of its rows: the sum l, and with it the
/// maximum.
void try_carried(const Scene& scene, const Parts& parts, Findings& findings) {
  const Formulas fits(scene, findings);
  for (reference::Index step = 1; step < scene.rows(); step *= 2) {
    for (const bool with_maximum : {true, false}) {
      Array top = parts.top, l = 0 * top, o = 0 * parts.o[0];
      for (reference::Index row = 0; row < scene.rows(); ++row) {
        if (row >= step) {
          if (with_maximum) top(row) = std::max(top(row), top(row - step));
          l(row) = l(row - step);
        }
        for (std::size_t i = 0; i < parts.count(); ++i) {
          const double weight = std::exp2(parts.m[i](row) - top(row));
          l(row) += parts.l[i](row) * weight;
          for (reference::Index col = 0; col < o.cols(); ++col) {
            o(row, col) += parts.o[i](row, col) * weight;
          }
        }
      }
      const std::string text = std::string(with_maximum ? "m and l go" : "l goes") +
                               " on from row i - " + std::to_string(step) +
                               " to row i: what was reduced was not cleared from row to row";
      const Array value = scene.site() == SiteId::lse ? (top + log2(l)) * ln_2 : divided(o, l);
      fits(Cause::reduction_too_wide, text, value);
    }
  }
}

/// A warp that sums up l with a split per lane, and leaves out one distance of its butterfly: each
/// lane has what lanes hold whose numbers agree with its own in that bit.
void try_lane_sums(const Scene& scene, const Parts& parts, Findings& findings) {
  const Formulas fits(scene, findings);
  const Array o = sum_of_parts(parts.o, [&](std::size_t i) { return parts.weight[i]; });
  const bool of_lse = scene.site() == SiteId::lse;
  for (std::size_t bit = 1; bit < 32; bit *= 2) {
    std::vector<Array> of_bit;  // l of lanes without the bit, and of those with it
    for (const std::size_t own : {std::size_t{0}, bit}) {
      of_bit.push_back(sum_of_parts(parts.l, [&](std::size_t i) {
        return (i & bit) == own ? parts.weight[i] : Array(0 * parts.weight[i]);
      }));
    }
    Array l = 0 * o;
    for (reference::Index col = 0; col < l.cols(); ++col) {
      const auto lane = static_cast<std::size_t>(col * 32 / l.cols());
      for (reference::Index row = 0; row < l.rows(); ++row) {
        l(row, col) = of_bit[(lane & bit) != 0](row);
      }
    }
    fits(Cause::incomplete_reduction,
         "the sum of l over the splits, one to a lane, is not put together over lanes that differ "
         "by " +
             std::to_string(bit),
         of_lse ? (parts.top + log2(of_bit[0])) * ln_2 : divided(o, l));
  }
}

/// The weight of a split goes with the sum of those before it, not with the split's own part.
void try_swapped(const Scene& scene, const Parts& parts, Findings& findings) {
  const Formulas fits(scene, findings);
  const auto swapped = [&](const std::vector<Array>& of) {
    Array sum = 0 * of[0];
    for (std::size_t i = 0; i < parts.count(); ++i) sum = sum * parts.weight[i] + of[i];
    return sum;
  };
  const Array l = swapped(parts.l);
  const auto of = [](const std::string& sum) {
    return sum + " = " + sum + " * w_i + " + sum +
           "_i, split by split: the weight goes with the sum so far";
  };
  if (scene.site() == SiteId::lse) {
    fits(Cause::wrong_formula, of("l"), (parts.top + log2(l)) * ln_2);
    return;
  }
  const auto weighed = [&](std::size_t i) { return parts.weight[i]; };
  fits(Cause::wrong_formula, of("l"), divided(sum_of_parts(parts.o, weighed), l));
  fits(Cause::wrong_formula, of("O"), divided(swapped(parts.o), sum_of_parts(parts.l, weighed)));
}

void try_lse(const Scene& scene, const Parts& parts, Findings& findings) {
  const Formulas fits(scene, findings);
  const Array l = sum_of_parts(parts.l, [&](std::size_t i) { return parts.weight[i]; });
  const Array& m = parts.top;
  try_lse_terms(scene, m, l, fits);
  for (std::size_t left_out = 0; left_out < parts.count(); ++left_out) {
    Array top = Array::Constant(m.rows(), 1, -infinity);
    for (std::size_t i = 0; i < parts.count(); ++i) {
      if (i != left_out) top = top.max(parts.m[i]);
    }
    fits(Cause::incomplete_reduction,
         "the maximum over the splits leaves out split " + std::to_string(left_out),
         (top + log2(sum_of_parts(parts.l,
                                  [&](std::size_t i) {
                                    return exp2(parts.m[i] - (top == -infinity).select(0, top));
                                  }))) *
             ln_2);
  }
  for (const Mistake& mistake : combine_mistakes(parts)) {
    const Array sum_of =
        sum_of_parts(parts.l, [&](std::size_t i) { return mistake.factor(i) * parts.weight[i]; });
    fits(mistake.cause, "the l_i stand with a factor in the sum l: " + mistake.text,
         (m + log2(sum_of)) * ln_2);
  }
}

}  // namespace

void find_combine(const Scene& scene, Findings& findings) {
  if (scene.first().stage == Stage::epilogue) return try_other_splits(scene, findings);
  if (scene.first().stage != Stage::combine) return;
  const auto parts = parts_of(scene, scene.block(), 1);
  if (!parts) return;
  if (scene.site() == SiteId::o_final) {
    try_output(scene, *parts, findings);
    try_exchange(scene, *parts, findings);
  }
  try_carried(scene, *parts, findings);
  try_swapped(scene, *parts, findings);
  try_lane_sums(scene, *parts, findings);
  try_other_parts(scene, *parts, findings);
  try_other_references(scene, *parts, findings);
  if (scene.site() == SiteId::lse) try_lse(scene, *parts, findings);
}

}  // namespace lanescope
