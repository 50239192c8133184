#include "gates/run/telling_problems.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "debug/report/suggested_command.h"
#include "gates/run/known_numbers.h"
#include "gates/run/presets.h"

namespace lanescope {

namespace {

/// A problem that takes too long to follow, with fewer rows, then with fewer heads.
std::vector<RunOptions> smaller_ones(const RunOptions& failed) {
  constexpr std::int64_t most_products = std::int64_t{1} << 23, length = 64;
  std::vector<RunOptions> smaller;
  if (failed.input.ends_with(".safetensors") || failed.shape.empty()) return smaller;
  Problem problem = parse_shape(failed.preset, failed.shape, failed.causal);
  if (may_be_looked_for(problem, most_products)) return smaller;
  const auto add = [&] {
    RunOptions options = failed;
    options.preset.clear();
    options.shape = shape_option(problem);
    smaller.push_back(options);
  };
  problem.len_q = std::min(problem.len_q, length);
  problem.len_kv = std::min(problem.len_kv, length);
  add();
  problem.heads /= problem.heads_kv;
  problem.heads_kv = 1;
  add();
  return smaller;
}

}  // namespace

std::vector<RunOptions> wrong_problems(const RunOptions& given, const RunOptions& failed,
                                       std::vector<RunOptions> all_failed,
                                       const std::vector<Probe>& probes, const Location& location) {
  std::vector<RunOptions> all = std::move(all_failed);
  for (const Probe& probe : probes) {
    const bool is_wrong = std::ranges::any_of(location.runs, [&](const LocateRun& run) {
      return run.about == probe.about && !run.match && !run.checked && !run.limit;
    });
    const bool is_known = std::ranges::any_of(all, [&](const RunOptions& other) {
      return other.shape == probe.options.shape && other.input == probe.options.input &&
             other.causal == probe.options.causal;
    });
    if (is_wrong && !is_known) all.push_back(probe.options);
  }
  // Of inputs that are much alike, or few of which count, terms tell less; so does one row, which
  // others would be taken for.
  const auto rest = std::stable_partition(all.begin(), all.end(), [](const RunOptions& options) {
    const bool alone =
        !options.shape.empty() && parse_shape(options.preset, options.shape, false).len_q == 1;
    return options.input == "random" && !alone;
  });
  // What takes long to follow tells little more.
  std::stable_partition(all.begin(), rest, [](const RunOptions& options) {
    constexpr std::int64_t most_products = std::int64_t{3} << 18;
    return may_be_looked_for(parse_shape(options.preset, options.shape, options.causal),
                             most_products);
  });
  // What rows without keys are given, or left, follows from much else.
  std::stable_partition(all.begin(), rest, [](const RunOptions& options) {
    const Problem problem = parse_shape(options.preset, options.shape, options.causal);
    return !options.causal || problem.len_q <= problem.len_kv;
  });
  // Of the rest, what rows of heads that share keys make of each other no single head shows.
  std::stable_partition(rest, all.end(), [](const RunOptions& options) {
    const Problem problem = parse_shape(options.preset, options.shape, options.causal);
    return problem.heads > problem.heads_kv;
  });
  // What the cause does not explain, terms may.
  std::stable_partition(all.begin(), rest, [&](const RunOptions& options) {
    const std::optional<Problem>& open = location.unexplained;
    return open && options.causal == open->causal && !options.shape.empty() &&
           shape_option(parse_shape(options.preset, options.shape, options.causal)) ==
               shape_option(*open);
  });
  for (RunOptions& smaller : smaller_ones(failed)) all.insert(all.begin(), std::move(smaller));
  if (location.diagnosis->cause == Cause::out_of_bounds) {
    // Small enough to lie within what may be read and written beside the tensors.
    RunOptions small = given;
    small.shape = "b=3,h=4,hkv=2,s=20,skv=36";
    small.causal = failed.causal;
    all.insert(all.begin(), small);
  }
  for (const bool alike : {true, false}) {
    const std::size_t most = all.size() + 6;
    for (const Probe& probe : probes) {
      const bool is_alike = probe.options.causal == failed.causal;
      if (all.size() < most && is_alike == alike) all.push_back(probe.options);
    }
  }
  return all;
}

std::vector<RunOptions> right_problems(const std::vector<Probe>& probes, const Location& location) {
  std::vector<RunOptions> right;
  for (const Probe& probe : probes) {
    const bool matches = std::ranges::any_of(location.runs, [&](const LocateRun& run) {
      return run.about == probe.about && run.match && !run.checked;
    });
    if (matches && probe.options.input == "random" && !probe.options.shape.empty()) {
      right.push_back(probe.options);
    }
  }
  std::ranges::stable_sort(right, std::ranges::greater(), [](const RunOptions& options) {
    return parse_shape(options.preset, options.shape, false).len_kv;
  });
  return right;
}

}  // namespace lanescope
