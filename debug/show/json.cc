#include "debug/text/json.h"

#include "debug/judge/tile_view.h"
#include "debug/report/report.h"
#include "debug/show/parts.h"

namespace lanescope {
namespace {

Json coordinate_json(int coordinate) { return coordinate < 0 ? Json() : Json(coordinate); }

Json judgement_json(const TileWant* want) {
  return want != nullptr ? Json(name_of(want->judgement)) : Json();
}

void add_value(Json& json, const Tensor& tensor, const Place& place, const Judged& judged) {
  const bool known = judged.verdict != Verdict::unjudged;
  const bool written = !is_unwritten(tensor, place.index);
  json["value"] = written ? number_json(tensor.at(place.index)) : Json();
  json["bits"] = hex_text(tensor.type, tensor.bits(place.index));
  json["want"] = known ? number_json(judged.want) : Json();
  json["bound"] = known ? number_json(judged.bound) : Json();
  json["error"] = known ? number_json(judged.error) : Json();
  json["verdict"] = known ? Json(name_of(judged.verdict)) : Json();
}

Json values_json(const ShownTile& tile) {
  const Selection& at = tile.at;
  Json values = Json::array();
  for (const Place& place : tile.places) {
    Json value;
    if (at.registers()) {
      const std::int64_t regs = at.site->site.regs, thread = place.slot / regs;
      if (at.warp && thread / 32 != *at.warp) continue;
      if (at.lane && thread % 32 != *at.lane) continue;
      value = {{"warp", thread / 32}, {"lane", thread % 32}, {"reg", place.slot % regs}};
    }
    value["row"] = coordinate_json(place.row);
    value["col"] = coordinate_json(place.col);
    add_value(value, *at.tensor, place, tile.judge(place));
    if (at.site != nullptr && !at.site->owners.empty()) {
      value["owner"] = coordinate_json(at.site->owners[static_cast<std::size_t>(place.slot)]);
    }
    values.push_back(std::move(value));
  }
  return values;
}

Json watched_json(const Dump& dump, const Selection& at, const BlockWants& wants) {
  Json tiles = Json::array();
  for (const WatchedTile& tile : watched_tiles(dump, at, wants)) {
    tiles.push_back({{"tile", tile.tile},
                     {"judgement", judgement_json(tile.want)},
                     {"judged", tile.tally.judged},
                     {"wrong", tile.tally.wrong},
                     {"unwritten", tile.tally.unwritten},
                     {"nan", tile.tally.nan},
                     {"inf", tile.tally.inf},
                     {"worst", number_json(tile.tally.worst)},
                     {"broken", tile.broken}});
  }
  return tiles;
}

}  // namespace

std::string show_json(const Dump& dump, const ShowOptions& options) {
  const Selection at = select(dump, options);
  const BlockPlace place = dump.info.place(at.block);
  const Site* site = at.site != nullptr ? &at.site->site : nullptr;
  Json json = {{"kernel", dump.info.kernel},
               {"gate", dump.info.gate},
               {"backend", dump.info.backend},
               {"site", options.site},
               {"stage", site ? Json(name_of(site->stage)) : Json()},
               {"space", name_of(site ? site->space : Space::global)},
               {"type", name_of(at.tensor->type)},
               {"block", at.block},
               {"batch", place.batch},
               {"head", dump.info.head_of(place, 0)},
               {"query", dump.info.query_of(place, 0)},
               {"split", place.split}};
  const BlockWants wants(dump, at.block, [&](SiteId id) { return name_of(id) == options.site; });
  if (options.watch) {
    json["tiles"] = watched_json(dump, at, wants);
  } else {
    const ShownTile tile = {dump, at, places_of(dump, options.site, at.block, at.tile),
                            wants.find(options.site, at.tile)};
    json["tile"] = at.tile;
    json["judgement"] = judgement_json(tile.want);
    json["values"] = values_json(tile);
  }
  return document_text(json, 1);
}

}  // namespace lanescope
