// PTX ISA, "Floating-Point Instructions", for .f32.

#include <algorithm>
#include <cmath>

#include "debug/ptx/decoder.h"
#include "debug/ptx/host_rounding.h"
#include "debug/simt/numerics.h"
#include "debug/simt/rounding.h"

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
double add_odd(double a, double b, simt::Rounding rounding) {
  const double sum = simt::add_to_odd(a, b);
  const bool cancels = sum == 0 && std::signbit(a) != std::signbit(b);
  return cancels && rounding == simt::Rounding::down ? -0.0 : sum;
}

// The host rounds to nearest even; the processor gives the rounded sum, product and fused sum.

struct Add {
  static float nearest(float a, float b) { return a + b; }
  static double to_odd(simt::Rounding rounding, double a, double b) {
    return add_odd(a, b, rounding);
  }
};
struct Subtract {
  static float nearest(float a, float b) { return a - b; }
  static double to_odd(simt::Rounding rounding, double a, double b) {
    return add_odd(a, -b, rounding);
  }
};
struct Multiply {
  static float rest(float result, float a, float b) {
    return __builtin_fmaf(a * 0x1p64f, b, result * -0x1p64f);
  }
  static float nearest(float a, float b) { return a * b; }
  static double to_odd(simt::Rounding, double a, double b) { return a * b; }  // exact
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
  static float rest(float result, float a, float b, float c) {
    return __builtin_fmaf(factor(a) * 0x1p64f, b, (term(c) - result) * 0x1p64f);
  }
  static float nearest(float a, float b, float c) { return __builtin_fmaf(factor(a), b, term(c)); }
  static double to_odd(simt::Rounding rounding, double a, double b, double c) {
    return add_odd(factor(a) * b, term(c), rounding);
  }
};
struct Divide {
  static float nearest(float a, float b) { return a / b; }
};
struct Reciprocal {
  static float nearest(float a) { return 1.0f / a; }
};
struct SquareRoot {
  static float nearest(float a) { return __builtin_sqrtf(a); }
};

/// Whether .ftz takes a result for subnormal that was rounded up to the smallest normal number: it
/// does where the exact one lies below. `Op::rest`: the exact result without `result`, as far as
/// its sign goes, where that is the smallest normal number.
template <class Op, class... S>
bool is_rounded_up(float result, S... s) {
  const float rest = Op::rest(result, s...);
  return (std::fabs(result) == 0x1p-126f) & ((result > 0 ? rest : -rest) < 0);
}

template <class Op, bool ftz>
struct Nearest {
  template <class... S>
  static float apply(S... s) {
    const float result = Op::nearest(flush<ftz>(s)...);
    if constexpr (ftz && requires { Op::rest(result, s...); }) {
      return finish<ftz>(is_rounded_up<Op>(result, flush<ftz>(s)...) ? result * 0.5f : result);
    }
    return finish<ftz>(result);
  }
};

/// In any rounding mode and with .sat, by way of a double. `kind`: the mode; `vector`:
/// flags.
constexpr std::uint8_t with_ftz = 1, with_sat = 2;

template <class Op, std::size_t... I>
void directed(std::byte* registers, const Instruction& in, std::uint32_t mask) {
  const auto rounding = static_cast<simt::Rounding>(in.kind);
  const bool ftz = in.vector & with_ftz, sat = in.vector & with_sat;
  const auto flushed = [&](float x) { return ftz ? flush<true>(x) : x; };
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    const double odd = Op::to_odd(
        rounding, static_cast<double>(flushed(lane_of<float>(registers, in.s[I], lane)))...);
    const bool flushes = ftz && std::fabs(odd) < 0x1p-126;
    const float rounded =
        !std::isfinite(odd) ? static_cast<float>(odd)
        : flushes           ? static_cast<float>(std::copysign(0.0, odd))
                            : std::bit_cast<float>(simt::round_to(simt::f32_format, odd, rounding));
    const float result = canonical(rounded);
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
};
template <bool ftz>
struct Negate {
  static float apply(float a) { return canonical(-flush<ftz>(a)); }
};
template <bool least, bool ftz, bool nan>
struct Extreme {
  static float apply(float a, float b) {
    const float x = flush<ftz>(a), y = flush<ftz>(b);
    const float result = least ? simt::min(x, y) : simt::max(x, y);
    return nan && (x != x || y != y) ? std::bit_cast<float>(0x7fffffffu) : result;
  }
};
/// .xorsign.abs: of the sizes, with the sign of the product.
template <class Op>
struct OfSizes {
  static float apply(float a, float b) {
    const float size = Op::apply(std::fabs(a), std::fabs(b));
    return size != size ? size : std::copysign(size, std::signbit(a) == std::signbit(b) ? 1 : -1);
  }
};
struct CopySign {
  static float apply(float a, float b) { return std::copysign(b, a); }
};

/// div.approx: a product with the reciprocal; .full keeps that in range.
template <bool ftz, bool full>
struct DivideApproximately {
  static float apply(float a, float b) {
    float x = flush<ftz>(a), y = flush<ftz>(b);
    const float size = std::fabs(y);
    const bool large = full && size > 0x1p126f, small = (full || !ftz) && size < 0x1p-126f;
    const float scale = large ? 0.25f : small ? 0x1p24f : 1.0f;
    x *= scale;
    y *= scale;
    return finish<ftz>(x * simt::rcp(y));
  }
};

simt::Rounding take_rounding(Decoder& d) {
  return static_cast<simt::Rounding>(d.modifiers.choose({"rn", "rz", "rm", "rp"}, 0));
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

template <std::size_t sources, class Form>
void set_lanes(Decoder& d, Form) {
  const Type f32 = Type::f32;
  if constexpr (sources == 1) d.set_lanes<Form, float, float>(f32, {f32});
  if constexpr (sources == 2) d.set_lanes<Form, float, float, float>(f32, {f32, f32});
  if constexpr (sources == 3) d.set_lanes<Form, float, float, float, float>(f32, {f32, f32, f32});
}

/// add, sub, mul, fma, div, rcp, sqrt, in the rounding modes that the machine has.
template <class Op, std::size_t sources, bool has_directed>
void decode_rounded(Decoder& d) {
  const simt::Rounding rounding = take_rounding(d);
  const bool ftz = d.modifiers.take("ftz"), sat = has_directed && d.modifiers.take("sat");
  d.demand_type();
  ftz ? set_lanes<sources>(d, Nearest<Op, true>{}) : set_lanes<sources>(d, Nearest<Op, false>{});
  if (rounding == simt::Rounding::nearest_even && !sat) return;
  if constexpr (has_directed) {
    d.in.kind = static_cast<std::uint8_t>(rounding);
    d.in.vector = static_cast<std::uint8_t>((ftz ? with_ftz : 0) | (sat ? with_sat : 0));
    d.in.lanes = directed_operation<Op>();
  } else {
    d.in.kind = static_cast<std::uint8_t>(rounding);
    d.in.lanes = ftz ? rounded_operation<Nearest<Op, true>, float, sources>()
                     : rounded_operation<Nearest<Op, false>, float, sources>();
  }
}

void decode_division(Decoder& d) {
  const int form = d.modifiers.choose({"approx", "full"}, 2);
  if (form == 2) return decode_rounded<Divide, 2, false>(d);
  const bool ftz = d.modifiers.take("ftz");
  d.demand_type();
  with_flags<DivideApproximately>(ftz, form == 1, [&](auto op) { set_lanes<2>(d, op); });
}

template <template <bool> class Op>
void decode_sign(Decoder& d) {
  const bool ftz = d.modifiers.take("ftz");
  d.demand_type();
  ftz ? set_lanes<1>(d, Op<true>{}) : set_lanes<1>(d, Op<false>{});
}

template <bool least>
struct ExtremeForms {
  template <bool ftz, bool nan>
  using form = Extreme<least, ftz, nan>;
};

template <bool least>
void decode_extreme(Decoder& d) {
  const bool ftz = d.modifiers.take("ftz"), nan = d.modifiers.take("NaN");
  const bool of_sizes = d.modifiers.take("xorsign") && d.modifiers.take("abs");
  d.demand_type();
  if (d.operand_count() == 4) d.refuse("with three numbers, which no GPU before sm_100 has");
  with_flags<ExtremeForms<least>::template form>(ftz, nan, [&](auto op) {
    of_sizes ? set_lanes<2>(d, OfSizes<decltype(op)>{}) : set_lanes<2>(d, op);
  });
}

}  // namespace

bool decode_float(Decoder& d) {
  if (d.modifiers.peek_type() != Type::f32) return false;
  const std::string_view base = d.modifiers.base();
  if (base == "rcp") {
    decode_rounded<Reciprocal, 1, false>(d);
  } else if (base == "sqrt") {
    decode_rounded<SquareRoot, 1, false>(d);
  } else if (base == "add") {
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
    d.demand_type();
    set_lanes<2>(d, CopySign{});
  } else {
    return false;
  }
  return true;
}

}  // namespace lanescope::ptx
