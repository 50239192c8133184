#include "debug/dump/site_slots.h"

#include <cmath>
#include <limits>

namespace lanescope {

SiteSlots::SiteSlots(const Dump& dump, const DumpSite& entry, bool sums_lanes)
    : entry_(entry),
      tensor_(*dump.find(name_of(entry.site.id))),
      coordinates_(entry.site.space == Space::registers ? entry.coordinates.data() : nullptr),
      blocks_(dump.info.blocks),
      tiles_(entry.site.per_tile ? dump.info.tiles : Range{0, 1}),
      count_(entry.site.bytes() / size_of(entry.site.type)),
      sums_lanes_((sums_lanes || dump.info.lane_sums) && entry.site.id == SiteId::l) {}

bool SiteSlots::holds(std::int64_t block, std::int64_t tile) const {
  return blocks_.contains(block) && (!site().per_tile || tiles_.contains(tile));
}

std::int64_t SiteSlots::first(std::int64_t block, std::int64_t tile) const {
  const std::int64_t own_tile = site().per_tile ? tile - tiles_.begin : 0;
  return ((block - blocks_.begin) * tiles_.count() + own_tile) * count_;
}

Holder SiteSlots::holder(std::int64_t slot) const {
  if (site().space == Space::registers) {
    const std::int64_t thread = slot / site().regs;
    return {thread / 32, thread % 32, slot % site().regs};
  }
  if (entry_.owners.empty()) return {};
  const std::int64_t thread = entry_.owners[static_cast<std::size_t>(slot)];
  return thread < 0 ? Holder{} : Holder{thread / 32, thread % 32, -1};
}

std::int64_t SiteSlots::slot_of(std::int64_t wanted_row, std::int64_t wanted_col) const {
  for (std::int64_t slot = 0; slot < count_; ++slot) {
    if (row(slot) == wanted_row && col(slot) == wanted_col) return slot;
  }
  return -1;
}

bool SiteSlots::untouched(std::int64_t block, std::int64_t tile) const {
  const std::int64_t begin = first(block, tile);
  for (std::int64_t slot = 0; slot < count_; ++slot) {
    if (!is_unwritten(tensor_, begin + slot)) return false;
  }
  return true;
}

bool SiteSlots::whole(std::int64_t block, std::int64_t tile, std::int64_t rows) const {
  const std::int64_t begin = first(block, tile);
  for (std::int64_t slot = 0; slot < count_; ++slot) {
    const bool counts = row(slot) >= 0 && row(slot) < rows;
    if (counts && is_unwritten(tensor_, begin + slot)) return false;
  }
  return true;
}

bool SiteSlots::finite_from(std::int64_t block, std::int64_t tile, std::int64_t first_row) const {
  const std::int64_t begin = first(block, tile);
  for (std::int64_t slot = 0; slot < count_; ++slot) {
    if (row(slot) < first_row || is_unwritten(tensor_, begin + slot)) continue;
    if (!std::isfinite(tensor_.at(begin + slot))) return false;
  }
  return true;
}

reference::Array SiteSlots::elements(std::int64_t block, std::int64_t tile,
                                     std::int64_t rows) const {
  std::vector<double> held(static_cast<std::size_t>(count_));
  tensor_.read(first(block, tile), held);
  reference::Array tile_values =
      reference::Array::Constant(rows, site().cols, std::numeric_limits<double>::quiet_NaN());
  for (std::int64_t slot = count_ - 1; slot >= 0; --slot) {  // the first slot has the last word
    const int at = row(slot);
    if (at < 0 || at >= rows) continue;
    double& value = tile_values(at, col(slot));
    const bool adds = sums_lanes_ && !std::isnan(value);
    value = held[static_cast<std::size_t>(slot)] + (adds ? value : 0);
  }
  return tile_values;
}

}  // namespace lanescope
