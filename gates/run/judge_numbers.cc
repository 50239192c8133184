#include "gates/run/judge_numbers.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "debug/text/text.h"
#include "gates/run/factor_fit.h"
#include "gates/run/number_parts.h"
#include "gates/run/term_truth.h"

namespace lanescope {
namespace {

using Set = Provenance::Set;
using Term = Provenance::Term;
using Unit = Provenance::Unit;

class NumberJudging {
 public:
  NumberJudging(const Provenance& provenance, const Problem& problem, const Inputs& inputs,
                const WrongRows& wrong, bool rough)
      : provenance_(provenance),
        p_(problem),
        truth_(problem, inputs),
        wrong_(wrong.rows.begin(), wrong.rows.end()),
        inputs_are_scaled_(inputs.scaled()),
        any_log_sum_(wrong.any_log_sum),
        rough_(rough) {
    // Of several instructions for a line the last one of a kind makes the number: expf and logf put
    // theirs together of parts. With it, those that do the same for other elements.
    std::set<Key> done;
    for (std::size_t i = provenance.made.size(); i-- > 0;) {
      const Provenance::Made& made = provenance.made[i];
      std::set<Key> own;
      for (const auto& number : made.values) {
        const Term& term = number.second;
        const Key key(made.line, term.kind);
        Provenance::Made& last = last_[key];
        last.line = made.line;
        const auto is_it = [&](const auto& other) { return are_same(other.second, term); };
        if (!own.contains(key) && std::ranges::any_of(last.values, is_it)) done.insert(key);
        own.insert(key);
        if (!done.contains(key)) last.values.push_back(number);
      }
    }
  }

  /// The first kind of numbers that an instruction makes wrong.
  std::optional<std::string> first_wrong_kind(const Provenance::Made& made) {
    std::set<std::string> kinds;
    for (const auto& [value, term] : made.values) kinds.insert(term.kind);
    for (const std::string& kind : kinds) {
      // A log-sum-exp that is rough has nothing of O in it.
      if (kind == "output" && rough_ && any_log_sum_) continue;
      const Judged own = judge(made, kind);
      if (own.fault || (!own.is_known && judge_all(made.line, kind).fault)) return kind;
    }
    return std::nullopt;
  }

  /// What the last instruction of a line makes of a kind.
  std::optional<TermFault> judge_last(const std::string& line, const std::string& kind) {
    Judged judged = judge_all(line, kind);
    if (judged.fault && judged.fault->cause == Cause::unexplained) split(line, kind, judged);
    return judged.fault;
  }

  /// Whether some line makes weights of scores that are right.
  bool makes_right_weights() { return makes_right("weight"); }

 private:
  using Key = std::pair<std::string, std::string>;  ///< a line, a kind
  static bool are_same(const Term& a, const Term& b) {
    return a.row == b.row && a.key == b.key && a.column == b.column && a.a == b.a && a.b == b.b &&
           a.set == b.set;
  }

  struct Judged {
    std::optional<TermFault> fault;
    FactorFit fit;
    bool is_known = false;  ///< there are enough numbers
  };
  /// All that the last instructions of a line make of a kind.
  const Judged& judge_all(const std::string& line, const std::string& kind) {
    const auto [known, is_new] = judged_.try_emplace({line, kind});
    if (is_new) known->second = judge(last_[{line, kind}], kind);
    return known->second;
  }
  Judged judge(const Provenance::Made& made, const std::string& kind) {
    std::vector<FittedNumber> pairs, with_scales;  // with the scales of e4m3, which differ by head
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
        const double scale = scale_of(term);
        with_scales.push_back({pairs.back().got, *want * scale, of * scale});
        combines = combines || (weight && term.a.kind == Unit::Kind::log_sum);
      }
    }
    if (pairs.size() < 4) return {};
    FactorFit fit = fit_of(pairs);
    if (const FactorFit with = fit_of(with_scales); with.error < fit.error) fit = with;
    // All weights may have one factor, which O and l share.
    if (kind == "weight" && !(fit.error <= 0.03)) {
      if (const FactorFit moved = fit_of_logarithms(pairs); moved.error < fit.error) fit = moved;
    }
    return {judge(made.line, kind, fit, combines), fit, true};
  }

  /// Of all that a line makes, whether parts have factors of their own.
  void split(const std::string& line, const std::string& kind, Judged& judged) {
    TermFault& fault = *judged.fault;
    std::vector<std::pair<double, Term>> numbers;
    for (const Provenance::Made& made : provenance_.made) {
      if (made.line != line) continue;
      for (const auto& [got, term] : made.values) {
        const bool counts = term.kind == kind && wrong_.contains(term.row) &&
                            !(kind == "score" && is_masked(term)) &&
                            !(kind == "weight" && !(got > 0));
        if (counts) numbers.emplace_back(got, term);
      }
    }
    if (const auto parts = factors_of_parts(numbers, p_, truth_)) {
      fault.cause = parts->cause;
      fault.evidence.push_back(parts->text);
      return;
    }
    // Of other elements, or fewer, they would be off by as much as they are.
    constexpr double nearly = 0.1;
    const bool is_product = kind == "score" || kind == "output";
    if (!is_product || !(judged.fit.error <= nearly)) return;
    // What l is multiplied with as well may be off, and not the product.
    if (kind == "output" && !makes_right_sums()) {
      fault.or_stage = Stage::softmax;
      return;
    }
    fault.cause = Cause::precision_lost;
    fault.evidence.emplace_back("so little is off where what is multiplied has too few bits");
  }

  /// Whether a factor of sums is that of weights.
  bool is_of_weights(double factor) {
    if (is_near(factor, 1)) return true;
    return std::ranges::any_of(provenance_.made, [&](const Provenance::Made& made) {
      const Judged& judged = judge_all(made.line, "weight");
      return judged.is_known && !judged.fault && is_near(factor, judged.fit.of_all);
    });
  }
  bool makes_right_sums() { return makes_right("sum"); }
  bool makes_right(const std::string& kind) {
    return std::ranges::any_of(provenance_.made, [&](const Provenance::Made& made) {
      const Judged& judged = judge_all(made.line, kind);
      return judged.is_known && !judged.fault;
    });
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

  /// What a kernel may have put into it of the inputs' scales.
  double scale_of(const Term& term) const {
    if (term.kind == "score") return truth_.scales_of(term.row, term.key);
    if (term.kind == "output" && !term.set.empty())
      return truth_.v_scale_of(term.set.begin()->first);
    return 1;
  }

  std::optional<TermFault> judge(const std::string& line, const std::string& kind,
                                 const FactorFit& fit, bool combines) {
    // P of e4m3 may be off by 1/16 in each key.
    const double off = kind == "output" && inputs_are_scaled_ ? 0.2 : 0.03;
    constexpr double coarsest = 0x1p-8;  // of differences of what is rounded to bf16
    const double least = rough_ ? 3e-5 : off;
    // Scores are in whatever unit; O of e4m3 is in that of V's scale.
    const bool any_factor = kind == "score" || kind == "output";
    // logf takes subnormal numbers times 2^23.
    constexpr double subnormal = 0x1p23;
    const bool in_logarithm =
        kind == "sum" && (is_of_weights(fit.factor) || is_of_weights(fit.factor / subnormal));
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

  const Provenance& provenance_;
  const Problem& p_;
  TermTruth truth_;
  std::set<std::int64_t> wrong_;
  bool inputs_are_scaled_, any_log_sum_, rough_;
  std::map<Key, Provenance::Made> last_;  ///< of those that do the same
  std::map<Key, Judged> judged_;          ///< those
};

}  // namespace

std::optional<TermFault> judge_numbers(const Provenance& provenance, const Problem& problem,
                                       const Inputs& inputs, const WrongRows& wrong, bool rough) {
  NumberJudging judging(provenance, problem, inputs, wrong, rough);
  // Sums are made of weights, and these of scores: who is wrong first may be wrong because of them,
  // as what was summed up so far is rescaled.
  const auto rank = [](const TermFault& fault) {
    return fault.of_weights ? 1 : fault.stage == Stage::qk ? 0 : 2;
  };
  std::optional<TermFault> first;
  for (const Provenance::Made& made : provenance.made) {
    const std::optional<std::string> kind = judging.first_wrong_kind(made);
    if (!kind) continue;
    std::optional<TermFault> fault = judging.judge_last(made.line, *kind);
    if (fault && (!first || rank(*fault) < rank(*first))) first = std::move(fault);
  }
  // Where other weights are right, so are the scores, and their scale.
  const bool of_scores = first && first->of_weights && first->stage == Stage::qk;
  if (of_scores && judging.makes_right_weights()) first->stage = Stage::softmax;
  return first;
}

}  // namespace lanescope
