#include <nlohmann/json.hpp>

#include "debug/json.h"
#include "debug/selection.h"
#include "debug/show.h"
#include "debug/site_slots.h"
#include "debug/tile_view.h"

namespace lanescope {
namespace {

using nlohmann::ordered_json;

void add_value(ordered_json& json, const Tensor& tensor, std::int64_t index) {
  const std::uint32_t bits = tensor.bits(index);
  json["value"] = is_unwritten(tensor, index) ? ordered_json() : number_json(tensor.at(index));
  json["bits"] = hex_text(tensor.type, bits);
}

ordered_json coordinate_json(int coordinate) {
  return coordinate < 0 ? ordered_json() : ordered_json(coordinate);
}

ordered_json register_values(const Dump& dump, const Selection& at) {
  const Site& site = at.site->site;
  const SiteSlots slots(dump, *at.site);
  const auto wanted = [](const std::optional<std::int64_t>& one, std::int64_t all) {
    return one ? Range{*one, *one + 1} : Range{0, all};
  };
  const Range warps = wanted(at.warp, site.warps), lanes = wanted(at.lane, 32);
  ordered_json values = ordered_json::array();
  for (std::int64_t warp = warps.begin; warp < warps.end; ++warp) {
    for (std::int64_t lane = lanes.begin; lane < lanes.end; ++lane) {
      for (int reg = 0; reg < site.regs; ++reg) {
        const std::int64_t slot = lane_slot(site, warp, lane, reg);
        ordered_json value = {{"warp", warp},
                              {"lane", lane},
                              {"reg", reg},
                              {"row", coordinate_json(slots.row(slot))},
                              {"col", coordinate_json(slots.col(slot))}};
        add_value(value, *at.tensor, slots.first(at.block, at.tile) + slot);
        values.push_back(std::move(value));
      }
    }
  }
  return values;
}

ordered_json matrix_values(const Selection& at, const TileView& view) {
  ordered_json values = ordered_json::array();
  for (std::int64_t row = 0; row < view.rows; ++row) {
    for (std::int64_t col = 0; col < view.cols; ++col) {
      ordered_json value = {{"row", row}, {"col", col}};
      add_value(value, *at.tensor, view.index(row, col));
      if (at.site != nullptr && !at.site->owners.empty()) {
        const auto owner = static_cast<std::size_t>(row * view.cols + col);
        value["owner"] = coordinate_json(at.site->owners[owner]);
      }
      values.push_back(std::move(value));
    }
  }
  return values;
}

}  // namespace

std::string show_json(const Dump& dump, const ShowOptions& options) {
  const Selection at = select(dump, options);
  const BlockPlace place = dump.info.place(at.block);
  const Site* site = at.site != nullptr ? &at.site->site : nullptr;
  const ordered_json json = {
      {"kernel", dump.info.kernel},
      {"gate", dump.info.gate},
      {"backend", dump.info.backend},
      {"site", options.site},
      {"stage", site ? ordered_json(name_of(site->stage)) : ordered_json()},
      {"space", name_of(site ? site->space : Space::global)},
      {"type", name_of(at.tensor->type)},
      {"block", at.block},
      {"batch", place.batch},
      {"head", dump.info.head_of(place, 0)},
      {"query", dump.info.query_of(place, 0)},
      {"split", place.split},
      {"tile", at.tile},
      {"values", at.registers()
                     ? register_values(dump, at)
                     : matrix_values(at, tile_view(dump, options.site, at.block, at.tile))}};
  return json.dump(1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace lanescope
