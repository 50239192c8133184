// PTX ISA, "Warp Level Matrix Multiply-Accumulate Instructions": mma of .e4m3 and .e5m2. Hopper has
// no such instruction: their elements become f16, and of four neighbours along k the first two go
// into one product, from zero, and the last two into a second one on top; c is added to that,
// rounded to nearest.

#include <algorithm>
#include <cstring>

#include "debug/ptx/block.h"
#include "debug/ptx/matrix.h"
#include "debug/ptx/program_builder.h"
#include "debug/simt/numerics.h"
#include "debug/simt/tensor_core_scalar.h"
#include "reference/element_type.h"

namespace lanescope::ptx {
namespace {

/// What `kind` says.
constexpr int a_is_e5m2 = 1, b_is_e5m2 = 2;

std::uint32_t to_f16(std::uint32_t byte, bool e5m2) {
  if (!e5m2) return simt::e4m3_to_f16(static_cast<std::uint8_t>(byte));
  return (byte & 0x7f) > 0x7c ? 0x7fffu : byte << 8;
}

/// Registers with half of the elements, as f16: those of an mma of half as long k.
template <int count>
struct HalfFragment {
  std::uint32_t registers[count][32] = {};
  HalfFragment(Warp& warp, const Place* places, int used, int part, bool e5m2) {
    for (int i = 0; i < used; ++i) {
      const auto* from = warp.lanes<std::uint32_t>(places[i]);
      for (int lane = 0; lane < 32; ++lane) {
        const std::uint32_t bytes = from[lane] >> (16 * part);
        registers[i][lane] = to_f16(bytes & 0xff, e5m2) | to_f16(bytes >> 8 & 0xff, e5m2) << 16;
      }
    }
  }
};

void add_products(Warp& warp, const HalfFragment<4>& a, const HalfFragment<2>& b,
                  float (&sum)[4][32]) {
  simt::MmaRegisters registers;
  for (int i = 0; i < 4; ++i) {
    registers.a[i] = a.registers[i];
    registers.c[i] = registers.d[i] = sum[i];
  }
  for (int i = 0; i < 2; ++i) registers.b[i] = b.registers[i];
  simt::multiply_accumulate(ElementType::f16, warp.block().grid().tensor_core, registers);
}
/// `sum`: by columns.
void add_products(const HalfFragment<4>& from_a, const HalfFragment<2>& from_b,
                  std::uint16_t (&sum)[8][16]) {
  std::uint16_t a[16][16], b[8][16];
  for (int lane = 0; lane < 32; ++lane) {
    const int row = lane / 4, pair = lane % 4 * 2;
    for (int i = 0; i < 4; ++i) {
      std::memcpy(&a[row + i % 2 * 8][pair + i / 2 * 8], &from_a.registers[i][lane], 4);
    }
    for (int i = 0; i < 2; ++i) std::memcpy(&b[row][pair + 8 * i], &from_b.registers[i][lane], 4);
  }
  simt::multiply_accumulate_f16(a, b, sum);
}

template <int k>
Flow multiply_to_f32(Warp& warp, const Instruction& in, std::uint32_t) {
  if (const Flow flow = warp.converge_all(); flow != Flow::next) return flow;
  demand_whole(warp);
  const Fragments at = fragments_of(warp, in);
  float sum[4][32] = {};
  for (int part = 0; part < 2; ++part) {
    add_products(warp, {warp, at.a, k / 8, part, (in.kind & a_is_e5m2) != 0},
                 {warp, at.b, k / 16, part, (in.kind & b_is_e5m2) != 0}, sum);
  }
  for (int i = 0; i < 4; ++i) {
    const auto* c = warp.lanes<float>(at.c[i]);
    auto* d = warp.lanes<float>(at.d[i]);
    for (int lane = 0; lane < 32; ++lane) d[lane] = simt::canonical(sum[i][lane] + c[lane]);
  }
  follow_product(warp, at);
  return Flow::next;
}

template <int k>
Flow multiply_to_f16(Warp& warp, const Instruction& in, std::uint32_t) {
  if (const Flow flow = warp.converge_all(); flow != Flow::next) return flow;
  demand_hopper(warp);
  const Fragments at = fragments_of(warp, in);
  std::uint16_t sum[8][16] = {};
  for (int part = 0; part < 2; ++part) {
    add_products({warp, at.a, k / 8, part, (in.kind & a_is_e5m2) != 0},
                 {warp, at.b, k / 16, part, (in.kind & b_is_e5m2) != 0}, sum);
  }
  for (int i = 0; i < 2; ++i) {
    const auto* c = warp.lanes<std::uint32_t>(at.c[i]);
    auto* d = warp.lanes<std::uint32_t>(at.d[i]);
    for (int lane = 0; lane < 32; ++lane) {
      const int row = lane / 4 + 8 * i, pair = lane % 4 * 2;
      const auto total = [&](int col, std::uint32_t addend) -> std::uint32_t {
        return simt::f32_to_f16(simt::f16_to_f32(sum[col][row]) +
                                simt::f16_to_f32(static_cast<std::uint16_t>(addend)));
      };
      d[lane] = total(pair, c[lane] & 0xffff) | total(pair + 1, c[lane] >> 16) << 16;
    }
  }
  follow_product(warp, at, true);
  return Flow::next;
}

}  // namespace

bool decode_fp8_product(Decoder& d) {
  const auto& words = d.modifiers.left();
  const auto is_fp8 = [](std::string_view word) { return word == "e4m3" || word == "e5m2"; };
  const auto first = std::find_if(words.begin(), words.end(), is_fp8);
  if (first == words.end() || first + 1 == words.end() || !is_fp8(first[1])) return false;
  d.in.kind = static_cast<std::uint8_t>((first[0] == "e5m2" ? a_is_e5m2 : 0) |
                                        (first[1] == "e5m2" ? b_is_e5m2 : 0));
  d.modifiers.ignore({"e4m3", "e4m3", "e5m2", "e5m2"});
  const int k = d.modifiers.choose({"m16n8k16", "m16n8k32"}, -1) == 0 ? 16 : 32;
  const Type to = d.demand_type(), from = d.demand_type();
  if (to != from || (to != Type::f32 && to != Type::f16)) {
    d.refuse("of these types: what a GPU computes is not known bit for bit");
  }
  const std::size_t sums = to == Type::f32 ? 4 : 2;
  const auto registers = static_cast<std::size_t>(k) / 8;  // of a
  take_fragments(d, {sums, registers, registers / 2, sums});
  d.in.exchanges = d.in.multiplies = to == Type::f32;
  d.in.act = to == Type::f32 ? (k == 16 ? multiply_to_f32<16> : multiply_to_f32<32>)
                             : (k == 16 ? multiply_to_f16<16> : multiply_to_f16<32>);
  return true;
}

}  // namespace lanescope::ptx
