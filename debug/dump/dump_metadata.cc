#include "debug/dump/dump_metadata.h"

#include "debug/dump/metadata_fields.h"
#include "debug/text/json.h"
#include "debug/text/text.h"
#include "reference/error.h"

namespace lanescope {
namespace {

constexpr const char* format_key = "lanescope_dump";
constexpr const char* format_version = "1";

constexpr int count_of(Stop::Kind) { return 6; }
constexpr int count_of(ElementType) { return 4; }
constexpr int count_of(Products) { return static_cast<int>(last_products) + 1; }
constexpr int count_of(SiteId) { return site_id_count; }
constexpr int count_of(Stage) { return 6; }
constexpr int count_of(Space) { return 3; }
constexpr int count_of(Axes) { return 4; }
constexpr int count_of(ScoreUnit) { return 3; }

template <class Enum>
Enum enum_of(const std::string& name, const char* what) {
  for (int i = 0; i < count_of(Enum{}); ++i) {
    if (name == name_of(static_cast<Enum>(i))) return static_cast<Enum>(i);
  }
  throw UsageError(std::string("it names the unknown ") + what + " '" + printable(name) + "'");
}

Json range_json(const Range& range) { return {range.begin, range.end}; }

Json site_json(const Site& site) {
  return {{"id", name_of(site.id)},
          {"stage", name_of(site.stage)},
          {"space", name_of(site.space)},
          {"type", name_of(site.type)},
          {"axes", name_of(site.axes)},
          {"per_tile", site.per_tile},
          {"rows", site.rows},
          {"cols", site.cols},
          {"warps", site.warps},
          {"regs", site.regs}};
}

Site site_of(const Json& json) {
  const Members site(json, "a site in the site table");
  return {.id = enum_of<SiteId>(site.text("id"), "site"),
          .stage = enum_of<Stage>(site.text("stage"), "stage"),
          .space = enum_of<Space>(site.text("space"), "memory space"),
          .type = enum_of<ElementType>(site.text("type"), "element type"),
          .axes = enum_of<Axes>(site.text("axes"), "kind of axes"),
          .per_tile = site.boolean("per_tile"),
          .rows = site.small("rows"),
          .cols = site.small("cols"),
          .warps = site.small("warps"),
          .regs = site.small("regs")};
}

Problem problem_of(const Json& json) {
  const Members shape(json, "the shape");
  return {.batch = shape.integer("batch"),
          .heads = shape.integer("heads"),
          .heads_kv = shape.integer("heads_kv"),
          .len_q = shape.integer("len_q"),
          .len_kv = shape.integer("len_kv"),
          .d = shape.integer("d"),
          .causal = shape.boolean("causal")};
}

/// Block, warp and lane as they are counted, −1 left out.
Json stop_json(const Stop& stop) {
  Json json = {{"kind", name_of(stop.kind)}};
  if (stop.block >= 0) json["block"] = stop.block;
  if (stop.warp >= 0) json["warp"] = stop.warp;
  if (stop.lane >= 0) json["lane"] = stop.lane;
  json["combining"] = stop.combining;
  return json;
}

Stop stop_of(const Json& json) {
  const Members stop(json, "the stop");
  const auto index = [&](const char* key) { return json.contains(key) ? stop.integer(key) : -1; };
  return {.kind = enum_of<Stop::Kind>(stop.text("kind"), "kind of stop"),
          .block = index("block"),
          .warp = index("warp"),
          .lane = index("lane"),
          .combining = stop.boolean("combining")};
}

constexpr const char* scores_names[] = {"scaled", "base_e", "unscaled"};  // of each ScoreUnit

const char* scores_text(ScoreUnit unit) { return scores_names[static_cast<int>(unit)]; }

ScoreUnit scores_of(const std::string& text) {
  for (int i = 0; i < count_of(ScoreUnit{}); ++i) {
    if (text == scores_names[i]) return static_cast<ScoreUnit>(i);
  }
  throw UsageError("'scores' of its metadata is '" + printable(text) +
                   "', none of 'scaled', 'base_e' and 'unscaled'");
}

}  // namespace

SafetensorsMetadata metadata_of(const DumpInfo& info) {
  Json sites = Json::array();
  for (const DumpSite& entry : info.sites) sites.push_back(site_json(entry.site));
  const Json tile = {{"head_dim", info.head_dim},
                     {"br", info.br},
                     {"bc", info.bc},
                     {"splits", info.splits},
                     {"heads_per_tile", info.heads_per_tile}};
  const Json traced = {{"blocks", range_json(info.blocks)}, {"tiles", range_json(info.tiles)}};
  SafetensorsMetadata metadata = {{format_key, format_version},
                                  {"lanescope_version", info.lanescope_version},
                                  {"kernel", info.kernel},
                                  {"gate", info.gate},
                                  {"backend", info.backend},
                                  {"device", info.device},
                                  {"arch", info.arch},
                                  {"module", info.module},
                                  {"trace", info.trace},
                                  {"dtype", name_of(info.dtype)},
                                  {"products", name_of(info.products)},
                                  {"scores", scores_text(info.scores)},
                                  {"shape", shape_json(info.problem).dump()},
                                  {"tile", tile.dump()},
                                  {"traced", traced.dump()},
                                  {"input", info.input},
                                  {"seed", std::to_string(info.seed)},
                                  {"input_hash", info.input_hash},
                                  {"source_hash", info.source_hash},
                                  {"compile_flags", info.compile_flags},
                                  {"incomplete", info.incomplete},
                                  {"sites", sites.dump()}};
  if (info.maxima != ScoreUnit::base_2) metadata.emplace_back("maxima", name_of(info.maxima));
  if (info.lane_sums) metadata.emplace_back("sums", "lanes");
  if (info.rescale.above > 0) {
    metadata.emplace_back("rescale_above", std::to_string(info.rescale.above));
    metadata.emplace_back("rescale_by", info.rescale.by_sums ? "sums" : "scores");
  }
  if (info.stop.kind != Stop::Kind::none) {
    metadata.emplace_back("stop", stop_json(info.stop).dump());
  }
  return metadata;
}

DumpInfo info_of(const SafetensorsMetadata& metadata) {
  const Strings strings(metadata);
  if (strings.text(format_key) != format_version) {
    throw UsageError("its dump format is version '" + printable(strings.text(format_key)) +
                     "', and this lanescope reads version " + format_version);
  }
  const Json tile_json = strings.json("tile"), traced_json = strings.json("traced");
  const Members tile(tile_json, "the tile"), traced(traced_json, "the traced range");
  DumpInfo info;
  info.lanescope_version = strings.shown("lanescope_version");
  info.kernel = strings.shown("kernel");
  info.gate = strings.shown("gate");
  info.backend = strings.one_of("backend", "sim", "cuda");
  info.device = strings.shown("device");
  info.arch = strings.shown("arch");
  info.module = strings.shown("module");
  info.trace = strings.one_of("trace", "on", "off");
  info.dtype = enum_of<ElementType>(strings.text("dtype"), "dtype");
  info.products = enum_of<Products>(strings.text("products"), "kind of products");
  info.scores = scores_of(strings.text("scores"));
  if (strings.has("maxima")) {
    info.maxima = enum_of<ScoreUnit>(strings.text("maxima"), "unit of maxima");
  }
  if (strings.has("sums")) info.lane_sums = strings.one_of("sums", "rows", "lanes") == "lanes";
  if (strings.has("rescale_above")) {
    info.rescale.above = strings.number("rescale_above", 64);
    info.rescale.by_sums =
        strings.has("rescale_by") && strings.one_of("rescale_by", "scores", "sums") == "sums";
  }
  info.problem = problem_of(strings.json("shape"));
  info.head_dim = tile.small("head_dim");
  info.br = tile.small("br");
  info.bc = tile.small("bc");
  info.splits = tile.small("splits");
  info.heads_per_tile = tile.small("heads_per_tile");
  info.input = strings.shown("input");
  info.seed = strings.number("seed");
  info.input_hash = strings.shown("input_hash");
  info.source_hash = strings.shown("source_hash");
  info.compile_flags = strings.shown("compile_flags");
  info.blocks = traced.range("blocks");
  info.tiles = traced.range("tiles");
  info.incomplete = strings.shown("incomplete", true);
  if (strings.has("stop")) info.stop = stop_of(strings.json("stop"));
  const Json sites = strings.json("sites");
  if (!sites.is_array() || sites.size() > site_id_count) {
    throw UsageError("'sites' of its metadata is no JSON array of at most " +
                     std::to_string(site_id_count) + " sites");
  }
  for (const Json& site : sites) info.sites.push_back({site_of(site), {}, {}});
  return info;
}

}  // namespace lanescope
