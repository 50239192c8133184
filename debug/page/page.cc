#include "debug/page/page.h"

#include <algorithm>
#include <span>

#include "debug/dump/dump_metadata.h"
#include "debug/dump/site_slots.h"
#include "debug/page/frame.h"
#include "debug/report/report.h"
#include "debug/report/suggested_command.h"
#include "debug/text/json.h"
#include "page_files.h"

namespace lanescope {
namespace {

std::string base64(std::span<const std::byte> bytes) {
  constexpr char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t left = std::min<std::size_t>(bytes.size() - i, 3);
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      group = group << 8 | (j < left ? std::to_integer<std::uint32_t>(bytes[i + j]) : 0);
    }
    for (std::size_t j = 0; j < 4; ++j) {
      text += j <= left ? digits[group >> (18 - 6 * j) & 63] : '=';
    }
  }
  return text;
}

template <class Number>
Json array_json(const std::vector<Number>& numbers) {
  return base64(std::as_bytes(std::span(numbers)));
}

/// An array that says nothing, because all of it is zero, is null.
template <class Number>
Json array_unless_zero(const std::vector<Number>& numbers) {
  const bool zero = std::all_of(numbers.begin(), numbers.end(), [](Number x) { return x == 0; });
  return zero ? Json() : array_json(numbers);
}

Json verdict_json(const std::optional<PageVerdict>& verdict) {
  if (!verdict) return nullptr;
  return {{"error", array_unless_zero(verdict->error)},
          {"bound", array_unless_zero(verdict->bound)},
          {"wrong", array_unless_zero(verdict->wrong)}};
}

std::span<const std::byte> bytes_of(const PageSlots& slots) {
  const auto size = static_cast<std::size_t>(size_of(slots.tensor().type));
  return std::span(slots.tensor().bytes.data(), slots.tensor().bytes.size())
      .subspan(static_cast<std::size_t>(slots.index(0)) * size,
               static_cast<std::size_t>(slots.count()) * size);
}

Json tile_json(const PageTile& tile, const Dump& a, const OtherDump* b) {
  Json json = {{"site", name_of(tile.site)}, {"block", tile.block}, {"tile", tile.tile}};
  json["bits"] = base64(bytes_of(PageSlots(a, tile.site, tile.block, tile.tile)));
  if (b && b->dump.find(name_of(tile.site))) {
    json["other"] = base64(bytes_of(PageSlots(b->dump, tile.site, tile.block, tile.tile)));
  }
  for (const Judgement judgement : {Judgement::local, Judgement::chain}) {
    json[name_of(judgement)] = verdict_json(tile.verdicts[static_cast<std::size_t>(judgement)]);
  }
  return json;
}

/// One entry for each site and output that the dump holds.
Json sites_json(const Dump& dump, const PageContent& content) {
  Json sites = Json::array();
  for (int i = 0; i < site_id_count; ++i) {
    const auto id = static_cast<SiteId>(i);
    const Tensor* tensor = dump.find(name_of(id));
    if (!tensor) continue;
    const DumpSite* entry = dump.find_site(name_of(id));
    const bool traced = entry && !is_output(id);
    const Axes axes = entry ? entry->site.axes : id == SiteId::lse ? Axes::query : Axes::query_d;
    Json site = {{"site", name_of(id)},
                 {"stage", name_of(entry ? entry->site.stage : Stage::epilogue)},
                 {"space", name_of(traced ? entry->site.space : Space::global)},
                 {"type", name_of(tensor->type)},
                 {"axes", name_of(axes)},
                 {"per_tile", traced && entry->site.per_tile},
                 {"per_row_tile", !traced},
                 {"rows", dump.info.br},
                 {"cols", axes == Axes::query ? 1 : dump.info.problem.d},
                 {"warps", traced ? entry->site.warps : 0},
                 {"regs", traced ? entry->site.regs : 0}};
    if (traced) {
      site["rows"] = entry->site.rows;
      site["cols"] = entry->site.cols;
      site["coordinates"] = array_json(entry->coordinates);
      site["owners"] = array_json(entry->owners);
    }
    for (const Judgement judgement : {Judgement::local, Judgement::chain}) {
      site["worst"][name_of(judgement)] = array_json(content.worst.at({id, judgement}));
    }
    sites.push_back(std::move(site));
  }
  return sites;
}

Json range_json(const Range& range) { return {range.begin, range.end}; }

Json metadata_json(const DumpInfo& info) {
  Json rows = Json::array();
  for (const auto& [key, value] : metadata_of(info)) {
    if (key != "sites") rows.push_back({key, value});
  }
  return rows;
}

Json page_json(const NamedDump& a, const PageContent& content, const OtherDump* b) {
  const DumpInfo& info = a.dump.info;
  Json json = {{"path", a.path},
               {"command", report_command_text(a.path, b ? b->path : "")},
               {"report", Json::parse(diff_json(info, content.report)).value()},
               {"metadata", metadata_json(info)},
               {"q_tiles", info.q_tiles()},
               {"kv_tiles", info.kv_tiles()},
               {"block_count", info.block_count()},
               {"blocks", range_json(info.blocks)},
               {"tiles", range_json(info.tiles)},
               {"judged", content.blocks},
               {"sites", sites_json(a.dump, content)},
               {"other", nullptr}};
  if (b) {
    json["other"] = {{"path", b->path},
                     {"bits", Json::parse(bits_json(info, b->dump.info, b->bits)).value()},
                     {"metadata", metadata_json(b->dump.info)}};
  }
  json["kept"] = Json::array();
  for (const PageTile& tile : content.kept) json["kept"].push_back(tile_json(tile, a.dump, b));
  return json;
}

}  // namespace

std::string page_html(const NamedDump& a, const PageContent& content, const OtherDump* b) {
  return framed_page({.title = "lanescope",
                      .told_by = "\"lanescope diff\" of the dump",
                      .body = page_files::body,
                      .style = page_files::style,
                      .script = page_files::script},
                     page_json(a, content, b));
}

}  // namespace lanescope
