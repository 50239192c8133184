// PTX ISA, bmsk, szext, fns: masks of bits, and places in them.

#include <cstdlib>
#include <type_traits>

#include "debug/ptx/decoder.h"

namespace lanescope::ptx {
namespace {

/// b ones from bit a on; what passes bit 31 is cut off.
template <bool clamps>
struct BitMask {
  static std::uint32_t apply(std::uint32_t a, std::uint32_t b) {
    const std::uint32_t begin = a & 31, end = begin + (b & 31);
    if (clamps && a >= 32) return 0;
    const std::uint32_t from_begin = ~0u << begin;
    return (clamps && b >= 32) || end >= 32 ? from_begin : from_begin & ~(~0u << end);
  }
};

/// The lowest b bits of a, with the sign of the highest of them where T has one.
template <class T, bool clamps>
struct Extend {
  static std::uint32_t apply(std::uint32_t a, std::uint32_t b) {
    if (clamps && b >= 32) return a;
    const std::uint32_t bits = b & 31, above = ~0u << bits;
    const bool negative = std::is_signed_v<T> && bits != 0 && (a >> (bits - 1) & 1) != 0;
    return (a & ~above) | (negative ? above : 0);
  }
};

/// The place of the c-th bit that is set in a, from b on upwards, from −1 on downwards; of 0 b's
/// own. All ones where there is none.
struct FindNthSet {
  static std::uint32_t apply(std::uint32_t a, std::uint32_t b, std::int32_t c) {
    const bool down = c < 0;
    std::int64_t left = c == 0 ? 1 : std::abs(std::int64_t{c});
    for (std::int64_t at = b; at >= 0 && at < 32; at += down ? -1 : 1) {
      if ((a >> at & 1) != 0 && --left == 0) return static_cast<std::uint32_t>(at);
      if (c == 0) break;
    }
    return ~0u;
  }
};

void decode_bmsk(Decoder& d) {
  const int mode = d.modifiers.choose({"clamp", "wrap"}, -1);
  if (mode < 0 || d.demand_type() != Type::b32) d.fail("it is .clamp.b32 or .wrap.b32");
  const auto set = [&](auto op) {
    d.set_lanes<decltype(op), std::uint32_t, std::uint32_t, std::uint32_t>(Type::b32,
                                                                           {Type::b32, Type::b32});
  };
  mode == 0 ? set(BitMask<true>{}) : set(BitMask<false>{});
}

void decode_szext(Decoder& d) {
  const int mode = d.modifiers.choose({"clamp", "wrap"}, -1);
  const Type type = d.demand_type();
  if (mode < 0 || (type != Type::u32 && type != Type::s32)) {
    d.fail("it is .clamp or .wrap, of .u32 or .s32");
  }
  const auto set = [&](auto op) {
    d.set_lanes<decltype(op), std::uint32_t, std::uint32_t, std::uint32_t>(type, {type, Type::u32});
  };
  if (type == Type::s32) {
    return mode == 0 ? set(Extend<std::int32_t, true>{}) : set(Extend<std::int32_t, false>{});
  }
  mode == 0 ? set(Extend<std::uint32_t, true>{}) : set(Extend<std::uint32_t, false>{});
}

}  // namespace

bool decode_masks(Decoder& d) {
  const std::string_view base = d.modifiers.base();
  if (base == "bmsk") {
    decode_bmsk(d);
  } else if (base == "szext") {
    decode_szext(d);
  } else if (base == "fns") {
    if (d.demand_type() != Type::b32) d.fail("it is for .b32");
    d.set_lanes<FindNthSet, std::uint32_t, std::uint32_t, std::uint32_t, std::int32_t>(
        Type::b32, {Type::b32, Type::b32, Type::b32});
  } else {
    return false;
  }
  return true;
}

}  // namespace lanescope::ptx
