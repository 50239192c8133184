#include "debug/show/show.h"

#include "debug/judge/tile_view.h"
#include "debug/report/report.h"
#include "debug/show/parts.h"
#include "reference/error.h"

namespace lanescope {
namespace {

void write_title(Page& page, const Dump& dump, const Selection& at, const ShowOptions& options) {
  const DumpInfo& info = dump.info;
  const std::string& name = options.site;
  page.line(info.kernel + " " + info.gate + "  " + info.backend + "  " + info.device, Colour::dim);
  std::string title = name + "  " + name_of(at.tensor->type);
  if (at.site != nullptr) {
    const Site& site = at.site->site;
    title += std::string(", ") + name_of(site.space) + ", stage " + name_of(site.stage) + ", " +
             std::to_string(site.rows) + " x " + std::to_string(site.cols) + " per tile";
  }
  page.line(title, Colour::bold);
  std::string text = "block " + std::to_string(at.block) + " (" + block_text(info, at.block) + ")";
  const bool per_tile =
      name == "k" || name == "v" || (at.site != nullptr && at.site->site.per_tile);
  if (per_tile && !options.watch) {
    text += ", tile " + std::to_string(at.tile) + " (keys from " +
            std::to_string(info.key_of(info.place(at.block), at.tile)) + ")";
  }
  page.whole(text);
  if (!info.incomplete.empty()) {
    page.whole(info.end_text(), Colour::yellow);
  }
}

/// Why a tile is not judged.
std::string unjudged_reason(const Selection& at, const ShowOptions& options,
                            const BlockWants& wants) {
  if (is_input(options.site)) return "an input";
  if (!wants.missing().empty()) return wants.missing();
  if (at.site != nullptr && at.site->site.per_tile) {
    return "no row of the block sees a key of this tile, or the gate does not make the site";
  }
  return "the gate does not make the site";
}

/// Where the value is that is furthest off, which may be far down or in another warp.
void write_worst(Page& page, const ShownTile& tile, const Place& place) {
  std::string text = "worst: ";
  if (tile.at.registers()) {
    const int regs = tile.at.site->site.regs;
    const std::int64_t thread = place.slot / regs;
    text += "warp " + std::to_string(thread / 32) + ", lane " + std::to_string(thread % 32) +
            ", register " + std::to_string(place.slot % regs) + ", ";
  }
  const Tensor& tensor = *tile.at.tensor;
  const Judged judged = tile.judge(place);
  text += "row " + std::to_string(place.row) + ", column " + std::to_string(place.col) + ": ";
  text += judged.verdict == Verdict::unwritten ? std::string("never written")
                                               : number_text(tensor.at(place.index), 9);
  text += ", want " + number_text(judged.want, 9) + ", error " + error_text(tensor, place, judged);
  page.whole(text, Colour::red);
}

void write_judgement(Page& page, const ShownTile& tile, const std::string& reason) {
  if (tile.want == nullptr) {
    page.whole("not judged: " + reason, Colour::dim);
    return;
  }
  const TileTally counts = tally(*tile.at.tensor, tile.places, tile.want);
  std::string text = counts.wrong == 0 ? "right: " : "wrong: ";
  text += std::to_string(counts.wrong == 0 ? counts.judged : counts.wrong) + " of " +
          std::to_string(counts.judged) + " values";
  if (counts.unwritten > 0) text += ", unwritten " + std::to_string(counts.unwritten);
  if (counts.nan > 0) text += ", nan " + std::to_string(counts.nan);
  if (counts.inf > 0) text += ", inf " + std::to_string(counts.inf);
  const bool beyond_zero = counts.worst_place && error_text(*tile.at.tensor, *counts.worst_place,
                                                            tile.judge(*counts.worst_place))
                                                     .starts_with("Δ");
  text += beyond_zero ? ", Δ: off where the bound is 0"
                      : ", worst error " + number_text(counts.worst, 3) + " of its bound";
  text += std::string("; judged ") + name_of(tile.want->judgement);
  page.whole(text, counts.wrong == 0 ? Colour::green : Colour::red);
  if (counts.wrong > 0 && counts.worst_place) write_worst(page, tile, *counts.worst_place);
}

}  // namespace

ShowAs parse_show_as(std::string_view text) {
  if (text == "lanes") return ShowAs::lanes;
  if (text == "tile") return ShowAs::tile;
  if (text == "heat") return ShowAs::heat;
  throw UsageError("--as: there is no '" + printable(text) + "'; there is: lanes, tile, heat");
}

std::string show_text(const Dump& dump, const ShowOptions& options, const Style& style) {
  const Selection at = select(dump, options);
  Page page(style);
  write_title(page, dump, at, options);
  const BlockWants wants(dump, at.block, [&](SiteId site) {
    return name_of(site) == options.site || (options.watch && is_row_state(site));
  });
  if (options.watch) {
    write_watch(page, dump, at, wants);
    return page.text();
  }
  const ShownTile tile = {dump, at, places_of(dump, options.site, at.block, at.tile),
                          wants.find(options.site, at.tile)};
  write_judgement(page, tile, unjudged_reason(at, options, wants));
  const ShowAs as = options.as.value_or(at.registers() ? ShowAs::lanes : ShowAs::tile);
  if (as == ShowAs::heat) {
    write_heat(page, tile);
  } else if (as == ShowAs::tile) {
    write_tile(page, tile, options.col);
  } else if (at.lane) {
    write_lane(page, tile, at.warp.value_or(0), *at.lane);
  } else {
    write_grid(page, tile, at.warp.value_or(0));
  }
  return page.text();
}

}  // namespace lanescope
