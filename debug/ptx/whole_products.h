#pragma once

#include <algorithm>
#include <bit>
#include <climits>
#include <cstdint>
#include <optional>

#include "debug/ptx/decoder.h"
#include "debug/ptx/program.h"

namespace lanescope::ptx {

// Products of whole numbers that lie side by side in words of 32 bits, the first one lowest.

/// Of `bits` bits each, with a sign or without.
template <int bits, bool a_signed, bool b_signed>
struct DotOfNumbers {
  template <bool has_sign>
  static std::int32_t number(std::uint32_t word, int i) {
    const std::uint32_t top = word << (32 - bits * (i + 1));
    return has_sign ? static_cast<std::int32_t>(top) >> (32 - bits)
                    : static_cast<std::int32_t>(top >> (32 - bits));
  }
  static std::int32_t apply(std::uint32_t a, std::uint32_t b) {
    std::int32_t sum = 0;
    for (int i = 0; i < 32 / bits; ++i) sum += number<a_signed>(a, i) * number<b_signed>(b, i);
    return sum;
  }
};
/// .and.popc and .xor.popc of .b1
template <bool differs>
struct DotOfBits {
  static std::int32_t apply(std::uint32_t a, std::uint32_t b) {
    return std::popcount(differs ? a ^ b : a & b);
  }
};

/// c + the products of `words` words of a and b: modulo 2^32, or up to the ends of .s32.
template <class Dot>
std::int32_t add_whole(std::int32_t c, const std::uint32_t* a, const std::uint32_t* b, int words,
                       bool saturates) {
  std::int64_t sum = c;
  for (int i = 0; i < words; ++i) sum += Dot::apply(a[i], b[i]);
  if (saturates) sum = std::clamp<std::int64_t>(sum, INT32_MIN, INT32_MAX);
  return static_cast<std::int32_t>(sum);
}

/// What the opcode of an mma or wmma.mma says of a and b.
struct WholeFactors {
  int bits;
  bool a_signed, b_signed;
  bool differs;  ///< .xor of .b1
};
/// Takes ".s8.u8" and its like, with .and.popc or .xor.popc, from the opcode; nullopt where a and b
/// are other numbers. Ends with an error where they do not go together.
std::optional<WholeFactors> take_whole_factors(Decoder& decoder);

/// make(Dot{}) of the Dot that multiplies such numbers.
template <class Make>
WarpOperation choose_dot(const WholeFactors& factors, Make&& make) {
  const auto of_signs = [&](auto bits) -> WarpOperation {
    constexpr int n = decltype(bits)::value;
    if (factors.a_signed) {
      return factors.b_signed ? make(DotOfNumbers<n, true, true>{})
                              : make(DotOfNumbers<n, true, false>{});
    }
    return factors.b_signed ? make(DotOfNumbers<n, false, true>{})
                            : make(DotOfNumbers<n, false, false>{});
  };
  if (factors.bits == 8) return of_signs(std::integral_constant<int, 8>{});
  if (factors.bits == 4) return of_signs(std::integral_constant<int, 4>{});
  return factors.differs ? make(DotOfBits<true>{}) : make(DotOfBits<false>{});
}

}  // namespace lanescope::ptx
