// PTX ISA, "Half Precision Floating-Point Instructions" and the like for .bf16.

#include <cmath>

#include "debug/ptx/decoder.h"
#include "debug/ptx/rounding.h"
#include "debug/simt/numerics.h"

namespace lanescope::ptx {
namespace {

using Half = std::uint16_t;

struct F16 {
  static constexpr Format format = f16_format;
  static constexpr Half nan = 0x7fff;
  static double value(Half x) { return static_cast<double>(simt::f16_to_f32(x)); }
};
struct Bf16 {
  static constexpr Format format = bf16_format;
  static constexpr Half nan = 0x7fff;
  static double value(Half x) {
    return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(x) << 16));
  }
};

template <class T>
Half finish(double x, bool ftz, bool sat) {
  if (sat) x = x > 0 ? (x < 1 ? x : 1) : 0;
  const auto bits = static_cast<Half>(round_to(T::format, x, Rounding::nearest_even));
  constexpr Half exponent =
      static_cast<Half>(((1 << T::format.exponent_bits) - 1) << T::format.fraction_bits);
  return ftz && (bits & exponent) == 0 ? bits & 0x8000 : bits;
}
template <class T>
double take(Half x, bool ftz) {
  const double value = T::value(x);
  return ftz && std::fabs(value) < std::ldexp(1.0, 2 - (1 << (T::format.exponent_bits - 1)))
             ? std::copysign(0.0, value)
             : value;
}
double sum(double a, double b) {
  const double plain = a + b;
  return std::isfinite(plain) ? add_to_odd(a, b) : plain;
}

struct Add {
  static double compute(double a, double b) { return sum(a, b); }
};
struct Subtract {
  static double compute(double a, double b) { return sum(a, -b); }
};
struct Multiply {
  static double compute(double a, double b) { return a * b; }
};
struct MultiplyAdd {
  static double compute(double a, double b, double c) { return sum(a * b, c); }
};

template <class Op, class T, bool ftz, bool sat, bool relu>
struct Arithmetic {
  template <class... S>
  static Half apply(S... s) {
    const Half result = finish<T>(Op::compute(take<T>(s, ftz)...), ftz, sat);
    if (!relu) return result;
    return result == T::nan ? result : result & 0x8000 ? 0 : result;  // .relu: NaN stays
  }
};

template <class T, bool negates>
struct Sign {
  static Half apply(Half a) { return static_cast<Half>(negates ? a ^ 0x8000 : a & 0x7fff); }
};

template <class T, bool least, bool nan>
struct Extreme {
  static Half apply(Half a, Half b) {
    const double x = T::value(a), y = T::value(b);
    if (nan && (x != x || y != y)) return T::nan;
    if (x != x) return y != y ? T::nan : b;
    if (y != y) return a;
    if (x == y) return std::signbit(x) == least ? a : b;
    return (x < y) == least ? a : b;
  }
};

/// Of two numbers side by side each on its own.
template <class Op>
struct Both {
  template <class... S>
  static std::uint32_t apply(S... s) {
    const auto low = Op::apply(static_cast<Half>(s)...);
    const auto high = Op::apply(static_cast<Half>(s >> 16)...);
    return low | static_cast<std::uint32_t>(high) << 16;
  }
};

bool is_packed(Type type) { return type == Type::f16x2 || type == Type::bf16x2; }
bool is_bf16(Type type) { return type == Type::bf16 || type == Type::bf16x2; }

template <class Op, std::size_t sources>
void set(Decoder& d, Type type) {
  const auto choose = [&](auto op, auto x) {
    using O = decltype(op);
    using T = decltype(x);
    if constexpr (sources == 1) d.set_lanes<O, T, T>(type, {type});
    if constexpr (sources == 2) d.set_lanes<O, T, T, T>(type, {type, type});
    if constexpr (sources == 3) d.set_lanes<O, T, T, T, T>(type, {type, type, type});
  };
  is_packed(type) ? choose(Both<Op>{}, std::uint32_t{}) : choose(Op{}, Half{});
}

template <class Op, class T, std::size_t sources>
void set_flags(Decoder& d, Type type, bool ftz, bool sat, bool relu) {
  if (sat && relu) d.fail(".sat and .relu exclude each other");
  if (relu)
    return ftz ? set<Arithmetic<Op, T, true, false, true>, sources>(d, type)
               : set<Arithmetic<Op, T, false, false, true>, sources>(d, type);
  if (sat)
    return ftz ? set<Arithmetic<Op, T, true, true, false>, sources>(d, type)
               : set<Arithmetic<Op, T, false, true, false>, sources>(d, type);
  ftz ? set<Arithmetic<Op, T, true, false, false>, sources>(d, type)
      : set<Arithmetic<Op, T, false, false, false>, sources>(d, type);
}

template <class Op, std::size_t sources>
void decode_arithmetic(Decoder& d) {
  d.modifiers.take("rn");
  const bool ftz = d.modifiers.take("ftz"), sat = d.modifiers.take("sat");
  const bool relu = d.modifiers.take("relu");
  const Type type = d.demand_type();
  is_bf16(type) ? set_flags<Op, Bf16, sources>(d, type, ftz, sat, relu)
                : set_flags<Op, F16, sources>(d, type, ftz, sat, relu);
}

template <bool least>
void decode_extreme(Decoder& d) {
  const bool nan = d.modifiers.take("NaN");
  const Type type = d.demand_type();
  if (d.operand_count() == 4) d.refuse("with three numbers");
  if (is_bf16(type)) {
    return nan ? set<Extreme<Bf16, least, true>, 2>(d, type)
               : set<Extreme<Bf16, least, false>, 2>(d, type);
  }
  nan ? set<Extreme<F16, least, true>, 2>(d, type) : set<Extreme<F16, least, false>, 2>(d, type);
}

}  // namespace

bool decode_half(Decoder& d) {
  const auto type = d.modifiers.peek_type();
  if (!type || !(is_packed(*type) || *type == Type::f16 || *type == Type::bf16)) return false;
  const std::string_view base = d.modifiers.base();
  if (base == "add") {
    decode_arithmetic<Add, 2>(d);
  } else if (base == "sub") {
    decode_arithmetic<Subtract, 2>(d);
  } else if (base == "mul") {
    decode_arithmetic<Multiply, 2>(d);
  } else if (base == "fma") {
    decode_arithmetic<MultiplyAdd, 3>(d);
  } else if (base == "neg" || base == "abs") {
    d.modifiers.take_type();
    base == "neg" ? set<Sign<F16, true>, 1>(d, *type) : set<Sign<F16, false>, 1>(d, *type);
  } else if (base == "min") {
    decode_extreme<true>(d);
  } else if (base == "max") {
    decode_extreme<false>(d);
  } else if (base == "ex2" || base == "tanh") {
    d.refuse("what a GPU computes here is not known bit for bit");
  } else {
    return false;
  }
  return true;
}

}  // namespace lanescope::ptx
