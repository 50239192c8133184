// PTX ISA, "Warp Level Matrix Multiply-Accumulate Instructions": mma.

#include "debug/ptx/matrix.h"

#include <algorithm>
#include <bit>
#include <climits>
#include <cstring>

#include "debug/ptx/block.h"
#include "debug/ptx/decoder.h"
#include "debug/ptx/program_builder.h"
#include "debug/ptx/warp.h"
#include "debug/simt/numerics.h"
#include "reference/element_type.h"

namespace lanescope::ptx {
namespace {

/// PTX ISA, "Matrix Fragments for mma.m16n8k16": c and d of every m16n8.
template <class T>
void gather_accumulator(Warp& warp, const Place* places, T (&c)[16][8]) {
  for (int i = 0; i < 4; ++i) {
    const T* registers = warp.lanes<T>(places[i]);
    for (int lane = 0; lane < 32; ++lane)
      c[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2] = registers[lane];
  }
}
template <class T>
void scatter_accumulator(Warp& warp, const Place* places, const T (&c)[16][8]) {
  for (int i = 0; i < 4; ++i) {
    T* registers = warp.lanes<T>(places[i]);
    for (int lane = 0; lane < 32; ++lane)
      registers[lane] = c[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
  }
}

/// m16n8k16 of f16 or bf16, accumulated in fp32; an m16n8k8 is one with zeroes.
template <ElementType type, int k>
Flow multiply_halves(Warp& warp, const Instruction& in, std::uint32_t) {
  if (const Flow flow = warp.converge_all(); flow != Flow::next) return flow;
  demand_whole(warp);
  static constexpr std::uint32_t zeroes[32] = {};
  const Fragments at = fragments_of(warp, in, 4, k / 4, k / 8);
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
  follow_product(warp, at, k / 4, k / 8);
  return Flow::next;
}

/// Elements of 8 bits: [16][K] and [K][8] (PTX ISA, "Matrix Fragments for mma.m16n8k32").
template <int K>
void gather_bytes(Warp& warp, const Fragments& at, std::uint8_t (&a)[16][K],
                  std::uint8_t (&b)[K][8]) {
  for (int i = 0; i < K / 8; ++i) {
    const auto* registers = warp.lanes<std::uint32_t>(at.a[i]);
    for (int lane = 0; lane < 32; ++lane) {
      std::memcpy(&a[lane / 4 + i % 2 * 8][lane % 4 * 4 + i / 2 * 16], &registers[lane], 4);
    }
  }
  for (int i = 0; i < K / 16; ++i) {
    const auto* registers = warp.lanes<std::uint32_t>(at.b[i]);
    for (int lane = 0; lane < 32; ++lane) {
      for (int byte = 0; byte < 4; ++byte) {
        b[lane % 4 * 4 + i * 16 + byte][lane / 4] =
            static_cast<std::uint8_t>(registers[lane] >> (8 * byte));
      }
    }
  }
}

/// m16n8k16 and m16n8k32 of whole numbers of 8 bits: exact, modulo 2^32 or saturating (kind 1).
template <int K, class A, class B>
Flow multiply_bytes(Warp& warp, const Instruction& in, std::uint32_t) {
  if (const Flow flow = warp.converge_all(); flow != Flow::next) return flow;
  demand_whole(warp);
  const Fragments at = fragments_of(warp, in, 4, K / 8, K / 16);
  std::uint8_t a[16][K], b[K][8];
  gather_bytes<K>(warp, at, a, b);
  std::int32_t c[16][8];
  gather_accumulator(warp, at.c, c);
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 8; ++j) {
      std::int64_t sum = c[i][j];
      for (int k = 0; k < K; ++k)
        sum += std::int64_t{static_cast<A>(a[i][k])} * static_cast<B>(b[k][j]);
      if (in.kind == 1) sum = std::clamp<std::int64_t>(sum, INT32_MIN, INT32_MAX);
      c[i][j] = static_cast<std::int32_t>(sum);
    }
  }
  scatter_accumulator(warp, at.d, c);
  follow_product(warp, at, K / 8, K / 16);
  return Flow::next;
}

template <int K>
WarpOperation choose_bytes(Type a, Type b) {
  if (a == Type::s8) {
    return b == Type::s8 ? multiply_bytes<K, std::int8_t, std::int8_t>
                         : multiply_bytes<K, std::int8_t, std::uint8_t>;
  }
  return b == Type::s8 ? multiply_bytes<K, std::uint8_t, std::int8_t>
                       : multiply_bytes<K, std::uint8_t, std::uint8_t>;
}

template <ElementType type>
WarpOperation choose_halves(int k) {
  return k == 16 ? multiply_halves<type, 16> : multiply_halves<type, 8>;
}

void decode_product(Decoder& d) {
  d.modifiers.ignore({"sync", "aligned", "row", "col", "row", "col"});
  if (decode_fp8_product(d) || decode_scalar_product(d)) return;
  const int shape = d.modifiers.choose({"m16n8k16", "m16n8k32", "m16n8k8"}, -1);
  const bool finite = d.modifiers.take("satfinite");
  if (shape < 0) d.refuse("of this shape: what a GPU computes is not known bit for bit");
  const Type to = d.demand_type(), a = d.demand_type(), b = d.demand_type(), from = d.demand_type();
  const bool bytes = (a == Type::s8 || a == Type::u8) && (b == Type::s8 || b == Type::u8);
  const int k = shape == 0 ? 16 : shape == 1 ? 32 : 8;
  if (bytes && to == Type::s32 && from == Type::s32 && k >= 16) {
    d.in.kind = finite ? 1 : 0;
    d.in.act = k == 16 ? choose_bytes<16>(a, b) : choose_bytes<32>(a, b);
  } else if (to == Type::f32 && from == Type::f32 && k <= 16 && a == b &&
             (a == Type::f16 || a == Type::bf16)) {
    d.in.act =
        a == Type::f16 ? choose_halves<ElementType::f16>(k) : choose_halves<ElementType::bf16>(k);
  } else {
    d.refuse("of these types: what a GPU computes is not known bit for bit");
  }
  d.demand_operands(4);
  take_fragment(d, 0, 4, true, "d");
  take_fragment(d, 1, static_cast<std::size_t>(k) / (bytes ? 8 : 4), false, "a");
  take_fragment(d, 2, static_cast<std::size_t>(k) / (bytes ? 16 : 8), false, "b");
  take_fragment(d, 3, 4, false, "c");
  d.in.carries = true;
  d.in.meets = true;
  d.in.exchanges = d.in.multiplies = to == Type::f32;
}

}  // namespace

Fragments fragments_of(Warp& warp, const Instruction& in, int d, int a, int b) {
  const Place* all = &warp.program().operands[in.operands];
  return {all, all + d, all + d + a, all + d + a + b};
}

void follow_product(Warp& warp, const Fragments& at, int a_count, int b_count, bool packed) {
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
  for (int i = 0; i < a_count; ++i) {
    take(at.a[i], [&](int lane) { rows |= 1u << (lane / 4 + i % 2 * 8); });
  }
  for (int i = 0; i < b_count; ++i) take(at.b[i], [&](int lane) { cols |= 1u << lane / 4; });
  Unwritten results[4];
  const int count = packed ? 2 : 4;
  for (int i = 0; i < count; ++i) {
    const Unwritten c = warp.unwritten(at.c[i]);
    results[i] = c.lanes != 0 ? c : Unwritten{0, source};
    for (int lane = 0; (rows | cols) != 0 && lane < 32; ++lane) {
      const int row = lane / 4 + (packed ? i : i / 2) * 8, pair = lane % 4 * 2;
      const std::uint32_t its_cols = packed ? 3u << pair : 1u << (pair + i % 2);
      if ((rows >> row & 1) != 0 || (cols & its_cols) != 0) results[i].lanes |= 1u << lane;
    }
  }
  for (int i = 0; i < count; ++i) warp.set_unwritten(at.d[i], ~0u, results[i]);
}

void demand_whole(Warp& warp) {
  if (warp.split().mask == ~0u) return;
  warp.fail(std::countr_zero(warp.split().mask), "all 32 lanes of the warp must take part");
}

void take_fragment(Decoder& d, std::size_t operand, std::size_t count, bool result,
                   const char* name) {
  const std::vector<Operand> elements = d.elements(d.operand(operand));
  if (elements.size() != count) {
    d.fail(std::string("the fragment ") + name + " has " + std::to_string(elements.size()) +
           " registers, and takes " + std::to_string(count));
  }
  for (const Operand& element : elements) {
    if (result) {
      d.result_of(element, 32);
      continue;
    }
    const std::size_t before = d.sources.size();
    const Place place = d.source_of(element, Type::b32);
    if (d.sources.size() == before) d.sources.push_back(place);  // a constant
  }
}

bool decode_matrix(Decoder& d) {
  const std::string_view base = d.modifiers.base();
  if (base == "ldmatrix") {
    decode_matrices(d, true);
  } else if (base == "stmatrix") {
    decode_matrices(d, false);
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
