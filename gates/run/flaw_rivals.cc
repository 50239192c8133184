#include "gates/run/flaw_rivals.h"

#include <algorithm>
#include <string>
#include <utility>

#include "debug/causes/flaw_contest.h"
#include "debug/judge/diff.h"
#include "debug/report/suggested_command.h"
#include "gates/run/launch.h"
#include "gates/run/locate_numbers.h"
#include "gates/run/options_text.h"
#include "reference/error.h"
#include "reference/inputs.h"

namespace lanescope {
namespace {

/// Further runs that are made to separate flaws, and flaws of other causes that are told.
constexpr int most_runs = 4;
constexpr std::size_t most_told = 3;

/// What gives all outputs needs no other that gives those of a part of them alone.
bool is_needless(const Finding& other, const Finding& named) {
  return other.in_part && !named.in_part;
}

/// Whether both say the same, of the same operand.
bool is_same(const Finding& a, const Finding& b) {
  return a.cause == b.cause && a.stage == b.stage && taker_of(a.flaw) == taker_of(b.flaw);
}

/// What a run of the probe would have for inputs, as a dump like `known`.
Dump inputs_of_run(const PreparedRun& run, const Dump& known) {
  Dump dump;
  dump.info = known.info;
  dump.info.problem = run.request.problem;
  dump.info.dtype = run.module->dtype;
  dump.info.br = run.module->br;
  dump.info.bc = run.module->bc;
  const Inputs inputs = !run.request.inputs.q.dims.empty()
                            ? run.request.inputs
                            : generate_inputs(run.request.problem, run.module->dtype,
                                              run.request.input, run.request.seed);
  dump.tensors = {{"q", inputs.q}, {"k", inputs.k}, {"v", inputs.v}};
  if (inputs.scaled()) {
    dump.tensors.push_back({"q_scale", inputs.q_scale});
    dump.tensors.push_back({"k_scale", inputs.k_scale});
    dump.tensors.push_back({"v_scale", inputs.v_scale});
  }
  return dump;
}

/// What the runs say of a flaw: how many wrong ones it explains; of each right one, whether its
/// problem can have it, and whether it would be wrong with it.
struct Standing {
  std::ptrdiff_t explained = 0;
  std::ptrdiff_t missed = 0;  ///< values of those
  std::vector<bool> possible, refuted;

  bool stands(const std::vector<bool>& counts) const {
    for (std::size_t run = 0; run < refuted.size(); ++run) {
      if (counts[run] && refuted[run]) return false;
    }
    return true;
  }
};

/// The flaws that explain most runs and are refuted by none. A right run that none of those can
/// have does not speak for them: bugs show under conditions, so what it alone refutes stands beside
/// them.
std::vector<std::size_t> best_of(const std::vector<Standing>& standing) {
  std::vector<bool> counts(standing.front().refuted.size(), true);
  std::ptrdiff_t most = 0;
  for (const Standing& flaw : standing) {
    if (flaw.stands(counts)) most = std::max(most, flaw.explained);
  }
  std::vector<std::size_t> best;
  if (most == 0) return best;
  std::vector<bool> spoken(counts.size(), false);
  for (const Standing& flaw : standing) {
    if (flaw.explained != most || !flaw.stands(counts)) continue;
    for (std::size_t run = 0; run < spoken.size(); ++run) {
      if (flaw.possible[run]) spoken[run] = true;
    }
  }
  for (std::size_t i = 0; i < standing.size(); ++i) {
    if (standing[i].explained >= most && standing[i].stands(spoken)) best.push_back(i);
  }
  return best;
}

}  // namespace

void FlawRivals::add(Dump dump, const std::optional<Divergence>& first,
                     const std::vector<Finding>& flaws) {
  runs_.push_back({std::move(dump), first});
  for (const Finding& flaw : flaws) {
    const auto same = std::find_if(flaws_.begin(), flaws_.end(), [&](const Finding& other) {
      return other.flaw == flaw.flaw && other.in_part == flaw.in_part;
    });
    if (same == flaws_.end()) flaws_.push_back(flaw);
  }
}

void FlawRivals::doubt(Location& location) const {
  for (const Run& run : runs_) {
    if (!run.first || FlawContest(run.dump).explains(flaws_.front(), *run.first)) continue;
    const Problem& problem = run.dump.info.problem;
    location.unexplained = problem;
    location.diagnosis->certain = false;
    location.diagnosis->evidence.push_back(
        "not certain: it does not explain all that is wrong with --shape " + shape_option(problem) +
        (problem.causal ? " --causal" : "") + ", where a second bug may show");
    return;
  }
}

std::vector<Finding> FlawRivals::rivals() const {
  std::vector<Finding> others;
  for (const Finding& flaw : flaws_) {
    const bool known = is_same(flaw, flaws_.front()) || is_needless(flaw, flaws_.front()) ||
                       std::any_of(others.begin(), others.end(),
                                   [&](const Finding& other) { return is_same(flaw, other); });
    if (!known) others.push_back(flaw);
  }
  return others;
}

bool FlawRivals::settle(const std::vector<Probe>& probes, Location& location) {
  if (flaws_.empty()) return false;
  std::vector<Standing> standing(flaws_.size());
  for (const Run& run : runs_) {
    FlawContest contest(run.dump);
    for (std::size_t i = 0; i < flaws_.size(); ++i) {
      if (run.first) {
        const bool explains = contest.explains(flaws_[i], *run.first);
        standing[i].explained += explains;
        if (explains) standing[i].missed += contest.missed(flaws_[i], *run.first);
      } else {
        standing[i].possible.push_back(contest.can_have(flaws_[i]));
        standing[i].refuted.push_back(contest.shows(flaws_[i]));
      }
    }
  }
  std::vector<std::size_t> best = best_of(standing);
  if (best.empty()) return false;
  // Of two that say as much, what exchanges keys before or behind the mask differs in few values.
  std::ranges::stable_sort(
      best, {}, [&](std::size_t i) { return std::pair(flaws_[i].bits, standing[i].missed); });
  std::vector<Finding> kept;
  for (const std::size_t i : best) kept.push_back(flaws_[i]);
  flaws_ = std::move(kept);
  for (int i = 0; i < most_runs && !rivals().empty() && separate(probes, location); ++i) continue;
  std::vector<Finding> others = rivals();
  if (others.size() > most_told) others.resize(most_told);
  name_flaw(*location.diagnosis, flaws_.front(), others);
  const auto own = std::ssize(runs_);
  if (tell_another(probes, location)) return true;
  // Too little may be wrong in runs that were made for a second bug: they are no reason for doubt.
  runs_.erase(runs_.begin() + own, runs_.end());
  doubt(location);
  return true;
}

bool FlawRivals::is_run(const std::string& text, const Location& location) const {
  return std::find(refused_.begin(), refused_.end(), text) != refused_.end() ||
         std::any_of(location.runs.begin(), location.runs.end(),
                     [&](const LocateRun& run) { return run.options == text; });
}

const FlawRivals::Run* FlawRivals::run_once(const Probe& probe, Location& location) {
  std::vector<std::string> shapes = {probe.options.shape};
  shapes.insert(shapes.end(), probe.other_shapes.begin(), probe.other_shapes.end());
  for (const std::string& shape : shapes) {
    RunOptions options = probe.options;
    options.shape = shape;
    try {
      const PreparedRun run = prepare(options);
      const std::string text = options_text(options, run.request.problem);
      if (is_run(text, location)) return nullptr;
      Dump dump = launch(*run.module, run.module_name, run.request);
      const DiffReport report = diff_against_reference(dump);
      if (dump.info.broke_off() || report.unsettled) return nullptr;
      location.runs.push_back({text, probe.about, report.match, false});
      runs_.push_back({std::move(dump), report.match ? std::nullopt : report.first});
      return &runs_.back();
    } catch (const UsageError&) {
      continue;  // the kernel does not take it
    }
  }
  return nullptr;
}

bool FlawRivals::tell_another_of(const Run& run, Location& location) const {
  if (!run.first) return false;
  FlawContest contest(run.dump);
  if (contest.explains(flaws_.front(), *run.first)) return false;
  const std::optional<Finding> other = contest.beside(flaws_.front(), *run.first);
  if (!other) return false;
  Diagnosis second;
  second.first = run.first;
  second.first->stage = *other->stage;
  second.cause = other->cause;
  second.certain = other->certain();
  second.evidence = other->evidence;
  location.others.push_back(std::move(second));
  return true;
}

bool FlawRivals::tell_another(const std::vector<Probe>& probes, Location& location) {
  const Finding& named = flaws_.front();
  if (named.other_cause) {
    Diagnosis second;
    second.first = location.diagnosis->first;
    second.first->stage = *named.other_stage;
    second.cause = *named.other_cause;
    second.certain = location.diagnosis->certain;
    second.evidence = {"the outputs are those of both: " + named.evidence.front()};
    location.others.push_back(std::move(second));
    return true;
  }
  for (const Run& run : runs_) {
    if (tell_another_of(run, location)) return true;
  }
  for (const Probe& probe : probes) {
    if (!probe.broad) continue;
    const Run* const run = run_once(probe, location);
    if (run && tell_another_of(*run, location)) return true;
  }
  return false;
}

bool FlawRivals::separate(const std::vector<Probe>& probes, Location& location) {
  const std::vector<Finding> others = rivals();
  std::ptrdiff_t most = 0;
  std::optional<PreparedRun> best;
  std::string text;
  for (const Probe& probe : probes) {
    if (probe.large) continue;
    try {
      PreparedRun run = prepare(probe.options);
      const std::string options = options_text(probe.options, run.request.problem);
      if (is_run(options, location)) continue;
      const Dump inputs = inputs_of_run(run, runs_.front().dump);
      FlawContest contest(inputs);
      const auto differing = std::count_if(others.begin(), others.end(), [&](const Finding& other) {
        return contest.differ(flaws_.front(), other);
      });
      if (differing <= most) continue;
      most = differing;
      best = std::move(run);
      text = options;
      if (most == std::ssize(others)) break;
    } catch (const UsageError&) {
      continue;  // the kernel is not built for such a problem
    }
  }
  if (!best) return false;
  Dump dump;
  try {
    dump = launch(*best->module, best->module_name, best->request);
  } catch (const UsageError&) {  // the kernel does not take it: another may do
    refused_.push_back(text);
    return true;
  }
  const DiffReport report = diff_against_reference(dump);
  if (dump.info.broke_off() || report.unsettled) return false;
  location.runs.push_back({text, "tells apart what explains the others", report.match, false});
  runs_.push_back({std::move(dump), report.match ? std::nullopt : report.first});
  FlawContest contest(runs_.back().dump);
  std::vector<Finding> kept;
  std::copy_if(flaws_.begin(), flaws_.end(), std::back_inserter(kept), [&](const Finding& flaw) {
    return runs_.back().first ? contest.explains(flaw, *runs_.back().first) : !contest.shows(flaw);
  });
  if (kept.empty()) return false;
  const bool fewer = kept.size() < flaws_.size();
  flaws_ = std::move(kept);
  return fewer;
}

}  // namespace lanescope
