#include <algorithm>

#include "debug/causes/detectors.h"
#include "debug/causes/formulas.h"
#include "reference/elementary.h"

namespace lanescope {
namespace {

using reference::Bounded;

/// What `block`, which has gone over its own tiles, leaves at the scene's site after those from
/// `first` to `last`.
std::optional<Bounded> left_after(const Scene& scene, reference::OnlineBlock block,
                                  std::int64_t first, std::int64_t last) {
  if (first > last || scene.info().key_of(scene.place(), last) >= scene.info().problem.len_kv) {
    return std::nullopt;
  }
  for (std::int64_t tile = first; tile <= last; ++tile) block.step(tile);
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

/// The tile of the block's that would hold the last key.
std::int64_t last_of_keys(const Scene& scene) {
  const DumpInfo& info = scene.info();
  const std::int64_t first = info.key_of(scene.place(), 0);
  return (info.problem.len_kv - first + info.bc - 1) / info.bc - 1;
}

}  // namespace

void find_extra_tile(const Scene& scene, Findings& findings) {
  if (scene.first().stage != Stage::epilogue) return;
  const std::size_t before = findings.size();
  const Formulas fits(scene, findings);
  reference::OnlineBlock block = scene.reference();
  for (std::int64_t tile = 0; tile <= scene.last_tile(); ++tile) block.step(tile);
  const auto attempt = [&](std::int64_t from, std::int64_t to, const std::string& text) {
    if (const auto left = left_after(scene, block, from, to)) {
      fits(Cause::contribution_repeated, text, left->value, 0, left->error);
    }
  };
  const std::int64_t last = scene.last_tile(), of_keys = last_of_keys(scene);
  attempt(last + 1, last + 1,
          "after its last tile, the block goes on with one that is not its own");
  if (of_keys > last + 1) {
    attempt(last + 1, of_keys,
            "after its last tile, the block goes on to the last key, with " +
                std::to_string(of_keys - last) + " tiles that are not its own");
  }
  for (std::int64_t tile = 0; tile <= std::min<std::int64_t>(last, 8); ++tile) {
    attempt(tile, tile, "tile " + std::to_string(tile) + " is visited again after the last one");
  }
  // Which tiles a block goes through says what it loads.
  for (std::size_t i = before; i < findings.size(); ++i) findings[i].stage = Stage::load;
}

}  // namespace lanescope
