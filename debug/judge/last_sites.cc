#include "debug/judge/last_sites.h"

#include <algorithm>
#include <map>
#include <utility>

#include "debug/dump/site_slots.h"
#include "debug/judge/order_of_sites.h"

namespace lanescope {
namespace {

class SiteSearch {
 public:
  /// Of one lane of a block, or of all.
  explicit SiteSearch(const Dump& dump, const Stop& lane = {})
      : dump_(dump), lane_(lane), warp_of_(static_cast<std::size_t>(dump.info.br), -1) {
    find_warps();
    for (const DumpSite& entry : dump.info.sites) {
      if (is_output(entry.site.id)) {
        if (lane.lane < 0) search_output(entry.site);
      } else {
        search_slots(SiteSlots(dump, entry));
      }
    }
  }

  std::vector<LastSite> result() const {
    std::vector<LastSite> all;
    std::int64_t warps = 0;
    for (const auto& [place, last] : last_) warps = std::max(warps, place.second + 1);
    const Range& blocks = dump_.info.blocks;
    for (std::int64_t block = blocks.begin; block < blocks.end; ++block) {
      const auto whole = last_.find({block, -1});
      if (whole != last_.end()) all.push_back(whole->second);
      for (std::int64_t warp = 0; warp < std::max(warps, std::int64_t{1}); ++warp) {
        const auto own = last_.find({block, warp});
        if (own != last_.end()) {
          all.push_back(own->second);
        } else if (warps > 0 || whole == last_.end()) {
          all.push_back({block, warps > 0 ? warp : -1, std::nullopt, -1});
        }
      }
    }
    return all;
  }

  std::vector<LastSite> of(std::int64_t block, std::int64_t warp) const {
    const auto own = last_.find({block, warp});
    if (own != last_.end()) return {own->second};
    return {{block, warp, std::nullopt, -1}};
  }

 private:
  /// A row of what is stored in global memory belongs to the warp that holds its row of O.
  void find_warps() {
    const DumpSite* o = dump_.find_site(name_of(SiteId::o));
    if (!o) return;
    const SiteSlots slots(dump_, *o);
    for (std::int64_t slot = 0; slot < slots.count(); ++slot) {
      const int row = slots.row(slot);
      if (row >= 0 && row < dump_.info.br)
        warp_of_[static_cast<std::size_t>(row)] = slots.holder(slot).warp;
    }
  }

  void reach(std::int64_t block, std::int64_t warp, const Site& site, std::int64_t tile) {
    if (!site.per_tile) tile = -1;
    const auto [entry, is_new] = last_.try_emplace({block, warp});
    LastSite& last = entry->second;
    const auto order = order_of(site, tile);
    if (!is_new && order < order_[{block, warp}]) return;
    last = {block, warp, site.id, tile};
    order_[{block, warp}] = order;
  }

  void search_slots(const SiteSlots& slots) {
    const Range tiles = slots.site().per_tile ? dump_.info.tiles : Range{0, 1};
    for (std::int64_t block = dump_.info.blocks.begin; block < dump_.info.blocks.end; ++block) {
      if (lane_.block >= 0 && block != lane_.block) continue;
      for (std::int64_t tile = tiles.begin; tile < tiles.end; ++tile) {
        const std::int64_t first = slots.first(block, tile);
        std::int64_t reached = -2;
        for (std::int64_t slot = 0; slot < slots.count(); ++slot) {
          if (is_unwritten(slots.tensor(), first + slot)) continue;
          const Holder holder = slots.holder(slot);
          const bool global = slots.site().space == Space::global;
          const std::int64_t warp =
              global ? warp_of_[static_cast<std::size_t>(slots.row(slot))] : holder.warp;
          if (warp == reached) continue;
          if (lane_.lane >= 0 && (warp != lane_.warp || holder.lane != lane_.lane)) continue;
          reached = warp;
          reach(block, warp, slots.site(), tile);
        }
      }
    }
  }

  /// Of an output, by the block that stores it: in two passes the first of those it combines.
  void search_output(const Site& site) {
    const DumpInfo& info = dump_.info;
    const Tensor& tensor = *dump_.find(name_of(site.id));
    const bool combined = site.stage == Stage::combine;
    const std::int64_t cols = tensor.size() / rows_of_outputs();
    for (std::int64_t block = info.blocks.begin; block < info.blocks.end; ++block) {
      const BlockPlace place = info.place(block);
      if (place.split != 0) continue;
      for (std::int64_t row = 0; row < info.rows(place); ++row) {
        for (std::int64_t col = 0; col < cols; ++col) {
          if (is_unwritten(tensor, (info.first_q_row(place) + row) * cols + col)) continue;
          reach(block, combined ? -1 : warp_of_[static_cast<std::size_t>(row)], site, -1);
          break;
        }
      }
    }
  }

  std::int64_t rows_of_outputs() const {
    const Problem& p = dump_.info.problem;
    return p.batch * p.heads * p.len_q;
  }

  const Dump& dump_;
  Stop lane_;
  std::vector<std::int64_t> warp_of_;  ///< the rows of a tile, −1: not known
  std::map<std::pair<std::int64_t, std::int64_t>, LastSite> last_;
  std::map<std::pair<std::int64_t, std::int64_t>, SiteOrder> order_;
};

std::string numbered_text(const char* what, std::int64_t first, std::int64_t last) {
  if (first == last) return std::string(what) + " " + std::to_string(first);
  return std::string(what) + "s " + std::to_string(first) + ".." + std::to_string(last);
}

std::string site_text(const LastSite& last) {
  if (!last.site) return "nothing";
  return name_of(*last.site) +
         (last.tile < 0 ? std::string() : " of tile " + std::to_string(last.tile));
}

/// "warps 0..2: p of tile 3; warp 3: nothing" of the sites of one block.
std::string block_text(const LastSite* begin, const LastSite* end) {
  const bool same = std::all_of(
      begin, end, [&](const LastSite& last) { return site_text(last) == site_text(*begin); });
  if (same) return (begin->site ? "every warp: " : "") + site_text(*begin);
  std::string text;
  for (const LastSite* first = begin; first < end;) {
    const LastSite* last = first;
    while (last + 1 < end && site_text(last[1]) == site_text(*first) && first->warp >= 0) ++last;
    text += text.empty() ? "" : "; ";
    text += first->warp < 0 ? "some warp: " : numbered_text("warp", first->warp, last->warp) + ": ";
    text += site_text(*first);
    first = last + 1;
  }
  return text;
}

}  // namespace

std::vector<LastSite> last_sites(const Dump& dump) {
  const Stop& stop = dump.info.stop;
  std::vector<LastSite> sites;
  if (stop.lane >= 0 && !stop.combining && dump.info.blocks.contains(stop.block)) {
    sites = SiteSearch(dump, stop).of(stop.block, stop.warp);
    sites[0].lane = stop.lane;
  }
  const std::vector<LastSite> all = SiteSearch(dump).result();
  sites.insert(sites.end(), all.begin(), all.end());
  return sites;
}

std::vector<std::string> last_site_lines(const std::vector<LastSite>& sites, std::size_t most) {
  struct Group {
    std::int64_t first, last;
    std::string text;
  };
  std::vector<Group> groups;
  std::vector<std::string> lines;
  const bool has_lane = !sites.empty() && sites[0].lane >= 0;
  if (has_lane) {
    lines.push_back("block " + std::to_string(sites[0].block) + ", warp " +
                    std::to_string(sites[0].warp) + ", lane " + std::to_string(sites[0].lane) +
                    ": " + site_text(sites[0]));
  }
  for (std::size_t begin = has_lane, end = has_lane; begin < sites.size(); begin = end) {
    while (end < sites.size() && sites[end].block == sites[begin].block) ++end;
    const std::string text = block_text(&sites[begin], sites.data() + end);
    const std::int64_t block = sites[begin].block;
    if (!groups.empty() && groups.back().text == text) {
      groups.back().last = block;
    } else {
      groups.push_back({block, block, text});
    }
  }
  for (std::size_t i = 0; i < groups.size() && i < most; ++i) {
    lines.push_back(numbered_text("block", groups[i].first, groups[i].last) + ": " +
                    groups[i].text);
  }
  if (groups.size() > most) {
    lines.push_back("and so on, up to block " + std::to_string(groups.back().last));
  }
  return lines;
}

}  // namespace lanescope
