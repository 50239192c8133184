#include "gates/run/judge_numbers.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <set>
#include <string>
#include <utility>

#include "debug/text/text.h"
#include "gates/run/term_truth.h"
#include "reference/array.h"
#include "reference/solver.h"

namespace lanescope {
namespace {

using Set = Provenance::Set;
using Term = Provenance::Term;
using Unit = Provenance::Unit;

/// Numbers beside what they are times one factor, which the most of them have.
struct FactorFit {
  double factor = 1;
  double error = 0;     ///< the largest, over the typical number
  double rounding = 0;  ///< over the largest of those that they are differences of
};

/// A number, what it should be, and the larger one of those that it is the difference of.
struct Compared {
  double got, want, of;
};

FactorFit fit_of(const std::vector<Compared>& pairs) {
  double squares = 0, largest = 0;
  for (const auto& [got, want, of] : pairs) {
    squares += want * want;
    largest = std::max(largest, of);
  }
  const double typical = std::sqrt(squares / static_cast<double>(pairs.size()));
  std::vector<double> ratios;
  for (const auto& [got, want, of] : pairs) {
    if (std::abs(want) > 0.2 * typical) ratios.push_back(got / want);
  }
  if (ratios.empty()) return {};
  std::nth_element(ratios.begin(), ratios.begin() + std::ssize(ratios) / 2, ratios.end());
  FactorFit fit{ratios[ratios.size() / 2]};
  for (const auto& [got, want, of] : pairs) {
    const double error = std::abs(got / fit.factor - want);
    if (!(error / typical <= fit.error)) fit.error = error / typical;
    if (!(error / largest <= fit.rounding)) fit.rounding = error / largest;
  }
  return fit;
}

bool is_near(double x, double y) { return std::abs(x / y - 1) < 0.01; }

/// By which a factor of an exponent is off.
Cause cause_of_factor(double factor, std::int64_t d) {
  const double root = std::sqrt(static_cast<double>(d)), ln2 = std::numbers::ln2;
  if (is_near(factor, ln2) || is_near(factor, 1 / ln2)) return Cause::wrong_base;
  if (is_near(factor, root)) return Cause::scale_missing;
  if (is_near(factor, 1 / root)) return Cause::scale_repeated;
  return Cause::wrong_scale;
}

class NumberJudging {
 public:
  NumberJudging(const Problem& problem, const Inputs& inputs,
                const std::vector<std::int64_t>& wrong, bool rough)
      : p_(problem), truth_(problem, inputs), wrong_(wrong.begin(), wrong.end()), rough_(rough) {}

  /// The first kind of numbers that an instruction makes wrong.
  std::optional<std::string> first_wrong_kind(const Provenance::Made& made) {
    std::set<std::string> kinds;
    for (const auto& [value, term] : made.values) kinds.insert(term.kind);
    for (const std::string& kind : kinds) {
      if (judge(made, kind)) return kind;
    }
    return std::nullopt;
  }

  std::optional<TermFault> judge(const Provenance::Made& made, const std::string& kind) {
    std::vector<Compared> pairs;
    bool combines = false;
    for (const auto& [got, term] : made.values) {
      if (!wrong_.contains(term.row) || term.kind != kind) continue;
      if (kind == "score" && is_masked(term)) continue;
      const bool weight = kind == "weight";
      if (weight && !(got > 0)) continue;
      if (const auto want = want_of(term)) {
        const double of =
            weight ? std::max(std::abs(truth_.unit(term.a)), std::abs(truth_.unit(term.b)))
                   : std::abs(*want);
        pairs.push_back({weight ? std::log(got) : got, *want, of});
        combines = combines || (weight && term.a.kind == Unit::Kind::log_sum);
      }
    }
    if (pairs.size() < 4) return std::nullopt;
    const FactorFit fit = fit_of(pairs);
    auto fault = judge(made.line, kind, fit, combines);
    if (!fault || fault->cause != Cause::unexplained) return fault;
    if (kind == "score") split_columns(made, *fault);
    if (kind == "weight") split_units(made, *fault);
    // Of other elements, or fewer, they would be off by as much as they are.
    constexpr double nearly = 0.1;
    const bool is_product = kind == "score" || kind == "output";
    if (fault->cause == Cause::unexplained && is_product && fit.error <= nearly) {
      fault->cause = Cause::precision_lost;
      fault->evidence.emplace_back("so little is off where what is multiplied has too few bits");
    }
    return fault;
  }

 private:
  /// Scores in which some columns have another factor than the others: a factor for each part of
  /// the columns, by least squares.
  void split_columns(const Provenance::Made& made, TermFault& fault) {
    std::vector<std::pair<double, const Term*>> scores;
    for (const auto& [got, term] : made.values) {
      if (term.kind == "score" && wrong_.contains(term.row) && !is_masked(term))
        scores.emplace_back(got, &term);
    }
    const auto try_parts = [&](const char* name, std::int64_t parts, auto part_of) {
      const auto samples = static_cast<reference::Index>(scores.size());
      if (parts < 2 || samples < 2 * parts) return false;
      reference::Array products(parts, samples), got(1, samples);
      for (reference::Index i = 0; i < samples; ++i) {
        const auto& [value, term] = scores[static_cast<std::size_t>(i)];
        got(0, i) = value;
        for (std::int64_t part = 0; part < parts; ++part) {
          products(part, i) = truth_.product(
              term->row, term->key, [&](std::int64_t column) { return part_of(column) == part; });
        }
      }
      const auto solver = reference::solver(products, 1e-6);
      if (!solver) return false;
      std::vector<double> factors(static_cast<std::size_t>(parts));
      double squares = 0, rest = 0;
      for (reference::Index i = 0; i < samples; ++i) {
        for (std::size_t part = 0; part < factors.size(); ++part) {
          factors[part] += (*solver)(static_cast<reference::Index>(part), i) * got(0, i);
        }
      }
      for (reference::Index i = 0; i < samples; ++i) {
        double sum = -got(0, i);
        for (std::size_t part = 0; part < factors.size(); ++part) {
          sum += factors[part] * products(static_cast<reference::Index>(part), i);
        }
        squares += got(0, i) * got(0, i);
        rest += sum * sum;
      }
      if (!(rest <= 1e-4 * squares)) return false;
      // Each a multiple of the one before: a factor that is applied again and again.
      bool repeated = parts > 2;
      std::string text;
      for (std::size_t part = 0; part < factors.size(); ++part) {
        text += (part == 0 ? "" : ", ") + number_text(factors[part], 3);
        repeated = repeated && (part < 2 || is_near(factors[part] * factors[part - 2],
                                                    factors[part - 1] * factors[part - 1]));
      }
      fault.cause = repeated ? Cause::scale_repeated : Cause::wrong_scale;
      fault.evidence.push_back(std::string(name) + " count " + text + " times");
      return true;
    };
    const std::int64_t d = p_.d;
    // Lanes or loops that take columns by turns: of vectors of 2, 4 and 8.
    for (const std::int64_t turns : {2, 4, 8}) {
      const std::string name = "columns by turns of " + std::to_string(turns);
      if (try_parts(name.c_str(), turns, [=](std::int64_t i) { return i % turns; })) return;
    }
    for (const std::int64_t width : {d / 2, d / 4, std::int64_t{16}}) {
      const std::string name = "each " + std::to_string(width) + " columns";
      if (width > 0 && d % width == 0 &&
          try_parts(name.c_str(), d / width, [=](std::int64_t i) { return i / width; })) {
        return;
      }
    }
  }

  /// Weights whose two scores have factors of their own: one is in another base or scale.
  void split_units(const Provenance::Made& made, TermFault& fault) {
    double aa = 0, ab = 0, bb = 0, ag = 0, bg = 0, gg = 0;
    for (const auto& [got, term] : made.values) {
      if (term.kind != "weight" || !wrong_.contains(term.row) || !(got > 0)) continue;
      const double a = truth_.unit(term.a), b = -truth_.unit(term.b), g = std::log(got);
      aa += a * a, ab += a * b, bb += b * b, ag += a * g, bg += b * g, gg += g * g;
    }
    const double determinant = aa * bb - ab * ab;
    const double x = (ag * bb - bg * ab) / determinant, y = (bg * aa - ag * ab) / determinant;
    if (!(determinant > 0) || !(gg - x * ag - y * bg <= 1e-4 * gg) || is_near(x, y)) return;
    // The one that is not as it should be. Where it is the maximum, no input lacks its scale.
    fault.cause = cause_of_factor(is_near(x, 1) ? y : is_near(y, 1) ? x : x / y, p_.d);
    if (is_near(x, 1) && fault.cause != Cause::wrong_base) fault.cause = Cause::wrong_scale;
    fault.evidence.push_back("the score counts " + number_text(x, 4) +
                             " times in the exponent, the maximum " + number_text(y, 4) + " times");
  }

  /// Whatever is added to scores that count for nothing.
  bool is_masked(const Term& term) const {
    return term.key % p_.len_kv >= p_.visible_keys(term.row % p_.len_q);
  }

  /// What a number is; of a weight its logarithm. Nothing: of any unit, or not known.
  std::optional<double> want_of(const Term& term) {
    if (term.kind == "score") return truth_.product(term.row, term.key);
    if (term.kind == "weight") return truth_.unit(term.a) - truth_.unit(term.b);
    if (term.kind == "sum") return truth_.sum(term.row, term.set, truth_.unit(term.b));
    if (term.kind == "output") {
      return truth_.output(term.row, term.set, truth_.unit(term.b), term.column);
    }
    return std::nullopt;
  }

  std::optional<TermFault> judge(const std::string& line, const std::string& kind,
                                 const FactorFit& fit, bool combines) {
    constexpr double off = 0.03;
    constexpr double coarsest = 0x1p-8;  // of differences of what is rounded to bf16
    const double least = rough_ ? 3e-5 : off;
    // Scores are in whatever unit; O of e4m3 is in that of V's scale.
    const bool any_factor = kind == "score" || kind == "output";
    // logf takes subnormal numbers times 2^23.
    const bool in_logarithm = kind == "sum" && is_near(fit.factor, 0x1p23);
    const bool other_factor = !any_factor && !in_logarithm && !(std::abs(fit.factor - 1) <= 0.01);
    if (fit.error <= least && !other_factor) return std::nullopt;
    TermFault fault;
    fault.share = 1;
    fault.of_weights = kind == "weight" && !combines;
    fault.lines = {line};
    fault.stage = combines           ? Stage::combine
                  : kind == "score"  ? Stage::qk
                  : kind == "output" ? Stage::pv
                                     : Stage::softmax;
    const std::string what = kind == "score"    ? "scores"
                             : kind == "weight" ? "exponents of weights"
                             : kind == "output" ? "sums of P·V"
                                                : "sums of weights";
    if (fit.error <= off && other_factor) {
      fault.cause = cause_of_factor(fit.factor, p_.d);
      // The factor of an exponent is that of its scores, but for the base.
      if (fault.of_weights && fault.cause != Cause::wrong_base) fault.stage = Stage::qk;
      fault.evidence = {line + ": " + what + " are " + number_text(fit.factor, 6) +
                        " of what they should be"};
    } else if (fit.error <= off || fit.rounding <= coarsest) {
      fault.cause = Cause::precision_lost;
      fault.evidence = {line + ": " + what + " are off by " + number_text(fit.error, 2) +
                        " of a typical one: right but for rounding"};
    } else {
      const std::string off_by = std::isnan(fit.error)
                                     ? "some NaN"
                                     : "off by " + number_text(fit.error, 2) + " of a typical one";
      fault.evidence = {line + ": " + what + " are no multiples of what they should be, " + off_by +
                        "; before that, all are right"};
    }
    return fault;
  }

  const Problem& p_;
  TermTruth truth_;
  std::set<std::int64_t> wrong_;
  bool rough_;
};

}  // namespace

std::optional<TermFault> judge_numbers(const Provenance& provenance, const Problem& problem,
                                       const Inputs& inputs, const std::vector<std::int64_t>& wrong,
                                       bool rough) {
  NumberJudging judging(problem, inputs, wrong, rough);
  // Of several instructions for a line the last one of a kind makes the number: expf and logf put
  // theirs together of parts.
  std::map<std::pair<std::string, std::string>, const Provenance::Made*> last;
  for (const Provenance::Made& made : provenance.made) {
    for (const auto& [value, term] : made.values) last[{made.line, term.kind}] = &made;
  }
  // Sums are made of weights, and these of scores: who is wrong first may be wrong because of them,
  // as what was summed up so far is rescaled.
  const auto rank = [](const TermFault& fault) {
    return fault.of_weights ? 1 : fault.stage == Stage::qk ? 0 : 2;
  };
  std::optional<TermFault> first;
  for (const Provenance::Made& made : provenance.made) {
    const std::optional<std::string> kind = judging.first_wrong_kind(made);
    if (!kind) continue;
    std::optional<TermFault> fault = judging.judge(*last[{made.line, *kind}], *kind);
    if (fault && (!first || rank(*fault) < rank(*first))) first = std::move(fault);
  }
  return first;
}

}  // namespace lanescope
