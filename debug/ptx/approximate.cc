// PTX ISA, "Floating-Point Instructions": what a GPU has units for that are not exact.

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <optional>
#include <string_view>

#include "debug/ptx/decoder.h"
#include "debug/ptx/double_nan.h"
#include "debug/simt/branch_free.h"
#include "debug/simt/numerics.h"

namespace lanescope::ptx {
namespace {

namespace branch_free = simt::branch_free;
using simt::canonical;

// .approx without .ftz scales what the unit would flush, as ptxas has it.

template <bool ftz>
struct Ex2 {
  static float apply(float x) {
    if (ftz) return branch_free::ex2(x);
    const std::uint32_t scaled = branch_free::all_if(x < -126);
    const float result = branch_free::ex2(choose(scaled, x * 0.5f, x));
    return choose(scaled, result * result, result);
  }
  static float choose(std::uint32_t first, float a, float b) {
    return std::bit_cast<float>((std::bit_cast<std::uint32_t>(a) & first) |
                                (std::bit_cast<std::uint32_t>(b) & ~first));
  }
};
template <bool ftz>
struct Lg2 {
  static float apply(float x) {
    if (ftz || !(std::fabs(x) < 0x1p-126f)) return simt::lg2(x);
    return canonical(simt::lg2(x * 0x1p24f) - 24.0f);
  }
};
template <bool ftz>
struct Rcp {
  static float apply(float x) {
    const float size = std::fabs(x);
    if (!ftz && size < 0x1p-126f) return canonical(simt::rcp(x * 0x1p24f) * 0x1p24f);
    if (!ftz && size > 0x1p126f && size < INFINITY) return simt::rcp(x * 0.25f) * 0.25f;
    return simt::rcp(x);
  }
};
template <bool ftz>
struct Rsqrt {
  static float apply(float x) {
    if (ftz || !(std::fabs(x) < 0x1p-126f)) return simt::rsqrt(x);
    return simt::rsqrt(x * 0x1p24f) * 0x1p12f;
  }
};
struct Sin {
  static float apply(float x) { return simt::sin(x); }
};
struct Cos {
  static float apply(float x) { return simt::cos(x); }
};
template <bool ftz>
struct Sqrt {
  static float apply(float x) {
    if (ftz || !(std::fabs(x) < 0x1p-126f)) return simt::sqrt(x);
    return simt::sqrt(x * 0x1p24f) * 0x1p-12f;
  }
};
struct Tanh {
  static float apply(float x) { return simt::tanh(x); }
};

struct RcpOfDouble {
  static double apply(double x) { return simt::rcp(x); }
};
struct RsqrtOfDouble {
  static double apply(double x) { return simt::rsqrt(x); }
};
/// Without .ftz: ptxas 13 refines what the unit gives, of subnormals scaled.
struct RefinedRsqrt {
  static double apply(double x) {
    if (!(std::fabs(x) < INFINITY) || x == 0) return of_special(x);
    if (x < 0) return std::bit_cast<double>(0xfff8000000000000u);
    return x < 0x1p-1022 ? refine(x * 0x1p54) * 0x1p27 : refine(x);
  }
  static double refine(double x) {
    const double first = simt::rsqrt(x);
    const double rest = __builtin_fma(x, -(first * first), 1.0);
    return __builtin_fma(__builtin_fma(rest, 0.375, 0.5), first * rest, first);
  }
  static double of_special(double x) {
    if (x == 0) return std::copysign(INFINITY, x);
    if (x != x) return quiet(x);
    return x > 0 ? 0 : std::bit_cast<double>(0xfff8000000000000u);
  }
};

/// What ptxas 13 puts in the place of an approximation of a number that it knows: the exact value,
/// rounded to nearest.
struct Exact {
  std::string_view base;
  double (*of)(double);
};
constexpr Exact exact_functions[] = {{"ex2", [](double x) { return std::exp2(x); }},
                                     {"lg2", [](double x) { return std::log2(x); }},
                                     {"rcp", [](double x) { return 1 / x; }},
                                     {"rsqrt", [](double x) { return 1 / std::sqrt(x); }},
                                     {"sqrt", [](double x) { return std::sqrt(x); }},
                                     {"sin", [](double x) { return std::sin(x); }},
                                     {"cos", [](double x) { return std::cos(x); }}};

struct Same {
  static float apply(float x) { return x; }
};

/// Where it is one of those: true. Of numbers that no GPU flushes, and results that are numbers.
bool decode_known(Decoder& d) {
  const auto known =
      std::find_if(std::begin(exact_functions), std::end(exact_functions),
                   [&](const Exact& exact) { return exact.base == d.modifiers.base(); });
  if (known == std::end(exact_functions) || d.operand_count() != 2) return false;
  const std::optional<std::uint64_t> bits = d.number_in(d.operand(1));
  if (!bits) return false;
  const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(*bits));
  const auto result = static_cast<float>(known->of(static_cast<double>(x)));
  if (!std::isnormal(x) || !std::isnormal(result)) return false;
  d.modifiers.ignore({"approx", "ftz"});
  if (d.demand_type() != Type::f32) return false;
  d.in.d = d.result(0, Type::f32);
  d.in.s[0] = d.constant(std::bit_cast<std::uint32_t>(result), 32);
  d.in.lanes = lane_operation<Same, float, float>();
  return true;
}

void decode_double_unit(Decoder& d) {
  d.modifiers.take("approx");
  const bool ftz = d.modifiers.take("ftz"), is_rcp = d.modifiers.base() == "rcp";
  const Type type = d.demand_type();
  if (is_rcp && !ftz) d.fail("of .f64 there is .approx.ftz alone");
  const auto set = [&](auto op) { d.set_lanes<decltype(op), double, double>(type, {type}); };
  if (is_rcp) return set(RcpOfDouble{});
  ftz ? set(RsqrtOfDouble{}) : set(RefinedRsqrt{});
}

template <template <bool> class Op>
void decode_unit(Decoder& d) {
  if (!d.modifiers.take("approx")) d.fail(".approx is missing");
  const bool ftz = d.modifiers.take("ftz");
  if (d.demand_type() != Type::f32) d.fail("there is no such instruction of this type");
  ftz ? d.set_lanes<Op<true>, float, float>(Type::f32, {Type::f32})
      : d.set_lanes<Op<false>, float, float>(Type::f32, {Type::f32});
}

template <bool ftz>
using SinFor = Sin;
template <bool ftz>
using CosFor = Cos;
template <bool ftz>
using TanhFor = Tanh;

}  // namespace

bool decode_approximate(Decoder& d) {
  const auto type = d.modifiers.peek_type();
  if (!type || (*type != Type::f32 && *type != Type::f64)) return false;
  const std::string_view base = d.modifiers.base();
  const auto& words = d.modifiers.left();
  const bool approx = std::find(words.begin(), words.end(), "approx") != words.end();
  if (approx && *type == Type::f32 && decode_known(d)) return true;
  if (approx && *type == Type::f64 && (base == "rcp" || base == "rsqrt")) {
    decode_double_unit(d);
  } else if (base == "ex2") {
    decode_unit<Ex2>(d);
  } else if (base == "lg2") {
    decode_unit<Lg2>(d);
  } else if (base == "rsqrt") {
    decode_unit<Rsqrt>(d);
  } else if (base == "sin") {
    decode_unit<SinFor>(d);
  } else if (base == "cos") {
    decode_unit<CosFor>(d);
  } else if (base == "rcp" && approx) {
    decode_unit<Rcp>(d);
  } else if (base == "sqrt" && approx) {
    decode_unit<Sqrt>(d);
  } else if (base == "tanh" && *type == Type::f32) {
    decode_unit<TanhFor>(d);
  } else {
    return false;
  }
  return true;
}

}  // namespace lanescope::ptx
