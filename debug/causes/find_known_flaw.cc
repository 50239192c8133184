#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "debug/causes/carried_rows.h"
#include "debug/causes/detectors.h"
#include "debug/causes/flaw_families.h"
#include "debug/causes/flaw_trial.h"
#include "debug/causes/near_flaws.h"
#include "debug/causes/output_variants.h"
#include "debug/causes/phrases.h"
#include "reference/parallel.h"

namespace lanescope {

namespace {

/// One output of the rows alone, wrong rows first.
std::vector<OutputRow> of_output(std::vector<OutputRow> rows, SiteId site) {
  for (OutputRow& row : rows) {
    const int of_lse = row.lse && row.lse->wrong() ? 1 : 0;
    row.wrong_values = site == SiteId::lse ? of_lse : row.wrong_values - of_lse;
    if (site == SiteId::o_final) row.lse.reset();
    if (site != SiteId::lse) continue;
    row.o.clear();
    row.telling.clear();
  }
  std::stable_partition(rows.begin(), rows.end(), [](const OutputRow& row) { return row.wrong(); });
  return rows;
}

bool shows(const DumpInfo& info, SiteId id) {
  return std::any_of(info.sites.begin(), info.sites.end(),
                     [&](const DumpSite& entry) { return entry.site.id == id; });
}

/// The search for the known flaws that give a kernel's outputs.
class FlawSearch {
 public:
  FlawSearch(const Scene& scene, bool traced)
      : info_(scene.info()),
        traced_(traced),
        hides_sums_(traced && !shows(scene.info(), SiteId::l)),
        // Of a traced kernel, each output is judged by itself: the other may be right.
        rows_(output_rows(scene, traced ? std::optional(scene.site()) : std::nullopt)),
        breadth_(scene.breadth()),
        dump_(scene.dump()),
        inputs_(scene.dump()) {}

  void run(Findings& findings) {
    if (!may_be_explained(rows_)) return;
    const std::vector<Flaw> flaws = known_flaws(info_);
    attempt(flaws);
    if (fitting_.empty() && !traced_ && o_is_right()) {
      // m and l are right, too: what is left is how they are put together.
      if (const auto flaw = learned_log_sum(inputs_, rows_)) attempt({*flaw});
      if (fitting_.empty()) attempt_on_variant(flaws);
      tell(findings);
      return;
    }
    // Errors that a rounding explains nearly whole need no other flaw.
    if (fitting_.empty() && !traced_ &&
        take(nearest_rounding(flaws, 0.4, inputs_, rows_), findings)) {
      return;
    }
    if (fitting_.empty() && !traced_) attempt_on_variant(flaws);
    if (fitting_.empty() && !traced_ && lse_is_right()) {
      attempt(flaws_of_passes(flaws));
      of_pass_ = !fitting_.empty();
    }
    if (fitting_.empty() && !traced_) attempt_pairs(flaws, findings);
    if (fitting_.empty() && (!traced_ || hides_sums_) && breadth_ == Breadth::all &&
        !are_nearly_right()) {
      const std::vector<Flaw> composed = composed_flaws(info_);
      attempt(composed);
      if (fitting_.empty() && !traced_) attempt_on_variant(composed);
    }
    if (fitting_.empty() && !traced_) attempt(learned_flaws(inputs_, rows_));
    if (fitting_.empty() && !traced_ && !take(carried_over(dump_, inputs_, rows_), findings)) {
      take(nearest_rounding(flaws, 0.6, inputs_, rows_), findings);
      take(other_sum(inputs_, rows_, info_.splits), findings);
    }
    tell(findings);
  }

 private:
  struct Fit {
    Flaw flaw;
    FlawTrial trial;
    std::string part;                ///< of the outputs, in which alone the flaw is
    std::optional<Flaw> other = {};  ///< the second of two
    int choices() const { return flaw.choices + (part.empty() ? 0 : 2); }
  };

  /// What a traced kernel holds before the outputs is right: the first that differs are these. Of l
  /// that is so where it is shown.
  bool is_possible(const Flaw& flaw) const {
    return !traced_ || flaw.stage == Stage::epilogue ||
           (hides_sums_ && flaw.stage == Stage::softmax) ||
           (flaw.stage == Stage::combine && info_.splits > 1);
  }

  bool lse_is_right() const {
    return std::none_of(rows_.begin(), rows_.end(),
                        [](const OutputRow& row) { return row.lse && row.lse->wrong(); });
  }

  /// Whether all errors are as small as those of rounding to few bits: what composed flaws do,
  /// other keys or factors, is more.
  bool are_nearly_right() const {
    constexpr double most = 0.02;
    return std::ranges::all_of(rows_, [](const OutputRow& row) {
      double size = 0;
      for (const OutputValue& value : row.o) size = std::max(size, std::abs(value.want));
      const auto is_near = [](const OutputValue& value, double scale) {
        return !value.wrong() || std::abs(value.got - value.want) <= most * scale;
      };
      return std::ranges::all_of(row.o, [&](const OutputValue& v) { return is_near(v, size); }) &&
             (!row.lse || is_near(*row.lse, 1));
    });
  }

  bool o_is_right() const {
    return std::all_of(rows_.begin(), rows_.end(), [](const OutputRow& row) {
      return row.wrong_values == (row.lse && row.lse->wrong() ? 1 : 0);
    });
  }

  void attempt(const std::vector<Flaw>& flaws) {
    // Each core takes its own of them, with what it has computed of the inputs.
    const auto cores = std::max<std::size_t>(1, std::thread::hardware_concurrency());
    while (others_.size() + 1 < cores) others_.push_back(std::make_unique<PlanInputs>(dump_));
    std::vector<FlawTrial> trials(flaws.size());
    reference::parallel_for(static_cast<std::int64_t>(cores), 0, [&](std::int64_t core) {
      const auto first = static_cast<std::size_t>(core);
      PlanInputs& inputs = first == 0 ? inputs_ : *others_[first - 1];
      for (std::size_t i = first; i < flaws.size(); i += cores) {
        if (is_possible(flaws[i])) trials[i] = try_flaw(flaws[i], inputs, rows_);
      }
    });
    for (std::size_t i = 0; i < flaws.size(); ++i) {
      const FlawTrial& trial = trials[i];
      if (!trial.explains()) continue;
      const std::string part = trial.wins() ? "" : trial.part(info_.br, info_.problem.d);
      if (!trial.wins() && part.empty()) continue;
      fitting_.push_back({flaws[i], trial, part});
      // O has the right sums: they are wrong where the log-sum-exp is made of them.
      Stage& stage = fitting_.back().flaw.stage;
      if (!trial.wins() && trial.is_of_lse_alone()) stage = std::max(stage, Stage::epilogue);
    }
  }

  void all_go_by(const Recurrence& variant) {
    go_by(variant, inputs_);
    for (const auto& other : others_) go_by(variant, *other);
  }

  /// A kernel that rounds elsewhere, which is no fault, and has a flaw besides.
  void attempt_on_variant(std::vector<Flaw> flaws) {
    if (breadth_ == Breadth::single) return;
    const std::vector<OutputRow> rows = rows_;
    // Of errors that small, few flaws are given up soon, and only roundings give them.
    if (are_nearly_right()) {
      std::erase_if(flaws, [](const Flaw& flaw) { return flaw.cause != Cause::precision_lost; });
    }
    for (const Recurrence& variant : variants_of_one_output(inputs_, rows)) {
      all_go_by(variant);
      rows_ = judged_by(inputs_, rows);
      attempt(flaws);
      if (fitting_.empty()) continue;
      variant_ = variant;
      return;
    }
    all_go_by({});
    rows_ = rows;
  }

  /// Two flaws, the first of which gives one of the outputs by itself. Where no second does, that
  /// one is suspected.
  void attempt_pairs(const std::vector<Flaw>& flaws, Findings& findings) {
    constexpr std::size_t most = 4;
    for (const SiteId site : {SiteId::o_final, SiteId::lse}) {
      const std::vector<OutputRow> alone = of_output(rows_, site);
      if (!may_be_explained(alone)) continue;
      std::vector<const Flaw*> firsts;
      for (const Flaw& flaw : flaws) {
        if (try_flaw(flaw, inputs_, alone).wins()) firsts.push_back(&flaw);
      }
      std::stable_sort(firsts.begin(), firsts.end(),
                       [](const Flaw* a, const Flaw* b) { return a->choices < b->choices; });
      for (std::size_t i = 0; i < std::min(most, firsts.size()) && fitting_.empty(); ++i) {
        for (const Flaw& other : flaws) {
          const Flaw both = both_of(*firsts[i], other);
          const FlawTrial trial = try_flaw(both, inputs_, rows_);
          if (trial.wins()) fitting_.push_back({both, trial, "", other});
        }
      }
      if (!fitting_.empty()) return;
      if (!firsts.empty()) suspect(*firsts.front(), site, findings);
    }
  }

  static void suspect(const Flaw& flaw, SiteId site, Findings& findings) {
    Finding finding{flaw.cause, 0.9};
    finding.stage = flaw.stage;
    finding.evidence = {std::string(site == SiteId::lse ? "the log-sum-exp" : "O") +
                        " is that of attention " + flaw.text + "; " +
                        (site == SiteId::lse ? "O" : "the log-sum-exp") + " is not"};
    findings.push_back(finding);
  }

  static bool take(std::optional<Finding> finding, Findings& findings) {
    if (!finding) return false;
    findings.push_back(std::move(*finding));
    return true;
  }

  void tell(Findings& findings) {
    std::stable_sort(fitting_.begin(), fitting_.end(),
                     [](const Fit& a, const Fit& b) { return a.choices() < b.choices(); });
    for (const Fit& fit : fitting_) {
      // Of a traced kernel the rows are of one output alone: the simplest say enough.
      if (traced_ && fit.choices() > fitting_.front().choices()) break;
      findings.push_back(finding_of(fit));
    }
  }

  Finding finding_of(const Fit& fit) const {
    const auto& [flaw, trial, part, other] = fit;
    Finding finding{flaw.cause, static_cast<double>(trial.explained) / trial.decisive};
    // In a part, the others are as they should be.
    const bool consistent = trial.right == 0 || !part.empty();
    finding.consistent = consistent ? 1 : static_cast<double>(trial.predicted) / trial.right;
    // All values of a row share what its weights are off by.
    constexpr std::size_t fewest_rows = 3;
    if (rows_.size() < fewest_rows && finding.certain()) finding.explained = 0.97;
    finding.flaw = flaw.text;
    finding.in_part = !part.empty();
    finding.of_pass = of_pass_;
    finding.formula = true;
    finding.says_which = says_which(rows_);
    // Longer ones may stand when other runs have refuted these, and do not compete before.
    finding.bits += 4 * fit.choices() + (fit.choices() > fitting_.front().choices() ? 16 : 0);
    if (!traced_ || hides_sums_) finding.stage = flaw.stage;
    // What is loaded of K and V, all rows have: in some of them the product takes it wrongly.
    const bool of_keys = flaw.text.find('Q') == flaw.text.npos;
    if (finding.stage == Stage::load && of_keys && part.find("rows") != part.npos) {
      finding.stage = Stage::pv;
    }
    // Weights that are right in l go wrong on their way into O.
    if (finding.stage && *finding.stage < Stage::pv && part == "O") finding.stage = Stage::pv;
    finding.evidence = {"the outputs are those of attention " + flaw.text +
                            (part.empty() ? "" : ", in " + part + " alone"),
                        share_text(trial.explained, trial.decisive) + " wrong values and " +
                            share_text(part.empty() ? trial.predicted : trial.right, trial.right) +
                            " others follow from that, in " + std::to_string(rows_.size()) +
                            " rows"};
    if (variant_) {
      for (const std::string& line : variant_->differences()) {
        finding.evidence.push_back("apart from that, which is no fault: " + line);
      }
    }
    if (other) {
      finding.other_cause = other->cause;
      finding.other_stage = other->stage;
    }
    return finding;
  }

  const DumpInfo& info_;
  bool traced_;
  bool hides_sums_;       ///< it is traced, but for l
  bool of_pass_ = false;  ///< what fits is of scores that are made once more
  std::vector<OutputRow> rows_;
  Breadth breadth_;
  const Dump& dump_;
  PlanInputs inputs_;
  std::vector<std::unique_ptr<PlanInputs>> others_;  ///< of the other cores
  std::vector<Fit> fitting_;
  std::optional<Recurrence> variant_;  ///< the kernel's, where it is known
};

}  // namespace

void find_known_flaw(const Scene& scene, Findings& findings) {
  if (!scene.at_end() || scene.judge().gate() != Gate::fused) return;
  if (scene.breadth() == Breadth::none) return;
  FlawSearch(scene, scene.info().is_traced()).run(findings);
}

}  // namespace lanescope
