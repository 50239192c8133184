#include "gates/run/taken_runs.h"

#include <algorithm>
#include <utility>

#include "debug/causes/output_variants.h"
#include "debug/causes/truncation.h"
#include "debug/dump/dump.h"
#include "debug/judge/find_recurrence.h"
#include "gates/run/memory_beside_values.h"

namespace lanescope {
namespace {

bool outputs_hold(const DiffReport& report) {
  return std::all_of(report.sites.begin(), report.sites.end(), [](const SiteReport& site) {
    return !is_output(site.site) || site.failed == 0;
  });
}

/// Whether a kernel may go through another recurrence where its values differ first.
bool may_be_recurrence(const DumpInfo& info, const DiffReport& report) {
  if (info.rescale.above > 0 || !report.first) return false;  // held to what it declares
  return report.first->site >= SiteId::s && report.first->site <= SiteId::o;
}

}  // namespace

bool TakenRuns::take(const ProbeRun& run, const Probe& probe) {
  const auto& [dump, report, text, traits] = run;
  const std::optional<Recurrence> recurrence =
      dump.info.is_traced() ? report.recurrence
                            : find_output_variant(dump, report, location_.recurrence);
  const bool variant = !strict_ && recurrence && take_variant(*recurrence, probe);
  runs_.note(run, probe, variant);
  if (report.match) {
    always_taken_.merge(decisions_of(dump));
    right_.push_back(dump.info);
    if (!dump.info.is_traced() && !probe.large) {
      rivals_.add(dump, std::nullopt, {});
      look_for_truncation(dump, text);
    }
    if (location_.diagnosis) refute(*location_.diagnosis, dump.info);
  }
  traced_ = dump.info.is_traced();
  last_failed_ = !(report.match || report.unsettled || variant);
  if (!last_failed_) return false;
  Diagnosis diagnosis = diagnose(dump, report, breadth_in(dump.info.problem));
  unexplained_ += diagnosis.flaws.empty();
  longest_ = std::max(longest_, dump.info.problem.len_kv);
  for (const DumpInfo& right : right_) refute(diagnosis, right);
  const bool harmless = outputs_hold(report);
  // What leaves the outputs right may be a recurrence of its own: a run that is wrong tells.
  if (harmless && may_be_recurrence(dump.info, report)) diagnosis.certain = false;
  if (!dump.info.is_traced()) {
    failed_runs_.add({text, probe.options, diagnosis});
    rivals_.add(dump, report.first, diagnosis.flaws);
  }
  if (location_.diagnosis && confirm_unwritten(diagnosis, *location_.diagnosis)) return false;
  // A row, or split, that sees no key is no cause of what is wrong where there are none.
  const Problem& problem = dump.info.problem;
  const bool all_see = !problem.causal && dump.info.splits * dump.info.bc <= problem.len_kv;
  fails_where_all_see_ = fails_where_all_see_ || all_see;
  const bool of_mask =
      diagnosis.cause == Cause::masked_row_unguarded || diagnosis.cause == Cause::divided_by_zero;
  if (of_mask && fails_where_all_see_) diagnosis.certain = false;
  const bool names_it = location_.diagnosis && location_.diagnosis->cause == Cause::unexplained &&
                        diagnosis.cause != Cause::unexplained;
  const bool tells_more =
      (diagnosis.sure() && location_.diagnosis && !location_.diagnosis->sure()) ||
      (outputs_right_ && !harmless) || names_it;
  if (location_.diagnosis && !tells_more) return false;
  location_.diagnosis = std::move(diagnosis);
  location_.options = text;
  failed_ = probe.options;
  outputs_right_ = harmless;
  const DumpSite* site = report.first ? dump.find_site(name_of(report.first->site)) : nullptr;
  lanes_skip_ = std::ranges::any_of(report.sites, [&](const SiteReport& later) {
    const DumpSite* of = run.dump.find_site(name_of(later.site));
    return later.unwritten > 0 && later.stage > Stage::load && later.stage < Stage::epilogue &&
           of && of->site.space == Space::registers;
  });
  in_shared_ = site && site->site.space == Space::shared;
  return true;
}

/// What no bug explains in so many problems, those that are composed do in no other, and in twice
/// as many none, but where more keys may tell more; very many take long.
Breadth TakenRuns::breadth_in(const Problem& problem) const {
  constexpr int most_unexplained = 4;
  constexpr std::int64_t many = 512, very_many = 1024;
  const std::int64_t most = unexplained_ == 0 ? very_many : many;
  const bool is_longer = problem.len_kv > longest_ && problem.len_kv <= many;
  if (unexplained_ >= 2 * most_unexplained && !is_longer) return Breadth::none;
  if (unexplained_ >= most_unexplained) return Breadth::single;
  return problem.len_kv <= most ? Breadth::all : Breadth::but_composed;
}

/// In the first run that has enough values.
void TakenRuns::look_for_truncation(const Dump& dump, const std::string& text) {
  if (truncation_ || dump.info.input != "random") return;
  truncation_ = diagnose_truncation(dump);
  truncated_options_ = text;
}

void TakenRuns::take_truncation() {
  if (!truncation_) return;
  location_.diagnosis = truncation_;
  location_.options = truncated_options_;
}

/// A run whose outputs are right though its inner values are another recurrence's: true where that
/// may be the recurrence of the other runs.
bool TakenRuns::take_variant(const Recurrence& recurrence, const Probe& probe) {
  if (!location_.recurrence) {
    location_.recurrence = recurrence;
    variant_probe_ = probe;
    return true;
  }
  if (!location_.recurrence->agrees(recurrence)) return false;
  location_.recurrence->merge(recurrence);
  return true;
}

void TakenRuns::settle_variant() {
  if (!location_.recurrence) return;
  location_.recurrence->merge(always_taken_.decisions);
  if (location_.recurrence->is_settled()) return;
  strict_ = true;
  runs_.forget_variants();
  const std::vector<std::string> unsettled = location_.recurrence->differences();
  location_.recurrence.reset();
  if (const std::optional<ProbeRun> run = runs_.run(variant_probe_)) take(*run, variant_probe_);
  for (const std::string& line : unsettled) {
    location_.diagnosis->evidence.push_back("outputs are right on " +
                                            std::to_string(runs_.traits().size()) +
                                            " inputs, but it may go wrong on others: " + line);
  }
}

void TakenRuns::take_what_explains_most() {
  const FailedRun* const run = failed_runs_.take_what_explains_most(*location_.diagnosis);
  if (!run) return;
  location_.options = run->text;
  failed_ = run->options;
}

}  // namespace lanescope
