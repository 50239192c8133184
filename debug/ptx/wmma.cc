// PTX ISA, wmma.load, wmma.mma, wmma.store of 16×16×16 matrices, of .tf32 16×16×8.

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "debug/ptx/block.h"
#include "debug/ptx/matrix.h"
#include "debug/ptx/program_builder.h"
#include "debug/ptx/wmma_fragments.h"
#include "debug/simt/numerics.h"
#include "debug/simt/tensor_core_scalar.h"
#include "reference/element_type.h"

namespace lanescope::ptx {
namespace {

using namespace wmma;

using Access = simt::BlockChecker::Access;

enum class Part : std::uint8_t { a, b, accumulator };

/// Where the elements of a matrix lie: the lanes give the same address and stride. `in.kind`: the
/// part, `in.immediate2`: whether columns lie one after the other.
struct Tile {
  std::byte* base;
  std::int64_t stride;
  bool columns;
  std::byte* at(Element element, std::int64_t bytes) const {
    const std::int64_t index =
        columns ? element.col * stride + element.row : element.row * stride + element.col;
    return base + index * bytes;
  }
};

/// Of an access to `rows` by `cols` elements by the whole warp; each lane's elements are checked.
Tile tile_of(Warp& warp, const Instruction& in, std::int64_t bytes, int rows = 16, int cols = 16) {
  const auto* strides = warp.lanes<std::uint32_t>(in.s[1]);
  for (int lane = 1; lane < 32; ++lane) {
    if (warp.address_of(in, lane) != warp.address_of(in, 0) || strides[lane] != strides[0]) {
      warp.fail(lane, "the lane gives another address or stride than lane 0");
    }
  }
  const std::uint64_t address = warp.address_of(in, 0);
  if (address % 32 != 0) warp.fail(0, "misaligned address: a multiple of 32 is needed");
  const auto stride = static_cast<std::int64_t>(strides[0]);
  const int lines = in.immediate2 != 0 ? cols : rows, in_line = rows + cols - lines;
  const auto span = static_cast<std::size_t>(((lines - 1) * stride + in_line) * bytes);
  return {warp.locate(in.space, address, span, 0), stride, in.immediate2 != 0};
}

/// Checks the load of an element; what nobody wrote of it goes on in `taken`.
void check_load(Warp& warp, const Tile& tile, Element element, std::size_t bytes, int lane,
                Unwritten& taken) {
  Pointers pointers;
  std::byte* at = tile.at(element, static_cast<std::int64_t>(bytes));
  pointers[static_cast<std::size_t>(lane)] = at;
  if (!warp.check_load(1u << lane, bytes, pointers, false)) return;
  if (const std::uint32_t source = warp.unwritten_source(lane, at, bytes)) {
    taken.lanes |= 1u << lane;
    taken.source = source - 1;
  }
}

void check_store(Warp& warp, std::byte* at, std::size_t bytes, Place place, int lane) {
  Pointers pointers;
  pointers[static_cast<std::size_t>(lane)] = at;
  warp.check(Access::write, 1u << lane, bytes, pointers);
  warp.note_stored(place, lane, at, bytes);
}

/// T: the elements, of 16 bits each or .tf32.
template <class T>
Flow load_operand(Warp& warp, const Instruction& in, std::uint32_t) {
  if (const Flow flow = warp.converge_all(); flow != Flow::next) return flow;
  demand_whole(warp);
  constexpr int bytes = sizeof(T), each = 4 / bytes, depth = each * 8;
  const bool is_a = in.kind == static_cast<int>(Part::a);
  const Tile tile = tile_of(warp, in, bytes, is_a ? 16 : depth, is_a ? depth : 16);
  const bool is_checked = warp.block().checker() != nullptr;
  const auto element_of = [&](int lane, int reg, int half) {
    if (each == 1) return is_a ? element_of_a_tf32(lane, reg) : element_of_b_tf32(lane, reg);
    return is_a ? element_of_a(lane, reg % 4, half) : element_of_b(lane, reg % 4, half);
  };
  for (int reg = 0; reg < in.result_count; ++reg) {
    const Place place = warp.program().operands[in.operands + static_cast<std::size_t>(reg)];
    auto* registers = warp.lanes<std::uint32_t>(place);
    Unwritten taken;
    for (int lane = 0; lane < 32; ++lane) {
      T values[each];
      for (int half = 0; half < each; ++half) {
        const Element element = element_of(lane, reg, half);
        if (is_checked && reg < 4) check_load(warp, tile, element, bytes, lane, taken);
        if (Recording* recording = warp.recording()) {
          recording->note_element({reg, lane, tile.at(element, bytes), bytes});
        }
        std::memcpy(&values[half], tile.at(element, bytes), bytes);
      }
      std::memcpy(&registers[lane], values, 4);
    }
    if (is_checked) warp.set_unwritten(place, ~0u, taken);
  }
  return Flow::next;
}

template <bool loads, class T>
Flow move_accumulator(Warp& warp, const Instruction& in, std::uint32_t) {
  if (const Flow flow = warp.converge_all(); flow != Flow::next) return flow;
  demand_whole(warp);
  constexpr int count = registers_of<T>, each = in_register<T>, bytes = sizeof(T);
  const Tile tile = tile_of(warp, in, bytes);
  const bool is_checked = warp.block().checker() != nullptr;
  const std::uint32_t first = loads ? 0u : in.source_count - static_cast<std::uint32_t>(count);
  const Place* places = &warp.program().operands[in.operands + first];
  for (int reg = 0; reg < count; ++reg) {
    T* registers = warp.lanes<T>(places[reg]);
    Unwritten taken;
    for (int i = 0; i < 32 * each; ++i) {
      const int lane = i / each;
      const Element element = element_of_accumulator(lane, reg * each + i % each);
      std::byte* at = tile.at(element, bytes);
      if (is_checked && loads) check_load(warp, tile, element, bytes, lane, taken);
      if (is_checked && !loads) check_store(warp, at, bytes, places[reg], lane);
      if (Recording* recording = warp.recording()) {
        recording->note_element({static_cast<int>(first) + reg, lane, at, bytes});
      }
      std::memcpy(loads ? static_cast<void*>(&registers[i]) : at,
                  loads ? at : static_cast<const void*>(&registers[i]), bytes);
    }
    if (is_checked && loads) warp.set_unwritten(places[reg], ~0u, taken);
  }
  return Flow::next;
}

/// An element is unwritten where a value of its row of a, of its column of b, or of c is.
template <class D, class C>
void follow_unwritten(Warp& warp, const Place* d, const Place* a, const Place* b, const Place* c) {
  if (!warp.follows_unwritten()) return;
  std::uint32_t rows = 0, cols = 0, source = 0;
  const auto take = [&](Place place, auto&& index, std::uint32_t& set) {
    const Unwritten value = warp.unwritten(place);
    if (value.lanes != 0) source = value.source;
    for (int lane = 0; lane < 32; ++lane) {
      if (value.lanes >> lane & 1) set |= 1u << index(lane);
    }
  };
  for (int reg = 0; reg < 4; ++reg) {
    take(
        a[reg], [=](int lane) { return element_of_a(lane, reg, 0).row; }, rows);
    take(
        b[reg], [=](int lane) { return element_of_b(lane, reg, 0).col; }, cols);
  }
  Unwritten results[8];
  std::fill_n(results, 8, Unwritten{0, source});
  for (int i = 0; i < 8; ++i) {
    const Unwritten before = warp.unwritten(c[i / in_register<C>]);
    Unwritten& result = results[i / in_register<D>];
    result.lanes |= before.lanes;
    if (before.lanes != 0) result.source = before.source;
    for (int lane = 0; lane < 32; ++lane) {
      const Element at = element_of_accumulator(lane, i);
      if ((rows >> at.row & 1) != 0 || (cols >> at.col & 1) != 0) result.lanes |= 1u << lane;
    }
  }
  for (int reg = 0; reg < registers_of<D>; ++reg) warp.set_unwritten(d[reg], ~0u, results[reg]);
}

/// The left and the right half of b and of an accumulator, by columns.
template <class T>
using Halves = T[2][8][16];

template <class T, class Registers>
void gather_accumulator(Warp& warp, const Place* places, Halves<T>& c) {
  constexpr int each = in_register<Registers>;
  for (int reg = 0; reg < registers_of<Registers>; ++reg) {
    const auto* registers = warp.lanes<Registers>(places[reg]);
    for (int i = 0; i < 32 * each; ++i) {
      const Element at = element_of_accumulator(i / each, reg * each + i % each);
      T& to = c[at.col / 8][at.col % 8][at.row];
      if constexpr (sizeof(T) == sizeof(Registers)) to = registers[i];
      if constexpr (sizeof(T) > sizeof(Registers)) to = simt::f16_to_f32(registers[i]);
    }
  }
}

template <class T, class Registers>
void scatter_accumulator(Warp& warp, const Place* places, const Halves<T>& d) {
  constexpr int each = in_register<Registers>;
  for (int reg = 0; reg < registers_of<Registers>; ++reg) {
    auto* registers = warp.lanes<Registers>(places[reg]);
    for (int i = 0; i < 32 * each; ++i) {
      const Element at = element_of_accumulator(i / each, reg * each + i % each);
      const T from = d[at.col / 8][at.col % 8][at.row];
      if constexpr (sizeof(T) == sizeof(Registers)) registers[i] = from;
      if constexpr (sizeof(T) > sizeof(Registers)) registers[i] = simt::f32_to_f16(from);
    }
  }
}

/// On Hopper two products 16×8×16, left and right half, whose sums are of .f16 where c and d both
/// are, else of .f32 (ptxas 13 converts c or d). in.vector: registers of a and of b.
template <ElementType type, class D, class C>
Flow multiply(Warp& warp, const Instruction& in, std::uint32_t) {
  if (const Flow flow = warp.converge_all(); flow != Flow::next) return flow;
  constexpr bool to_f16 = sizeof(D) == 2 && sizeof(C) == 2;
  to_f16 ? demand_hopper(warp) : demand_whole(warp);
  const Place* d = &warp.program().operands[in.operands];
  const Place *of_a = d + registers_of<D>, *of_b = of_a + in.vector, *of_c = of_b + in.vector;
  std::uint16_t a[16][16];
  Halves<std::uint16_t> b;
  for (int reg = 0; reg < 4; ++reg) {
    const auto* left = warp.lanes<std::uint32_t>(of_a[reg]);
    const auto* right = warp.lanes<std::uint32_t>(of_b[reg]);
    for (int lane = 0; lane < 32; ++lane) {
      for (int half = 0; half < 2; ++half) {
        const Element x = element_of_a(lane, reg, half), y = element_of_b(lane, reg, half);
        a[x.row][x.col] = static_cast<std::uint16_t>(left[lane] >> (16 * half));
        b[y.col / 8][y.col % 8][y.row] = static_cast<std::uint16_t>(right[lane] >> (16 * half));
      }
    }
  }
  using Sum = std::conditional_t<to_f16, std::uint16_t, float>;
  Halves<Sum> sums;
  gather_accumulator<Sum, C>(warp, of_c, sums);
  for (int half = 0; half < 2; ++half) {
    if constexpr (to_f16) {
      simt::multiply_accumulate_f16(a, b[half], sums[half]);
    } else {
      simt::multiply_accumulate(type, warp.block().grid().tensor_core, a, b[half], 8, sums[half]);
    }
  }
  scatter_accumulator<Sum, D>(warp, d, sums);
  follow_unwritten<D, C>(warp, d, of_a, of_b, of_c);
  return Flow::next;
}

/// Of .tf32: each half is two products 16×8×4 (ptxas 13), here of the first four columns of a, then
/// of the others.
Flow multiply_tf32(Warp& warp, const Instruction& in, std::uint32_t) {
  if (const Flow flow = warp.converge_all(); flow != Flow::next) return flow;
  demand_hopper(warp);
  const Place* d = &warp.program().operands[in.operands];
  const Place *of_a = d + 8, *of_b = of_a + 4, *of_c = of_b + 4;
  // By step; of the eight columns that a product has, the last four are zeros.
  std::uint32_t a[2][16][8] = {}, b[2][2][8][8] = {};
  for (int reg = 0; reg < 4; ++reg) {
    for (int lane = 0; lane < 32; ++lane) {
      const Element x = element_of_a_tf32(lane, reg), y = element_of_b_tf32(lane, reg);
      a[x.col / 4][x.row][x.col % 4] = warp.lanes<std::uint32_t>(of_a[reg])[lane];
      b[y.row / 4][y.col / 8][y.col % 8][y.row % 4] = warp.lanes<std::uint32_t>(of_b[reg])[lane];
    }
  }
  Halves<float> sums;
  gather_accumulator<float, float>(warp, of_c, sums);
  for (int step = 0; step < 2; ++step) {
    for (int half = 0; half < 2; ++half) {
      simt::multiply_accumulate_tf32(a[step], b[step][half], sums[half]);
    }
  }
  scatter_accumulator<float, float>(warp, d, sums);
  follow_unwritten<float, float>(warp, d, of_a, of_b, of_c);
  return Flow::next;
}

void take_stride(Decoder& d, std::size_t operand) {
  d.in.s[1] = d.operand_count() > operand ? d.source(operand, Type::b32) : d.constant(16, 32);
}

void decode_transfer(Decoder& d, Part part, bool loads, bool is_tf32) {
  d.in.kind = static_cast<std::uint8_t>(part);
  d.in.immediate2 = d.modifiers.choose({"row", "col"}, 0);
  const int space = d.modifiers.choose({"global", "shared", "shared::cta"}, -1);
  d.in.space = space < 0 ? Space::generic : space == 0 ? Space::global : Space::shared;
  const Type type = d.demand_type();
  const bool is_sum = part == Part::accumulator;
  const bool known = is_sum    ? type == Type::f32 || (type == Type::f16 && !is_tf32)
                     : is_tf32 ? type == Type::tf32
                               : type == Type::f16 || type == Type::bf16;
  if (!known) {
    d.refuse("of this type: what a GPU computes is not known bit for bit");
  }
  const bool half_sum = is_sum && type == Type::f16;
  const bool few = type == Type::bf16 || type == Type::tf32 || half_sum;
  const std::size_t count = few ? 4 : 8;
  d.demand_operands(2, 3);
  // The address first: in a store the fragment's registers are the last of the sources.
  take_stride(d, 2);
  if (loads) {
    take_fragment(d, 0, count, true, "r");
    d.address(d.operand(1));
    d.in.act = half_sum  ? move_accumulator<true, std::uint16_t>
               : is_sum  ? move_accumulator<true, float>
               : is_tf32 ? load_operand<std::uint32_t>
                         : load_operand<std::uint16_t>;
  } else {
    d.address(d.operand(0));
    take_fragment(d, 1, count, false, "r");
    d.in.act = half_sum ? move_accumulator<false, std::uint16_t> : move_accumulator<false, float>;
  }
}

template <ElementType type, class D>
WarpOperation choose_sum(Type from) {
  return from == Type::f16 ? multiply<type, D, std::uint16_t> : multiply<type, D, float>;
}

void decode_multiply_tf32(Decoder& d) {
  for (const Type type : {Type::f32, Type::tf32, Type::tf32, Type::f32}) {
    if (d.demand_type() != type) d.refuse("of these types: m16n16k8 is of .f32.tf32.tf32.f32");
  }
  d.demand_operands(4);
  take_fragment(d, 0, 8, true, "d");
  take_fragment(d, 1, 4, false, "a");
  take_fragment(d, 2, 4, false, "b");
  take_fragment(d, 3, 8, false, "c");
  d.in.act = multiply_tf32;
}

void decode_multiply(Decoder& d, bool is_tf32) {
  d.modifiers.ignore({"row", "col", "row", "col"});
  if (d.modifiers.take("satfinite")) d.refuse(".satfinite");
  if (is_tf32) return decode_multiply_tf32(d);
  const Type to = d.demand_type();
  const Type second = d.demand_type();
  // Of .f16 the opcode names d and c alone.
  const bool is_bf16 = second == Type::bf16;
  if (is_bf16) d.demand_type();
  const Type from = is_bf16 ? d.demand_type() : second;
  const auto known = [&](Type type) {
    return type == Type::f32 || (type == Type::f16 && !is_bf16);
  };
  if (!known(to) || !known(from)) {
    d.refuse("of these types: what a GPU computes is not known bit for bit");
  }
  d.in.vector = is_bf16 ? 4 : 8;
  d.demand_operands(4);
  take_fragment(d, 0, to == Type::f16 ? 4 : 8, true, "d");
  take_fragment(d, 1, d.in.vector, false, "a");
  take_fragment(d, 2, d.in.vector, false, "b");
  take_fragment(d, 3, from == Type::f16 ? 4 : 8, false, "c");
  d.in.act = is_bf16           ? multiply<ElementType::bf16, float, float>
             : to == Type::f16 ? choose_sum<ElementType::f16, std::uint16_t>(from)
                               : choose_sum<ElementType::f16, float>(from);
}

}  // namespace

void decode_wmma(Decoder& d) {
  d.modifiers.ignore({"sync", "aligned"});
  const int operation = d.modifiers.choose({"load", "store", "mma"}, -1);
  const bool is_tf32 = d.modifiers.take("m16n16k8");
  if (!is_tf32 && !d.modifiers.take("m16n16k16")) {
    d.refuse("of this shape: only m16n16k16, and m16n16k8 of .tf32");
  }
  d.in.carries = d.in.meets = true;
  if (operation == 0) {
    const int part = d.modifiers.choose({"a", "b", "c"}, 2);
    decode_transfer(d, static_cast<Part>(part), true, is_tf32);
  } else if (operation == 1) {
    d.modifiers.take("d");
    decode_transfer(d, Part::accumulator, false, is_tf32);
  } else if (operation == 2) {
    decode_multiply(d, is_tf32);
  } else {
    d.fail(".load, .store or .mma is missing");
  }
}

}  // namespace lanescope::ptx
