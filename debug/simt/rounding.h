#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace lanescope::simt {

/// PTX ISA, "Rounding Modifiers": .rn .rz .rm .rp, and of conversions .rna.
enum class Rounding : std::uint8_t { nearest_even, zero, down, up, nearest_away };

/// A binary floating-point format narrower than a double.
struct Format {
  int exponent_bits, fraction_bits;
  bool has_infinity = true;  ///< e4m3 has none, and a NaN of all ones
};
inline constexpr Format f16_format{5, 10};
inline constexpr Format bf16_format{8, 7};
inline constexpr Format tf32_format{8, 10};
inline constexpr Format f32_format{8, 23};
inline constexpr Format e4m3_format{4, 3, false};
inline constexpr Format e5m2_format{5, 2};

/// a + b rounded to odd: exact, or with an odd last bit beyond what is exact, so that rounding it
/// once more to a format of 50 bits or less gives what rounding a + b there gives (Boldo and
/// Melquiond, "Emulation of a FMA and correctly rounded sums", 2008). Finite numbers.
inline double add_to_odd(double a, double b) {
  const double sum = a + b;
  const double of_b = sum - a;
  const double error = (a - (sum - of_b)) + (b - of_b);
  const auto bits = std::bit_cast<std::uint64_t>(sum);
  if (error == 0 || bits & 1 || !std::isfinite(sum)) return sum;
  const bool outward = (error > 0) == (sum > 0);
  return std::bit_cast<double>(outward ? bits + 1 : bits - 1);
}

/// x rounded to a whole number.
inline double round_whole(double x, Rounding rounding) {
  switch (rounding) {
    case Rounding::nearest_even:
      return std::nearbyint(x);
    case Rounding::zero:
      return std::trunc(x);
    case Rounding::down:
      return std::floor(x);
    case Rounding::up:
      return std::ceil(x);
    default:
      return std::round(x);
  }
}

/// x rounded to `format`, as its bits. Past its largest number: infinity, or where the rounding
/// leads away from it, or `saturates`, the largest number. NaN: 0x7f... of all ones.
inline std::uint32_t round_to(const Format& format, double x, Rounding rounding,
                              bool saturates = false) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const int width = format.exponent_bits + format.fraction_bits;
  const std::uint32_t sign = std::signbit(x) ? 1u << width : 0;
  const std::uint32_t infinity = ((1u << format.exponent_bits) - 1) << format.fraction_bits;
  if (std::isnan(x)) return (1u << width) - 1;
  const std::uint32_t largest = format.has_infinity ? infinity - 1 : (1u << width) - 2;
  const double size = std::fabs(x);
  const auto beyond = [&]() -> std::uint32_t {
    if (saturates) return sign | largest;
    if (!format.has_infinity) return sign | ((1u << width) - 1);
    const bool inward = rounding == Rounding::zero || (rounding == Rounding::down && sign == 0) ||
                        (rounding == Rounding::up && sign != 0);
    return sign | (inward && !std::isinf(x) ? largest : infinity);
  };
  if (std::isinf(x)) return beyond();
  if (size == 0) return sign;
  int exponent = std::ilogb(size);
  exponent = exponent < 1 - bias ? 1 - bias : exponent;
  const int unit = exponent - format.fraction_bits;
  const double signed_units = std::ldexp(x, -unit);
  const auto units = static_cast<std::uint64_t>(std::fabs(round_whole(signed_units, rounding)));
  // The exponent's field counts on from the fraction's: a carry moves into it by itself.
  const std::uint64_t bits =
      units + (static_cast<std::uint64_t>(exponent + bias - 1) << format.fraction_bits);
  if (bits > largest) return beyond();
  return sign | static_cast<std::uint32_t>(bits);
}

/// The exact value of `bits`.
inline double value_of(const Format& format, std::uint32_t bits) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const int width = format.exponent_bits + format.fraction_bits;
  const std::uint32_t fraction = bits & ((1u << format.fraction_bits) - 1);
  const int exponent =
      static_cast<int>(bits >> format.fraction_bits & ((1u << format.exponent_bits) - 1));
  const double sign = bits >> width & 1 ? -1.0 : 1.0;
  if (exponent == (1 << format.exponent_bits) - 1) {
    if (!format.has_infinity && fraction == (1u << format.fraction_bits) - 1) {
      return std::numeric_limits<double>::quiet_NaN();
    }
    if (format.has_infinity) {
      return fraction != 0 ? std::numeric_limits<double>::quiet_NaN()
                           : sign * std::numeric_limits<double>::infinity();
    }
  }
  const double units = exponent == 0 ? fraction : fraction + (1u << format.fraction_bits);
  return sign * std::ldexp(units, (exponent == 0 ? 1 : exponent) - bias - format.fraction_bits);
}

}  // namespace lanescope::simt
