// Where a run that broke off was.

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "debug/dump/site_slots.h"
#include "debug/judge/last_sites.h"
#include "debug/judge/order_of_sites.h"
#include "debug/judge/stopped_lanes.h"

namespace lanescope {
namespace {

/// Every site at every tile of the dump, in the order of the data.
std::vector<std::pair<SiteOrder, Site>> order_of_sites(const DumpInfo& info) {
  std::vector<std::pair<SiteOrder, Site>> all;
  for (const DumpSite& entry : info.sites) {
    const Range tiles = entry.site.per_tile ? info.tiles : Range{-1, 0};
    for (std::int64_t tile = tiles.begin; tile < tiles.end; ++tile) {
      all.push_back({order_of(entry.site, tile), entry.site});
    }
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return all;
}

/// Whether a warp holds some of a site, as far as that is known: of what is in global memory, or
/// not traced, it may. Outputs are stored by who holds O.
bool may_hold(const Dump& dump, const Site& site, std::int64_t warp) {
  const SiteId held = is_output(site.id) ? SiteId::o : site.id;
  const DumpSite* const entry = dump.find_site(name_of(held));
  if (!entry || entry->site.space == Space::global || warp < 0) return true;
  const SiteSlots slots(dump, *entry);
  for (std::int64_t slot = 0; slot < slots.count(); ++slot) {
    if (slots.holder(slot).warp == warp) return true;
  }
  return false;
}

/// Of the warp's lanes.
std::vector<StoppedLanes> lanes_of(const std::vector<StoppedLanes>& all, std::int64_t warp) {
  std::vector<StoppedLanes> own;
  std::ranges::copy_if(all, std::back_inserter(own), [&](const StoppedLanes& each) {
    return each.first_warp <= warp && warp <= each.last_warp;
  });
  return own;
}

bool waits_at_barrier(const std::vector<StoppedLanes>& all, std::int64_t warp) {
  return std::ranges::any_of(lanes_of(all, warp), [](const StoppedLanes& each) {
    return !each.runs && each.at_barrier();
  });
}

/// Whether lanes of the warp wait for each other, and none for anything else.
bool waits_for_itself(const std::vector<StoppedLanes>& all, std::int64_t warp) {
  const std::vector<StoppedLanes> own = lanes_of(all, warp);
  return !own.empty() && std::ranges::all_of(own, &StoppedLanes::in_warp);
}

}  // namespace

std::optional<Divergence> place_behind_last_site(const Dump& dump,
                                                 const std::vector<LastSite>& sites) {
  const Stop& stop = dump.info.stop;
  const std::vector<std::pair<SiteOrder, Site>> order = order_of_sites(dump.info);
  const auto place_at = [&](const SiteOrder& at, const Site& site, std::int64_t block,
                            std::int64_t warp) {
    Divergence place;
    place.site = site.id;
    place.stage = site.stage;
    place.judgement = Judgement::chain;
    place.block = block;
    place.tile = site.per_tile ? std::get<0>(at) : -1;
    place.warp = warp;
    place.lane = stop.lane;
    place.unwritten = true;
    return place;
  };
  if (stop.combining) {
    for (const auto& [at, site] : order) {
      if (site.stage == Stage::combine) return place_at(at, site, stop.block, stop.warp);
    }
  }
  std::optional<Divergence> place;
  std::optional<SiteOrder> earliest;
  const auto come_behind = [&](const LastSite& last) {
    const DumpSite* reached = last.site ? dump.find_site(name_of(*last.site)) : nullptr;
    const auto next = std::find_if(order.begin(), order.end(), [&](const auto& entry) {
      const bool is_later = !reached || entry.first > order_of(reached->site, last.tile);
      return is_later && may_hold(dump, entry.second, last.warp);
    });
    if (next == order.end() || (earliest && *earliest <= next->first)) return;
    earliest = next->first;
    place = place_at(next->first, next->second, last.block, last.warp);
  };
  // Who waits has come no further, even where it wrote nothing yet; others wait for a warp whose
  // lanes do for each other.
  const std::string& story = dump.info.incomplete;
  const std::vector<StoppedLanes> lanes = stopped_lanes(story);
  const std::int64_t waiting_block = block_of_deadlock(story);
  for (const auto waits : {waits_for_itself, waits_at_barrier}) {
    if (place || stop.block >= 0) break;
    for (const LastSite& last : sites) {
      if (last.block == waiting_block && waits(lanes, last.warp)) come_behind(last);
    }
  }
  const bool is_found = place.has_value();
  for (const LastSite& last : sites) {
    if (is_found) break;
    const bool named = last.block == stop.block && last.lane == stop.lane;
    if (stop.block >= 0 ? named : last.site.has_value()) come_behind(last);
  }
  // Where all that warps hold was written, they are on their way to the next item.
  for (const LastSite& last : sites) {
    if (place || stop.block >= 0 || !last.site) continue;
    const auto next = std::find_if(order.begin(), order.end(), [&](const auto& entry) {
      const Site& site = entry.second;
      return site.space == Space::registers && may_hold(dump, site, last.warp);
    });
    if (next != order.end()) place = place_at(next->first, next->second, last.block, last.warp);
  }
  const bool none_began = std::none_of(sites.begin(), sites.end(),
                                       [](const LastSite& last) { return last.site.has_value(); });
  if (!place && none_began && !sites.empty() && !order.empty()) {
    place = place_at(order.front().first, order.front().second, sites.front().block, -1);
  }
  return place;
}

}  // namespace lanescope
