#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "debug/dump/dump.h"
#include "gates/module/module.h"
#include "reference/window.h"

namespace lanescope {

/// Whether a pass of the kernel of `gate` leaves values of the site to the next one.
inline bool is_shared_by_passes(Gate gate, const Site& site) {
  return has(gate, site.id) && is_partial(site.id);
}

/// The host's view of a buffer of slots (reference/window.h says where each value lies): which
/// sites it holds, and the way between its bytes and tensors.
class SlotLayout {
 public:
  /// The sites of `module` for which `holds(gate, site)`, for the blocks and tiles of `window`.
  SlotLayout(const Module& module, bool (*holds)(Gate, const Site&), const Window& window);

  std::int64_t bytes() const { return bytes_; }
  const std::vector<Site>& sites() const { return sites_; }

  /// Where element `reg` of a lane (registers), or element (row, col) (shared memory), lies.
  /// `index` counts sites(); block and tile are absolute.
  std::int64_t register_offset(std::size_t index, std::int64_t block, std::int64_t tile, int warp,
                               int lane, int reg) const;
  std::int64_t shared_offset(std::size_t index, std::int64_t block, std::int64_t tile, int row,
                             int col) const;

  /// Site `index` of `buffer` as a tensor [block, tile, warp, lane, reg] or [block, tile, row,
  /// col], for the given blocks and tiles.
  Tensor unpack(std::size_t index, const std::byte* buffer, Range blocks, Range tiles) const;

 private:
  std::int64_t slot(std::size_t index, std::int64_t block, std::int64_t tile) const;

  Window window_;
  std::vector<Site> sites_;
  std::vector<std::int64_t> offsets_;
  std::int64_t bytes_ = 0;
};

}  // namespace lanescope
