// PTX ISA, "Warp Level Matrix Multiply-Accumulate Instructions": mma of tf32, and with accumulators
// of f16. What GPUs before Hopper compute is not known.

#include <algorithm>
#include <cstring>

#include "debug/ptx/block.h"
#include "debug/ptx/matrix.h"
#include "debug/ptx/program_builder.h"
#include "debug/simt/tensor_core_scalar.h"

namespace lanescope::ptx {
namespace {

/// m16n8k8 and m16n8k4: element (lane / 4, lane % 4) of each 8 by 4 of a, its columns of b.
template <int k>
Flow multiply_tf32(Warp& warp, const Instruction& in, std::uint32_t) {
  if (const Flow flow = warp.converge_all(); flow != Flow::next) return flow;
  demand_hopper(warp);
  const Fragments at = fragments_of(warp, in);
  std::uint32_t a[16][8] = {}, b[8][8] = {};
  float c[8][16];
  for (int lane = 0; lane < 32; ++lane) {
    const int row = lane / 4, col = lane % 4;
    for (int i = 0; i < k / 2; ++i) {
      a[row + i % 2 * 8][col + i / 2 * 4] = warp.lanes<std::uint32_t>(at.a[i])[lane];
    }
    for (int i = 0; i < k / 4; ++i) b[row][col + 4 * i] = warp.lanes<std::uint32_t>(at.b[i])[lane];
    for (int i = 0; i < 4; ++i) {
      c[2 * col + i % 2][row + i / 2 * 8] = warp.lanes<float>(at.c[i])[lane];
    }
  }
  simt::multiply_accumulate_tf32(a, b, c);
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 4; ++i) {
      warp.lanes<float>(at.d[i])[lane] = c[lane % 4 * 2 + i % 2][lane / 4 + i / 2 * 8];
    }
  }
  follow_product(warp, at);
  return Flow::next;
}

/// m16n8k16 and m16n8k8 of f16: registers of c and d hold two columns.
template <int k>
Flow multiply_f16(Warp& warp, const Instruction& in, std::uint32_t) {
  if (const Flow flow = warp.converge_all(); flow != Flow::next) return flow;
  demand_hopper(warp);
  const Fragments at = fragments_of(warp, in);
  std::uint16_t a[16][16] = {}, b[8][16] = {}, c[8][16];
  for (int lane = 0; lane < 32; ++lane) {
    const int row = lane / 4, pair = lane % 4 * 2;
    const auto bits = [&](Place place) { return warp.lanes<std::uint32_t>(place) + lane; };
    for (int i = 0; i < k / 4; ++i) {
      std::memcpy(&a[row + i % 2 * 8][pair + i / 2 * 8], bits(at.a[i]), 4);
    }
    for (int i = 0; i < k / 8; ++i) std::memcpy(&b[row][pair + 8 * i], bits(at.b[i]), 4);
    for (int i = 0; i < 2; ++i) {
      const std::uint32_t both = *bits(at.c[i]);
      c[pair][row + 8 * i] = static_cast<std::uint16_t>(both);
      c[pair + 1][row + 8 * i] = static_cast<std::uint16_t>(both >> 16);
    }
  }
  simt::multiply_accumulate_f16(a, b, c);
  for (int lane = 0; lane < 32; ++lane) {
    const int row = lane / 4, pair = lane % 4 * 2;
    for (int i = 0; i < 2; ++i) {
      const std::uint32_t low = c[pair][row + 8 * i], high = c[pair + 1][row + 8 * i];
      warp.lanes<std::uint32_t>(at.d[i])[lane] = low | high << 16;
    }
  }
  follow_product(warp, at, true);
  return Flow::next;
}

}  // namespace

void demand_hopper(Warp& warp) {
  demand_whole(warp);
  if (warp.block().grid().tensor_core.k_block == simt::hopper_rule.k_block) return;
  warp.fail(0, "what a GPU before Hopper computes here is not known bit for bit");
}

bool decode_scalar_product(Decoder& d) {
  const auto& words = d.modifiers.left();
  const auto count = [&](std::string_view word) {
    return std::count(words.begin(), words.end(), word);
  };
  const bool tf32 = count("tf32") == 2, f16 = count("f16") == 4;
  if (!tf32 && !f16) return false;
  const int shape = d.modifiers.choose({"m16n8k4", "m16n8k8", "m16n8k16"}, -1);
  const int k = shape < 0 ? 0 : 4 << shape;
  if (k == 0 || k == (tf32 ? 16 : 4)) {
    d.refuse("of this shape: what a GPU computes is not known bit for bit");
  }
  while (!d.modifiers.left().empty()) d.modifiers.take(d.modifiers.left().front());
  const auto registers = static_cast<std::size_t>(tf32 ? k / 2 : k / 4);  // of a
  const std::size_t sums = tf32 ? 4 : 2;
  take_fragments(d, {sums, registers, registers / 2, sums});
  d.in.act = tf32 ? (k == 8 ? multiply_tf32<8> : multiply_tf32<4>)
                  : (k == 16 ? multiply_f16<16> : multiply_f16<8>);
  return true;
}

}  // namespace lanescope::ptx
