#include <algorithm>
#include <cmath>

#include "debug/judge/tile_view.h"
#include "debug/report/report.h"
#include "debug/show/parts.h"

namespace lanescope {
namespace {

constexpr SiteId row_states[] = {SiteId::m_prev, SiteId::m, SiteId::alpha, SiteId::l};

/// The values of a row state and of P at one tile, slot by slot; NaN where nothing was written.
class Trace {
 public:
  Trace(const Dump& dump, std::int64_t block) : dump_(dump), block_(block) {}

  /// The value of `id` in the same slot as `slot` of another row state; nothing where it was not
  /// traced, or lies otherwise.
  std::optional<double> value(SiteId id, std::int64_t tile, std::int64_t slot) const {
    const DumpSite* entry = dump_.find_site(name_of(id));
    if (entry == nullptr || !dump_.info.tiles.contains(tile)) return std::nullopt;
    const SiteSlots slots(dump_, *entry);
    if (slot >= slots.count() || !slots.holds(block_, tile)) return std::nullopt;
    const std::int64_t index = slots.first(block_, tile) + slot;
    if (is_unwritten(slots.tensor(), index)) return std::nullopt;
    return slots.tensor().at(index);
  }

 private:
  const Dump& dump_;
  std::int64_t block_;
};

/// What the online softmax promises of the row that `slot` holds and does not keep at `tile`,
/// whatever the scores are: from the traced values alone, without rounding in it.
///   m never falls; m_prev is the m before; 0 <= alpha <= 1, 1 where m stays; l > 0; none is NaN
std::vector<std::string> broken_row(const Trace& trace, std::int64_t tile, std::int64_t slot) {
  std::vector<std::string> broken;
  const auto m = trace.value(SiteId::m, tile, slot), alpha = trace.value(SiteId::alpha, tile, slot),
             l = trace.value(SiteId::l, tile, slot),
             before = trace.value(SiteId::m, tile - 1, slot);
  auto m_prev = trace.value(SiteId::m_prev, tile, slot);
  const auto demand = [&](bool holds, const char* text) {
    if (!holds) broken.emplace_back(text);
  };
  if (m_prev && before) demand(*m_prev == *before, "m_prev is not the m before");
  if (!m_prev) m_prev = before;
  if (m) demand(!std::isnan(*m), "m is nan");
  if (m && m_prev && !std::isnan(*m)) demand(*m >= *m_prev, "m falls");
  if (alpha) demand(*alpha >= 0 && *alpha <= 1, "alpha outside 0 to 1");
  if (alpha && m && m_prev && *m == *m_prev && std::isfinite(*m)) {
    demand(*alpha == 1, "alpha not 1 though m stays");
  }
  if (l && m && *m > -std::numeric_limits<double>::infinity()) demand(*l > 0, "l not above 0");
  if (l && (!m || std::isnan(*m))) demand(!std::isnan(*l), "l is nan");
  return broken;
}

/// The same of one element of P: 0 <= P <= `most`.
std::vector<std::string> broken_weight(const Tensor& tensor, const Place& place, double most) {
  const double p = tensor.at(place.index);
  if (is_unwritten(tensor, place.index) || (p >= 0 && p <= most)) return {};
  return {"p outside 0 to " + number_text(most, 6)};
}

/// As far as the lanes of a row can disagree: values of `id` that differ in slots of one row.
std::vector<std::int64_t> disagreeing_rows(const Tensor& tensor, const std::vector<Place>& places) {
  std::map<std::int64_t, std::uint32_t> first;
  std::vector<std::int64_t> rows;
  for (const Place& place : places) {
    if (place.row < 0) continue;
    const auto [known, added] = first.emplace(place.row, tensor.bits(place.index));
    if (!added && known->second != tensor.bits(place.index)) rows.push_back(place.row);
  }
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

/// "m falls in 3 rows, first row 5".
std::string rows_text(const std::string& what, const std::vector<std::int64_t>& rows) {
  if (rows.size() == 1) return what + " in row " + std::to_string(rows[0]);
  return what + " in " + std::to_string(rows.size()) + " rows from row " + std::to_string(rows[0]);
}

bool is_selected(const Selection& at, const Place& place) {
  if (!at.registers()) return true;
  const std::int64_t thread = place.slot / at.site->site.regs;
  return (!at.warp || thread / 32 == *at.warp) && (!at.lane || thread % 32 == *at.lane);
}

std::vector<std::string> broken_invariants(const Dump& dump, const Selection& at, std::int64_t tile,
                                           const std::vector<Place>& places) {
  if (at.site == nullptr) return {};
  const bool row_state = is_row_state(at.site->site.id);
  if (!row_state && at.site->site.id != SiteId::p) return {};
  const Trace trace(dump, at.block);
  const double most = std::exp2(dump.info.rescale.above);
  std::map<std::string, std::vector<std::int64_t>> broken;
  for (const Place& place : places) {
    if (place.row < 0) continue;
    const std::vector<std::string> all =
        row_state ? broken_row(trace, tile, place.slot) : broken_weight(*at.tensor, place, most);
    for (const std::string& what : all) {
      std::vector<std::int64_t>& rows = broken[what];
      if (std::find(rows.begin(), rows.end(), place.row) == rows.end()) rows.push_back(place.row);
    }
  }
  const auto rows_apart =
      row_state ? disagreeing_rows(*at.tensor, places) : std::vector<std::int64_t>{};
  if (!rows_apart.empty()) broken["lanes disagree"] = rows_apart;
  std::vector<std::string> texts;
  for (auto& [what, rows] : broken) {
    std::sort(rows.begin(), rows.end());
    texts.push_back(rows_text(what, rows));
  }
  return texts;
}

/// `sites` of one register of a lane, tile by tile: value and error of each, and what is broken.
void write_register(Page& page, const Dump& dump, const Selection& at, const BlockWants& wants,
                    const std::vector<SiteId>& sites, std::int64_t slot) {
  const Site& site = at.site->site;
  const Trace trace(dump, at.block);
  const SiteSlots slots(dump, *at.site);
  std::string text = "register " + std::to_string(slot % site.regs);
  if (slots.row(slot) >= 0) {
    text += ": row " + std::to_string(slots.row(slot)) + " (query " +
            std::to_string(dump.info.query_of(dump.info.place(at.block), slots.row(slot))) + ")";
    if (site.cols > 1) text += ", column " + std::to_string(slots.col(slot));
  }
  page.line();
  page.line(text, Colour::bold);
  std::vector<std::vector<std::string>> rows = {{"tile"}};
  for (const SiteId id : sites) rows[0].insert(rows[0].end(), {name_of(id), "error"});
  std::vector<std::vector<std::string>> broken;
  std::vector<bool> wrong;
  for (std::int64_t tile = dump.info.tiles.begin; tile < dump.info.tiles.end; ++tile) {
    std::vector<std::string> row = {std::to_string(tile)};
    bool any = false;
    std::string apart;
    for (const SiteId id : sites) {
      const Tensor& tensor = *dump.find(name_of(id));
      const DumpSite& entry = *dump.find_site(name_of(id));
      const SiteSlots own(dump, entry);
      const Place place = {own.first(at.block, tile) + slot, slot, own.row(slot), own.col(slot)};
      const TileWant* want = wants.find(name_of(id), tile);
      const Judged judged = want != nullptr ? want->judge(tensor, place) : Judged{};
      row.push_back(is_unwritten(tensor, place.index) ? std::string(unwritten_text)
                                                      : number_text(tensor.at(place.index), 6));
      row.push_back(error_text(tensor, place, judged));
      any |= judged.verdict == Verdict::wrong || judged.verdict == Verdict::unwritten;
      if (!is_row_state(id) || place.row < 0) continue;
      const auto places = places_of(dump, name_of(id), at.block, tile);
      const auto rows_apart = disagreeing_rows(tensor, places);
      if (!std::binary_search(rows_apart.begin(), rows_apart.end(), place.row)) continue;
      apart += (apart.empty() ? "" : ", ") + std::string(name_of(id));
    }
    rows.push_back(row);
    broken.push_back(is_row_state(site.id) ? broken_row(trace, tile, slot)
                                           : std::vector<std::string>{});
    if (!apart.empty()) broken.back().push_back("lanes disagree on " + apart);
    wrong.push_back(any || !broken.back().empty());
  }
  const std::vector<std::string> lines = table_lines(rows, 0);
  page.line(lines[0], Colour::dim);
  for (std::size_t i = 0; i < broken.size(); ++i) {
    std::string line = lines[i + 1];
    for (const std::string& what : broken[i]) line += (&what == &broken[i][0] ? "  " : "; ") + what;
    if (wrong[i]) {
      page.whole(line, Colour::red);
    } else {
      page.whole(line);
    }
  }
}

std::string place_text(const Selection& at, const Place& place) {
  std::string text = "row " + std::to_string(place.row);
  if (at.registers()) {
    const std::int64_t regs = at.site->site.regs, thread = place.slot / regs;
    text += ", warp " + std::to_string(thread / 32) + " lane " + std::to_string(thread % 32) +
            " register " + std::to_string(place.slot % regs);
  } else {
    text += ", column " + std::to_string(place.col);
  }
  return text;
}

}  // namespace

bool is_row_state(SiteId id) {
  return std::find(std::begin(row_states), std::end(row_states), id) != std::end(row_states);
}

std::vector<WatchedTile> watched_tiles(const Dump& dump, const Selection& at,
                                       const BlockWants& wants) {
  const std::string_view name = at.name;
  const Range tiles = tiles_of(dump, name);
  std::vector<WatchedTile> watched;
  for (std::int64_t tile = tiles.begin; tile < tiles.end; ++tile) {
    std::vector<Place> places = places_of(dump, name, at.block, tile);
    std::erase_if(places, [&](const Place& place) { return !is_selected(at, place); });
    const TileWant* want = wants.find(name, tile);
    watched.push_back(
        {tile, want, tally(*at.tensor, places, want), broken_invariants(dump, at, tile, places)});
  }
  return watched;
}

void write_watch(Page& page, const Dump& dump, const Selection& at, const BlockWants& wants) {
  if (at.registers() && at.lane) {
    const Site& site = at.site->site;
    const std::int64_t warp = at.warp.value_or(0);
    page.line("warp " + std::to_string(warp) + ", lane " + std::to_string(*at.lane) +
              "; errors in units of their bounds");
    std::vector<SiteId> sites;
    for (const SiteId id : row_states) {  // together, where they lie in the same slots
      const DumpSite* entry = dump.find_site(name_of(id));
      if (is_row_state(site.id) && entry && entry->coordinates == at.site->coordinates) {
        sites.push_back(id);
      }
    }
    if (sites.empty()) sites = {site.id};
    for (int reg = 0; reg < site.regs; ++reg) {
      write_register(page, dump, at, wants, sites, lane_slot(site, warp, *at.lane, reg));
    }
    return;
  }
  const std::vector<WatchedTile> watched = watched_tiles(dump, at, wants);
  const bool per_tile =
      at.site != nullptr ? at.site->site.per_tile : at.name == "k" || at.name == "v";
  std::vector<std::vector<std::string>> rows = {
      {"tile", "keys from", "judged", "of", "wrong", "unwritten", "nan", "inf", "worst error"}};
  for (const WatchedTile& tile : watched) {
    rows.push_back(
        {std::to_string(tile.tile),
         per_tile ? std::to_string(dump.info.key_of(dump.info.place(at.block), tile.tile)) : "-",
         tile.want ? name_of(tile.want->judgement) : "-", std::to_string(tile.tally.judged),
         std::to_string(tile.tally.wrong), std::to_string(tile.tally.unwritten),
         std::to_string(tile.tally.nan), std::to_string(tile.tally.inf),
         number_text(tile.tally.worst, 3)});
  }
  const std::vector<std::string> lines = table_lines(rows, 0);
  page.line();
  page.line(lines[0], Colour::dim);
  for (std::size_t i = 0; i < watched.size(); ++i) {
    const WatchedTile& tile = watched[i];
    std::string line = lines[i + 1];
    if (tile.tally.wrong > 0) line += "  " + place_text(at, *tile.tally.worst_place);
    for (const std::string& what : tile.broken) line += "; " + what;
    if (tile.tally.wrong > 0 || !tile.broken.empty()) {
      page.whole(line, Colour::red);
    } else {
      page.whole(line);
    }
  }
}

}  // namespace lanescope
