#include "gates/sweep/bench_cells.h"

#include <chrono>
#include <memory>
#include <set>

#include "debug/text/progress.h"
#include "gates/build/module_build.h"
#include "gates/build/this_build.h"
#include "gates/measure/bench.h"
#include "reference/error.h"

namespace lanescope {
namespace {

RunOptions bench_options(const Cell& cell) {
  RunOptions options = options_of(cell);
  options.untraced = true;
  return options;
}

/// The median of the peer, on the inputs of the cell; nothing where it does not take the problem or
/// is wrong.
std::optional<double> time_of_peer(const Cell& cell, const std::string& peer, int repeats,
                                   Inputs& inputs, std::string& detail) {
  RunOptions options = bench_options(cell);
  options.kernel = peer;
  options.specimen.clear();
  options.dtype.clear();
  options.tile_shape.clear();
  try {
    std::vector<std::string> warnings;
    const BenchResult result = bench_one(options, repeats, inputs, warnings);
    if (result.is_right()) return result.time.median;
    detail = "the peer: " + result.fault;
  } catch (const UsageError& error) {
    detail = std::string("the peer: ") + error.what();
  }
  return std::nullopt;
}

CellResult bench_cell(const Cell& cell, const std::string& peer, int repeats) {
  CellResult result;
  result.cell = cell;
  result.version = this_build::version();
  const auto begin = std::chrono::steady_clock::now();
  try {
    std::vector<std::string> warnings;
    Inputs inputs;
    const BenchResult timed = bench_one(bench_options(cell), repeats, inputs, warnings);
    result.device = timed.device;
    if (timed.is_right()) {
      result.microseconds = timed.time.median;
    } else {
      result.outcome = Outcome::diverged;
      result.detail = timed.fault;
    }
    if (!peer.empty()) {
      result.peer_microseconds = time_of_peer(cell, peer, repeats, inputs, result.detail);
    }
  } catch (const UsageError& error) {
    result.outcome = Outcome::refused;
    result.detail = error.what();
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace

SweepReport bench_cells(const SweepOptions& options, const SweepPlan& plan, int repeats,
                        const std::string& peer) {
  SweepReport report;
  report.wanted = std::ssize(plan.indices);
  report.workers = 1;
  std::set<std::int64_t> done;
  std::unique_ptr<ResultFile> file;
  if (!options.output.empty()) {
    file = std::make_unique<ResultFile>(options.output);
    report.results = results_of_sweep(options.output, plan);
    for (const CellResult& result : report.results) done.insert(result.index);
  }
  std::vector<std::pair<std::int64_t, Cell>> missing;
  std::set<std::string> modules;
  for (const std::int64_t index : plan.indices) {
    if (done.contains(index)) continue;
    missing.emplace_back(index, draw_cell(plan.draw, static_cast<std::uint64_t>(index)));
    ModuleName name = module_of(missing.back().second);
    name.untraced = true;
    if (!missing.back().second.is_module_path()) modules.insert(name.text());
  }
  if (!modules.empty()) build_modules({modules.begin(), modules.end()});
  const auto begin = std::chrono::steady_clock::now();
  Progress progress("timing", std::ssize(missing), "cells");
  for (const auto& [index, cell] : missing) {
    CellResult result = bench_cell(cell, peer, repeats);
    result.index = index;
    result.sweep = plan.id;
    result.build = plan.build;
    if (file) file->add(result_line(result));
    report.results.push_back(std::move(result));
    progress.at(++report.run_now, std::ssize(missing));
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  summarise(report);
  return report;
}

}  // namespace lanescope
