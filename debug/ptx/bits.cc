// PTX ISA, "Logic and Shift Instructions", and of the integer instructions those on bits.

#include <algorithm>
#include <bit>
#include <type_traits>

#include "debug/ptx/decoder.h"

namespace lanescope::ptx {
namespace {

struct And {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};
struct Not {
  template <class T>
  static T apply(T a) {
    if constexpr (std::is_same_v<T, bool>) {
      return !a;
    } else {
      return static_cast<T>(~a);
    }
  }
};
struct IsZero {
  template <class T>
  static T apply(T a) {
    return a == 0 ? 1 : 0;
  }
};

/// Shifts by more than the width are as far as the width goes.
struct ShiftLeft {
  template <class T>
  static T apply(T a, std::uint32_t b) {
    return b >= 8 * sizeof(T) ? T{0} : static_cast<T>(a << b);
  }
};
struct ShiftRight {
  template <class T>
  static T apply(T a, std::uint32_t b) {
    return static_cast<T>(a >> std::min<std::uint32_t>(b, 8 * sizeof(T) - 1) >>
                          (std::is_unsigned_v<T> && b >= 8 * sizeof(T) ? 1 : 0));
  }
};
/// Of b:a.
template <bool left, bool wraps>
struct FunnelShift {
  static std::uint32_t apply(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
    const std::uint32_t by = wraps ? c & 31 : std::min(c, 32u);
    const std::uint64_t both = static_cast<std::uint64_t>(b) << 32 | a;
    return static_cast<std::uint32_t>(left ? both << by >> 32 : both >> by);
  }
};

struct CountOnes {
  template <class T>
  static std::uint32_t apply(T a) {
    return static_cast<std::uint32_t>(std::popcount(a));
  }
};
struct LeadingZeros {
  template <class T>
  static std::uint32_t apply(T a) {
    return static_cast<std::uint32_t>(std::countl_zero(a));
  }
};
/// The highest bit that is not the sign; all ones where there is none. `distance`: how far to shift
/// left to bring it to the top.
template <bool distance>
struct FindHighest {
  template <class T>
  static std::uint32_t apply(T a) {
    using U = std::make_unsigned_t<T>;
    const U bits = static_cast<U>(a < 0 ? ~a : a);
    if (bits == 0) return ~0u;
    const int zeros = std::countl_zero(bits);
    return static_cast<std::uint32_t>(distance ? zeros
                                               : static_cast<int>(8 * sizeof(T)) - 1 - zeros);
  }
};
struct Reverse {
  template <class T>
  static T apply(T a) {
    T result = 0;
    for (std::size_t i = 0; i < 8 * sizeof(T); ++i)
      result = static_cast<T>(result << 1 | (a >> i & 1));
    return result;
  }
};
/// c bits of a from b on, with the sign of the highest where T has one.
struct Extract {
  template <class T>
  static T apply(T a, std::uint32_t b, std::uint32_t c) {
    constexpr std::uint32_t top = 8 * sizeof(T) - 1;
    const std::uint32_t at = b & 0xff, length = c & 0xff;
    if (length == 0) return 0;
    using U = std::make_unsigned_t<T>;
    const std::uint32_t sign_at = std::min(at + length - 1, top);
    const bool sign = std::is_signed_v<T> && (static_cast<U>(a) >> sign_at & 1);
    const U shifted = at > top ? U{0} : static_cast<U>(static_cast<U>(a) >> at);
    const std::uint32_t kept = at > top ? 0 : std::min(length, top + 1 - at);
    const U low = kept > top ? ~U{0} : static_cast<U>((U{1} << kept) - 1);
    return static_cast<T>((shifted & low) | (sign ? ~low : U{0}));
  }
};
/// The lowest d bits of a go into b from c on.
struct Insert {
  template <class T>
  static T apply(T a, T b, std::uint32_t c, std::uint32_t d) {
    constexpr std::uint32_t width = 8 * sizeof(T);
    const std::uint32_t at = c & 0xff, length = d & 0xff;
    if (at >= width || length == 0) return b;
    const T low = length >= width ? ~T{0} : static_cast<T>((T{1} << length) - 1);
    const T field = static_cast<T>(low << at);
    return static_cast<T>((b & ~field) | (static_cast<T>(a << at) & field));
  }
};
/// Bytes of b:a chosen by the nibbles of c; bit 3 of a nibble: its sign eight times.
struct Permute {
  static std::uint32_t apply(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
    const std::uint64_t both = static_cast<std::uint64_t>(b) << 32 | a;
    std::uint32_t result = 0;
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t nibble = c >> (4 * i) & 15;
      auto byte = static_cast<std::uint32_t>(both >> (8 * (nibble & 7)) & 0xff);
      if (nibble & 8) byte = byte & 0x80 ? 0xff : 0;
      result |= byte << (8 * i);
    }
    return result;
  }
};
/// prmt.f4e and its like: c & 3 chooses the bytes.
template <int mode>
struct PermuteByMode {
  static std::uint32_t apply(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
    static constexpr std::uint32_t selections[6][4] = {
        {0x3210, 0x4321, 0x5432, 0x6543}, {0x5670, 0x6701, 0x7012, 0x0123},
        {0x0000, 0x1111, 0x2222, 0x3333}, {0x3210, 0x3211, 0x3222, 0x3333},
        {0x0000, 0x1110, 0x2210, 0x3210}, {0x1010, 0x3232, 0x1010, 0x3232}};
    return Permute::apply(a, b, selections[mode][c & 3]);
  }
};

/// Any function of three bits: bit a·4 + b·2 + c of the table.
void logic_of_three(std::byte* registers, const Instruction& in, std::uint32_t mask) {
  const auto table = static_cast<std::uint32_t>(in.immediate);
  std::uint32_t term[8];
  for (std::uint32_t i = 0; i < 8; ++i) term[i] = table >> i & 1 ? ~0u : 0;
  std::uint32_t result[32];
  for (int lane = 0; lane < 32; ++lane) {
    const auto a = lane_of<std::uint32_t>(registers, in.s[0], lane);
    const auto b = lane_of<std::uint32_t>(registers, in.s[1], lane);
    const auto c = lane_of<std::uint32_t>(registers, in.s[2], lane);
    result[lane] = (~a & ~b & ~c & term[0]) | (~a & ~b & c & term[1]) | (~a & b & ~c & term[2]) |
                   (~a & b & c & term[3]) | (a & ~b & ~c & term[4]) | (a & ~b & c & term[5]) |
                   (a & b & ~c & term[6]) | (a & b & c & term[7]);
  }
  auto* d = reinterpret_cast<std::uint32_t*>(registers + in.d);
  for (int lane = 0; lane < 32; ++lane) {
    if (mask >> lane & 1) d[lane] = result[lane];
  }
}

template <class Op>
void set_logic(Decoder& d, Type type) {
  if (type == Type::pred) {
    d.set_lanes<Op, bool, bool, bool>(type, {type, type});
  } else {
    d.set_integer_lanes<Op, 2>(type);
  }
}

/// d has 32 bits, a has T.
template <class Op>
void set_count(Decoder& d, Type type) {
  if (bits_of(type) < 32) d.fail("there is no such instruction of this type");
  with_integer(type, [&](auto x) {
    using T = decltype(x);
    if constexpr (sizeof(T) >= 4) {
      if constexpr (std::is_same_v<Op, CountOnes> || std::is_same_v<Op, LeadingZeros>) {
        d.set_lanes<Op, std::uint32_t, std::make_unsigned_t<T>>(Type::b32, {type});
      } else {
        d.set_lanes<Op, std::uint32_t, T>(Type::b32, {type});
      }
    }
  });
}

template <class Op>
void set_shift(Decoder& d, Type type) {
  with_integer(type, [&](auto x) {
    using T = decltype(x);
    d.set_lanes<Op, T, T, std::uint32_t>(type, {type, Type::b32});
  });
}

void decode_permute(Decoder& d) {
  const int mode = d.modifiers.choose({"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"}, 6);
  if (d.demand_type() != Type::b32) d.fail("it is for .b32");
  const auto set = [&](auto op) {
    d.set_lanes<decltype(op), std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>(
        Type::b32, {Type::b32, Type::b32, Type::b32});
  };
  switch (mode) {
    case 0:
      return set(PermuteByMode<0>{});
    case 1:
      return set(PermuteByMode<1>{});
    case 2:
      return set(PermuteByMode<2>{});
    case 3:
      return set(PermuteByMode<3>{});
    case 4:
      return set(PermuteByMode<4>{});
    case 5:
      return set(PermuteByMode<5>{});
    default:
      return set(Permute{});
  }
}

void decode_funnel(Decoder& d) {
  const bool left = d.modifiers.choose({"r", "l"}, 0) == 1;
  const bool wraps = d.modifiers.choose({"clamp", "wrap"}, 0) == 1;
  if (d.demand_type() != Type::b32) d.fail("it is for .b32");
  const auto set = [&](auto op) {
    d.set_lanes<decltype(op), std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>(
        Type::b32, {Type::b32, Type::b32, Type::b32});
  };
  if (left) return wraps ? set(FunnelShift<true, true>{}) : set(FunnelShift<true, false>{});
  wraps ? set(FunnelShift<false, true>{}) : set(FunnelShift<false, false>{});
}

void decode_lop3(Decoder& d) {
  if (d.demand_type() != Type::b32) d.fail("it is for .b32");
  d.demand_operands(5);
  d.in.d = d.result(0, Type::b32);
  for (std::size_t i = 0; i < 3; ++i) d.in.s[i] = d.source(i + 1, Type::b32);
  d.in.immediate = static_cast<std::int64_t>(d.integer(4, "the table"));
  d.in.lanes = logic_of_three;
}

}  // namespace

bool decode_bits(Decoder& d) {
  const std::string_view base = d.modifiers.base();
  const auto type = d.modifiers.peek_type();
  if (!type || is_float(*type)) return false;
  const auto take = [&] { return d.demand_type(); };
  if (base == "and") {
    set_logic<And>(d, take());
  } else if (base == "or") {
    set_logic<Or>(d, take());
  } else if (base == "xor") {
    set_logic<Xor>(d, take());
  } else if (base == "not") {
    if (*type == Type::pred) {
      d.set_lanes<Not, bool, bool>(take(), {Type::pred});
    } else {
      d.set_integer_lanes<Not, 1>(take());
    }
  } else if (base == "cnot") {
    d.set_integer_lanes<IsZero, 1>(take());
  } else if (base == "shl") {
    set_shift<ShiftLeft>(d, take());
  } else if (base == "shr") {
    set_shift<ShiftRight>(d, take());
  } else if (base == "shf") {
    decode_funnel(d);
  } else if (base == "lop3") {
    decode_lop3(d);
  } else if (base == "prmt") {
    decode_permute(d);
  } else if (base == "popc") {
    set_count<CountOnes>(d, take());
  } else if (base == "clz") {
    set_count<LeadingZeros>(d, take());
  } else if (base == "bfind") {
    const bool distance = d.modifiers.take("shiftamt");
    distance ? set_count<FindHighest<true>>(d, take()) : set_count<FindHighest<false>>(d, take());
  } else if (base == "brev") {
    d.set_integer_lanes<Reverse, 1>(take());
  } else if (base == "bfe") {
    take();
    with_integer(*type, [&](auto x) {
      using T = decltype(x);
      d.set_lanes<Extract, T, T, std::uint32_t, std::uint32_t>(*type,
                                                               {*type, Type::b32, Type::b32});
    });
  } else if (base == "bfi") {
    take();
    with_integer(*type, [&](auto x) {
      using T = decltype(x);
      d.set_lanes<Insert, T, T, T, std::uint32_t, std::uint32_t>(
          *type, {*type, *type, Type::b32, Type::b32});
    });
  } else {
    return false;
  }
  return true;
}

}  // namespace lanescope::ptx
