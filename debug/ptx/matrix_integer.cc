// PTX ISA, "Warp Level Matrix Multiply-Accumulate Instructions": mma of whole numbers of 8, 4 and
// 1 bits. Sums are exact: modulo 2^32, or .satfinite at the ends of .s32.

#include <algorithm>
#include <bit>
#include <climits>

#include "debug/ptx/matrix.h"
#include "debug/ptx/program_builder.h"
#include "debug/ptx/whole_products.h"

namespace lanescope::ptx {
namespace {

/// A row of a, or a column of b: `words` registers of 32 bits lie side by side along k.
constexpr int most_words = 8;

/// PTX ISA, "Matrix Fragments for mma.m8n8k16" and on: of a, register i of a lane is word
/// lane % 4 + i / 2 * 4 of row lane / 4 + i % 2 * 8; of b, word lane % 4 + i * 4 of column lane
/// / 4. in.kind: 1 saturates.
template <class Dot>
Flow multiply_whole(Warp& warp, const Instruction& in, std::uint32_t) {
  if (const Flow flow = warp.converge_all(); flow != Flow::next) return flow;
  demand_whole(warp);
  const Fragments at = fragments_of(warp, in);
  std::uint32_t a[16][most_words], b[8][most_words];
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < at.a_count; ++i) {
      a[lane / 4 + i % 2 * 8][lane % 4 + i / 2 * 4] = warp.lanes<std::uint32_t>(at.a[i])[lane];
    }
    for (int i = 0; i < at.b_count; ++i) {
      b[lane / 4][lane % 4 + i * 4] = warp.lanes<std::uint32_t>(at.b[i])[lane];
    }
  }
  for (int i = 0; i < at.d_count; ++i) {
    const auto* c = warp.lanes<std::int32_t>(at.c[i]);
    auto* d = warp.lanes<std::int32_t>(at.d[i]);
    for (int lane = 0; lane < 32; ++lane) {
      const int row = lane / 4 + i / 2 * 8, col = lane % 4 * 2 + i % 2;
      d[lane] = add_whole<Dot>(c[lane], a[row], b[col], 4 * at.b_count, in.kind == 1);
    }
  }
  follow_product(warp, at);
  return Flow::next;
}

}  // namespace

bool decode_whole_product(Decoder& d) {
  const auto factors = take_whole_factors(d);
  if (!factors) return false;
  const bool saturates = d.modifiers.take("satfinite");
  if (saturates && factors->bits == 1) d.fail(".satfinite is not for .b1");
  d.in.kind = saturates ? 1 : 0;
  const auto shape = [&](const char* rows, int bits) {
    return d.modifiers.take(rows + std::to_string(bits / factors->bits));
  };
  const std::size_t registers = shape("m8n8k", 128)    ? 1
                                : shape("m16n8k", 128) ? 2
                                : shape("m16n8k", 256) ? 4
                                                       : 0;
  if (registers == 0) d.fail("there is no such shape of these elements");
  if (d.demand_type() != Type::s32 || d.demand_type() != Type::s32) {
    d.fail("sums of whole numbers are .s32");
  }
  const std::size_t sums = registers == 1 ? 2 : 4;
  take_fragments(d, {sums, registers, std::max<std::size_t>(1, registers / 2), sums});
  d.in.act = choose_dot(*factors, [](auto dot) { return multiply_whole<decltype(dot)>; });
  return true;
}

}  // namespace lanescope::ptx
