// PTX ISA, "Comparison and Selection Instructions": setp, set.

#include <cmath>
#include <cstring>

#include "debug/ptx/decoder.h"
#include "debug/simt/numerics.h"

namespace lanescope::ptx {
namespace {

/// How two numbers compare: one of these, as bits of a set for which a comparison holds.
constexpr std::uint8_t less = 1, equal = 2, greater = 4, unordered = 8;

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
struct FlushedF16 {
  static float value(std::uint16_t x) { return (x & 0x7c00) == 0 ? 0.0f : simt::f16_to_f32(x); }
};
struct Bf16 {
  static float value(std::uint16_t x) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(x) << 16);
  }
};

/// One of two numbers side by side.
template <class Half, int shift>
struct HalfOf {
  static float value(std::uint32_t x) {
    return Half::value(static_cast<std::uint16_t>(x >> shift));
  }
};

enum class Combination : std::uint8_t { none, both, either, one };

using Predicates = std::uint32_t;

/// The first bits of 32 bytes, side by side.
Predicates pack(const std::uint8_t* flags) {
  Predicates packed = 0;
  for (int i = 0; i < 4; ++i) {
    std::uint64_t eight;
    std::memcpy(&eight, flags + 8 * i, 8);
    packed |= static_cast<Predicates>(eight * 0x0102040810204080u >> 56) << 8 * i;
  }
  return packed;
}

/// The lanes for whose numbers the comparison holds; `in.vector`: the set of it.
template <class Reading, class T>
[[gnu::always_inline]] inline Predicates compare(const std::byte* registers,
                                                 const Instruction& in) {
  const std::uint8_t holds = in.vector;
  alignas(32) std::uint8_t flags[32];
  for (int i = 0; i < 32; ++i) {
    const auto a = Reading::value(lane_of<T>(registers, in.s[0], i));
    const auto b = Reading::value(lane_of<T>(registers, in.s[1], i));
    const int order = (a < b ? less : 0) | (a == b ? equal : 0) | (a > b ? greater : 0);
    flags[i] = (holds & (order == 0 ? unordered : order)) != 0 ? 1 : 0;
  }
  return pack(flags);
}

/// setp: p = (a cmp b) BoolOp c and q = !(a cmp b) BoolOp c, where they are there; `other`: what q
/// is of, in the place of !(a cmp b). `kind` holds the combination, `immediate` whether c is
/// negated; s[2]: c.
void store_two(std::byte* registers, const Instruction& in, std::uint32_t mask, Predicates compared,
               Predicates other) {
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
void store_predicates(std::byte* registers, const Instruction& in, std::uint32_t mask,
                      Predicates compared) {
  store_two(registers, in, mask, compared, ~compared);
}

/// What `set` gives of such a type where the comparison holds: 1, or all ones.
std::uint32_t yes_of(Type type) {
  switch (type) {
    case Type::f32:
      return 0x3f800000;
    case Type::f16:
    case Type::f16x2:
      return 0x3c00;
    case Type::bf16:
    case Type::bf16x2:
      return 0x3f80;
    default:
      return ~0u;
  }
}
void store_set(std::byte* registers, const Instruction& in, std::uint32_t mask,
               Predicates compared) {
  const std::uint32_t yes = yes_of(in.type);
  for (int i = 0; i < 32; ++i) {
    if (!(mask >> i & 1)) continue;
    const std::uint32_t value = compared >> i & 1 ? yes : 0;
    if (bits_of(in.type) == 16) {
      reinterpret_cast<std::uint16_t*>(registers + in.d)[i] = static_cast<std::uint16_t>(value);
    } else {
      reinterpret_cast<std::uint32_t*>(registers + in.d)[i] = value;
    }
  }
}

using Store = void (*)(std::byte*, const Instruction&, std::uint32_t, Predicates);

template <class Reading, class T, Store store>
void compare_portable(std::byte* registers, const Instruction& in, std::uint32_t mask) {
  store(registers, in, mask, compare<Reading, T>(registers, in));
}
#if defined(__x86_64__)
template <class Reading, class T, Store store>
[[gnu::target("avx2,fma")]] void compare_avx2(std::byte* registers, const Instruction& in,
                                              std::uint32_t mask) {
  store(registers, in, mask, compare<Reading, T>(registers, in));
}
#endif

template <class Reading, class T, Store store>
LaneOperation compare_operation() {
#if defined(__x86_64__)
  if (has_wide_lanes()) return compare_avx2<Reading, T, store>;
#endif
  return compare_portable<Reading, T, store>;
}

/// Of .f16x2 and .bf16x2: set to each half of the result, setp to p of the lower and q of the
/// upper.
template <class Half, bool is_set>
void compare_halves(std::byte* registers, const Instruction& in, std::uint32_t mask) {
  const Predicates low = compare<HalfOf<Half, 0>, std::uint32_t>(registers, in);
  const Predicates high = compare<HalfOf<Half, 16>, std::uint32_t>(registers, in);
  if (!is_set) return store_two(registers, in, mask, low, high);
  const std::uint32_t yes = yes_of(in.type) & 0xffff;
  for (int i = 0; i < 32; ++i) {
    if (!(mask >> i & 1)) continue;
    reinterpret_cast<std::uint32_t*>(registers + in.d)[i] =
        (low >> i & 1 ? yes : 0) | (high >> i & 1 ? yes << 16 : 0);
  }
}

/// The set of a comparison that is named by a modifier.
std::uint8_t take_comparison(Decoder& d, Type type) {
  const int index = d.modifiers.choose({"eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs",
                                        "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"},
                                       -1);
  if (index < 0) d.fail("it names no comparison");
  constexpr std::uint8_t ordered[] = {equal,   less | greater,  less, less | equal,
                                      greater, greater | equal, less, less | equal,
                                      greater, greater | equal};
  if (index < 10) return ordered[index];
  if (!is_float(type)) d.fail("whole numbers are always in order");
  if (index < 16) return ordered[index - 10] | unordered;
  return index == 16 ? less | equal | greater : unordered;
}

template <Store store>
void choose_comparison(Decoder& d, Type type, bool ftz) {
  d.in.vector = take_comparison(d, type);
  LaneOperation& lanes = d.in.lanes;
  if (type == Type::f32) {
    lanes =
        ftz ? compare_operation<Flushed, float, store>() : compare_operation<AsIs, float, store>();
  } else if (type == Type::f64) {
    lanes = compare_operation<AsIs, double, store>();
  } else if (type == Type::f16) {
    lanes = ftz ? compare_operation<FlushedF16, std::uint16_t, store>()
                : compare_operation<F16, std::uint16_t, store>();
  } else if (type == Type::bf16) {
    lanes = compare_operation<Bf16, std::uint16_t, store>();
  } else if (type == Type::f16x2) {
    lanes = ftz ? compare_halves<FlushedF16, store == store_set>
                : compare_halves<F16, store == store_set>;
  } else if (type == Type::bf16x2) {
    lanes = compare_halves<Bf16, store == store_set>;
  } else if (is_float(type) || !with_integer(type, [&](auto x) {
               lanes = compare_operation<AsIs, decltype(x), store>();
             })) {
    d.refuse("comparisons of this type");
  }
}

void decode_setp(Decoder& d) {
  d.in.kind = static_cast<std::uint8_t>(1 + d.modifiers.choose({"and", "or", "xor"}, -1));
  const bool ftz = d.modifiers.take("ftz");
  const Type type = d.demand_type();
  choose_comparison<store_predicates>(d, type, ftz);
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
}

void decode_set(Decoder& d) {
  const bool ftz = d.modifiers.take("ftz");
  const Type to = d.demand_type(), type = d.demand_type();
  choose_comparison<store_set>(d, type, ftz);
  const bool of_halves = type == Type::f16x2 || type == Type::bf16x2;
  const bool is_narrow = to == Type::u16 || to == Type::s16 || to == Type::f16 || to == Type::bf16;
  const bool known =
      to == Type::u32 || to == Type::s32 || (of_halves ? to == type : to == Type::f32 || is_narrow);
  if (!known) d.refuse("this type of the result");
  d.demand_operands(3);
  d.in.type = to;
  d.in.d = d.result(0, to);
  d.in.s[0] = d.source(1, type);
  d.in.s[1] = d.source(2, type);
}

}  // namespace

bool decode_compare(Decoder& d) {
  const std::string_view base = d.modifiers.base();
  if (base == "setp") {
    decode_setp(d);
  } else if (base == "set") {
    decode_set(d);
  } else {
    return false;
  }
  return true;
}

}  // namespace lanescope::ptx
