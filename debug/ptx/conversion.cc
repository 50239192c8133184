// PTX ISA, cvt: what it makes of one number.

#include "debug/ptx/conversion.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "debug/ptx/host_rounding.h"

namespace lanescope::ptx {
namespace {

double flush(double x) { return std::fabs(x) < 0x1p-126 ? std::copysign(0.0, x) : x; }

/// The number that `bits` are; of an integer of 64 bits rounded to odd.
double read(const Conversion& c, std::uint64_t bits) {
  if (c.from == Type::f64) return std::bit_cast<double>(bits);
  if (is_float(c.from)) {
    const double x =
        c.from == Type::f32
            ? static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)))
            : simt::value_of(*format_of(c.from), static_cast<std::uint32_t>(bits));
    // To .f16 .ftz says nothing.
    return c.ftz && c.from == Type::f32 && c.to != Type::f16 ? flush(x) : x;
  }
  const int unused = 64 - bits_of(c.from);
  if (is_signed(c.from)) {
    const std::int64_t x = static_cast<std::int64_t>(bits << unused) >> unused;
    return simt::add_to_odd(static_cast<double>(x >> 32) * 0x1p32,
                            static_cast<double>(x & 0xffffffff));
  }
  const std::uint64_t x = bits << unused >> unused;
  return simt::add_to_odd(static_cast<double>(x >> 32) * 0x1p32,
                          static_cast<double>(x & 0xffffffff));
}

double whole_to_f64(const Conversion& c, std::uint64_t bits) {
  const HostRounding scope(c.rounding);
  const int unused = 64 - bits_of(c.from);
  if (is_signed(c.from)) {
    const volatile std::int64_t x = static_cast<std::int64_t>(bits << unused) >> unused;
    const volatile auto rounded = static_cast<double>(x);
    return rounded;
  }
  const volatile std::uint64_t x = bits << unused >> unused;
  const volatile auto rounded = static_cast<double>(x);
  return rounded;
}

/// NaN as an H200 converts it: 0, and where 64 bits are on either side the highest bit alone.
std::uint64_t integer_of_nan(const Conversion& c) {
  const int bits = bits_of(c.to);
  if (bits != 64 && c.from != Type::f64) return 0;
  return is_signed(c.to) ? ~std::uint64_t{0} << (bits - 1) : std::uint64_t{1} << (bits - 1);
}

std::uint64_t write_integer(const Conversion& c, double x) {
  if (std::isnan(x)) return integer_of_nan(c);
  x = simt::round_whole(x, c.rounding);
  const int bits = bits_of(c.to);
  if (is_signed(c.to)) {
    const double limit = std::ldexp(1.0, bits - 1);
    if (x >= limit) return (std::uint64_t{1} << (bits - 1)) - 1;
    if (x < -limit) return ~std::uint64_t{0} << (bits - 1);
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(x));
  }
  if (x <= 0) return 0;
  if (x >= std::ldexp(1.0, bits))
    return bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
  return static_cast<std::uint64_t>(x);
}

/// NaN as an H200 converts it: to and from .f64 quiet with its sign and first bits; .bf16 to .f32
/// and .rna as it is, .rna.satfinite one less; else all ones.
std::uint64_t float_of_nan(const Conversion& c, std::uint64_t bits) {
  if (c.from == Type::bf16 && c.to == Type::f32 && !c.ftz) return bits << 16;
  if (c.to == Type::tf32) {
    if (c.rounding != simt::Rounding::nearest_away) return 0x7fffe000;
    return (bits & 0xffffe000) - (c.finite ? 0x2000 : 0);
  }
  if (c.to != Type::f64 && c.from != Type::f64) {
    return simt::round_to(*format_of(c.to), std::numeric_limits<double>::quiet_NaN(), c.rounding);
  }
  constexpr simt::Format f64_format{11, 52};
  const simt::Format& from = c.from == Type::f64 ? f64_format : *format_of(c.from);
  const simt::Format& to = c.to == Type::f64 ? f64_format : *format_of(c.to);
  const std::uint64_t sign = bits >> (from.exponent_bits + from.fraction_bits) & 1;
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << from.fraction_bits) - 1);
  const int longer = to.fraction_bits - from.fraction_bits;
  return sign << (to.exponent_bits + to.fraction_bits) |
         ((std::uint64_t{1} << to.exponent_bits) - 1) << to.fraction_bits |
         std::uint64_t{1} << (to.fraction_bits - 1) |
         (longer > 0 ? fraction << longer : fraction >> -longer);
}

std::uint64_t write_float(const Conversion& c, double x) {
  if (c.whole && std::isfinite(x)) x = std::copysign(simt::round_whole(x, c.rounding), x);
  if (c.saturates) x = x > 0 ? std::min(x, 1.0) : 0;
  if (c.relu && x <= 0) x = 0;  // -0 too
  if (c.to == Type::f64) return std::bit_cast<std::uint64_t>(x);
  std::uint32_t bits = simt::round_to(*format_of(c.to), x, c.rounding, c.finite);
  if (c.to == Type::tf32) bits <<= 13;
  if (c.ftz && c.to == Type::f32 && (bits & 0x7f800000) == 0) bits &= 0x80000000;
  return bits;
}

}  // namespace

const simt::Format* format_of(Type type) {
  switch (type) {
    case Type::f16:
    case Type::f16x2:
      return &simt::f16_format;
    case Type::bf16:
    case Type::bf16x2:
      return &simt::bf16_format;
    case Type::tf32:
      return &simt::tf32_format;
    case Type::f32:
      return &simt::f32_format;
    case Type::e4m3x2:
      return &simt::e4m3_format;
    case Type::e5m2x2:
      return &simt::e5m2_format;
    default:
      return nullptr;
  }
}

std::uint64_t convert(const Conversion& c, std::uint64_t bits) {
  if (is_integer(c.from) && is_integer(c.to)) {
    const int unused = 64 - bits_of(c.from);
    const bool negative = is_signed(c.from) && static_cast<std::int64_t>(bits << unused) < 0;
    std::uint64_t x =
        negative ? static_cast<std::uint64_t>(static_cast<std::int64_t>(bits << unused) >> unused)
                 : bits << unused >> unused;
    const int width = bits_of(c.to);
    if (c.saturates) {
      const std::uint64_t most = is_signed(c.to) ? (std::uint64_t{1} << (width - 1)) - 1
                                 : width == 64   ? ~std::uint64_t{0}
                                                 : (std::uint64_t{1} << width) - 1;
      if (!negative) return std::min(x, most);
      if (!is_signed(c.to)) return 0;
      const std::int64_t least = -static_cast<std::int64_t>(most) - 1;
      return static_cast<std::uint64_t>(std::max(static_cast<std::int64_t>(x), least));
    }
    // The result goes on with its own sign where the register is wider.
    const int left = 64 - width;
    return is_signed(c.to)
               ? static_cast<std::uint64_t>(static_cast<std::int64_t>(x << left) >> left)
               : x << left >> left;
  }
  if (c.to == Type::f64 && is_integer(c.from)) {
    const double x = whole_to_f64(c, bits);
    return std::bit_cast<std::uint64_t>(c.saturates ? std::clamp(x, 0.0, 1.0) : x);
  }
  const double x = read(c, bits);
  if (std::isnan(x) && !is_integer(c.to) && !c.saturates) return float_of_nan(c, bits);
  return is_integer(c.to) ? write_integer(c, x) : write_float(c, x);
}

}  // namespace lanescope::ptx
