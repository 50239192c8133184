// PTX ISA, instructions on some bits of a number: funnel shifts, permuted bytes, bit fields.

#include <algorithm>
#include <type_traits>

#include "debug/ptx/decoder.h"
#include "debug/simt/numerics.h"

namespace lanescope::ptx {
namespace {

/// Of b:a.
template <bool left, bool wraps>
struct FunnelShift {
  static std::uint32_t apply(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
    const std::uint32_t by = wraps ? c & 31 : std::min(c, 32u);
    const std::uint64_t both = static_cast<std::uint64_t>(b) << 32 | a;
    return static_cast<std::uint32_t>(left ? both << by >> 32 : both >> by);
  }
};

/// Of 32 bits the instruction takes the low byte of a place or length; of 64 bits ptxas writes a
/// sequence of shifts, which takes the whole number.
template <class T>
std::uint32_t part(std::uint32_t number) {
  return sizeof(T) == 8 ? std::min(number, 255u) : number & 0xff;
}

/// c bits of a from b on, with the sign of the highest where T has one.
struct Extract {
  template <class T>
  static T apply(T a, std::uint32_t b, std::uint32_t c) {
    constexpr std::uint32_t top = 8 * sizeof(T) - 1;
    const std::uint32_t at = part<T>(b), length = part<T>(c);
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
    const std::uint32_t at = part<T>(c), length = part<T>(d);
    if (at >= width || length == 0) return b;
    const T low = length >= width ? ~T{0} : static_cast<T>((T{1} << length) - 1);
    const T field = static_cast<T>(low << at);
    return static_cast<T>((b & ~field) | (static_cast<T>(a << at) & field));
  }
};
struct Permute {
  static std::uint32_t apply(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
    return simt::permute_bytes(a, b, c);
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
    return simt::permute_bytes(a, b, selections[mode][c & 3]);
  }
};

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

}  // namespace

bool decode_fields(Decoder& d) {
  const std::string_view base = d.modifiers.base();
  const auto type = d.modifiers.peek_type();
  if (!type || is_float(*type)) return false;
  if (base == "bfe") {
    d.demand_type();
    with_integer(*type, [&](auto x) {
      using T = decltype(x);
      d.set_lanes<Extract, T, T, std::uint32_t, std::uint32_t>(*type,
                                                               {*type, Type::b32, Type::b32});
    });
  } else if (base == "bfi") {
    d.demand_type();
    with_integer(*type, [&](auto x) {
      using T = decltype(x);
      d.set_lanes<Insert, T, T, T, std::uint32_t, std::uint32_t>(
          *type, {*type, *type, Type::b32, Type::b32});
    });
  } else if (base == "shf") {
    decode_funnel(d);
  } else if (base == "prmt") {
    decode_permute(d);
  } else {
    return false;
  }
  return true;
}

}  // namespace lanescope::ptx
