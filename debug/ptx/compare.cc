// PTX ISA, "Comparison and Selection Instructions".

#include <cmath>
#include <limits>

#include "debug/ptx/decoder.h"
#include "debug/ptx/rounding.h"
#include "debug/simt/numerics.h"

namespace lanescope::ptx {
namespace {

/// In the order of `comparison_names`; those from equ on hold where one is a NaN.
enum class Comparison : std::uint8_t {
  eq,
  ne,
  lt,
  le,
  gt,
  ge,
  equ,
  neu,
  ltu,
  leu,
  gtu,
  geu,
  num,
  nan
};

template <Comparison comparison, class T>
bool holds(T a, T b) {
  const bool unordered = a != a || b != b;
  switch (comparison) {
    case Comparison::eq:
      return a == b;
    case Comparison::ne:
      return a != b && !unordered;
    case Comparison::lt:
      return a < b;
    case Comparison::le:
      return a <= b;
    case Comparison::gt:
      return a > b;
    case Comparison::ge:
      return a >= b;
    case Comparison::equ:
      return !(a < b || a > b);
    case Comparison::neu:
      return a != b;
    case Comparison::ltu:
      return !(a >= b);
    case Comparison::leu:
      return !(a > b);
    case Comparison::gtu:
      return !(a <= b);
    case Comparison::geu:
      return !(a < b);
    case Comparison::num:
      return !unordered;
    default:
      return unordered;
  }
}

/// Reads of .f16 and .bf16 as numbers.
struct AsIs {
  template <class T>
  static T value(T x) {
    return x;
  }
};
struct Flushed {
  static float value(float x) { return std::fabs(x) < 0x1p-126f ? 0.0f : x; }
};
struct F16 {
  static float value(std::uint16_t x) { return simt::f16_to_f32(x); }
};
struct Bf16 {
  static float value(std::uint16_t x) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(x) << 16);
  }
};

enum class Combination : std::uint8_t { none, both, either, one };

template <class Reading, Comparison comparison>
struct Compare {
  template <class T>
  static bool apply(T a, T b) {
    return holds<comparison>(Reading::value(a), Reading::value(b));
  }
};

using Predicates = std::uint32_t;

/// setp: p = (a cmp b) BoolOp c and q = !(a cmp b) BoolOp c, where they are there. `kind` holds the
/// combination, `immediate` whether c is negated; s[2]: c.
template <class Op, class T>
void set_predicates(std::byte* registers, const Instruction& in, std::uint32_t mask) {
  Predicates compared = 0;
  for (int i = 0; i < 32; ++i) {
    compared |= static_cast<Predicates>(
                    Op::apply(lane_of<T>(registers, in.s[0], i), lane_of<T>(registers, in.s[1], i)))
                << i;
  }
  Predicates other = ~compared;
  const auto combination = static_cast<Combination>(in.kind);
  if (combination != Combination::none) {
    Predicates c = *reinterpret_cast<const Predicates*>(registers + in.s[2]);
    if (in.immediate) c = ~c;
    const auto combine = [&](Predicates x) {
      return combination == Combination::both     ? x & c
             : combination == Combination::either ? x | c
                                                  : x ^ c;
    };
    compared = combine(compared);
    other = combine(other);
  }
  const auto store = [&](Place place, Predicates bits) {
    auto& d = *reinterpret_cast<Predicates*>(registers + place);
    d = (d & ~mask) | (bits & mask);
  };
  store(in.d, compared);
  if (in.d2 != no_place) store(in.d2, other);
}

/// set: all ones or 1.0 where the comparison holds.
template <class Op, class D, class T>
struct Set {
  static D apply(T a, T b) {
    const bool result = Op::apply(a, b);
    if constexpr (std::is_same_v<D, float>) {
      return result ? 1.0f : 0.0f;
    } else if constexpr (std::is_same_v<D, std::uint16_t>) {
      return result ? 0x3c00 : 0;  // 1.0 of .f16
    } else {
      return result ? ~D{0} : D{0};
    }
  }
};

Comparison take_comparison(Decoder& d, Type type) {
  const int index = d.modifiers.choose({"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu",
                                        "leu", "gtu", "geu", "num", "nan", "lo", "ls", "hi", "hs"},
                                       -1);
  if (index < 0) d.fail("it names no comparison");
  constexpr Comparison unsigned_ones[] = {Comparison::lt, Comparison::le, Comparison::gt,
                                          Comparison::ge};
  if (index >= 14) return unsigned_ones[index - 14];
  if (index >= 6 && !is_float(type)) d.fail("whole numbers are always in order");
  return static_cast<Comparison>(index);
}

template <class Reading, class F, std::size_t... I>
void with_comparison(Comparison comparison, F&& f, std::index_sequence<I...>) {
  ((static_cast<std::size_t>(comparison) == I ? f(Compare<Reading, static_cast<Comparison>(I)>{})
                                              : void()),
   ...);
}

/// Runs f(Compare<...>, T) for a type and its reading.
template <class F>
void with_operation(Decoder& d, Comparison comparison, Type type, bool ftz, F&& f) {
  const auto all = [&](auto reading, auto x) {
    with_comparison<decltype(reading)>(
        comparison, [&](auto op) { f(op, x); }, std::make_index_sequence<14>{});
  };
  if (type == Type::f32) return ftz ? all(Flushed{}, float{}) : all(AsIs{}, float{});
  if (type == Type::f64) return all(AsIs{}, double{});
  if (type == Type::f16) return all(F16{}, std::uint16_t{});
  if (type == Type::bf16) return all(Bf16{}, std::uint16_t{});
  const bool known = !is_float(type) && with_integer(type, [&](auto x) {
    with_comparison<AsIs>(
        comparison, [&](auto op) { f(op, x); }, std::make_index_sequence<6>{});
  });
  if (!known) d.refuse("comparisons of this type");
}

void decode_setp(Decoder& d) {
  d.in.kind = static_cast<std::uint8_t>(1 + d.modifiers.choose({"and", "or", "xor"}, -1));
  const bool ftz = d.modifiers.take("ftz");
  const Type type = d.demand_type();
  const Comparison comparison = take_comparison(d, type);
  d.demand_operands(d.in.kind != 0 ? 4 : 3);
  const Operand& result = d.operand(0);
  if (result.kind == Operand::Kind::pair) {
    d.in.d = d.result_of(result.parts[0], 1);
    d.in.d2 = d.result_of(result.parts[1], 1);
  } else {
    d.in.d = d.result_of(result, 1);
  }
  d.in.s[0] = d.source(1, type);
  d.in.s[1] = d.source(2, type);
  if (d.in.kind != 0) {
    Operand c = d.operand(3);
    d.in.immediate = std::exchange(c.negated, false) ? 1 : 0;
    d.in.s[2] = d.source_of(c, Type::pred);
  }
  with_operation(d, comparison, type, ftz,
                 [&](auto op, auto x) { d.in.lanes = set_predicates<decltype(op), decltype(x)>; });
}

void decode_set(Decoder& d) {
  const bool ftz = d.modifiers.take("ftz");
  const Type to = d.demand_type(), type = d.demand_type();
  const Comparison comparison = take_comparison(d, type);
  with_operation(d, comparison, type, ftz, [&](auto op, auto x) {
    using T = decltype(x);
    using Op = decltype(op);
    if (to == Type::f32) {
      d.set_lanes<Set<Op, float, T>, float, T, T>(to, {type, type});
    } else if (to == Type::u32 || to == Type::s32) {
      d.set_lanes<Set<Op, std::uint32_t, T>, std::uint32_t, T, T>(to, {type, type});
    } else if (to == Type::f16) {
      d.set_lanes<Set<Op, std::uint16_t, T>, std::uint16_t, T, T>(to, {type, type});
    } else {
      d.refuse("this type of the result");
    }
  });
}

struct Select {
  template <class T>
  static T apply(T a, T b, bool c) {
    return c ? a : b;
  }
};
struct SelectBySign {
  template <class T, class C>
  static T apply(T a, T b, C c) {
    return c >= 0 ? a : b;
  }
};

void decode_selp(Decoder& d) {
  const Type type = d.demand_type();
  const int bits = bits_of(type);
  const auto set = [&](auto x) {
    using T = decltype(x);
    d.set_lanes<Select, T, T, T, bool>(type, {type, type, Type::pred});
  };
  bits == 16 ? set(std::uint16_t{}) : bits == 32 ? set(std::uint32_t{}) : set(std::uint64_t{});
}

void decode_slct(Decoder& d) {
  d.modifiers.take("ftz");
  const Type type = d.demand_type(), by = d.demand_type();
  if (by != Type::s32 && by != Type::f32) d.fail("it chooses by .s32 or .f32");
  const auto set = [&](auto x, auto c) {
    using T = decltype(x);
    d.set_lanes<SelectBySign, T, T, T, decltype(c)>(type, {type, type, by});
  };
  const auto choose = [&](auto c) {
    const int bits = bits_of(type);
    bits == 16   ? set(std::uint16_t{}, c)
    : bits == 32 ? set(std::uint32_t{}, c)
                 : set(std::uint64_t{}, c);
  };
  by == Type::s32 ? choose(std::int32_t{}) : choose(float{});
}

template <int property>
struct Test {
  template <class T>
  static bool apply(T x) {
    switch (property) {
      case 0:
        return std::isfinite(x);
      case 1:
        return std::isinf(x);
      case 2:
        return !std::isnan(x);
      case 3:
        return std::isnan(x);
      case 4:
        return std::isnormal(x);
      default:
        return std::fpclassify(x) == FP_SUBNORMAL;
    }
  }
};

void decode_testp(Decoder& d) {
  const int property =
      d.modifiers.choose({"finite", "infinite", "number", "notanumber", "normal", "subnormal"}, -1);
  const Type type = d.demand_type();
  const auto set = [&](auto op) {
    type == Type::f64 ? d.set_lanes<decltype(op), bool, double>(Type::pred, {type})
                      : d.set_lanes<decltype(op), bool, float>(Type::pred, {Type::f32});
  };
  switch (property) {
    case 0:
      return set(Test<0>{});
    case 1:
      return set(Test<1>{});
    case 2:
      return set(Test<2>{});
    case 3:
      return set(Test<3>{});
    case 4:
      return set(Test<4>{});
    case 5:
      return set(Test<5>{});
    default:
      d.fail("it names no property");
  }
}

}  // namespace

bool decode_compare(Decoder& d) {
  const std::string_view base = d.modifiers.base();
  if (base == "setp") {
    decode_setp(d);
  } else if (base == "set") {
    decode_set(d);
  } else if (base == "selp") {
    decode_selp(d);
  } else if (base == "slct") {
    decode_slct(d);
  } else if (base == "testp") {
    decode_testp(d);
  } else {
    return false;
  }
  return true;
}

}  // namespace lanescope::ptx
