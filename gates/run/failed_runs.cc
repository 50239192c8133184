#include "gates/run/failed_runs.h"

#include <algorithm>

namespace lanescope {

bool FailedRun::is_explained_by(Cause cause) const {
  const auto is_it = [&](const Finding& rival) { return rival.cause == cause; };
  return (diagnosis.certain && diagnosis.cause == cause) ||
         std::any_of(diagnosis.rivals.begin(), diagnosis.rivals.end(), is_it);
}

std::ptrdiff_t FailedRuns::explained_by(Cause cause) const {
  return std::count_if(runs_.begin(), runs_.end(),
                       [&](const FailedRun& run) { return run.is_explained_by(cause); });
}

const FailedRun* FailedRuns::take_what_explains_most(Diagnosis& diagnosis) const {
  if (runs_.empty() || !diagnosis.memory.empty() || diagnosis.by_end) return nullptr;
  const FailedRun* best = nullptr;
  Cause cause = diagnosis.cause;
  std::ptrdiff_t most = diagnosis.certain ? explained_by(cause) : 0;
  const auto weigh = [&](const FailedRun& run, Cause other) {
    if (!run.is_explained_by(other) || explained_by(other) <= most) return;
    most = explained_by(other);
    cause = other;
    best = &run;
  };
  for (const FailedRun& run : runs_) {
    weigh(run, run.diagnosis.cause);
    for (const Finding& rival : run.diagnosis.rivals) weigh(run, rival.cause);
  }
  // Numbers that are rough everywhere may be those of a bug here or there.
  const auto is_rough = [](const FailedRun& run) {
    return run.diagnosis.cause == Cause::precision_lost;
  };
  const auto rough = std::ranges::count_if(runs_, is_rough), all = std::ssize(runs_);
  if (cause != Cause::precision_lost && 3 * rough > all && 4 * most < all) {
    best = &*std::ranges::find_if(runs_, is_rough);
    diagnosis = best->diagnosis;
    return best;
  }
  if (best) {
    diagnosis = best->diagnosis;
    name_rival(diagnosis, cause);
  }
  std::erase_if(diagnosis.rivals,
                [&](const Finding& rival) { return explained_by(rival.cause) < most; });
  return best;
}

std::vector<RunOptions> FailedRuns::options(const RunOptions& first) const {
  std::vector<RunOptions> all;
  if (!runs_.empty()) all.push_back(first);
  for (const FailedRun& run : runs_) all.push_back(run.options);
  return all;
}

void FailedRuns::doubt(Diagnosis& diagnosis) const {
  for (const FailedRun& run : runs_) {
    if (!diagnosis.certain || !diagnosis.memory.empty() || diagnosis.by_end) return;
    if (run.is_explained_by(diagnosis.cause)) continue;
    diagnosis.certain = false;
    diagnosis.evidence.push_back("not certain: it does not explain what is wrong with " + run.text);
  }
}

}  // namespace lanescope
