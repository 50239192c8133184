#include "gates/run/probe_runs.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "debug/report/suggested_command.h"
#include "gates/run/options_text.h"
#include "gates/run/presets.h"
#include "reference/error.h"

namespace lanescope {

namespace {

/// What a module says of a problem that it does not take, without its name and its file's.
std::string reason_in(const std::string& refusal) {
  std::string reason = refusal;
  for (const std::string words : {" refuses this run: ", ".launch.json: "}) {
    if (const std::size_t at = reason.find(words); at != reason.npos) {
      reason.erase(0, at + words.size());
    }
  }
  return reason;
}

/// Whatever its inputs are.
std::string problem_of(RunOptions options) {
  options.input = "random";
  return options_text(options);
}

}  // namespace

std::optional<ProbeRun> ProbeRuns::run(const Probe& probe) {
  const std::string problem = problem_of(probe.options);
  const auto known = refused_.find(problem);
  refusal_ = known == refused_.end() ? std::nullopt : std::optional(known->second);
  if (refusal_) return std::nullopt;
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
    refusal_ = {error.what(), dynamic_cast<const NotExecutedError*>(&error) != nullptr};
    refused_.emplace(problem, *refusal_);
    if (std::ranges::find(refusals_, refusal_->why) == refusals_.end()) {
      refusals_.push_back(refusal_->why);
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
  const Problem& taken = own.dump.info.problem;
  if (std::ranges::find(taken_, taken) == taken_.end()) taken_.push_back(taken);
  location_.backend = own.dump.info.backend;
  location_.shown.clear();
  for (const DumpSite& entry : own.dump.info.sites) location_.shown.push_back(entry.site.id);
  return own;
}

/// In the order in which they are tried: the shapes of the probe, also with more keys; with heads
/// that the kernel is known to take, or with usual numbers of them; of the lengths that it is known
/// to take.
std::vector<std::string> ProbeRuns::shapes_near(const Probe& probe) const {
  std::vector<Problem> shapes;
  std::vector<std::string> texts = {probe.options.shape};
  texts.insert(texts.end(), probe.other_shapes.begin(), probe.other_shapes.end());
  for (const std::string& text : texts) {
    if (!text.empty()) shapes.push_back(parse_shape(probe.options.preset, text, false));
  }
  std::vector<Problem> more_keys;
  for (const std::int64_t step : {64, 128}) {
    for (Problem shape : shapes) {
      const bool is_square = shape.len_q == shape.len_kv;
      if (shape.len_kv % step == 0) continue;
      shape.len_kv += step - shape.len_kv % step;
      if (is_square) shape.len_q = shape.len_kv;
      more_keys.push_back(shape);
    }
  }
  std::vector<Problem> of_known_lengths;
  for (Problem shape : shapes) {
    for (const Problem& taken : taken_) {
      shape.len_q = taken.len_q;
      shape.len_kv = taken.len_kv;
      of_known_lengths.push_back(shape);
    }
  }
  for (const std::vector<Problem>& some :
       {more_keys, with_known_heads(shapes), with_known_heads(more_keys), of_known_lengths,
        with_known_heads(of_known_lengths)}) {
    for (const Problem& shape : some) texts.push_back(shape_option(shape));
  }
  return texts;
}

/// Of a shape whose heads share keys, first as many that do as are known to, as often.
std::vector<Problem> ProbeRuns::with_known_heads(const std::vector<Problem>& shapes) const {
  std::vector<std::pair<std::int64_t, std::int64_t>> heads;
  const auto add = [](auto& all, const auto& one) {
    if (std::ranges::find(all, one) == all.end()) all.push_back(one);
  };
  std::vector<std::int64_t> groups;
  for (const Problem& taken : taken_) {
    if (taken.heads > 1) add(heads, std::pair(taken.heads, taken.heads_kv));
    if (taken.heads > 1) add(groups, taken.heads / taken.heads_kv);
  }
  // Compiled for a number of heads, or of those that share keys.
  if (taken_.empty())
    heads = {{2, 1}, {4, 1}, {8, 1}, {2, 2}, {4, 4}, {8, 8}, {8, 2}, {16, 16}, {32, 32}, {32, 8}};
  std::vector<Problem> all;
  for (const std::int64_t group : groups) {
    for (Problem shape : shapes) {
      const bool share_keys = shape.heads_kv > 1 && shape.heads > shape.heads_kv;
      if (!share_keys || shape.heads == group * shape.heads_kv) continue;
      shape.heads = group * shape.heads_kv;
      all.push_back(shape);
    }
  }
  for (const auto& [own, kv] : heads) {
    for (Problem shape : shapes) {
      shape.heads = own;
      shape.heads_kv = kv;
      all.push_back(shape);
    }
  }
  return all;
}

/// Whether what the kernel takes, the machine does not execute: others than a probe's own shapes
/// run the same code.
bool ProbeRuns::never_executed() const {
  return taken_.empty() &&
         std::ranges::any_of(refused_, [](const auto& known) { return known.second.not_executed; });
}

std::optional<ProbeRun> ProbeRuns::run_nearest(Probe& probe) {
  const RunOptions asked = probe.options;
  const std::vector<std::string> shapes = shapes_near(probe);
  const std::size_t own_shapes = 1 + probe.other_shapes.size();
  // What the probe is about, other lengths may not show.
  const auto keeps_lengths = [&](const std::string& shape) {
    const Problem own = parse_shape(asked.preset, shape, false);
    return std::any_of(shapes.begin(), shapes.begin() + static_cast<std::ptrdiff_t>(own_shapes),
                       [&](const std::string& other) {
                         const Problem meant = parse_shape(asked.preset, other, false);
                         return meant.len_q == own.len_q && meant.len_kv == own.len_kv;
                       });
  };
  std::vector<std::string> whys;
  for (const bool causal : {asked.causal, true}) {
    probe.options.causal = causal;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      if (i == own_shapes && never_executed()) break;
      probe.options.shape = shapes[i];
      // What it is known to take may have been run already.
      if (i >= own_shapes && texts_.contains(options_text(probe.options))) continue;
      std::optional<ProbeRun> own = run(probe);
      if (!refusal_) {
        if (own && !keeps_lengths(shapes[i])) probe.about = "nearest to " + probe.about;
        return own;
      }
      const std::string why = reason_in(refusal_->why);
      const bool is_new = std::ranges::find(whys, why) == whys.end();
      if ((causal == asked.causal || refusal_->not_executed) && is_new) whys.push_back(why);
      if (refusal_->not_executed) break;  // other heads and lengths run the same code
    }
    if (asked.causal || (refusal_ && refusal_->not_executed)) break;
  }
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
