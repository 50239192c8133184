// PTX ISA, "Integer Arithmetic Instructions": products.

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

template <class T>
T sum(T a, T b) {
  return static_cast<T>(static_cast<Bits<T>>(a) + static_cast<Bits<T>>(b));
}
std::int32_t saturate(std::int64_t x) {
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(
      x, std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()));
}
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
    return sum<C>(Product::template apply<T>(a, b), c);
  }
};
template <class Product>
struct MultiplyAddSaturating {
  static std::int32_t apply(std::int32_t a, std::int32_t b, std::int32_t c) {
    return saturate(std::int64_t{Product::template apply<std::int32_t>(a, b)} + c);
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

/// c + the lower or the upper half of a·b, and the carry before; the new carry where `sets`.
template <class T, bool high, bool takes, bool sets>
void multiply_with_carry(std::byte* registers, const Instruction& in, std::uint32_t mask) {
  using U = Bits<T>;
  auto& carry = *reinterpret_cast<std::uint32_t*>(registers + carry_place);
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    const T a = lane_of<T>(registers, in.s[0], lane), b = lane_of<T>(registers, in.s[1], lane);
    const auto part =
        static_cast<U>(high ? MultiplyHigh::apply<T>(a, b) : MultiplyLow::apply<T>(a, b));
    const U before = takes && (carry >> lane & 1) != 0 ? 1 : 0;
    U half = 0, result = 0;
    const bool first = __builtin_add_overflow(part, lane_of<U>(registers, in.s[2], lane), &half);
    const bool second = __builtin_add_overflow(half, before, &result);
    reinterpret_cast<U*>(registers + in.d)[lane] = result;
    if (sets) carry = (carry & ~(1u << lane)) | static_cast<std::uint32_t>(first || second) << lane;
  }
}

template <class T, bool high, bool takes>
LaneOperation choose_carry(bool sets) {
  return sets ? multiply_with_carry<T, high, takes, true>
              : multiply_with_carry<T, high, takes, false>;
}

/// mad.cc and madc.
void decode_carrying(Decoder& d, bool takes) {
  const int part = d.modifiers.choose({"lo", "hi"}, -1);
  const bool sets = d.modifiers.take("cc");
  const Type type = d.demand_type();
  if (part < 0) d.fail(".lo or .hi is missing");
  if (bits_of(type) < 32) d.fail("there is no such instruction of this type");
  d.demand_operands(4);
  d.in.d = d.result(0, type);
  for (std::size_t i = 0; i < 3; ++i) d.in.s[i] = d.source(i + 1, type);
  with_integer(type, [&](auto x) {
    using T = decltype(x);
    if constexpr (sizeof(T) >= 4) {
      d.in.lanes =
          part == 1
              ? (takes ? choose_carry<T, true, true>(sets) : choose_carry<T, true, false>(sets))
              : (takes ? choose_carry<T, false, true>(sets) : choose_carry<T, false, false>(sets));
    }
  });
}

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

/// c + the products of the halves of a and two bytes of b.
template <class A, class B, bool high>
struct DotOfHalves {
  static std::int32_t apply(std::uint32_t a, std::uint32_t b, std::int32_t c) {
    auto sum = static_cast<std::uint32_t>(c);
    for (int i = 0; i < 2; ++i) {
      sum += static_cast<std::uint32_t>(int{static_cast<A>(a >> (16 * i))} *
                                        int{static_cast<B>(b >> (8 * (i + (high ? 2 : 0))))});
    }
    return static_cast<std::int32_t>(sum);
  }
};

void decode_whole(Decoder& d, bool adds) {
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
    return d.set_lanes<MultiplyAddSaturating<MultiplyHigh>, std::int32_t, std::int32_t,
                       std::int32_t, std::int32_t>(type, {type, type, type});
  }
  if (adds && part == 0) return d.set_integer_lanes<MultiplyAdd<MultiplyLow>, 3>(type);
  if (adds) return d.set_integer_lanes<MultiplyAdd<MultiplyHigh>, 3>(type);
  if (part == 0) return d.set_integer_lanes<MultiplyLow, 2>(type);
  d.set_integer_lanes<MultiplyHigh, 2>(type);
}

void decode_product_24(Decoder& d, bool adds) {
  const bool high = d.modifiers.choose({"lo", "hi"}, 0) == 1, saturates = d.modifiers.take("sat");
  const Type type = d.demand_type();
  if (saturates) {
    if (!adds || !high || type != Type::s32) d.fail(".sat is for mad24.hi.s32");
    return d.set_lanes<MultiplyAddSaturating<Multiply24<true>>, std::int32_t, std::int32_t,
                       std::int32_t, std::int32_t>(type, {type, type, type});
  }
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

/// `form`: a class of a's and b's numbers.
template <class Form>
void set_dot(Decoder& d, Form) {
  d.set_lanes<Form, std::int32_t, std::uint32_t, std::uint32_t, std::int32_t>(
      Type::b32, {Type::b32, Type::b32, Type::b32});
}

void decode_dot(Decoder& d, bool of_halves) {
  const int part = of_halves ? d.modifiers.choose({"lo", "hi"}, -1) : 0;
  if (part < 0) d.fail(".lo or .hi is missing");
  const Type a = d.demand_type(), b = d.demand_type();
  if (bits_of(a) != 32 || bits_of(b) != 32) d.fail("it takes .u32 or .s32 twice");
  const auto set = [&](auto byte, auto half, auto its) {
    using Half = decltype(half);
    using Its = decltype(its);
    if (!of_halves) return set_dot(d, DotOfBytes<decltype(byte), Its>{});
    part == 1 ? set_dot(d, DotOfHalves<Half, Its, true>{})
              : set_dot(d, DotOfHalves<Half, Its, false>{});
  };
  const auto choose = [&](auto its) {
    is_signed(a) ? set(std::int8_t{}, std::int16_t{}, its)
                 : set(std::uint8_t{}, std::uint16_t{}, its);
  };
  is_signed(b) ? choose(std::int8_t{}) : choose(std::uint8_t{});
}

}  // namespace

bool decode_integer_product(Decoder& d) {
  const std::string_view base = d.modifiers.base();
  const auto type = d.modifiers.peek_type();
  if (!type || !is_integer(*type)) return false;
  const auto& words = d.modifiers.left();
  const bool sets = std::find(words.begin(), words.end(), "cc") != words.end();
  if (base == "madc" || (base == "mad" && sets)) {
    decode_carrying(d, base == "madc");
  } else if (base == "mul" || base == "mad") {
    decode_whole(d, base == "mad");
  } else if (base == "mul24" || base == "mad24") {
    decode_product_24(d, base == "mad24");
  } else if (base == "dp4a" || base == "dp2a") {
    decode_dot(d, base == "dp2a");
  } else {
    return false;
  }
  return true;
}

}  // namespace lanescope::ptx
