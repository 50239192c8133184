#include "debug/show/selection.h"

#include "debug/judge/tile_view.h"
#include "debug/text/nearest.h"
#include "reference/error.h"

namespace lanescope {
namespace {

std::int64_t pick(const char* what, const std::optional<std::int64_t>& wanted, const Range& range,
                  const std::string& site) {
  if (!wanted) return range.begin;
  if (range.contains(*wanted)) return *wanted;
  throw UsageError("--" + std::string(what) + " " + std::to_string(*wanted) + ": the dump has of " +
                   site + " " + what + " " + range_text(range));
}

}  // namespace

Selection select(const Dump& dump, const ShowOptions& options) {
  const std::string name = printable(options.site);
  const Tensor* tensor = dump.find(options.site);
  if (tensor == nullptr) {
    std::vector<std::string> names;
    for (const auto& entry : dump.tensors) names.push_back(entry.name);
    if (name.empty()) throw UsageError("which site? The dump has " + listed(names));
    throw UsageError("the dump has no site '" + name + "'" + did_you_mean(name, names) +
                     "; it has " + listed(names));
  }
  Selection selection = {.name = options.site,
                         .tensor = tensor,
                         .site = dump.find_site(options.site),
                         .block = pick("block", options.block, blocks_of(dump, name), name),
                         .tile = pick("tile", options.tile, tiles_of(dump, name), name),
                         .warp = options.warp,
                         .lane = options.lane};
  if (selection.registers()) {
    pick("warp", options.warp, {0, selection.site->site.warps}, name);
    pick("lane", options.lane, {0, 32}, name);
    if (options.col != 0) {
      throw UsageError(name +
                       " is in registers: --col is for matrices, --warp and --lane pick here");
    }
  } else if (options.warp || options.lane) {
    throw UsageError(name + " is not in registers and has no lanes: leave out --warp and --lane");
  } else if (options.as == ShowAs::lanes) {
    throw UsageError(name + " is not in registers and has no lanes: --as tile or --as heat");
  }
  if (options.watch && (options.as || options.tile)) {
    throw UsageError("--watch follows all tiles, a line each: leave out --as and --tile");
  }
  return selection;
}

}  // namespace lanescope
