#include "debug/judge/verdicts.h"

#include <algorithm>
#include <cmath>

#include "debug/judge/compare.h"
#include "debug/judge/tile_view.h"
#include "reference/error.h"

namespace lanescope {
namespace {

/// The outputs are a block's, not a tile's: the judge counts them as tile −1, views as tile 0.
std::int64_t viewed(std::int64_t tile) { return std::max<std::int64_t>(tile, 0); }

std::int64_t failures(const Tensor& tensor, const std::vector<Place>& places,
                      const TileWant& want) {
  return std::count_if(places.begin(), places.end(), [&](const Place& place) {
    const Verdict verdict = want.judge(tensor, place).verdict;
    return verdict == Verdict::wrong || verdict == Verdict::unwritten;
  });
}

}  // namespace

std::vector<Place> places_of(const Dump& dump, std::string_view name, std::int64_t block,
                             std::int64_t tile) {
  std::vector<Place> places;
  const DumpSite* entry = dump.find_site(name);
  if (entry != nullptr && entry->site.space == Space::registers) {
    const SiteSlots slots(dump, *entry);
    const std::int64_t first = slots.first(block, tile);
    for (std::int64_t slot = 0; slot < slots.count(); ++slot) {
      places.push_back({first + slot, slot, slots.row(slot), slots.col(slot)});
    }
    return places;
  }
  const TileView view = tile_view(dump, name, block, tile);
  for (std::int64_t row = 0; row < view.rows; ++row) {
    for (std::int64_t col = 0; col < view.cols; ++col) {
      places.push_back({view.index(row, col), row * view.cols + col, static_cast<int>(row),
                        static_cast<int>(col)});
    }
  }
  return places;
}

Judged TileWant::judge(const Tensor& tensor, const Place& place) const {
  const bool inside = Range{0, values.value.rows()}.contains(place.row) &&
                      Range{0, values.value.cols()}.contains(place.col);
  if (!inside) return {};
  Judged judged = {.want = values.value(place.row, place.col),
                   .bound = values.error(place.row, place.col)};
  if (is_unwritten(tensor, place.index)) {
    judged.verdict = Verdict::unwritten;
    judged.error = std::numeric_limits<double>::infinity();
    return judged;
  }
  const double got = tensor.at(place.index);
  if (truth && !std::isfinite(got) && std::isfinite(truth->value(place.row, place.col))) {
    judged.want = truth->value(place.row, place.col);
    judged.bound = truth->error(place.row, place.col);
  }
  const Comparison outcome = compare(got, judged.want, judged.bound);
  judged.verdict = outcome.holds ? Verdict::right : Verdict::wrong;
  judged.error = outcome.over_bound;
  return judged;
}

BlockWants::BlockWants(const Dump& dump, std::int64_t block,
                       const std::function<bool(SiteId)>& keep) {
  std::map<std::pair<SiteId, std::int64_t>, TileWant> chain;
  try {
    Judge(dump).judge(block / dump.info.splits,
                      [&](SiteId site, std::int64_t of, std::int64_t tile, Judgement judgement,
                          const reference::Bounded& want) {
                        // A lane's part of a sum has no reference of its own.
                        if (site == SiteId::l && dump.info.lane_sums) return;
                        if (!keep(site) || (of != block && !is_output(site))) return;
                        auto& wants = judgement == Judgement::local ? wants_ : chain;
                        wants.emplace(std::pair(site, viewed(tile)), TileWant{judgement, want});
                      });
  } catch (const UsageError& error) {
    missing_ = error.what();
    return;
  }
  for (auto& [key, want] : chain) {
    const auto local = wants_.find(key);
    if (local != wants_.end()) {
      const std::string_view name = name_of(key.first);
      const std::vector<Place> places = places_of(dump, name, block, key.second);
      const Tensor& tensor = *dump.find(name);
      if (failures(tensor, places, local->second) > 0 || failures(tensor, places, want) == 0) {
        local->second.truth = std::move(want.values);
        continue;
      }
    }
    wants_.insert_or_assign(key, std::move(want));
  }
}

const TileWant* BlockWants::find(std::string_view name, std::int64_t tile) const {
  const auto found = std::find_if(wants_.begin(), wants_.end(), [&](const auto& entry) {
    return name_of(entry.first.first) == name && entry.first.second == tile;
  });
  return found == wants_.end() ? nullptr : &found->second;
}

TileTally tally(const Tensor& tensor, const std::vector<Place>& places, const TileWant* want) {
  TileTally tally;
  std::pair<double, double> worst;
  for (const Place& place : places) {
    if (place.row < 0) continue;
    const Judged judged = want != nullptr ? want->judge(tensor, place) : Judged{};
    if (want != nullptr && judged.verdict == Verdict::unjudged) continue;  // padding
    if (is_unwritten(tensor, place.index)) {
      ++tally.unwritten;
    } else {
      tally.nan += std::isnan(tensor.at(place.index));
      tally.inf += std::isinf(tensor.at(place.index));
    }
    if (judged.verdict == Verdict::unjudged) continue;
    ++tally.judged;
    tally.wrong += judged.verdict != Verdict::right;
    // Where bounds are 0, every error is infinite in units of them.
    const double off = std::abs(tensor.at(place.index) - judged.want);
    const std::pair badness(judged.error, std::isnan(off) ? INFINITY : off);
    if (!tally.worst_place || badness > worst) {
      worst = badness;
      tally.worst = judged.error;
      tally.worst_place = place;
    }
  }
  return tally;
}

}  // namespace lanescope
