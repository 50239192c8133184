#include <algorithm>

#include "debug/causes/detectors.h"
#include "debug/causes/formulas.h"
#include "reference/elementary.h"

namespace lanescope {
namespace {

using reference::Bounded;

/// What `block`, which has gone over its own tiles, leaves at the scene's site after `extra`.
std::optional<Bounded> left_after(const Scene& scene, reference::OnlineBlock block,
                                  std::int64_t extra) {
  if (scene.info().key_of(scene.place(), extra) >= scene.info().problem.len_kv) return std::nullopt;
  block.step(extra);
  switch (scene.site()) {
    case SiteId::o_partial:
      return block.partial().o;
    case SiteId::m_partial:
      return block.partial().m;
    case SiteId::l_partial:
      return block.partial().l;
    case SiteId::o_final:
      return block.finish().o_final;
    case SiteId::lse:
      return block.finish().lse;
    default:
      return std::nullopt;
  }
}

}  // namespace

void find_extra_tile(const Scene& scene, Findings& findings) {
  if (scene.first().stage != Stage::epilogue) return;
  const Formulas fits(scene, findings);
  reference::OnlineBlock block = scene.reference();
  for (std::int64_t tile = 0; tile <= scene.last_tile(); ++tile) block.step(tile);
  const auto attempt = [&](std::int64_t extra, const std::string& text) {
    if (const auto left = left_after(scene, block, extra)) {
      fits(Cause::contribution_repeated, text, left->value, 0, left->error);
    }
  };
  const std::int64_t last = scene.last_tile();
  attempt(last + 1, "after its last tile, the block goes on with one that is not its own");
  for (std::int64_t tile = 0; tile <= std::min<std::int64_t>(last, 8); ++tile) {
    attempt(tile, "tile " + std::to_string(tile) + " is visited again after the last one");
  }
}

}  // namespace lanescope
