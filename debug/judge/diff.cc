#include "debug/judge/diff.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

#include "debug/dump/dump_check.h"
#include "debug/judge/compare.h"
#include "debug/judge/find_recurrence.h"
#include "debug/judge/judge.h"
#include "debug/judge/judge_by_recurrences.h"
#include "debug/judge/last_sites.h"
#include "debug/text/progress.h"
#include "reference/error.h"
#include "reference/parallel.h"

namespace lanescope {
namespace {

constexpr std::size_t rows_reported = 16;

/// The order of the data: what follows the last tile follows all tiles.
auto order_of(const Divergence& at, bool downwards) {
  const bool last = at.stage >= Stage::epilogue;
  const std::int64_t tile = last                        ? std::numeric_limits<std::int64_t>::max()
                            : at.site == SiteId::q_smem ? std::numeric_limits<std::int64_t>::min()
                            : downwards                 ? -at.tile
                                                        : at.tile;
  return std::tuple(tile, at.stage, at.site, at.block);
}

/// A local failure has no cause upstream, so it is named before any failure of the chain; what no
/// output depends on after all others.
void keep_earlier(std::optional<Divergence>& earliest, const std::optional<Divergence>& other,
                  bool downwards) {
  if (!other) return;
  const auto key = [&](const Divergence& at) {
    return std::tuple_cat(std::tuple(at.idle, at.judgement), order_of(at, downwards));
  };
  if (!earliest || key(*other) < key(*earliest)) earliest = other;
}

void keep_worst(std::vector<RowError>& rows) {
  const auto worse = [](const RowError& a, const RowError& b) {
    return std::tuple(-a.error_over_bound, -a.max_error, a.batch, a.head, a.query) <
           std::tuple(-b.error_over_bound, -b.max_error, b.batch, b.head, b.query);
  };
  const std::size_t kept = std::min(rows.size(), rows_reported);
  std::partial_sort(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(kept), rows.end(),
                    worse);
  rows.resize(kept);
}

/// Where something is wrong beside another recurrence, judges the rest by that.
void look_behind_softmax(const Dump& dump, const std::vector<std::int64_t>& row_tiles, int threads,
                         DiffReport& report) {
  const std::optional<Recurrence> softmax = follow_softmax(dump, report);
  if (!softmax) return;
  DiffReport rest = diff_row_tiles(dump, row_tiles, threads, {}, &*softmax);
  // That lanes have parts of a sum is right where they are put together in the end.
  const auto puts_together = [](const SiteReport& site) {
    return is_output(site.site) && site.judgement == Judgement::local && site.failed == 0;
  };
  if (softmax->sum_of_lanes && std::none_of(rest.sites.begin(), rest.sites.end(), puts_together)) {
    return;
  }
  if (!rest.first) return;
  report.first = rest.first;
  report.sites = rest.sites;
  report.softmax = softmax;
}

}  // namespace

DiffReport diff_against_reference(const Dump& dump, int threads) {
  check_dump(dump);
  std::vector<std::int64_t> row_tiles(static_cast<std::size_t>(dump.info.row_tiles()));
  std::iota(row_tiles.begin(), row_tiles.end(), 0);
  DiffReport report = diff_row_tiles(dump, row_tiles, threads);
  add_remarks(dump, report);
  if (report.first && report.contradictions.empty() && !report.rounded) {
    report.recurrence = find_recurrence(dump, report);
    if (!report.recurrence)
      report.recurrence = judge_by_recurrences(dump, report, row_tiles, threads);
    if (!report.recurrence) look_behind_softmax(dump, row_tiles, threads, report);
  }
  return report;
}

DiffReport diff_row_tiles(const Dump& dump, const std::vector<std::int64_t>& row_tiles, int threads,
                          const JudgeObserver& observer, const Recurrence* softmax) {
  check_dump(dump);
  const Judge judge(dump, softmax);
  std::vector<RowTileVerdict> verdicts(row_tiles.size());
  Progress progress("judging", std::ssize(row_tiles), "row tiles");
  reference::parallel_for(std::ssize(row_tiles), threads, [&](std::int64_t i) {
    const auto index = static_cast<std::size_t>(i);
    verdicts[index] = judge.judge(row_tiles[index], observer);
    progress.step();
  });

  DiffReport report;
  std::map<std::pair<SiteId, Judgement>, SiteReport> sites;
  std::map<SiteId, std::int64_t> untold;
  std::int64_t compared = 0, failed = 0;
  for (const RowTileVerdict& verdict : verdicts) {
    for (const auto& [key, site] : verdict.sites) {
      const auto [entry, is_new] = sites.try_emplace(key, site);
      if (!is_new) merge(entry->second, site);
      keep_earlier(report.first, site.first, judge.downwards());
      compared += site.compared;
      failed += site.failed;
    }
    for (const auto& [site, values] : verdict.untold) untold[site] += values;
    report.rows.insert(report.rows.end(), verdict.rows.begin(), verdict.rows.end());
  }
  if (compared == 0) {
    throw UsageError("the dump holds nothing to judge: no traced site of gate " + dump.info.gate +
                     " and no output");
  }
  for (auto& [key, site] : sites) report.sites.push_back(site);
  keep_worst(report.rows);
  if (dump.info.broke_off()) report.last_sites = last_sites(dump);
  for (const auto& [site, values] : untold) report.untold.push_back({site, values});
  const bool holds = failed == 0 && dump.info.incomplete.empty() && !judge.lacks_outputs();
  report.match = holds && untold.empty();
  report.unsettled = holds && !untold.empty();
  return report;
}

const char* verdict_of(const DiffReport& report) {
  return report.match       ? "match"
         : report.unsettled ? "unsettled"
         : report.holds()   ? "variant"
                            : "diverged";
}

}  // namespace lanescope
