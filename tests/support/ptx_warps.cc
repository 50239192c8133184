#include "tests/support/ptx_warps.h"

#include <algorithm>

#include "reference/splitmix64.h"
#include "tests/support/ptx_warp_kernel.h"

namespace lanescope::ptx_warps {
namespace {

/// Numbers of a size: exponents within `spread` of 1, some subnormal; spread < 0: of any size.
/// `special`: some infinities and NaN.
std::uint64_t sized(Random32& random, int exponent_bits, int fraction_bits, int spread,
                    bool special) {
  const int bias = (1 << (exponent_bits - 1)) - 1, most = (1 << exponent_bits) - 1;
  const bool has_infinity = !(exponent_bits == 4 && fraction_bits == 3);
  int exponent =
      spread < 0 ? static_cast<int>(random.next() % static_cast<unsigned>(most))
                 : bias - spread +
                       static_cast<int>(random.next() % (2u * static_cast<unsigned>(spread) + 1));
  if (exponent < 0 || (spread >= 0 && random.next() % 16 == 0)) exponent = 0;
  exponent = std::min(exponent, has_infinity ? most - 1 : most);
  std::uint64_t fraction = (std::uint64_t{random.next()} << 32 | random.next()) &
                           ((std::uint64_t{1} << fraction_bits) - 1);
  if (exponent == 0 && random.next() % 2 == 0) fraction = 0;
  if (!has_infinity && exponent == most && fraction == 7) fraction = 6;
  if (special && random.next() % 48 == 0) {
    exponent = most;
    fraction = random.next() % 3 == 0 ? (std::uint64_t{1} << fraction_bits) - 1
               : has_infinity         ? 0
                                      : 6;
  }
  return std::uint64_t{random.next() & 1} << (exponent_bits + fraction_bits) |
         static_cast<std::uint64_t>(exponent) << fraction_bits | fraction;
}

std::uint64_t sized_word(const std::string& type, Random32& random, int warp) {
  constexpr int spreads[] = {1, 4, 9, -1};
  const int spread = spreads[warp % 4];
  const bool special = warp == 6;
  const auto packed = [&](int exponent, int fraction) {
    const int width = 1 + exponent + fraction;
    std::uint64_t word = 0;
    for (int i = 0; i < 32; i += width)
      word |= sized(random, exponent, fraction, spread, special) << i;
    return word;
  };
  const int wide = spread < 0 ? 30 : 2 * spread;
  if (type == "~f64") return sized(random, 11, 52, wide, special);
  if (type == "~f32") return warp == 5 ? 0 : sized(random, 8, 23, wide, special);
  if (type == "~tf32")
    return sized(random, 8, 23, wide, special) & (random.next() % 2 == 0 ? ~0u : ~0x1fffu);
  if (type == "~tie") return sized(random, 8, 10, wide, special) << 13 | 0x1000;  // of tf32
  if (type == "~f16x2") return packed(5, 10);
  if (type == "~bf16x2") return packed(8, 7);
  if (type == "~e4m3") return packed(4, 3);
  if (type == "~e5m2") return packed(5, 2);
  // ~s32: of small size, and close to both ends.
  const std::uint32_t small = random.next() % 200001 - 100000;
  return spread == 1   ? small
         : spread == 4 ? 0x7fffffffu - (small & 0x3ffff)
         : spread == 9 ? 0x80000000u + (small & 0x3ffff)
                       : random.next();
}

}  // namespace

std::vector<Trial> trials() {
  std::vector<Trial> all;
  add_atomics(all);
  add_bulk_reductions(all);
  add_exchanges(all);
  add_products(all);
  add_transfers(all);
  add_async_stores(all);
  add_tensor_maps(all);
  return all;
}

std::vector<std::uint32_t> words_of(const Trial& trial) {
  Random32 random{ptx_conformance::seed_of(trial.name)};
  std::vector<std::uint32_t> words;
  for (int thread = 0; thread < trial.threads * trial.blocks; ++thread) {
    for (const std::string& type : trial.in) {
      const std::uint64_t word = type[0] == '~' ? sized_word(type, random, thread / 32)
                                                : ptx_conformance::draw(type, random, thread);
      words.push_back(static_cast<std::uint32_t>(word));
      if (bits_of(type) == 64) words.push_back(static_cast<std::uint32_t>(word >> 32));
    }
  }
  return words;
}

}  // namespace lanescope::ptx_warps
