// PTX ISA, "Warp Level Matrix Multiply-Accumulate Instructions": ldmatrix, stmatrix.

#include <cstring>

#include "debug/ptx/block.h"
#include "debug/ptx/decoder.h"
#include "debug/ptx/matrix.h"
#include "debug/ptx/program_builder.h"
#include "debug/ptx/warp.h"
#include "debug/simt/transpose.h"

namespace lanescope::ptx {
namespace {

/// What nobody wrote of a matrix whose rows lie there goes to the lanes that get it.
template <bool transposed>
void follow_matrix(Warp& warp, Place place, std::byte* const* rows) {
  Unwritten taken;
  for (int lane = 0; lane < 32; ++lane) {
    const int row = lane / 4, col = lane % 4 * 2;
    for (int half = 0; half < 2; ++half) {
      const std::byte* at = transposed ? rows[col + half] + 2 * row : rows[row] + 2 * (col + half);
      if (const std::uint32_t source = warp.unwritten_source(lane, at, 2)) {
        taken.lanes |= 1u << lane;
        taken.source = source - 1;
      }
    }
  }
  warp.set_unwritten(place, ~0u, taken);
}

/// What nobody wrote of the registers goes to the elements of a matrix whose rows lie there.
template <bool transposed>
void note_matrix(Warp& warp, Place place, std::byte* const* rows) {
  const Unwritten value = warp.unwritten(place);
  for (int lane = 0; lane < 32; ++lane) {
    const int row = lane / 4, col = lane % 4 * 2;
    for (int half = 0; half < 2; ++half) {
      if (value.but[static_cast<std::size_t>(half)] >> lane & 1) continue;
      std::byte* at = transposed ? rows[col + half] + 2 * row : rows[row] + 2 * (col + half);
      warp.note_stored(place, lane, at, 2);
    }
  }
}

/// Row r of matrix m lies where lane 8·m + r says. A register of lane t holds the elements
/// (t / 4, 2·(t % 4) + {0, 1}) of its matrix, or of that transposed.
template <bool transposed, bool loads>
Flow move_matrices(Warp& warp, const Instruction& in, std::uint32_t) {
  if (const Flow flow = warp.converge_all(); flow != Flow::next) return flow;
  demand_whole(warp);
  const int count = in.vector;
  const std::uint32_t rows = count == 4 ? ~0u : (1u << (8 * count)) - 1;
  Pointers pointers;
  warp.locate(in, rows, 16, pointers);
  // No byte is stored before all lanes have come here: a copy that one of them has waited for has
  // read what it reads. Their other accesses it does not order.
  if (!loads && warp.block().checker()) warp.share_waits();
  const bool unwritten = loads && warp.check_load(rows, 16, pointers, false);
  const Place* places =
      &warp.program().operands[in.operands + (loads ? 0 : in.source_count - in.vector)];
  for (int m = 0; m < count; ++m) {
    auto* registers = warp.lanes<std::uint32_t>(places[m]);
    std::uint16_t matrix[8][8];
    for (std::size_t row = 0; loads && row < 8; ++row) {
      std::memcpy(matrix[row], pointers[static_cast<std::size_t>(8 * m) + row], 16);
    }
    // Lane by lane the registers are the rows of the matrix one behind the other, or its columns.
    if (!loads) std::memcpy(matrix, registers, sizeof matrix);
    if (transposed) simt::columns::transpose_eight(matrix);
    if (loads) std::memcpy(registers, matrix, sizeof matrix);
    if (loads && warp.follows_numbers()) {
      Pointers pairs{};  // where the two elements of each lane lie, the first of them transposed
      for (std::size_t lane = 0; lane < 32; ++lane) {
        const std::size_t row = transposed ? lane % 4 * 2 : lane / 4;
        const std::size_t col = transposed ? lane / 4 : lane % 4 * 2;
        pairs[lane] = pointers[static_cast<std::size_t>(8 * m) + row] + 2 * col;
      }
      warp.follow_load(places[m], ~0u, pairs, 0, 2);
    }
    if (loads && unwritten) {
      follow_matrix<transposed>(warp, places[m], &pointers[static_cast<std::size_t>(8 * m)]);
    } else if (loads && warp.follows_unwritten()) {
      warp.set_unwritten(places[m], ~0u, {});
    }
    for (int row = 0; !loads && row < 8; ++row) {
      const auto* bytes = reinterpret_cast<const std::byte*>(matrix[row]);
      std::byte* to = pointers[static_cast<std::size_t>(8 * m + row)];
      if (warp.block().checker()) warp.check_store(8 * m + row, to, bytes, 16, false);
      std::memcpy(to, bytes, 16);
    }
    if (!loads && warp.follows_unwritten()) {
      note_matrix<transposed>(warp, places[m], &pointers[static_cast<std::size_t>(8 * m)]);
    }
  }
  return Flow::next;
}

/// movmatrix: lane t holds the elements (t / 4, t % 4 · 2 + {0, 1}) of 8×8, and gets those of its
/// transpose.
Flow transpose_in_warp(Warp& warp, const Instruction& in, std::uint32_t) {
  if (const Flow flow = warp.converge_all(); flow != Flow::next) return flow;
  demand_whole(warp);
  std::uint16_t matrix[8][8];
  std::memcpy(matrix, warp.lanes<std::uint32_t>(in.s[0]), sizeof matrix);
  simt::columns::transpose_eight(matrix);
  std::memcpy(warp.lanes<std::uint32_t>(in.d), matrix, sizeof matrix);
  if (!warp.follows_unwritten()) return Flow::next;
  const Unwritten from = warp.unwritten(in.s[0]);
  Unwritten to{0, from.source};
  for (int lane = 0; lane < 32; ++lane) {
    for (int row = lane % 4 * 2; row < lane % 4 * 2 + 2; ++row) {
      to.lanes |= (from.lanes >> (row * 4 + lane / 8) & 1) << lane;
    }
  }
  warp.set_unwritten(in.d, ~0u, to);
  return Flow::next;
}

}  // namespace

void decode_movmatrix(Decoder& d) {
  d.modifiers.ignore({"sync", "aligned"});
  if (!d.modifiers.take("m8n8") || !d.modifiers.take("trans") || d.demand_type() != Type::b16) {
    d.fail("it is .m8n8.trans.b16");
  }
  d.demand_operands(2);
  d.in.d = d.result(0, Type::b32);
  d.in.s[0] = d.source(1, Type::b32);
  d.in.carries = d.in.meets = true;
  d.in.act = transpose_in_warp;
}

void decode_matrices(Decoder& d, bool loads) {
  d.modifiers.ignore({"sync", "aligned"});
  if (!d.modifiers.take("m8n8")) d.refuse("this shape");
  const int count = d.modifiers.choose({"x1", "x2", "x4"}, -1);
  if (count < 0) d.fail(".x1, .x2 or .x4 is missing");
  d.in.vector = static_cast<std::uint8_t>(1 << count);
  const bool transposed = d.modifiers.take("trans");
  d.in.space =
      d.modifiers.choose({"shared", "shared::cta"}, -1) < 0 ? Space::generic : Space::shared;
  if (d.demand_type() != Type::b16) d.refuse("of this type");
  d.demand_operands(2);
  if (!loads) d.address(d.operand(0));
  const std::vector<Operand> elements = d.elements(d.operand(loads ? 0 : 1));
  if (elements.size() != d.in.vector) d.fail("it takes another number of registers");
  for (const Operand& element : elements) {
    loads ? d.result_of(element, 32) : d.source_of(element, Type::b32);
  }
  if (loads) d.address(d.operand(1));
  d.in.meets = d.in.carries = d.in.addresses = true;
  if (loads) {
    d.in.act = transposed ? move_matrices<true, true> : move_matrices<false, true>;
  } else {
    d.in.act = transposed ? move_matrices<true, false> : move_matrices<false, false>;
  }
}

}  // namespace lanescope::ptx
