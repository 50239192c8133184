// PTX ISA, cvt: its forms.

#include <algorithm>
#include <cstring>

#include "debug/ptx/conversion.h"
#include "debug/ptx/decoder.h"
#include "debug/simt/branch_free.h"
#include "debug/simt/numerics.h"

namespace lanescope::ptx {
namespace {

std::int64_t packed(const Conversion& conversion) {
  std::int64_t bits = 0;
  std::memcpy(&bits, &conversion, sizeof conversion);
  return bits;
}

/// D, S: the registers' own widths.
template <class D, class S>
void convert_lanes(std::byte* registers, const Instruction& in, std::uint32_t mask) {
  Conversion c;
  std::memcpy(&c, &in.immediate, sizeof c);
  D* d = reinterpret_cast<D*>(registers + in.d);
  for (int lane = 0; lane < 32; ++lane) {
    if (mask >> lane & 1)
      d[lane] = static_cast<D>(convert(c, lane_of<S>(registers, in.s[0], lane)));
  }
}

/// Two numbers of s[0] (the upper) and s[1] into one register, each of `bits_of(to)` / 2 bits.
template <class D>
void convert_pair(std::byte* registers, const Instruction& in, std::uint32_t mask) {
  Conversion c;
  std::memcpy(&c, &in.immediate, sizeof c);
  const int half = bits_of(c.to) / 2;
  D* d = reinterpret_cast<D*>(registers + in.d);
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    const auto high = convert(c, lane_of<std::uint32_t>(registers, in.s[0], lane));
    const auto low = convert(c, lane_of<std::uint32_t>(registers, in.s[1], lane));
    d[lane] = static_cast<D>(high << half | low);
  }
}

/// Two numbers of one register into another: .f16x2.e4m3x2 and back.
template <class D, class S>
void convert_packed(std::byte* registers, const Instruction& in, std::uint32_t mask) {
  Conversion c;
  std::memcpy(&c, &in.immediate, sizeof c);
  const int from = bits_of(c.from) / 2, to = bits_of(c.to) / 2;
  D* d = reinterpret_cast<D*>(registers + in.d);
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    const S s = lane_of<S>(registers, in.s[0], lane);
    const auto low = convert(c, s & ((1u << from) - 1)),
               high = convert(c, static_cast<std::uint32_t>(s) >> from);
    d[lane] = static_cast<D>(high << to | low);
  }
}

// The conversions of most kernels, without detours.

template <class D>
struct Cast {
  template <class S>
  static D apply(S x) {
    return static_cast<D>(x);
  }
};
struct ToF16 {
  static std::uint16_t apply(float x) { return simt::branch_free::f32_to_f16(x); }
};
struct FromF16 {
  static float apply(std::uint16_t x) {
    return (x & 0x7fff) > 0x7c00 ? std::bit_cast<float>(0x7fffffffu)
                                 : simt::branch_free::f16_to_f32(x);
  }
};
struct ToBf16 {
  static std::uint16_t apply(float x) { return simt::branch_free::f32_to_bf16(x); }
};
template <class One>
struct ToPair {
  static std::uint32_t apply(float high, float low) {
    return static_cast<std::uint32_t>(One::apply(high)) << 16 | One::apply(low);
  }
};
struct E4m3ToF16 {
  static std::uint32_t apply(std::uint16_t x) {
    return static_cast<std::uint32_t>(simt::e4m3_to_f16(static_cast<std::uint8_t>(x >> 8))) << 16 |
           simt::e4m3_to_f16(static_cast<std::uint8_t>(x));
  }
};

/// Where it is one of those: true.
bool decode_common(Decoder& d, const Conversion& c) {
  if (c.saturates || c.finite || c.relu || c.ftz) return false;
  const auto is_plain = [](int width, Type type) { return width == bits_of(type); };
  if (d.operand_count() != 2 || !is_plain(d.width_of(d.operand(0)), c.to) ||
      d.operand(1).kind != Operand::Kind::reg || !is_plain(d.width_of(d.operand(1)), c.from)) {
    return false;
  }
  if (is_integer(c.to) && is_integer(c.from)) {
    return with_integer(c.to, [&](auto to) {
      with_integer(c.from, [&](auto from) {
        d.set_lanes<Cast<decltype(to)>, decltype(to), decltype(from)>(c.to, {c.from});
      });
    });
  }
  const bool nearest = c.rounding == simt::Rounding::nearest_even;
  if (c.to == Type::f32 && c.from == Type::f16) {
    d.set_lanes<FromF16, float, std::uint16_t>(c.to, {c.from});
  } else if (c.to == Type::f16 && c.from == Type::f32 && nearest && !c.whole) {
    d.set_lanes<ToF16, std::uint16_t, float>(c.to, {c.from});
  } else if (c.to == Type::bf16 && c.from == Type::f32 && nearest && !c.whole) {
    d.set_lanes<ToBf16, std::uint16_t, float>(c.to, {c.from});
  } else if (c.to == Type::f32 && c.from == Type::s32 && nearest) {
    d.set_lanes<Cast<float>, float, std::int32_t>(c.to, {c.from});
  } else if (c.to == Type::f32 && c.from == Type::u32 && nearest) {
    d.set_lanes<Cast<float>, float, std::uint32_t>(c.to, {c.from});
  } else {
    return false;
  }
  return true;
}

bool is_pair(Type type) {
  return type == Type::f16x2 || type == Type::bf16x2 || type == Type::e4m3x2 ||
         type == Type::e5m2x2;
}

/// Two numbers at once.
void decode_pair(Decoder& d, Conversion c) {
  if (c.from == Type::f32) {
    const bool plain = !c.relu && !c.finite && c.rounding == simt::Rounding::nearest_even;
    if (plain && c.to == Type::f16x2) {
      return d.set_lanes<ToPair<ToF16>, std::uint32_t, float, float>(c.to, {c.from, c.from});
    }
    if (plain && c.to == Type::bf16x2) {
      return d.set_lanes<ToPair<ToBf16>, std::uint32_t, float, float>(c.to, {c.from, c.from});
    }
    d.demand_operands(3);
    d.in.d = d.result(0, c.to);
    d.in.s[0] = d.source(1, c.from);
    d.in.s[1] = d.source(2, c.from);
    d.in.lanes = bits_of(c.to) == 32 ? convert_pair<std::uint32_t> : convert_pair<std::uint16_t>;
  } else if (is_pair(c.from) && is_pair(c.to)) {
    if (c.to == Type::f16x2 && c.from == Type::e4m3x2 && !c.relu) {
      return d.set_lanes<E4m3ToF16, std::uint32_t, std::uint16_t>(c.to, {c.from});
    }
    d.demand_operands(2);
    d.in.d = d.result(0, c.to);
    d.in.s[0] = d.source(1, c.from);
    const bool to_wide = bits_of(c.to) == 32, from_wide = bits_of(c.from) == 32;
    d.in.lanes = to_wide ? (from_wide ? convert_packed<std::uint32_t, std::uint32_t>
                                      : convert_packed<std::uint32_t, std::uint16_t>)
                         : (from_wide ? convert_packed<std::uint16_t, std::uint32_t>
                                      : convert_packed<std::uint16_t, std::uint16_t>);
  } else {
    d.refuse("between these types");
  }
  d.in.immediate = packed(c);
}

/// cvt.pack: two whole numbers, each as near as so many bits come, below what s[2] has beside them.
/// `kind`: the bits.
template <bool has_sign>
void pack_numbers(std::byte* registers, const Instruction& in, std::uint32_t mask) {
  const int bits = in.kind;
  const std::int32_t most = (1 << (has_sign ? bits - 1 : bits)) - 1,
                     least = has_sign ? -most - 1 : 0;
  const std::uint32_t field = (1u << bits) - 1;
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    const auto part = [&](int source) {
      const auto x = lane_of<std::int32_t>(registers, in.s[source], lane);
      return static_cast<std::uint32_t>(std::clamp(x, least, most)) & field;
    };
    const auto beside = lane_of<std::uint32_t>(registers, in.s[2], lane);
    reinterpret_cast<std::uint32_t*>(registers + in.d)[lane] =
        (bits == 16 ? 0 : beside << (2 * bits)) | part(0) << bits | part(1);
  }
}

void decode_pack(Decoder& d) {
  if (!d.modifiers.take("sat")) d.fail(".sat is missing");
  const int form = d.modifiers.choose({"u2", "s2", "u4", "s4", "u8", "s8", "u16", "s16"}, -1);
  if (form < 0 || d.demand_type() != Type::s32) d.fail("it packs .s32 to 2, 4, 8 or 16 bits");
  const bool narrow = form < 6;
  if (narrow && d.demand_type() != Type::b32) d.fail("what lies beside the numbers is .b32");
  d.demand_operands(narrow ? 4 : 3);
  d.in.d = d.result(0, Type::b32);
  d.in.s[0] = d.source(1, Type::s32);
  d.in.s[1] = d.source(2, Type::s32);
  d.in.s[2] = narrow ? d.source(3, Type::b32) : d.constant(0, 32);
  d.in.kind = static_cast<std::uint8_t>(2 << form / 2);
  d.in.lanes = form % 2 == 1 ? pack_numbers<true> : pack_numbers<false>;
}

template <class D>
LaneOperation choose_lanes(int from) {
  return from == 16   ? convert_lanes<D, std::uint16_t>
         : from == 32 ? convert_lanes<D, std::uint32_t>
                      : convert_lanes<D, std::uint64_t>;
}

}  // namespace

bool decode_convert(Decoder& d) {
  if (d.modifiers.base() != "cvt") return false;
  if (d.modifiers.take("pack")) {
    decode_pack(d);
    return true;
  }
  if (d.modifiers.take("rs")) d.refuse("stochastic rounding, which no GPU before sm_100 has");
  Conversion c{};
  const int whole = d.modifiers.choose({"rni", "rzi", "rmi", "rpi"}, -1);
  const int rounding = d.modifiers.choose({"rn", "rz", "rm", "rp", "rna"}, -1);
  c.whole = whole >= 0;
  c.rounding = static_cast<simt::Rounding>(std::max({whole, rounding, 0}));
  c.ftz = d.modifiers.take("ftz");
  c.saturates = d.modifiers.take("sat");
  c.finite = d.modifiers.take("satfinite");
  c.relu = d.modifiers.take("relu");
  c.to = d.demand_type();
  c.from = d.demand_type();
  if (is_float(c.from) && is_integer(c.to) && whole < 0) {
    if (rounding >= 0) d.fail("to a whole number it is rounded with .rni, .rzi, .rmi or .rpi");
    c.rounding = simt::Rounding::zero;
  }
  if (c.to == Type::f64 && c.from == c.to && !c.whole) c.rounding = simt::Rounding::nearest_even;
  d.in.immediate = packed(c);
  if (is_pair(c.to) || is_pair(c.from)) {
    decode_pair(d, c);
    return true;
  }
  d.demand_operands(2);
  const bool cuts = is_integer(c.to) && is_integer(c.from) && !c.saturates &&
                    d.operand(1).kind == Operand::Kind::reg &&
                    2 * bits_of(c.to) <= d.width_of(d.operand(1));
  if (cuts) d.in.halves = Halves::low;
  if (decode_common(d, c)) return true;
  // Both registers may be wider than the types.
  const int to = d.width_of(d.operand(0));
  const int from =
      d.is_number(d.operand(1)) ? std::max(16, bits_of(c.from)) : d.width_of(d.operand(1));
  if (to < bits_of(c.to) || from < bits_of(c.from)) d.fail("a register is too narrow");
  const auto carrier = [](int bits) {
    return bits == 16 ? Type::b16 : bits == 32 ? Type::b32 : Type::b64;
  };
  d.in.d = d.result(0, carrier(to));
  d.in.s[0] = d.source(1, carrier(from));
  d.in.lanes = to == 16   ? choose_lanes<std::uint16_t>(from)
               : to == 32 ? choose_lanes<std::uint32_t>(from)
                          : choose_lanes<std::uint64_t>(from);
  return true;
}

}  // namespace lanescope::ptx
