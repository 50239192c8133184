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

__extension__ typedef __int128 Signed128;             // NOLINT(modernize-use-using): g++ takes
__extension__ typedef unsigned __int128 Unsigned128;  // NOLINT(modernize-use-using): it so only

/// The type that holds a product of two T.
template <class T>
struct WideOf;
template <>
struct WideOf<std::int16_t> {
  using type = std::int32_t;
};
template <>
struct WideOf<std::uint16_t> {
  using type = std::uint32_t;
};
template <>
struct WideOf<std::int32_t> {
  using type = std::int64_t;
};
template <>
struct WideOf<std::uint32_t> {
  using type = std::uint64_t;
};
template <>
struct WideOf<std::int64_t> {
  using type = Signed128;
};
template <>
struct WideOf<std::uint64_t> {
  using type = Unsigned128;
};
template <class T>
using Wide = typename WideOf<T>::type;

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

struct MultiplyLow {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(static_cast<Wide<Bits<T>>>(static_cast<Bits<T>>(a)) *
                          static_cast<Bits<T>>(b));
  }
};
struct MultiplyHigh {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>((static_cast<Wide<T>>(a) * b) >> (8 * sizeof(T)));
  }
};
struct MultiplyWide {
  template <class T>
  static Wide<T> apply(T a, T b) {
    return static_cast<Wide<T>>(a) * b;
  }
};
template <class Product>
struct MultiplyAdd {
  template <class T, class C>
  static C apply(T a, T b, C c) {
    return Add::apply<C>(Product::template apply<T>(a, b), c);
  }
};
struct MultiplyAddHighSaturating {
  static std::int32_t apply(std::int32_t a, std::int32_t b, std::int32_t c) {
    return saturate(std::int64_t{MultiplyHigh::apply(a, b)} + c);
  }
};
/// The lowest 24 bits, with their sign; .hi: bits 47 to 16 of the product.
template <bool high>
struct Multiply24 {
  template <class T>
  static T apply(T a, T b) {
    const auto low = [](T x) {
      return static_cast<T>(static_cast<T>(static_cast<Bits<T>>(x) << 8) >> 8);
    };
    const auto product = static_cast<Wide<T>>(low(a)) * low(b);
    return static_cast<T>(high ? product >> 16 : product);
  }
};

/// By zero a GPU gives all ones, and the dividend as what remains; PTX leaves both open.
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
    if (b == 0) return a;
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

/// c + the products of the four bytes of a and b.
template <class A, class B>
struct DotOfBytes {
  static std::int32_t apply(std::uint32_t a, std::uint32_t b, std::int32_t c) {
    auto sum = static_cast<std::uint32_t>(c);
    for (int i = 0; i < 4; ++i) {
      sum += static_cast<std::uint32_t>(int{static_cast<A>(a >> (8 * i))} *
                                        int{static_cast<B>(b >> (8 * i))});
    }
    return static_cast<std::int32_t>(sum);
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

void decode_product(Decoder& d, bool adds) {
  const int part = d.modifiers.choose({"lo", "hi", "wide"}, 3);
  const bool saturates = d.modifiers.take("sat");
  const Type type = d.demand_type();
  if (part == 3) d.fail(".lo, .hi or .wide is missing");
  if (part == 2) {
    if (bits_of(type) == 64) d.fail("there is no .wide of this type");
    const Type wide = type == Type::s16   ? Type::s32
                      : type == Type::u16 ? Type::u32
                      : type == Type::s32 ? Type::s64
                                          : Type::u64;
    with_integer(type, [&](auto x) {
      using T = decltype(x);
      if constexpr (sizeof(T) < 8) {
        if (adds) {
          d.set_lanes<MultiplyAdd<MultiplyWide>, Wide<T>, T, T, Wide<T>>(wide, {type, type, wide});
        } else {
          d.set_lanes<MultiplyWide, Wide<T>, T, T>(wide, {type, type});
        }
      }
    });
    return;
  }
  if (saturates) {
    if (!adds || part != 1 || type != Type::s32) d.fail(".sat is for mad.hi.s32");
    return d.set_lanes<MultiplyAddHighSaturating, std::int32_t, std::int32_t, std::int32_t,
                       std::int32_t>(type, {type, type, type});
  }
  if (adds && part == 0) return d.set_integer_lanes<MultiplyAdd<MultiplyLow>, 3>(type);
  if (adds) return d.set_integer_lanes<MultiplyAdd<MultiplyHigh>, 3>(type);
  if (part == 0) return d.set_integer_lanes<MultiplyLow, 2>(type);
  d.set_integer_lanes<MultiplyHigh, 2>(type);
}

void decode_product_24(Decoder& d, bool adds) {
  const bool high = d.modifiers.choose({"lo", "hi"}, 0) == 1;
  const Type type = d.demand_type();
  const auto set = [&](auto x) {
    using T = decltype(x);
    if (adds && high)
      return d.set_lanes<MultiplyAdd<Multiply24<true>>, T, T, T, T>(type, {type, type, type});
    if (adds)
      return d.set_lanes<MultiplyAdd<Multiply24<false>>, T, T, T, T>(type, {type, type, type});
    if (high) return d.set_lanes<Multiply24<true>, T, T, T>(type, {type, type});
    d.set_lanes<Multiply24<false>, T, T, T>(type, {type, type});
  };
  is_signed(type) ? set(std::int32_t{}) : set(std::uint32_t{});
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

void decode_dot(Decoder& d) {
  const Type a = d.demand_type(), b = d.demand_type();
  if (bits_of(a) != 32 || bits_of(b) != 32) d.fail("it takes .u32 or .s32 twice");
  const auto set = [&](auto x, auto y) {
    d.set_lanes<DotOfBytes<decltype(x), decltype(y)>, std::int32_t, std::uint32_t, std::uint32_t,
                std::int32_t>(Type::b32, {Type::b32, Type::b32, Type::b32});
  };
  if (is_signed(a))
    return is_signed(b) ? set(std::int8_t{}, std::int8_t{}) : set(std::int8_t{}, std::uint8_t{});
  is_signed(b) ? set(std::uint8_t{}, std::int8_t{}) : set(std::uint8_t{}, std::uint8_t{});
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
  } else if (base == "mul" || base == "mad") {
    decode_product(d, base == "mad");
  } else if (base == "mul24" || base == "mad24") {
    decode_product_24(d, base == "mad24");
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
  } else if (base == "dp4a") {
    decode_dot(d);
  } else {
    return false;
  }
  return true;
}

}  // namespace lanescope::ptx
