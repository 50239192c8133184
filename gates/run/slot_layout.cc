#include "gates/run/slot_layout.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace lanescope {
namespace {

/// More bytes than any machine has, and few enough that sums of them do not overflow.
constexpr std::int64_t most_bytes = std::numeric_limits<std::int64_t>::max() / 16;

}  // namespace

SlotLayout::SlotLayout(const Module& module, bool (*holds)(Gate, const Site&), const Window& window)
    : window_(window) {
  const std::int64_t blocks = window.block_end - window.block_begin;
  const std::int64_t tiles = window.tile_end - window.tile_begin;
  for (int i = 0; i < module.site_count; ++i) {
    const Site& site = module.sites[i];
    if (!holds(module.gate, site)) continue;
    sites_.push_back(site);
    offsets_.push_back(bytes_);
    std::int64_t slots = 0, bytes = 0;
    const bool overflows = __builtin_mul_overflow(blocks, site.per_tile ? tiles : 1, &slots) ||
                           __builtin_mul_overflow(slots, site.bytes(), &bytes);
    bytes_ = overflows ? most_bytes : std::min(bytes_ + std::min(bytes, most_bytes), most_bytes);
  }
}

std::int64_t SlotLayout::slot(std::size_t index, std::int64_t block, std::int64_t tile) const {
  const Site& site = sites_[index];
  const std::int64_t own_block = block - window_.block_begin;
  const std::int64_t tiles = window_.tile_end - window_.tile_begin;
  const std::int64_t own =
      site.per_tile ? own_block * tiles + (tile - window_.tile_begin) : own_block;
  return offsets_[index] + own * site.bytes();
}

std::int64_t SlotLayout::register_offset(std::size_t index, std::int64_t block, std::int64_t tile,
                                         int warp, int lane, int reg) const {
  const Site& site = sites_[index];
  const int words = site.regs * size_of(site.type) / 4;
  const int chunk_bytes = 4 * words_per_chunk(words);
  const int byte = reg * size_of(site.type);
  const int chunks = words * 4 / chunk_bytes;
  const std::int64_t place = (std::int64_t{warp} * chunks + byte / chunk_bytes) * 32 + lane;
  return slot(index, block, tile) + place * chunk_bytes + byte % chunk_bytes;
}

std::int64_t SlotLayout::shared_offset(std::size_t index, std::int64_t block, std::int64_t tile,
                                       int row, int col) const {
  const Site& site = sites_[index];
  return slot(index, block, tile) + (std::int64_t{row} * site.cols + col) * size_of(site.type);
}

Tensor SlotLayout::unpack(std::size_t index, const std::byte* buffer, Range blocks,
                          Range tiles) const {
  const Site& site = sites_[index];
  if (!site.per_tile) tiles = {0, 1};
  const bool registers = site.space == Space::registers;
  Tensor tensor(site.type, registers ? std::vector<std::int64_t>{blocks.count(), tiles.count(),
                                                                 site.warps, 32, site.regs}
                                     : std::vector<std::int64_t>{blocks.count(), tiles.count(),
                                                                 site.rows, site.cols});
  std::byte* to = tensor.bytes.data();
  const auto element = static_cast<std::size_t>(size_of(site.type));
  for (std::int64_t block = blocks.begin; block < blocks.end; ++block) {
    for (std::int64_t tile = tiles.begin; tile < tiles.end; ++tile) {
      if (!registers) {
        std::memcpy(to, buffer + slot(index, block, tile), static_cast<std::size_t>(site.bytes()));
        to += site.bytes();
        continue;
      }
      for (int warp = 0; warp < site.warps; ++warp) {
        for (int lane = 0; lane < 32; ++lane) {
          for (int reg = 0; reg < site.regs; ++reg, to += element) {
            std::memcpy(to, buffer + register_offset(index, block, tile, warp, lane, reg), element);
          }
        }
      }
    }
  }
  return tensor;
}

}  // namespace lanescope
