// PTX ISA, "Half Precision Floating-Point Instructions" and the like for .bf16.

#include <cmath>

#include "debug/ptx/decoder.h"
#include "debug/simt/numerics.h"
#include "debug/simt/rounding.h"

namespace lanescope::ptx {
namespace {

using Half = std::uint16_t;

struct F16 {
  static constexpr simt::Format format = simt::f16_format;
  static constexpr Half nan = 0x7fff;
  static double value(Half x) { return static_cast<double>(simt::f16_to_f32(x)); }
};
struct Bf16 {
  static constexpr simt::Format format = simt::bf16_format;
  static constexpr Half nan = 0x7fff;
  static double value(Half x) {
    return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(x) << 16));
  }
};

/// .ftz: what is subnormal before it is rounded counts as zero.
template <class T>
double flush(double x, bool ftz) {
  return ftz && std::fabs(x) < std::ldexp(1.0, 2 - (1 << (T::format.exponent_bits - 1)))
             ? std::copysign(0.0, x)
             : x;
}
template <class T>
Half finish(double x, bool ftz, bool sat) {
  if (sat) x = x > 0 ? (x < 1 ? x : 1) : 0;
  return static_cast<Half>(
      simt::round_to(T::format, flush<T>(x, ftz), simt::Rounding::nearest_even));
}
template <class T>
double take(Half x, bool ftz) {
  return flush<T>(T::value(x), ftz);
}
double sum(double a, double b) {
  const double plain = a + b;
  return std::isfinite(plain) ? simt::add_to_odd(a, b) : plain;
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
/// Negations: of the product, of the addend.
template <bool product, bool addend>
struct MultiplyAdd {
  static double compute(double a, double b, double c) {
    return sum(product ? -a * b : a * b, addend ? -c : c);
  }
};

/// Flags of an operation, in Instruction::kind.
constexpr std::uint8_t with_ftz = 1, with_sat = 2, with_relu = 4, with_oob = 8;

/// What copies of tensors put where a box leaves them (.fill_mode 1), whatever their elements are.
constexpr Half out_of_bounds = 0x7ff7;

/// .oob: of a factor that no tensor had.
bool is_out_of_bounds(std::uint32_t a, std::uint32_t b) {
  return static_cast<Half>(a) == out_of_bounds || static_cast<Half>(b) == out_of_bounds;
}

/// `Number`: a half, or two side by side, each on its own.
template <class Op, class T, class Number, std::size_t... I>
void arithmetic(std::byte* registers, const Instruction& in, std::uint32_t mask) {
  const bool ftz = in.kind & with_ftz, sat = in.kind & with_sat, relu = in.kind & with_relu;
  const bool oob = in.kind & with_oob;
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    Number result = 0;
    for (unsigned at = 0; at < 8 * sizeof(Number); at += 16) {
      Half half = finish<T>(
          Op::compute(
              take<T>(static_cast<Half>(lane_of<Number>(registers, in.s[I], lane) >> at), ftz)...),
          ftz, sat);
      if (relu && half != T::nan && half & 0x8000) half = 0;  // a NaN stays
      if (oob && is_out_of_bounds(lane_of<Number>(registers, in.s[0], lane) >> at,
                                  lane_of<Number>(registers, in.s[1], lane) >> at)) {
        half = 0;
      }
      result = static_cast<Number>(result | static_cast<Number>(half) << at);
    }
    reinterpret_cast<Number*>(registers + in.d)[lane] = result;
  }
}

template <class T, bool negates>
struct Sign {
  static Half apply(Half a) {
    constexpr int infinity = ((1 << T::format.exponent_bits) - 1) << T::format.fraction_bits;
    const bool is_nan = (a & 0x7fff) > infinity;
    return is_nan ? T::nan : static_cast<Half>(negates ? a ^ 0x8000 : a & 0x7fff);
  }
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

/// .ftz: what is subnormal counts as zero.
template <class Op>
struct Flushed {
  static Half flush(Half x) { return (x & 0x7c00) == 0 ? x & 0x8000 : x; }
  static Half apply(Half a, Half b) { return Op::apply(flush(a), flush(b)); }
};
/// .xorsign.abs: of the sizes, with the sign of the product.
template <class T, class Op>
struct OfSizes {
  static Half apply(Half a, Half b) {
    const Half size = Op::apply(a & 0x7fff, b & 0x7fff);
    return size == T::nan ? size : static_cast<Half>(size | ((a ^ b) & 0x8000));
  }
};

/// ex2.approx: what the unit makes of it as a float, truncated (of .bf16 what is subnormal counts
/// as zero). An H200's bits, for all numbers.
template <class T>
struct Ex2 {
  static Half apply(Half a) {
    const double x = T::value(a);
    if (x != x) return T::nan;
    const double y = static_cast<double>(simt::ex2(static_cast<float>(x)));
    constexpr double overflow = T::format.exponent_bits == 5 ? 0x1p16 : INFINITY;
    return static_cast<Half>(
        simt::round_to(T::format, y < overflow ? y : INFINITY, simt::Rounding::zero));
  }
};

template <class T>
struct Tanh {
  static Half apply(Half a) {
    const double x = T::value(a);
    if (x != x) return T::nan;
    return static_cast<Half>(simt::round_to(
        T::format, static_cast<double>(simt::tanh(static_cast<float>(x))), simt::Rounding::zero));
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
  if (is_packed(type)) d.in.halves = Halves::each;
  is_packed(type) ? choose(Both<Op>{}, std::uint32_t{}) : choose(Op{}, Half{});
}

template <class Op, class T, class Number>
LaneOperation arithmetic_operation() {
  if constexpr (requires { Op::compute(0.0, 0.0); }) {
    return arithmetic<Op, T, Number, 0, 1>;
  } else {
    return arithmetic<Op, T, Number, 0, 1, 2>;
  }
}

template <class Op>
void decode_arithmetic(Decoder& d) {
  d.modifiers.take("rn");
  const bool ftz = d.modifiers.take("ftz"), sat = d.modifiers.take("sat");
  const bool relu = d.modifiers.take("relu");
  if (sat && relu) d.fail(".sat and .relu exclude each other");
  const bool oob = d.modifiers.take("oob");
  const Type type = d.demand_type();
  const std::size_t sources = requires { Op::compute(0.0, 0.0); }
  ? 2 : 3;
  d.demand_operands(1 + sources);
  d.in.d = d.result(0, type);
  for (std::size_t i = 0; i < sources; ++i) d.in.s[i] = d.source(i + 1, type);
  d.in.kind = static_cast<std::uint8_t>((ftz ? with_ftz : 0) | (sat ? with_sat : 0) |
                                        (relu ? with_relu : 0) | (oob ? with_oob : 0));
  const auto choose = [&](auto x) {
    using Number = decltype(x);
    d.in.lanes = is_bf16(type) ? arithmetic_operation<Op, Bf16, Number>()
                               : arithmetic_operation<Op, F16, Number>();
  };
  if (is_packed(type)) d.in.halves = Halves::each;
  is_packed(type) ? choose(std::uint32_t{}) : choose(Half{});
}

void decode_fused(Decoder& d) {
  if (d.statement().negates_product) {
    d.statement().negates_addend ? decode_arithmetic<MultiplyAdd<true, true>>(d)
                                 : decode_arithmetic<MultiplyAdd<true, false>>(d);
  } else {
    d.statement().negates_addend ? decode_arithmetic<MultiplyAdd<false, true>>(d)
                                 : decode_arithmetic<MultiplyAdd<false, false>>(d);
  }
}

void decode_sign(Decoder& d, Type type, bool negates) {
  if (is_bf16(type)) {
    negates ? set<Sign<Bf16, true>, 1>(d, type) : set<Sign<Bf16, false>, 1>(d, type);
  } else {
    negates ? set<Sign<F16, true>, 1>(d, type) : set<Sign<F16, false>, 1>(d, type);
  }
}

void decode_ex2(Decoder& d, Type type) {
  if (!d.modifiers.take("approx")) d.fail(".approx is missing");
  if (d.modifiers.take("ftz") != is_bf16(type)) d.fail(".ftz is for .bf16");
  d.modifiers.take_type();
  is_bf16(type) ? set<Ex2<Bf16>, 1>(d, type) : set<Ex2<F16>, 1>(d, type);
}

void decode_tanh(Decoder& d, Type type) {
  if (!d.modifiers.take("approx")) d.fail(".approx is missing");
  d.modifiers.take_type();
  is_bf16(type) ? set<Tanh<Bf16>, 1>(d, type) : set<Tanh<F16>, 1>(d, type);
}

template <class T, class Op>
void set_extreme(Decoder& d, Type type, bool of_sizes) {
  of_sizes ? set<OfSizes<T, Op>, 2>(d, type) : set<Op, 2>(d, type);
}

template <bool least>
void decode_extreme(Decoder& d) {
  const bool nan = d.modifiers.take("NaN");
  const bool of_sizes = d.modifiers.take("xorsign") && d.modifiers.take("abs");
  const bool ftz = d.modifiers.take("ftz");
  const Type type = d.demand_type();
  if (d.operand_count() == 4) d.refuse("with three numbers, which no GPU before sm_100 has");
  if (is_bf16(type)) {
    if (ftz) d.fail(".ftz is not for .bf16");
    return nan ? set_extreme<Bf16, Extreme<Bf16, least, true>>(d, type, of_sizes)
               : set_extreme<Bf16, Extreme<Bf16, least, false>>(d, type, of_sizes);
  }
  const auto choose = [&](auto op) {
    using Op = decltype(op);
    ftz ? set_extreme<F16, Flushed<Op>>(d, type, of_sizes)
        : set_extreme<F16, Op>(d, type, of_sizes);
  };
  nan ? choose(Extreme<F16, least, true>{}) : choose(Extreme<F16, least, false>{});
}

}  // namespace

bool decode_half(Decoder& d) {
  const auto type = d.modifiers.peek_type();
  if (!type || !(is_packed(*type) || *type == Type::f16 || *type == Type::bf16)) return false;
  const std::string_view base = d.modifiers.base();
  if (base == "add") {
    decode_arithmetic<Add>(d);
  } else if (base == "sub") {
    decode_arithmetic<Subtract>(d);
  } else if (base == "mul") {
    decode_arithmetic<Multiply>(d);
  } else if (base == "fma") {
    decode_fused(d);
  } else if (base == "neg" || base == "abs") {
    d.modifiers.take_type();
    decode_sign(d, *type, base == "neg");
  } else if (base == "min") {
    decode_extreme<true>(d);
  } else if (base == "max") {
    decode_extreme<false>(d);
  } else if (base == "ex2") {
    decode_ex2(d, *type);
  } else if (base == "tanh") {
    decode_tanh(d, *type);
  } else {
    return false;
  }
  return true;
}

}  // namespace lanescope::ptx
