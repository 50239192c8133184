// PTX ISA, "Integer Arithmetic Instructions" and "Extended-Precision Integer Arithmetic
// Instructions".

#include <algorithm>
#include <limits>
#include <type_traits>

#include "debug/ptx/decoder.h"

namespace lanescope::ptx {
namespace {

template <class T>
using Bits = std::make_unsigned_t<T>;

struct Add {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(static_cast<Bits<T>>(a) + static_cast<Bits<T>>(b));
  }
};
struct Subtract {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(static_cast<Bits<T>>(a) - static_cast<Bits<T>>(b));
  }
};
std::int32_t saturate(std::int64_t x) {
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(
      x, std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()));
}
struct AddSaturating {
  static std::int32_t apply(std::int32_t a, std::int32_t b) {
    return saturate(std::int64_t{a} + b);
  }
};
struct SubtractSaturating {
  static std::int32_t apply(std::int32_t a, std::int32_t b) {
    return saturate(std::int64_t{a} - b);
  }
};
/// .u16x2, .s16x2: halves on their own.
struct AddHalves {
  static std::uint32_t apply(std::uint32_t a, std::uint32_t b) {
    return ((a + b) & 0xffff) | ((a & 0xffff0000) + (b & 0xffff0000));
  }
};
template <class T, bool least>
struct ExtremeOfHalves {
  static std::uint32_t apply(std::uint32_t a, std::uint32_t b) {
    const auto pick = [](T x, T y) { return static_cast<std::uint16_t>(least == (x < y) ? x : y); };
    return pick(static_cast<T>(a), static_cast<T>(b)) |
           static_cast<std::uint32_t>(pick(static_cast<T>(a >> 16), static_cast<T>(b >> 16))) << 16;
  }
};

/// By zero an H200 gives all ones, and so as what remains; PTX leaves both open.
struct Divide {
  template <class T>
  static T apply(T a, T b) {
    if (b == 0) return static_cast<T>(~Bits<T>{0});
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return Subtract::apply<T>(0, a);
    return static_cast<T>(a / b);
  }
};
struct Remainder {
  template <class T>
  static T apply(T a, T b) {
    if (b == 0) return static_cast<T>(~Bits<T>{0});
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
    return static_cast<T>(a % b);
  }
};

struct Absolute {
  template <class T>
  static T apply(T a) {
    return a < 0 ? Subtract::apply<T>(0, a) : a;
  }
};
struct Negate {
  template <class T>
  static T apply(T a) {
    return Subtract::apply<T>(0, a);
  }
};
struct Minimum {
  template <class T>
  static T apply(T a, T b) {
    return a < b ? a : b;
  }
};
struct Maximum {
  template <class T>
  static T apply(T a, T b) {
    return a < b ? b : a;
  }
};
template <class Extreme>
struct Relu {
  static std::int32_t apply(std::int32_t a, std::int32_t b) {
    return std::max(Extreme::apply(a, b), 0);
  }
};
/// c + |a − b|
struct SumOfDifferences {
  template <class T>
  static T apply(T a, T b, T c) {
    return Add::apply<T>(c, a < b ? Subtract::apply<T>(b, a) : Subtract::apply<T>(a, b));
  }
};

/// d = a ± b (± carry); the new carry where `sets`.
template <class T, bool subtracts, bool takes, bool sets>
void with_carry(std::byte* registers, const Instruction& in, std::uint32_t mask) {
  auto& carry = *reinterpret_cast<std::uint32_t*>(registers + carry_place);
  const std::uint32_t before = carry;
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    const T a = lane_of<T>(registers, in.s[0], lane), b = lane_of<T>(registers, in.s[1], lane);
    const T c = takes && (before >> lane & 1) ? 1 : 0;
    T half = 0, result = 0;
    const bool first =
        subtracts ? __builtin_sub_overflow(a, b, &half) : __builtin_add_overflow(a, b, &half);
    const bool second = subtracts ? __builtin_sub_overflow(half, c, &result)
                                  : __builtin_add_overflow(half, c, &result);
    reinterpret_cast<T*>(registers + in.d)[lane] = result;
    if (sets) carry = (carry & ~(1u << lane)) | static_cast<std::uint32_t>(first || second) << lane;
  }
}

template <class T, bool subtracts, bool takes>
LaneOperation carry_operation(bool sets) {
  return sets ? with_carry<T, subtracts, takes, true> : with_carry<T, subtracts, takes, false>;
}

bool decode_carry(Decoder& d, bool subtracts, bool takes) {
  const bool sets = d.modifiers.take("cc");
  const Type type = d.demand_type();
  if (bits_of(type) < 32 || is_float(type)) d.fail("there is no such instruction of this type");
  d.demand_operands(3);
  d.in.d = d.result(0, type);
  d.in.s[0] = d.source(1, type);
  d.in.s[1] = d.source(2, type);
  const auto choose = [&](auto x) {
    using T = decltype(x);
    return subtracts ? (takes ? carry_operation<T, true, true>(sets)
                              : carry_operation<T, true, false>(sets))
                     : (takes ? carry_operation<T, false, true>(sets)
                              : carry_operation<T, false, false>(sets));
  };
  d.in.lanes = bits_of(type) == 32 ? choose(std::uint32_t{}) : choose(std::uint64_t{});
  return true;
}

void decode_extreme(Decoder& d, bool least) {
  const bool relu = d.modifiers.take("relu");
  if (relu) {
    const Type type = d.demand_type();
    if (type != Type::s32) d.fail(".relu is for .s32");
    return least ? d.set_lanes<Relu<Minimum>, std::int32_t, std::int32_t, std::int32_t>(
                       type, {type, type})
                 : d.set_lanes<Relu<Maximum>, std::int32_t, std::int32_t, std::int32_t>(
                       type, {type, type});
  }
  const Type type = d.demand_type();
  if (least) return d.set_integer_lanes<Minimum, 2>(type);
  d.set_integer_lanes<Maximum, 2>(type);
}

/// add.u16x2 and its like, whose type is no Type.
bool decode_halves(Decoder& d, std::string_view base) {
  const int type = d.modifiers.choose({"u16x2", "s16x2"}, -1);
  if (type < 0) return false;
  const auto set = [&](auto op) {
    d.set_lanes<decltype(op), std::uint32_t, std::uint32_t, std::uint32_t>(Type::b32,
                                                                           {Type::b32, Type::b32});
  };
  if (base == "add") {
    set(AddHalves{});
  } else if (base == "min") {
    type == 0 ? set(ExtremeOfHalves<std::uint16_t, true>{})
              : set(ExtremeOfHalves<std::int16_t, true>{});
  } else if (base == "max") {
    type == 0 ? set(ExtremeOfHalves<std::uint16_t, false>{})
              : set(ExtremeOfHalves<std::int16_t, false>{});
  } else {
    d.refuse("halves side by side");
  }
  return true;
}

}  // namespace

bool decode_integer(Decoder& d) {
  const std::string_view base = d.modifiers.base();
  if (base == "add" || base == "min" || base == "max") {
    if (decode_halves(d, base)) return true;
  }
  const auto type = d.modifiers.peek_type();
  if (!type || !is_integer(*type)) return false;
  if (base == "addc") return decode_carry(d, false, true);
  if (base == "subc") return decode_carry(d, true, true);
  if (base == "add" || base == "sub") {
    const auto& words = d.modifiers.left();
    if (std::find(words.begin(), words.end(), "cc") != words.end()) {
      return decode_carry(d, base == "sub", false);
    }
    const bool saturates = d.modifiers.take("sat");
    d.modifiers.take_type();
    if (saturates) {
      if (*type != Type::s32) d.fail(".sat is for .s32");
      base == "add" ? d.set_lanes<AddSaturating, std::int32_t, std::int32_t, std::int32_t>(
                          *type, {*type, *type})
                    : d.set_lanes<SubtractSaturating, std::int32_t, std::int32_t, std::int32_t>(
                          *type, {*type, *type});
    } else if (base == "add") {
      d.set_integer_lanes<Add, 2>(*type);
    } else {
      d.set_integer_lanes<Subtract, 2>(*type);
    }
  } else if (base == "min" || base == "max") {
    decode_extreme(d, base == "min");
  } else if (base == "div") {
    d.set_integer_lanes<Divide, 2>(d.demand_type());
  } else if (base == "rem") {
    d.set_integer_lanes<Remainder, 2>(d.demand_type());
  } else if (base == "abs") {
    d.set_integer_lanes<Absolute, 1>(d.demand_type());
  } else if (base == "neg") {
    d.set_integer_lanes<Negate, 1>(d.demand_type());
  } else if (base == "sad") {
    d.set_integer_lanes<SumOfDifferences, 3>(d.demand_type());
  } else {
    return false;
  }
  return true;
}

}  // namespace lanescope::ptx
