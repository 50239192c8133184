// PTX ISA, "Floating-Point Instructions", for .f32 and .f64.

#include <algorithm>
#include <cmath>

#include "debug/ptx/decoder.h"
#include "debug/ptx/rounding.h"
#include "debug/simt/numerics.h"

namespace lanescope::ptx {
namespace {

using simt::canonical;

/// .ftz: what is subnormal counts as zero of its sign, before and behind an operation.
template <bool ftz>
float flush(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return ftz && (bits & 0x7f800000) == 0 ? std::bit_cast<float>(bits & 0x80000000) : x;
}
/// .sat: to [0, 1]; NaN is 0.
float clamp(float x) {
  const float above = x > 0 ? x : 0;
  return above < 1 ? above : 1;
}
template <bool ftz>
float finish(float x) {
  return canonical(flush<ftz>(x));
}

/// a + b rounded to odd; a sum of 0 has the sign that `rounding` gives it.
double add_odd(double a, double b, Rounding rounding) {
  const double sum = add_to_odd(a, b);
  const bool cancels = sum == 0 && std::signbit(a) != std::signbit(b);
  return cancels && rounding == Rounding::down ? -0.0 : sum;
}

// The host rounds to nearest even; the processor gives the rounded sum, product and fused sum.

struct Add {
  static float nearest(float a, float b) { return a + b; }
  static double to_odd(Rounding rounding, double a, double b) { return add_odd(a, b, rounding); }
  static double apply(double a, double b) { return a + b; }
};
struct Subtract {
  static float nearest(float a, float b) { return a - b; }
  static double to_odd(Rounding rounding, double a, double b) { return add_odd(a, -b, rounding); }
  static double apply(double a, double b) { return a - b; }
};
struct Multiply {
  static float nearest(float a, float b) { return a * b; }
  static double to_odd(Rounding, double a, double b) { return a * b; }  // exact
  static double apply(double a, double b) { return a * b; }
};
/// Negations: of the product, of the addend.
template <bool product, bool addend>
struct MultiplyAdd {
  template <class T>
  static T factor(T a) {
    return product ? -a : a;
  }
  template <class T>
  static T term(T c) {
    return addend ? -c : c;
  }
  static float nearest(float a, float b, float c) { return __builtin_fmaf(factor(a), b, term(c)); }
  static double to_odd(Rounding rounding, double a, double b, double c) {
    return add_odd(factor(a) * b, term(c), rounding);
  }
  static double apply(double a, double b, double c) { return __builtin_fma(factor(a), b, term(c)); }
};
struct Divide {
  static float nearest(float a, float b) { return a / b; }
  static double apply(double a, double b) { return a / b; }
};
struct Reciprocal {
  static float nearest(float a) { return 1.0f / a; }
  static double apply(double a) { return 1.0 / a; }
};
struct SquareRoot {
  static float nearest(float a) { return __builtin_sqrtf(a); }
  static double apply(double a) { return __builtin_sqrt(a); }
};

template <class Op, bool ftz>
struct Nearest {
  template <class... S>
  static float apply(S... s) {
    return finish<ftz>(Op::nearest(flush<ftz>(s)...));
  }
};

/// The same in any rounding mode and with .sat, by way of a double. `kind`: the mode; `vector`:
/// flags.
constexpr std::uint8_t with_ftz = 1, with_sat = 2;

template <class Op, std::size_t... I>
void directed(std::byte* registers, const Instruction& in, std::uint32_t mask) {
  const auto rounding = static_cast<Rounding>(in.kind);
  const bool ftz = in.vector & with_ftz, sat = in.vector & with_sat;
  const auto flushed = [&](float x) { return ftz ? flush<true>(x) : x; };
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    const double odd = Op::to_odd(
        rounding, static_cast<double>(flushed(lane_of<float>(registers, in.s[I], lane)))...);
    const float rounded = std::isfinite(odd)
                              ? std::bit_cast<float>(round_to(f32_format, odd, rounding))
                              : static_cast<float>(odd);
    const float result = canonical(flushed(rounded));
    reinterpret_cast<float*>(registers + in.d)[lane] = sat ? clamp(result) : result;
  }
}
template <class Op>
LaneOperation directed_operation() {
  if constexpr (requires { Op::nearest(0.0f, 0.0f); }) {
    return directed<Op, 0, 1>;
  } else {
    return directed<Op, 0, 1, 2>;
  }
}

template <bool ftz>
struct Absolute {
  static float apply(float a) { return canonical(std::fabs(flush<ftz>(a))); }
  static double apply(double a) { return std::fabs(a); }
};
template <bool ftz>
struct Negate {
  static float apply(float a) { return canonical(-flush<ftz>(a)); }
  static double apply(double a) { return -a; }
};
template <bool least, bool ftz, bool nan>
struct Extreme {
  static float apply(float a, float b) {
    const float x = flush<ftz>(a), y = flush<ftz>(b);
    const float result = least ? simt::min(x, y) : simt::max(x, y);
    return nan && (x != x || y != y) ? std::bit_cast<float>(0x7fffffffu) : result;
  }
  static double apply(double a, double b) {
    if (a != a) return b;
    if (b != b) return a;
    if (a == b) return std::signbit(a) == least ? a : b;
    return (a < b) == least ? a : b;
  }
};
struct CopySign {
  template <class T>
  static T apply(T a, T b) {
    return std::copysign(b, a);
  }
};

/// div.approx: a product with the reciprocal; .full keeps that in range.
template <bool ftz, bool full>
struct DivideApproximately {
  static float apply(float a, float b) {
    float x = flush<ftz>(a), y = flush<ftz>(b);
    if (full) {
      const float scale = std::fabs(y) > 0x1p126f    ? 0.25f
                          : std::fabs(y) < 0x1p-126f ? 0x1p24f
                                                     : 1.0f;
      x *= scale;
      y *= scale;
    }
    return finish<ftz>(x * simt::rcp(y));
  }
};

Rounding take_rounding(Decoder& d) {
  return static_cast<Rounding>(d.modifiers.choose({"rn", "rz", "rm", "rp"}, 0));
}

/// Chooses Form<flags...> for two flags that are known only now.
template <template <bool, bool> class Form, class F>
void with_flags(bool first, bool second, F&& f) {
  if (first) {
    second ? f(Form<true, true>{}) : f(Form<true, false>{});
  } else {
    second ? f(Form<false, true>{}) : f(Form<false, false>{});
  }
}

template <class Op, std::size_t sources>
void set_lanes(Decoder& d, auto form, Type type) {
  using Form = decltype(form);
  const auto set = [&](auto x) {
    using T = decltype(x);
    if constexpr (sources == 1) d.set_lanes<Form, T, T>(type, {type});
    if constexpr (sources == 2) d.set_lanes<Form, T, T, T>(type, {type, type});
    if constexpr (sources == 3) d.set_lanes<Form, T, T, T, T>(type, {type, type, type});
  };
  set(Op{});
}

/// add, sub, mul, fma, div, rcp, sqrt: .f32 in the rounding modes that the machine has, .f64 .rn.
template <class Op, std::size_t sources, bool has_directed>
void decode_rounded(Decoder& d) {
  const Rounding rounding = take_rounding(d);
  const bool ftz = d.modifiers.take("ftz"), sat = has_directed && d.modifiers.take("sat");
  const Type type = d.demand_type();
  if (type == Type::f64) {
    if (rounding != Rounding::nearest_even) d.refuse("of .f64 only .rn");
    return set_lanes<double, sources>(d, Op{}, type);
  }
  if (type != Type::f32) d.fail("there is no such instruction of this type");
  ftz ? set_lanes<float, sources>(d, Nearest<Op, true>{}, type)
      : set_lanes<float, sources>(d, Nearest<Op, false>{}, type);
  if (rounding == Rounding::nearest_even && !sat) return;
  if constexpr (has_directed) {
    d.in.kind = static_cast<std::uint8_t>(rounding);
    d.in.vector = static_cast<std::uint8_t>((ftz ? with_ftz : 0) | (sat ? with_sat : 0));
    d.in.lanes = directed_operation<Op>();
  } else {
    d.refuse("of this instruction only .rn");
  }
}

void decode_division(Decoder& d) {
  const int form = d.modifiers.choose({"approx", "full"}, 2);
  if (form == 2) return decode_rounded<Divide, 2, false>(d);
  const bool ftz = d.modifiers.take("ftz");
  const Type type = d.demand_type();
  if (type != Type::f32) d.fail("there is no such instruction of this type");
  with_flags<DivideApproximately>(ftz, form == 1,
                                  [&](auto op) { set_lanes<float, 2>(d, op, type); });
}

template <template <bool> class Op>
void decode_sign(Decoder& d) {
  const bool ftz = d.modifiers.take("ftz");
  const Type type = d.demand_type();
  if (type == Type::f64) return set_lanes<double, 1>(d, Op<false>{}, type);
  ftz ? set_lanes<float, 1>(d, Op<true>{}, type) : set_lanes<float, 1>(d, Op<false>{}, type);
}

template <bool least>
struct ExtremeForms {
  template <bool ftz, bool nan>
  using form = Extreme<least, ftz, nan>;
};

template <bool least>
void decode_extreme(Decoder& d) {
  const bool ftz = d.modifiers.take("ftz"), nan = d.modifiers.take("NaN");
  const Type type = d.demand_type();
  if (d.operand_count() == 4) d.refuse("with three numbers");
  if (type == Type::f64) return set_lanes<double, 2>(d, Extreme<least, false, false>{}, type);
  with_flags<ExtremeForms<least>::template form>(
      ftz, nan, [&](auto op) { set_lanes<float, 2>(d, op, type); });
}

bool decode_of_type(Decoder& d, std::string_view base, Type type) {
  if (base == "add") {
    decode_rounded<Add, 2, true>(d);
  } else if (base == "sub") {
    decode_rounded<Subtract, 2, true>(d);
  } else if (base == "mul") {
    decode_rounded<Multiply, 2, true>(d);
  } else if (base == "fma" || base == "mad") {
    with_flags<MultiplyAdd>(d.statement().negates_product, d.statement().negates_addend,
                            [&](auto op) { decode_rounded<decltype(op), 3, true>(d); });
  } else if (base == "div") {
    decode_division(d);
  } else if (base == "abs") {
    decode_sign<Absolute>(d);
  } else if (base == "neg") {
    decode_sign<Negate>(d);
  } else if (base == "min") {
    decode_extreme<true>(d);
  } else if (base == "max") {
    decode_extreme<false>(d);
  } else if (base == "copysign") {
    d.modifiers.take_type();
    type == Type::f64 ? set_lanes<double, 2>(d, CopySign{}, type)
                      : set_lanes<float, 2>(d, CopySign{}, type);
  } else {
    return false;
  }
  return true;
}

}  // namespace

bool decode_float(Decoder& d) {
  const auto type = d.modifiers.peek_type();
  if (!type || (*type != Type::f32 && *type != Type::f64)) return false;
  const std::string_view base = d.modifiers.base();
  if (base == "rcp") {
    decode_rounded<Reciprocal, 1, false>(d);
  } else if (base == "sqrt") {
    decode_rounded<SquareRoot, 1, false>(d);
  } else {
    return decode_of_type(d, base, *type);
  }
  return true;
}

}  // namespace lanescope::ptx
