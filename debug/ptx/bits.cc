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

/// The same, and whether any bit of it is set, combined with the predicate s[3]. `kind`: 0 or, 1
/// and.
void logic_of_three_and_any(std::byte* registers, const Instruction& in, std::uint32_t mask) {
  logic_of_three(registers, in, mask);
  const std::uint32_t q = *reinterpret_cast<const std::uint32_t*>(registers + in.s[3]);
  std::uint32_t any = 0;
  for (int lane = 0; lane < 32; ++lane) {
    any |= static_cast<std::uint32_t>(lane_of<std::uint32_t>(registers, in.d, lane) != 0) << lane;
  }
  auto& p = *reinterpret_cast<std::uint32_t*>(registers + in.d2);
  p = (p & ~mask) | ((in.kind == 0 ? any | q : any & q) & mask);
}

/// An operation to which the sign is a bit like others.
template <class Op, std::size_t sources>
void set_bits(Decoder& d, Type type) {
  const auto set = [&](auto x) {
    using T = decltype(x);
    if constexpr (sources == 1) d.set_lanes<Op, T, T>(type, {type});
    if constexpr (sources == 2) d.set_lanes<Op, T, T, T>(type, {type, type});
  };
  switch (bits_of(type)) {
    case 16:
      return set(std::uint16_t{});
    case 32:
      return set(std::uint32_t{});
    case 64:
      return set(std::uint64_t{});
    default:
      d.fail("there is no such instruction of this type");
  }
}

template <class Op>
void set_logic(Decoder& d, Type type) {
  if (type == Type::pred) {
    d.set_lanes<Op, bool, bool, bool>(type, {type, type});
  } else {
    set_bits<Op, 2>(d, type);
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
  const Operand& by = d.operand(2);
  const bool is_half =
      by.kind == Operand::Kind::integer && 2 * by.bits == static_cast<std::uint64_t>(bits_of(type));
  const bool rights = std::is_same_v<Op, ShiftRight>;
  if (rights && is_half && bits_of(type) >= 32 && !is_signed(type)) d.in.halves = Halves::high;
}

void decode_lop3(Decoder& d) {
  const int combination = d.modifiers.choose({"or", "and"}, -1);
  if (d.demand_type() != Type::b32) d.fail("it is for .b32");
  d.demand_operands(combination < 0 ? 5 : 6);
  const Operand& result = d.operand(0);
  if ((combination >= 0) != (result.kind == Operand::Kind::pair)) {
    d.fail("d|p goes with .or or .and, and a predicate behind the table");
  }
  d.in.d = d.result_of(combination < 0 ? result : result.parts[0], 32);
  for (std::size_t i = 0; i < 3; ++i) d.in.s[i] = d.source(i + 1, Type::b32);
  d.in.immediate = static_cast<std::int64_t>(d.integer(4, "the table"));
  d.in.lanes = logic_of_three;
  if (combination < 0) return;
  d.in.d2 = d.result_of(result.parts[1], 1);
  d.in.s[3] = d.source(5, Type::pred);
  d.in.kind = static_cast<std::uint8_t>(combination);
  d.in.lanes = logic_of_three_and_any;
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
      set_bits<Not, 1>(d, take());
    }
  } else if (base == "cnot") {
    set_bits<IsZero, 1>(d, take());
  } else if (base == "shl") {
    set_shift<ShiftLeft>(d, take());
  } else if (base == "shr") {
    set_shift<ShiftRight>(d, take());
  } else if (base == "lop3") {
    decode_lop3(d);
  } else if (base == "popc") {
    set_count<CountOnes>(d, take());
  } else if (base == "clz") {
    set_count<LeadingZeros>(d, take());
  } else if (base == "bfind") {
    const bool distance = d.modifiers.take("shiftamt");
    distance ? set_count<FindHighest<true>>(d, take()) : set_count<FindHighest<false>>(d, take());
  } else if (base == "brev") {
    set_bits<Reverse, 1>(d, take());
  } else {
    return false;
  }
  return true;
}

}  // namespace lanescope::ptx
