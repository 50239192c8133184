#include "gates/run/probe_runs.h"

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>

#include "debug/report/suggested_command.h"
#include "gates/run/presets.h"
#include "reference/error.h"

namespace lanescope {

namespace {

/// What a module says of a problem that it does not take, without its name.
std::string reason_in(const std::string& refusal) {
  const std::string words = " refuses this run: ";
  const std::size_t at = refusal.find(words);
  return at == refusal.npos ? refusal : refusal.substr(at + words.size());
}

}  // namespace

std::optional<ProbeRun> ProbeRuns::run(const Probe& probe) {
  refused_.clear();
  ProbeRun own;
  try {
    const PreparedRun run = prepare(probe.options);
    own.dump = launch(*run.module, run.module_name, run.request);
    own.traits = traits_of(probe.options, own.dump.info.problem, *run.module);
    kernel_ = run.module->kernel;
    marked_ptx_ = run.module->marked_ptx ? run.module->marked_ptx : "";
    module_name_ = run.module_name;
  } catch (const UsageError& error) {  // the kernel is not built for such a problem
    if (probe.about == as_given) throw;
    refused_ = error.what();
    if (std::find(refusals_.begin(), refusals_.end(), refused_) == refusals_.end()) {
      refusals_.push_back(refused_);
    }
    return std::nullopt;
  } catch (const EnvironmentError& error) {  // no memory, or no module
    if (location_.runs.empty()) throw;
    location_.not_tried.push_back(probe.about + ": " + error.what());
    return std::nullopt;
  }
  own.report = diff_against_reference(own.dump, threads_);
  own.text = options_text(probe.options, own.dump.info.problem);
  texts_.insert(own.text);
  const Problem& problem = own.dump.info.problem;
  const std::pair lengths(problem.len_q, problem.len_kv);
  if (std::ranges::find(taken_, lengths) == taken_.end()) taken_.push_back(lengths);
  location_.backend = own.dump.info.backend;
  location_.shown.clear();
  for (const DumpSite& entry : own.dump.info.sites) location_.shown.push_back(entry.site.id);
  return own;
}

std::optional<ProbeRun> ProbeRuns::run_nearest(Probe& probe) {
  const RunOptions asked = probe.options;
  std::vector<std::string> whys;
  const auto try_it = [&] {
    std::optional<ProbeRun> ran = run(probe);
    const std::string why = reason_in(refused_);
    const bool is_new = std::find(whys.begin(), whys.end(), why) == whys.end();
    if (!why.empty() && is_new) whys.push_back(why);
    return ran;
  };
  std::optional<ProbeRun> own = try_it();
  const auto try_others = [&] {
    for (const std::string& other : probe.other_shapes) {
      if (refused_.empty()) return;
      probe.options.shape = other;
      own = try_it();
    }
  };
  try_others();
  // Of the lengths that it is known to take, with what else was asked for.
  for (std::size_t i = 0; !refused_.empty() && i <= probe.other_shapes.size(); ++i) {
    const std::string& shape = i == 0 ? asked.shape : probe.other_shapes[i - 1];
    for (std::size_t taken = 0; !refused_.empty() && taken < taken_.size() && !shape.empty();
         ++taken) {
      Problem problem = parse_shape(asked.preset, shape, asked.causal);
      std::tie(problem.len_q, problem.len_kv) = taken_[taken];
      probe.options.shape = shape_option(problem);
      if (!texts_.contains(options_text(probe.options, problem))) own = run(probe);
    }
  }
  if (!refused_.empty() && !asked.causal) {
    probe.options = asked;
    probe.options.causal = true;
    own = run(probe);
    try_others();
  }
  if (refused_.empty()) return own;
  probe.options = asked;
  std::string all;
  for (const std::string& why : whys) all += (all.empty() ? "" : "; ") + why;
  location_.not_tried.push_back(probe.about + ": refused: " + all);
  return std::nullopt;
}

void ProbeRuns::note(const ProbeRun& run, const Probe& probe, bool variant) {
  location_.runs.push_back({run.text, probe.about, run.report.match, false, variant});
  traits_.push_back({run.text, run.traits, run.report.match || variant, variant});
}

void ProbeRuns::forget_variants() {
  for (LocateRun& run : location_.runs) run.variant = false;
  for (RunTraits& run : traits_) run.match = run.match && !run.variant;
}

std::string ProbeRuns::refusals() const {
  std::string all;
  for (const std::string& reason : refusals_) all += (all.empty() ? "" : "; ") + reason;
  return all;
}

}  // namespace lanescope
