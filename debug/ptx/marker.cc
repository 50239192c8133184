// Markers, comments of the PTX that name values (kernels/trace/lanescope.h): each lane stores its
// values where a run wants them, or takes values that the run gives.

#include "debug/ptx/marker.h"

#include <atomic>
#include <cstring>
#include <string>

#include "debug/ptx/block.h"
#include "debug/ptx/decoder.h"
#include "debug/ptx/marker_run.h"
#include "debug/ptx/program_builder.h"
#include "debug/ptx/warp.h"

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

/// The values of the lanes of `mask` go to their slots.
Flow trace(Warp& warp, const Instruction& in, std::uint32_t mask) {
  const MarkerRun* run = warp.block().grid().markers;
  if (!run) return Flow::next;
  const MarkerRun::OfSite& site = run->sites[in.kind];
  const MarkedSlots& slots = site.shown;
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
  const bool places = marker->kind != Marker::Kind::row_tile;
  d.demand_operands(places ? 4 : 3);
  for (std::size_t i = 0; i < 3; ++i) d.in.s[i] = d.source(i, Type::b32);
  if (places) {
    d.in.kind = static_cast<std::uint8_t>(marker->site);
    d.in.vector = marker->form == Marker::Form::b16x2 ? 2 : 1;
    const Type type = marker->form == Marker::Form::b16 ? Type::b16 : Type::b32;
    d.in.s[3] = marker->kind == Marker::Kind::trace ? d.source(3, type)
                                                    : d.result_of(d.operand(3), bits_of(type));
  } else {
    d.program().program().names_row_tiles = true;
  }
  d.program().program().traces |= marker->kind == Marker::Kind::trace;
  d.in.act = !places ? row_tile : marker->kind == Marker::Kind::trace ? trace : inject;
  // What it names, nobody uses.
  d.results.clear();
  d.sources.clear();
  d.modifiers = Modifiers("");
  return true;
}

}  // namespace lanescope::ptx
