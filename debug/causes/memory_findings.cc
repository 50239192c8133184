#include "debug/causes/memory_findings.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string_view>

#include "debug/simt/source_lines.h"
#include "debug/text/text.h"

namespace lanescope {
namespace {

using simt::Kind;
using simt::Party;

/// The site called `name`, or whose tile is.
std::optional<SiteId> site_called(const std::string& name, bool shared) {
  std::optional<SiteId> found;
  for (int i = 0; i < site_id_count; ++i) {
    const auto id = static_cast<SiteId>(i);
    const std::string_view site = lanescope::name_of(id);
    if (site == name + "_smem" || (site == name && (shared || !found)) ||
        (!shared && site == name + "_final")) {
      found = id;
    }
  }
  return found;
}

/// The site that a tile of shared memory (a copy of it, "k[1]") or a buffer holds, or that serves
/// one ("k_full").
std::optional<SiteId> site_of(std::string_view name, bool shared) {
  const std::string own(name.substr(0, name.find('[')));
  const std::optional<SiteId> site = site_called(own, shared);
  return site || !shared ? site : site_called(own.substr(0, own.find('_')), shared);
}

std::string index(const char* name, std::int64_t i) {
  return std::string("[") + name + " " + std::to_string(i) + "]";
}

/// Names the element at `offset` in the tensor `region`.
void describe_element(const CheckReport& report, const simt::Region& region, std::int64_t offset,
                      CheckReport::Item& item) {
  const Problem& p = report.problem;
  const auto element = offset / static_cast<std::int64_t>(region.element);
  const bool is_scale = region.name.ends_with("_scale");
  if (is_scale) {
    const std::int64_t heads = region.name == "q_scale" ? p.heads : p.heads_kv;
    item.element = region.name + index("batch", element / heads) + index("head", element % heads);
    return;
  }
  for (const Site& site : report.sites) {
    if (!is_partial(site.id) || region.name != lanescope::name_of(site.id)) continue;
    item.row = element / site.cols % site.rows;
    item.col = element % site.cols;
    item.element =
        region.name + index("block", element / site.cols / site.rows) + index("row", item.row);
    if (site.cols > 1) item.element += index("d", item.col);
    return;
  }
  const bool is_lse = region.name == "lse";
  const bool is_key = region.name == "k" || region.name == "v";
  if (!is_lse && !is_key && region.name != "q" && region.name != "o") {
    item.element = region.name + " + " + std::to_string(offset) + " bytes";
    return;
  }
  const std::int64_t width = is_lse ? 1 : report.head_dim;
  const std::int64_t rows = is_key ? p.len_kv : p.len_q, heads = is_key ? p.heads_kv : p.heads;
  const std::int64_t row = element / width;
  item.row = row % rows;
  item.col = element % width;
  item.element = region.name + index("batch", row / rows / heads) +
                 index("head", row / rows % heads) + index("row", item.row);
  if (!is_lse) item.element += index("d", item.col);
}

/// The element of a tile that the kernel named which holds a byte of shared memory; of several
/// tiles that lie there, one after the other, each.
void describe_named(const simt::Checker& checker, std::int64_t offset, CheckReport::Item& item) {
  for (const NamedTile& tile : checker.tiles()) {
    for (int i = 0; i < tile.rows * tile.cols; ++i) {
      const int row = i / tile.cols, col = i % tile.cols;
      const std::int64_t at = tile.begin + tile.layout.offset(row, col) * tile.element;
      if (offset < at || offset >= at + tile.element) continue;
      item.element += (item.element.empty() ? "" : " or ") +
                      std::string(lanescope::name_of(tile.site)) + "[" + std::to_string(row) +
                      "][" + std::to_string(col) + "]";
      if (item.site) break;
      item.site = tile.site;
      item.row = row;
      item.col = col;
      break;
    }
  }
}

/// Of two accesses, the stage of the one that writes: what lies there is its result. A fence is
/// lacking behind the first; who says too early that it has read is at fault itself.
std::optional<Stage> stage_of(const CheckReport::Item& item) {
  const simt::Finding& f = item.finding;
  const std::optional<Stage> own = stage_named_in(item.access_line);
  const bool is_first = f.kind == Kind::missing_proxy_fence || f.earlier.released;
  if (f.earlier.place == 0 || (f.access.write && own && !is_first)) return own;
  const std::optional<Stage> earlier = stage_named_in(item.earlier_line);
  return earlier && (f.earlier.write || f.earlier.released || !own) ? earlier : own;
}

/// Of what lies before a buffer, by how much it is behind the one that ends before it: which of the
/// two was meant, an address does not say. Empty: none ends near.
std::string behind_other(const simt::Checker& checker, const simt::Region& region,
                         std::int64_t before) {
  const std::byte* const at = static_cast<const std::byte*>(region.begin) - before;
  std::int64_t nearest = 4 * static_cast<std::int64_t>(simt::guard_bytes);
  std::string text;
  for (const simt::Region& other : checker.regions()) {
    const std::int64_t behind = at - (static_cast<const std::byte*>(other.begin) +
                                      static_cast<std::ptrdiff_t>(other.bytes));
    if (behind < 0 || behind >= nearest) continue;
    nearest = behind;
    text = ", " + std::to_string(behind) + " bytes behind the end of " + other.name;
  }
  return text;
}

/// Of what a copy misses of Q, K, V or O: whether its tensor map has heads elsewhere than the
/// tensor.
void describe_map(const CheckReport& report, const simt::Region& region, CheckReport::Item& item) {
  simt::Finding& f = item.finding;
  const bool is_key = region.name == "k" || region.name == "v";
  if (f.map.pitch == 0 || (!is_key && region.name != "q" && region.name != "o")) return;
  const std::int64_t rows = is_key ? report.problem.len_kv : report.problem.len_q;
  const auto row_bytes = report.head_dim * static_cast<std::int64_t>(region.element);
  if (f.map.rows == rows || f.map.pitch % (rows * row_bytes) == 0) return;
  f.kind = Kind::map_disagrees;
  item.element += ": its tensor map has " + std::to_string(f.map.rows) + " rows to a head, " +
                  std::to_string(f.map.pitch) + " bytes from one head to the next; " + region.name +
                  " has " + std::to_string(rows) + ", " + std::to_string(rows * row_bytes);
}

void describe_place(const CheckReport& report, const simt::Checker& checker,
                    const SharedElement& shared_element, CheckReport::Item& item) {
  const simt::Finding& f = item.finding;
  if (f.site_of_register) {
    item.site = f.site_of_register;
    item.element =
        "register " + std::to_string(f.offset / 4) + " of " + lanescope::name_of(*item.site);
  }
  if (f.kind == Kind::beyond_array) {
    item.element =
        "element " + std::to_string(f.offset) + " of an array of " + std::to_string(f.bytes);
  }
  const bool shared = f.region == simt::shared_region;
  if (!shared && f.region < 0) return;
  const simt::Region* region =
      shared ? nullptr : &checker.regions()[static_cast<std::size_t>(f.region)];
  if (region) item.site = site_of(region->name, false);
  if (f.kind == Kind::out_of_bounds) {
    const auto end = static_cast<std::int64_t>(shared ? checker.shared_bytes() : region->bytes);
    const std::string name = shared ? "shared memory" : region->name;
    item.element = f.offset < 0
                       ? std::to_string(-f.offset) + " bytes before " + name +
                             (region ? behind_other(checker, *region, -f.offset) : "")
                       : std::to_string(f.offset - end) + " bytes behind the end of " + name;
    if (region) describe_map(report, *region, item);
  } else if (region) {
    describe_element(report, *region, f.offset, item);
  } else if (const auto place = shared_element(f.offset)) {
    item.site = site_of(place->tile, true);
    item.row = place->row;
    item.col = place->col;
    item.element =
        place->tile + "[" + std::to_string(place->row) + "][" + std::to_string(place->col) + "]";
  } else {
    describe_named(checker, f.offset, item);
    if (!item.element.empty()) return;
    item.element = "shared memory + " + std::to_string(f.offset) + " bytes";
  }
}

/// What is no fault: "register accessed late: ...: the wgmma at x.py:183, the access at x.py:172".
void add_note(const CheckReport::Item& item, std::vector<std::string>& notes) {
  const std::string note =
      std::string(name_of(item.finding.kind)) + ": " + explanation_of(item.finding) +
      (item.finding.kind == Kind::unfenced_read ? ": the copy at " : ": the wgmma at ") +
      item.access_line + ", the access at " + item.earlier_line;
  if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
}

}  // namespace

std::optional<Stage> stage_named_in(const std::string& text) {
  for (int i = 0; i <= static_cast<int>(Stage::combine); ++i) {
    const auto stage = static_cast<Stage>(i);
    const std::string said = std::string(" in ") + lanescope::name_of(stage);
    const std::size_t at = text.find(said), end = at + said.size();
    if (at == text.npos || text.compare(end, 4, " or ") == 0) continue;
    if (end == text.size() || text[end] == ':' || text[end] == ' ') {
      return stage;
    }
  }
  return std::nullopt;
}

std::optional<std::pair<std::string, int>> place_in_source(const std::string& line) {
  const std::size_t at = line.find(':');
  if (at == line.npos || at + 1 == line.size() || !std::isdigit(line[at + 1])) return std::nullopt;
  return std::pair(line.substr(0, at), std::atoi(line.c_str() + at + 1));
}

std::string party_text(const Party& party, const std::string& line, const char* does) {
  if (!does) does = party.write ? "write" : "read";
  return left(does, 10) + left(line, 24) + "  block " + std::to_string(party.block) + ", warp " +
         std::to_string(party.thread / 32) + ", lane " + std::to_string(party.thread % 32);
}

std::string progress_text(const simt::Progress& passed) {
  return std::string("site ") + lanescope::name_of(passed.site) + " of tile " +
         std::to_string(passed.tile) +
         (passed.item >= 0 ? " of item " + std::to_string(passed.item) : "");
}

void describe_findings(const simt::Checker& checker, const SharedElement& shared_element,
                       CheckReport& report) {
  std::vector<std::uint32_t> places;
  for (const simt::Finding& f : checker.findings()) {
    for (const std::uint32_t place :
         {f.access.place, f.earlier.place, f.used.place, f.waited.place}) {
      if (place != 0) places.push_back(place);
    }
  }
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  std::string warning;
  auto lines = checker.lines().empty() ? simt::source_lines(checker.image(), places, warning)
                                       : checker.lines();
  if (!warning.empty()) report.warnings.push_back(warning);
  for (const simt::Finding& f : checker.findings()) {
    CheckReport::Item item;
    item.finding = f;
    item.access_line = lines[f.access.place];
    item.earlier_line = lines[f.earlier.place];
    item.used_line = lines[f.used.place];
    item.waited_line = lines[f.waited.place];
    if (!simt::is_fault(f.kind)) {
      add_note(item, report.notes);
      if (f.kind == Kind::unfenced_read && !report.unfenced_read) report.unfenced_read = item;
      continue;
    }
    item.stage = stage_of(item);
    if (f.region == simt::shared_region) item.region = "shared memory";
    if (f.region == simt::registers_region) item.region = "registers";
    if (f.region >= 0) {
      const simt::Region& region = checker.regions()[static_cast<std::size_t>(f.region)];
      item.region = region.name;
      item.region_bytes = static_cast<std::int64_t>(region.bytes);
    }
    describe_place(report, checker, shared_element, item);
    // Unrolled loops and inlined functions give several instructions to a source line.
    // Where warps race with each other, that lanes of one do says no more.
    const auto same = std::find_if(report.items.begin(), report.items.end(), [&](const auto& i) {
      return std::string_view(name_of(i.finding.kind)) == name_of(f.kind) &&
             i.access_line == item.access_line && i.earlier_line == item.earlier_line &&
             i.region == item.region && i.site == item.site &&
             i.finding.access.write == f.access.write;
    });
    if (same == report.items.end()) {
      report.items.push_back(item);
      continue;
    }
    const std::int64_t count = same->finding.count + f.count;
    if (is_within_warp(same->finding) && !is_within_warp(f)) *same = item;
    same->finding.count = count;
  }
  std::stable_partition(report.items.begin(), report.items.end(),
                        [](const auto& item) { return !is_within_warp(item.finding); });
}

}  // namespace lanescope
