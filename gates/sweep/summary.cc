#include <algorithm>
#include <map>
#include <set>

#include "gates/sweep/sweep.h"

namespace lanescope {
namespace {

bool is_cell(const CellResult& result) { return result.index >= 0; }

/// Values are wrong in cells that are compared, accesses in those under the memory checker: a rule
/// is of the former, unless only the latter fail.
std::vector<CellResult> comparable(std::vector<CellResult> results) {
  const bool compared = std::any_of(results.begin(), results.end(), [](const CellResult& result) {
    return result.failed() && !result.cell.checked;
  });
  std::erase_if(results, [&](const CellResult& result) { return result.cell.checked == compared; });
  return results;
}

/// By index; those tried behind them by their commands: in the same order, however they came.
void sort_results(std::vector<CellResult>& results) {
  std::vector<std::pair<std::string, CellResult>> tried;
  std::vector<CellResult> cells;
  for (CellResult& result : results) {
    if (is_cell(result)) {
      cells.push_back(std::move(result));
    } else {
      tried.emplace_back(command_of(result.cell), std::move(result));
    }
  }
  std::stable_sort(cells.begin(), cells.end(),
                   [](const CellResult& a, const CellResult& b) { return a.index < b.index; });
  std::stable_sort(tried.begin(), tried.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [command, result] : tried) cells.push_back(std::move(result));
  results = std::move(cells);
}

}  // namespace

std::int64_t SweepReport::count(Outcome outcome) const {
  return std::count_if(results.begin(), results.end(), [&](const CellResult& result) {
    return is_cell(result) && result.outcome == outcome;
  });
}

std::int64_t SweepReport::failing() const {
  return std::count_if(results.begin(), results.end(),
                       [](const CellResult& result) { return is_cell(result) && result.failed(); });
}

bool SweepReport::holds() const {
  return has_baseline ? newly_failing.empty() && changed_bits.empty() : failing() == 0;
}

void summarise(SweepReport& report) {
  sort_results(report.results);
  std::map<std::pair<std::string, std::string>, FailingWay> ways;
  std::set<std::string> kernels;
  for (const CellResult& result : report.results) {
    if (!result.failed()) continue;
    if (is_cell(result)) kernels.insert(result.cell.kernel);
    const auto [place, is_new] = ways.try_emplace({result.cell.kernel, result.way()}, FailingWay{});
    FailingWay& way = place->second;
    way.kernel = result.cell.kernel;
    way.way = result.way();
    way.cells += is_cell(result);
    way.tried += !is_cell(result);
    if (is_new || is_simpler(result.cell, way.smallest.cell)) way.smallest = result;
  }
  for (auto& [key, way] : ways) {
    if (way.cells > 0) report.ways.push_back(std::move(way));
  }
  std::stable_sort(report.ways.begin(), report.ways.end(),
                   [](const FailingWay& a, const FailingWay& b) { return a.cells > b.cells; });
  for (const std::string& kernel : kernels) {
    std::vector<CellResult> own;
    for (const CellResult& result : report.results) {
      if (result.cell.kernel == kernel) own.push_back(result);
    }
    report.rules.push_back({kernel, learn_rule(comparable(std::move(own)))});
  }
}

void compare_with(const std::vector<CellResult>& baseline, bool bits, SweepReport& report) {
  report.has_baseline = true;
  std::map<std::string, const CellResult*> known;
  for (const CellResult& result : baseline) known[command_of(result.cell)] = &result;
  for (const CellResult& result : report.results) {
    if (!is_cell(result)) continue;
    const auto place = known.find(command_of(result.cell));
    if (place == known.end()) {
      ++report.not_in_baseline;
      if (result.failed()) report.newly_failing.push_back(result);
      continue;
    }
    const CellResult& before = *place->second;
    if (result.failed() && !before.failed()) report.newly_failing.push_back(result);
    if (!result.failed() && before.failed()) report.newly_right.push_back(result);
    if (bits && !result.failed() && !before.bits.empty() && result.bits != before.bits) {
      report.changed_bits.push_back({before, result});
    }
  }
}

}  // namespace lanescope
