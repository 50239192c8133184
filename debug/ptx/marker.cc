// Markers, comments of the PTX that name values (kernels/trace/lanescope.h): each lane stores its
// values where a run wants them, or takes values that the run gives.

#include "debug/ptx/marker.h"

#include <atomic>
#include <bit>
#include <cstring>
#include <string>

#include "debug/ptx/block.h"
#include "debug/ptx/decoder.h"
#include "debug/ptx/marker_run.h"
#include "debug/ptx/program_builder.h"
#include "debug/ptx/warp.h"
#include "debug/simt/checker.h"

namespace lanescope::ptx {
namespace {

/// A lane's place in a tile, for the n-th value of the marker. False where it is no element.
struct Element {
  int tile, row, col;
};

/// s: tile, row, column, value; kind: the site.
Element element_of(Warp& warp, const Instruction& in, int lane, const MarkedSlots& slots) {
  const Element at = {warp.lanes<std::int32_t>(in.s[0])[lane],
                      warp.lanes<std::int32_t>(in.s[1])[lane],
                      warp.lanes<std::int32_t>(in.s[2])[lane]};
  const int last = at.col + in.vector - 1;
  if (at.row < slots.rows && last < slots.cols) return at;
  warp.fail(lane, "the marker says row " + std::to_string(at.row) + ", column " +
                      std::to_string(last) + " of " + name_of(static_cast<SiteId>(in.kind)) +
                      ", and a tile has " + std::to_string(slots.rows) + " x " +
                      std::to_string(slots.cols) + " (br, bc and head_dim of the kernel)");
}

void note_marks(Warp& warp, const Instruction& in, std::uint32_t mask, Recording& recording) {
  for (; mask != 0; mask &= mask - 1) {
    const int lane = std::countr_zero(mask);
    const auto word = [&](int i) { return warp.lanes<std::int32_t>(in.s[i])[lane]; };
    for (int i = 0; i < in.vector; ++i) {
      recording.note_mark({static_cast<SiteId>(in.kind), warp.block().row_tile(warp.thread(lane)),
                           word(0), word(1), word(2) + i, warp.thread(lane)});
    }
  }
}

/// The values of the lanes of `mask` go to their slots.
Flow trace(Warp& warp, const Instruction& in, std::uint32_t mask) {
  const MarkerRun* run = warp.block().grid().markers;
  if (!run) return Flow::next;
  const MarkerRun::OfSite& site = run->sites[in.kind];
  const MarkedSlots& slots = site.shown;
  if (Recording* recording = warp.recording()) note_marks(warp, in, mask, *recording);
  if (!slots.base) return Flow::next;
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    const Element at = element_of(warp, in, lane, slots);
    const std::int64_t block = warp.block().row_tile(warp.thread(lane));
    const auto* value = reinterpret_cast<const std::byte*>(warp.registers() + in.s[3]) +
                        static_cast<std::size_t>(lane * slots.element * in.vector);
    for (int i = 0; i < in.vector; ++i) {
      if (at.row < 0 || at.col + i < 0) continue;
      std::byte* slot = slots.find(block, at.tile, at.row, at.col + i, lane);
      if (!slot) continue;
      std::memcpy(slot, value + i * slots.element, static_cast<std::size_t>(slots.element));
      std::atomic_ref(site.holders[slots.index(at.row, at.col + i, lane)])
          .store(static_cast<std::int16_t>(warp.thread(lane)), std::memory_order_relaxed);
    }
  }
  return Flow::next;
}

/// The tile in shared memory that a lane names, of the site that `slots` are of.
NamedTile named_tile(Warp& warp, const Instruction& in, int lane, const MarkedSlots& slots) {
  const auto& places = warp.program().tiles[static_cast<std::size_t>(in.immediate)];
  const auto number = [&](int i) {
    return warp.lanes<std::int32_t>(places[static_cast<std::size_t>(i)])[lane];
  };
  const std::int64_t begin = static_cast<std::int64_t>(number(1) & shared_offset_bits) -
                             static_cast<std::int64_t>(shared_begin);
  return {static_cast<SiteId>(in.kind),
          begin,
          slots.rows,
          slots.cols,
          bytes_of(in.type),
          {number(2), number(3), number(4), number(5), number(6)}};
}

/// Bytes from the begin of shared memory to an element. A fault where it lies outside.
std::int64_t place_in_shared(Warp& warp, int lane, const NamedTile& tile, int row, int col) {
  const std::int64_t at = tile.begin + tile.layout.offset(row, col) * tile.element;
  const auto bytes = static_cast<std::int64_t>(warp.block().shared_bytes());
  if (at >= 0 && at + tile.element <= bytes) return at;
  warp.fail(lane, "the marker has row " + std::to_string(row) + ", column " + std::to_string(col) +
                      " of " + name_of(tile.site) + " at byte " + std::to_string(at) +
                      " of shared memory, which has " + std::to_string(bytes) +
                      ": its layout, or br, bc or head_dim of the kernel");
}

/// What the tile holds goes to its slots, by the first lane of `mask` for all.
Flow show_tile(Warp& warp, const Instruction& in, std::uint32_t mask) {
  const MarkerRun* run = warp.block().grid().markers;
  if (!run || mask == 0) return Flow::next;
  const MarkedSlots& slots = run->sites[in.kind].shown;
  const int lane = std::countr_zero(mask);
  const NamedTile tile = named_tile(warp, in, lane, slots);
  if (simt::Checker* checker = warp.block().grid().checker) checker->name_tile(tile);
  const auto index =
      warp.lanes<std::int32_t>(warp.program().tiles[static_cast<std::size_t>(in.immediate)][0]);
  const std::int64_t block = warp.block().row_tile(warp.thread(lane));
  std::byte* first = slots.find(block, index[lane], 0, 0, 0);
  for (int row = 0; row < tile.rows; ++row) {
    for (int col = 0; col < tile.cols; ++col) {
      const std::int64_t from = place_in_shared(warp, lane, tile, row, col);
      if (!first) continue;
      std::memcpy(first + slots.index(row, col, 0) * tile.element, warp.block().shared() + from,
                  static_cast<std::size_t>(tile.element));
    }
  }
  return Flow::next;
}

/// Which stage begins is known without running it (ptx/control_flow.h).
Flow begin_stage(Warp&, const Instruction&, std::uint32_t) { return Flow::next; }

/// The lanes of `mask` take what the run gives.
Flow inject(Warp& warp, const Instruction& in, std::uint32_t mask) {
  const MarkerRun* run = warp.block().grid().markers;
  if (!run) return Flow::next;
  const MarkedSlots& slots = run->sites[in.kind].given;
  if (!slots.base) return Flow::next;
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    const Element at = element_of(warp, in, lane, slots);
    const std::int64_t block = warp.block().row_tile(warp.thread(lane));
    std::byte* value =
        warp.registers() + in.s[3] + static_cast<std::size_t>(lane * slots.element * in.vector);
    for (int i = 0; i < in.vector; ++i) {
      if (at.row < 0 || at.col + i < 0) continue;
      const std::byte* slot = slots.find(block, at.tile, at.row, at.col + i, lane);
      if (slot)
        std::memcpy(value + i * slots.element, slot, static_cast<std::size_t>(slots.element));
    }
  }
  return Flow::next;
}

/// s: batch, head, index.
Flow row_tile(Warp& warp, const Instruction& in, std::uint32_t mask) {
  const MarkerRun* run = warp.block().grid().markers;
  if (!run) return Flow::next;
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    const auto word = [&](int i) -> std::int64_t {
      return warp.lanes<std::int32_t>(in.s[i])[lane];
    };
    const std::int64_t block = (word(0) * run->heads + word(1)) * run->q_tiles + word(2);
    if (block < 0 || block >= run->row_tiles || word(2) < 0 || word(2) >= run->q_tiles) {
      warp.fail(lane, "the marker says batch " + std::to_string(word(0)) + ", head " +
                          std::to_string(word(1)) + ", row tile " + std::to_string(word(2)) +
                          ", and the problem has " + std::to_string(run->row_tiles) +
                          " row tiles, " + std::to_string(run->q_tiles) + " of " +
                          std::to_string(run->br) + " queries (br of the kernel) per head");
    }
    warp.block().set_row_tile(warp.thread(lane), block);
  }
  return Flow::next;
}

}  // namespace

bool decode_marker(Decoder& d) {
  if (!is_marker(d.statement())) return false;
  std::string_view words = d.statement().opcode;
  const auto marker = take_marker(words);
  if (!marker) d.fail("there is no such marker (kernels/trace/lanescope.h)");
  using enum Marker::Kind;
  d.demand_operands(static_cast<std::size_t>(operand_count(marker->kind)));
  Program& program = d.program().program();
  d.in.kind = static_cast<std::uint8_t>(marker->site);
  const Type type = marker->form == Marker::Form::b16 ? Type::b16 : Type::b32;
  switch (marker->kind) {
    case phase:
      d.in.act = begin_stage;
      break;
    case row_tile:
      for (std::size_t i = 0; i < 3; ++i) d.in.s[i] = d.source(i, Type::b32);
      program.names_row_tiles = true;
      d.in.act = ptx::row_tile;
      break;
    case trace:
    case inject:
      for (std::size_t i = 0; i < 3; ++i) d.in.s[i] = d.source(i, Type::b32);
      d.in.vector = marker->form == Marker::Form::b16x2 ? 2 : 1;
      d.in.s[3] =
          marker->kind == trace ? d.source(3, type) : d.result_of(d.operand(3), bits_of(type));
      d.in.act = marker->kind == trace ? ptx::trace : ptx::inject;
      break;
    case tile:
      d.in.type = type;
      d.in.immediate = static_cast<std::int64_t>(program.tiles.size());
      program.tiles.emplace_back();
      for (std::size_t i = 0; i < 7; ++i) program.tiles.back()[i] = d.source(i, Type::b32);
      d.in.act = show_tile;
      break;
  }
  program.traces |= shows(*marker);
  // What it names, nobody uses.
  d.results.clear();
  d.sources.clear();
  d.modifiers = Modifiers("");
  return true;
}

}  // namespace lanescope::ptx
