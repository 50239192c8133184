#include "debug/judge/judge_by_recurrences.h"

#include <algorithm>
#include <cmath>

#include "debug/judge/judge.h"
#include "debug/judge/recurrence_parts.h"
#include "debug/judge/visits.h"

namespace lanescope {
namespace {

/// From the last tile to the first, of a gate that is given P and alpha: nothing else shows when a
/// tile was visited.
std::optional<Recurrence> downwards(const DumpInfo& info) {
  if (info.gate != name_of(Gate::pv_only) || info.kv_tiles() < 2) return std::nullopt;
  Recurrence recurrence;
  for (std::int64_t tile = info.kv_tiles(); tile-- > 0;) recurrence.order.push_back(tile);
  return recurrence;
}

/// From the number that m held before the first tile of any block.
std::optional<Recurrence> from_another_start(const Dump& dump) {
  const Judge judge(dump);
  const Range& blocks = dump.info.blocks;
  for (std::int64_t block = blocks.begin; block < blocks.end; ++block) {
    const auto visits = visits_of(judge, block, false);
    if (!visits) return std::nullopt;
    if (visits->empty()) continue;
    Recurrence recurrence;
    recurrence.start = start_of(*visits);
    if (!std::isfinite(recurrence.start)) return std::nullopt;
    return recurrence;
  }
  return std::nullopt;
}

bool outputs_differ(const DiffReport& report) {
  return std::ranges::any_of(
      report.sites, [](const SiteReport& site) { return is_output(site.site) && site.failed > 0; });
}

}  // namespace

std::optional<Recurrence> judge_by_recurrences(const Dump& dump, const DiffReport& report,
                                               const std::vector<std::int64_t>& row_tiles,
                                               int threads) {
  const DumpInfo& info = dump.info;
  const bool whole = info.tiles == Range{0, info.kv_tiles()} && info.incomplete.empty();
  if (!whole || outputs_differ(report)) return std::nullopt;
  const bool declares = info.rescale.above > 0;
  std::optional<Recurrence> other = declares ? from_another_start(dump) : downwards(info);
  if (!other) return std::nullopt;
  other->of_maxima = declares;  // a start is of the maxima alone
  const DiffReport judged = diff_row_tiles(dump, row_tiles, threads, {}, &*other);
  // Of rows that see no key, bounds may say nothing from a finite start.
  if (!judged.match && !(declares && judged.unsettled)) return std::nullopt;
  other->of_maxima = false;
  return other;
}

}  // namespace lanescope
