// PTX ISA, "Warp Level Matrix Multiply-Accumulate Instructions": mma.

#include "debug/ptx/matrix.h"

#include <bit>

#include "debug/ptx/block.h"
#include "debug/ptx/decoder.h"
#include "debug/ptx/program_builder.h"
#include "debug/ptx/warp.h"
#include "debug/simt/numerics.h"
#include "reference/element_type.h"

namespace lanescope::ptx {
namespace {

/// m16n8k16 of f16 or bf16, accumulated in fp32; an m16n8k8 is one with zeroes.
template <ElementType type, int k>
Flow multiply_halves(Warp& warp, const Instruction& in, std::uint32_t) {
  if (const Flow flow = warp.converge_all(); flow != Flow::next) return flow;
  demand_whole(warp);
  static constexpr std::uint32_t zeroes[32] = {};
  const Fragments at = fragments_of(warp, in);
  simt::MmaRegisters registers;
  for (int i = 0; i < 4; ++i) {
    registers.a[i] = i < k / 4 ? warp.lanes<std::uint32_t>(at.a[i]) : zeroes;
    registers.c[i] = warp.lanes<float>(at.c[i]);
    registers.d[i] = warp.lanes<float>(at.d[i]);
  }
  for (int i = 0; i < 2; ++i) {
    registers.b[i] = i < k / 8 ? warp.lanes<std::uint32_t>(at.b[i]) : zeroes;
  }
  simt::multiply_accumulate(type, warp.block().grid().tensor_core, registers);
  follow_product(warp, at);
  return Flow::next;
}

template <ElementType type>
WarpOperation choose_halves(int k) {
  return k == 16 ? multiply_halves<type, 16> : multiply_halves<type, 8>;
}

void decode_product(Decoder& d) {
  for (const std::string_view word : d.modifiers.left()) {
    if (word.starts_with("sp")) d.refuse("of sparse matrices");
    if (word.starts_with("kind::") || word == "block_scale") {
      d.refuse("which no GPU before sm_100 has");
    }
  }
  if (d.statement().opcode.find(".row.col") == std::string_view::npos) {
    d.refuse("but with a by rows and b by columns");
  }
  d.modifiers.ignore({"sync", "aligned", "row", "col"});
  if (decode_fp8_product(d) || decode_scalar_product(d) || decode_whole_product(d) ||
      decode_double_product(d)) {
    return;
  }
  const int shape = d.modifiers.choose({"m16n8k16", "m16n8k8"}, -1);
  if (shape < 0) d.refuse("of this shape: what a GPU computes is not known bit for bit");
  const Type to = d.demand_type(), a = d.demand_type(), b = d.demand_type(), from = d.demand_type();
  if (to != Type::f32 || from != Type::f32 || a != b || (a != Type::f16 && a != Type::bf16)) {
    d.refuse("of these types: what a GPU computes is not known bit for bit");
  }
  const int k = shape == 0 ? 16 : 8;
  const auto registers = static_cast<std::size_t>(k / 4);  // of a
  d.in.act =
      a == Type::f16 ? choose_halves<ElementType::f16>(k) : choose_halves<ElementType::bf16>(k);
  take_fragments(d, {4, registers, registers / 2, 4});
  d.in.exchanges = d.in.multiplies = true;
}

}  // namespace

Fragments fragments_of(Warp& warp, const Instruction& in) {
  const Place* all = &warp.program().operands[in.operands];
  const int d = in.result_count, factors = in.source_count - d, a = registers_of_a(factors);
  return {all, all + d, all + d + a, all + d + factors, d, a, factors - a};
}

void follow_product(Warp& warp, const Fragments& at, bool packed) {
  if (!warp.follows_unwritten()) return;
  std::uint32_t rows = 0, cols = 0, source = 0;
  const auto each_lane = [](std::uint32_t lanes, auto&& f) {
    for (; lanes != 0; lanes &= lanes - 1) f(std::countr_zero(lanes));
  };
  const auto take = [&](Place place, auto&& f) {
    const Unwritten value = warp.unwritten(place);
    if (value.lanes != 0) source = value.source;
    each_lane(value.lanes, f);
  };
  for (int i = 0; i < at.a_count; ++i) {
    take(at.a[i], [&](int lane) { rows |= 1u << (lane / 4 + i % 2 * 8); });
  }
  for (int i = 0; i < at.b_count; ++i) take(at.b[i], [&](int lane) { cols |= 1u << lane / 4; });
  Unwritten results[4];
  for (int i = 0; i < at.d_count; ++i) {
    const Unwritten c = warp.unwritten(at.c[i]);
    results[i] = c.lanes != 0 ? c : Unwritten{0, source};
    for (int lane = 0; (rows | cols) != 0 && lane < 32; ++lane) {
      const int row = lane / 4 + (packed ? i : i / 2) * 8, pair = lane % 4 * 2;
      const std::uint32_t its_cols = packed ? 3u << pair : 1u << (pair + i % 2);
      if ((rows >> row & 1) != 0 || (cols & its_cols) != 0) results[i].lanes |= 1u << lane;
    }
  }
  for (int i = 0; i < at.d_count; ++i) warp.set_unwritten(at.d[i], ~0u, results[i]);
}

void demand_whole(Warp& warp) {
  if (warp.split().mask == ~0u) return;
  warp.fail(std::countr_zero(warp.split().mask), "all 32 lanes of the warp must take part");
}

void take_fragment(Decoder& d, std::size_t operand, std::size_t count, bool result,
                   const char* name, Type type) {
  const std::vector<Operand> elements = d.elements(d.operand(operand));
  if (elements.size() != count) {
    d.fail(std::string("the fragment ") + name + " has " + std::to_string(elements.size()) +
           " registers, and takes " + std::to_string(count));
  }
  for (const Operand& element : elements) {
    if (result) {
      d.result_of(element, bits_of(type));
      continue;
    }
    const std::size_t before = d.sources.size();
    const Place place = d.source_of(element, type);
    if (d.sources.size() == before) d.sources.push_back(place);  // a constant
  }
}

void take_fragments(Decoder& d, const FragmentSizes& sizes, Type type) {
  d.demand_operands(4);
  take_fragment(d, 0, sizes.d, true, "d", type);
  take_fragment(d, 1, sizes.a, false, "a", type);
  take_fragment(d, 2, sizes.b, false, "b", type);
  take_fragment(d, 3, sizes.c, false, "c", type);
  d.in.carries = d.in.meets = true;
}

bool decode_matrix(Decoder& d) {
  const std::string_view base = d.modifiers.base();
  if (base == "ldmatrix") {
    decode_matrices(d, true);
  } else if (base == "stmatrix") {
    decode_matrices(d, false);
  } else if (base == "movmatrix") {
    decode_movmatrix(d);
  } else if (base == "mma") {
    decode_product(d);
  } else if (base == "wmma") {
    decode_wmma(d);
  } else {
    return false;
  }
  return true;
}

}  // namespace lanescope::ptx
