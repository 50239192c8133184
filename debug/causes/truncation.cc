#include "debug/causes/truncation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "debug/causes/flaw_trial.h"
#include "debug/text/text.h"

namespace lanescope {
namespace {

constexpr std::int64_t fewest_values = 4096, most_values = 65536;

/// What O would be off by, value by value: were P truncated, were O, and were it too large by a
/// factor. The last two are what could pass for the first.
constexpr std::size_t ways = 3;
using Offs = std::array<double, ways>;

/// Least squares of what O is off by, over the ways.
class Regression {
 public:
  void add(const Offs& offs, double off, double weight) {
    for (std::size_t i = 0; i < ways; ++i) {
      for (std::size_t j = 0; j < ways; ++j) products_[i][j] += weight * offs[i] * offs[j];
      with_[i] += weight * offs[i] * off;
    }
    square_ += weight * off * off;
    ++count_;
  }

  /// How much there is of each way, and how far each may be off (standard error).
  struct Shares {
    Offs share, error;
  };
  std::optional<Shares> solve() const {
    std::array<Offs, ways> inverse{};
    if (!invert(inverse)) return std::nullopt;
    Shares shares{};
    double rest = square_;
    for (std::size_t i = 0; i < ways; ++i) {
      for (std::size_t j = 0; j < ways; ++j) shares.share[i] += inverse[i][j] * with_[j];
      rest -= shares.share[i] * with_[i];
    }
    for (std::size_t i = 0; i < ways; ++i) {
      shares.error[i] =
          std::sqrt(std::max(0.0, rest) / static_cast<double>(count_) * inverse[i][i]);
    }
    return shares;
  }

 private:
  /// Gauss and Jordan's; false where two ways are one.
  bool invert(std::array<Offs, ways>& inverse) const {
    std::array<Offs, ways> left = products_;
    for (std::size_t i = 0; i < ways; ++i) inverse[i][i] = 1;
    for (std::size_t i = 0; i < ways; ++i) {
      const double pivot = left[i][i];
      if (!(pivot > 1e-6 * products_[i][i])) return false;
      for (std::size_t j = 0; j < ways; ++j) {
        left[i][j] /= pivot;
        inverse[i][j] /= pivot;
      }
      for (std::size_t row = 0; row < ways; ++row) {
        if (row == i) continue;
        const double factor = left[row][i];
        for (std::size_t j = 0; j < ways; ++j) {
          left[row][j] -= factor * left[i][j];
          inverse[row][j] -= factor * inverse[i][j];
        }
      }
    }
    return true;
  }

  std::array<Offs, ways> products_{};
  Offs with_{};
  double square_ = 0;
  std::int64_t count_ = 0;
};

}  // namespace

double truncated(ElementType type, double x) {
  const std::uint32_t bits = round_to(type, x);
  return std::abs(value_of(type, bits)) > std::abs(x) ? value_of(type, bits - 1)
                                                      : value_of(type, bits);
}

std::optional<Finding> find_truncation(const Dump& dump) {
  const DumpInfo& info = dump.info;
  const ElementType type = info.dtype;
  const Problem& p = info.problem;
  const std::int64_t values = p.batch * p.heads * p.len_q * p.d;
  const bool is_16_bit = type == ElementType::f16 || type == ElementType::bf16;
  if (!is_16_bit || values < fewest_values || values > most_values) return std::nullopt;
  Divergence anywhere;
  anywhere.site = SiteId::o_final;
  anywhere.stage = Stage::epilogue;
  anywhere.judgement = Judgement::chain;
  anywhere.block = 0;
  PlanInputs inputs(dump);
  Regression regression;
  for (const OutputRow& row : output_rows(Scene(dump, anywhere), SiteId::o_final, Rows::all)) {
    RowPlan plan = inputs.right_plan(row.batch, row.head, row.query);
    const PlannedRow right = inputs.carry_out(plan);
    plan.p_kept = [=](double x) { return truncated(type, x); };
    const PlannedRow of_p = inputs.carry_out(plan);
    for (std::size_t i = 0; i < row.o.size(); ++i) {
      const OutputValue& o = row.o[i];
      if (o.unwritten || !(o.bound > 0) || !std::isfinite(o.got)) continue;
      const double want = right.o[i];
      regression.add({of_p.o[i] - want, truncated(type, want) - want, want}, o.got - want,
                     1 / (o.bound * o.bound));
    }
  }
  const auto shares = regression.solve();
  if (!shares) return std::nullopt;
  const double share = shares->share[0], error = shares->error[0];
  // As much of it as there is where it is so, and far more than chance has.
  if (!(std::abs(share - 1) < 0.25 && error < 0.05)) return std::nullopt;
  Finding finding{Cause::precision_lost, 1};
  finding.formula = true;
  finding.stage = Stage::softmax;
  finding.evidence = {
      std::string("P is truncated to ") + name_of(type) +
          ", not rounded: each value of O is within its bound, all of them lean to one side",
      "of what that takes off, O lacks " + number_text(100 * share, 3) + " % (+- " +
          number_text(100 * error, 2) + " %), over " + std::to_string(values) + " values"};
  return finding;
}

std::optional<Diagnosis> diagnose_truncation(const Dump& dump) {
  const std::optional<Finding> found = find_truncation(dump);
  if (!found) return std::nullopt;
  Diagnosis diagnosis;
  diagnosis.first.emplace();
  diagnosis.first->site = SiteId::o_final;
  diagnosis.first->stage = *found->stage;
  diagnosis.first->block = 0;
  diagnosis.cause = found->cause;
  diagnosis.certain = found->certain();
  diagnosis.evidence = found->evidence;
  return diagnosis;
}

}  // namespace lanescope
