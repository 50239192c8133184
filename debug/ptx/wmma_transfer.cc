// PTX ISA, wmma.load and wmma.store.

#include <algorithm>
#include <cstring>

#include "debug/ptx/block.h"
#include "debug/ptx/matrix.h"
#include "debug/ptx/program_builder.h"
#include "debug/ptx/wmma_fragments.h"

namespace lanescope::ptx::wmma {
namespace {

/// Where the elements of a matrix lie: the lanes give the same address and stride. `in.immediate2`:
/// whether columns lie one after the other.
struct Tile {
  std::byte* base;
  std::int64_t stride;  ///< elements
  bool columns;
  std::byte* at(Element element, int bits) const {
    const std::int64_t index =
        columns ? element.col * stride + element.row : element.row * stride + element.col;
    return base + index * bits / 8;
  }
};

/// Of an access to `rows` by `cols` elements by the whole warp; each lane's elements are checked.
/// in.vector: the bytes of a lane's registers, whose multiple the address is.
Tile tile_of(Warp& warp, const Instruction& in, int bits, int rows, int cols) {
  const auto* strides = warp.lanes<std::uint32_t>(in.s[1]);
  for (int lane = 1; lane < 32; ++lane) {
    if (warp.address_of(in, lane) != warp.address_of(in, 0) || strides[lane] != strides[0]) {
      warp.fail(lane, "the lane gives another address or stride than lane 0");
    }
  }
  const std::uint64_t address = warp.address_of(in, 0);
  if (address % in.vector != 0) {
    warp.fail(0, "misaligned address: a multiple of " + std::to_string(in.vector) + " is needed",
              FaultKind::misaligned_address);
  }
  const auto stride = static_cast<std::int64_t>(strides[0]);
  const int lines = in.immediate2 != 0 ? cols : rows, in_line = rows + cols - lines;
  const auto span = static_cast<std::size_t>(((lines - 1) * stride + in_line) * bits / 8);
  return {warp.locate(in.space, address, span, 0), stride, in.immediate2 != 0};
}

/// Checks the load of a lane's bytes; what nobody wrote of them goes on in `taken`.
void check_load(Warp& warp, std::byte* at, std::size_t bytes, int lane, Unwritten& taken) {
  Pointers pointers;
  pointers[static_cast<std::size_t>(lane)] = at;
  if (!warp.check_load(1u << lane, bytes, pointers, false)) return;
  if (const std::uint32_t source = warp.unwritten_source(lane, at, bytes)) {
    taken.lanes |= 1u << lane;
    taken.source = source - 1;
  }
}

void check_store(Warp& warp, std::byte* at, const void* value, std::size_t bytes, Place place,
                 int lane) {
  warp.check_store(lane, at, static_cast<const std::byte*>(value), bytes, false);
  warp.note_stored(place, lane, at, bytes);
}

template <Form form, Part part>
Flow load_factor(Warp& warp, const Instruction& in, std::uint32_t) {
  if (const Flow flow = warp.converge_all(); flow != Flow::next) return flow;
  demand_whole(warp);
  constexpr bool is_a = part == Part::a;
  constexpr int distinct = form.distinct(part), in_word = form.in_word();
  // Elements of less than a byte come as words: they lie side by side in memory too.
  constexpr int pieces = form.bits < 8 ? 1 : in_word;
  constexpr std::size_t word_bytes = form.bits == 64 ? 8 : 4, bytes = word_bytes / pieces;
  const Tile tile = tile_of(warp, in, form.bits, is_a ? form.m : form.k, is_a ? form.k : form.n);
  const bool is_checked = warp.block().checker() != nullptr;
  for (int reg = 0; reg < in.result_count; ++reg) {
    const Place place = warp.program().operands[in.operands + static_cast<std::size_t>(reg)];
    auto* registers = warp.lanes<std::byte>(place);
    Unwritten taken;
    for (int lane = 0; lane < 32; ++lane) {
      const Word word = form.word(part, lane, reg % distinct);
      for (int i = 0; i < pieces; ++i) {
        const int k = word.word * in_word + i;
        std::byte* at = tile.at(is_a ? Element{word.line, k} : Element{k, word.line}, form.bits);
        if (is_checked && reg < distinct) check_load(warp, at, bytes, lane, taken);
        if (Recording* recording = warp.recording()) {
          recording->note_element({reg, lane, at, bytes});
        }
        std::memcpy(registers + static_cast<std::size_t>(lane) * word_bytes +
                        static_cast<std::size_t>(i) * bytes,
                    at, bytes);
      }
    }
    if (is_checked) warp.set_unwritten(place, ~0u, taken);
  }
  return Flow::next;
}

/// T: an element; two of 16 bits lie in a register.
template <Form form, bool loads, class T>
Flow move_sums(Warp& warp, const Instruction& in, std::uint32_t) {
  if (const Flow flow = warp.converge_all(); flow != Flow::next) return flow;
  demand_whole(warp);
  constexpr int each = sizeof(T) == 2 ? 2 : 1, count = form.sums() / each, bytes = sizeof(T);
  const Tile tile = tile_of(warp, in, 8 * bytes, form.m, form.n);
  const bool is_checked = warp.block().checker() != nullptr;
  const std::uint32_t first = loads ? 0u : in.source_count - static_cast<std::uint32_t>(count);
  const Place* places = &warp.program().operands[in.operands + first];
  for (int reg = 0; reg < count; ++reg) {
    T* registers = warp.lanes<T>(places[reg]);
    Unwritten taken;
    for (int i = 0; i < 32 * each; ++i) {
      const int lane = i / each;
      std::byte* at = tile.at(form.sum(lane, reg * each + i % each), 8 * bytes);
      if (is_checked && loads) check_load(warp, at, bytes, lane, taken);
      if (is_checked && !loads) check_store(warp, at, &registers[i], bytes, places[reg], lane);
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

template <Form form, bool loads>
WarpOperation choose_sums(Type type) {
  if constexpr (form.bits == 64) return move_sums<form, loads, double>;
  if constexpr (form.bits == 16) {
    if (type == Type::f16) return move_sums<form, loads, std::uint16_t>;
  }
  return move_sums<form, loads, std::uint32_t>;
}

/// The shapes that sums of a type have.
bool has_sums(const Form& form, Type type) {
  switch (type) {
    case Type::f16:
      return form.k == 16;
    case Type::f32:
      return form.k == 16 || form.bits == 32;
    case Type::s32:
      return form.k == 16 || form.bits < 8;
    case Type::f64:
      return form.bits == 64;
    default:
      return false;
  }
}

/// The address and the stride first: in a store the fragment's registers are the last of the
/// sources.
void take_places(Decoder& d, std::size_t address, int lines_apart) {
  d.in.s[1] = d.operand_count() > 2 ? d.source(2, Type::b32) : d.constant(lines_apart, 32);
  d.address(d.operand(address));
}

}  // namespace

void decode_transfer(Decoder& d, Part part, bool loads) {
  d.in.immediate2 = d.modifiers.choose({"row", "col"}, 0);
  const int space = d.modifiers.choose({"global", "shared", "shared::cta"}, -1);
  d.in.space = space < 0 ? Space::generic : space == 0 ? Space::global : Space::shared;
  d.demand_operands(2, 3);
  if (part == Part::accumulator) {
    const Form form = take_form(d, 0);
    const Type type = d.demand_type();
    if (!has_sums(form, type)) d.fail("there are no sums of this type in this shape");
    const auto count = static_cast<std::size_t>(form.sums() / (type == Type::f16 ? 2 : 1));
    const int in_line = d.in.immediate2 != 0 ? form.m : form.n;
    d.in.vector = static_cast<std::uint8_t>(static_cast<int>(count) * (type == Type::f64 ? 8 : 4));
    take_places(d, loads ? 1 : 0, in_line);
    take_fragment(d, loads ? 0 : 1, count, loads, "r", type == Type::f64 ? Type::b64 : Type::b32);
    with_form(form, [&](auto its) {
      d.in.act = loads ? choose_sums<its.value, true>(type) : choose_sums<its.value, false>(type);
    });
    return;
  }
  const Elements elements = take_elements(d);
  const Form form = take_form(d, elements.bits);
  const bool along_k = (part == Part::a) == (d.in.immediate2 == 0);
  if (form.bits < 8 && !along_k) d.fail("of such elements a lies by rows and b by columns");
  const int count = elements.name == "f16" ? 8 : form.distinct(part);
  d.in.vector = static_cast<std::uint8_t>(count * (form.bits == 64 ? 8 : 4));
  const int other = part == Part::a ? form.m : form.n;
  take_places(d, 1, along_k ? form.k : other);
  take_fragment(d, 0, static_cast<std::size_t>(count), true, "r",
                form.bits == 64 ? Type::b64 : Type::b32);
  with_form(form, [&](auto its) {
    d.in.act = part == Part::a ? load_factor<its.value, Part::a> : load_factor<its.value, Part::b>;
  });
}

}  // namespace lanescope::ptx::wmma
