// PTX ISA, "Comparison and Selection Instructions": selp, slct; and testp.

#include <cmath>

#include "debug/ptx/decoder.h"

namespace lanescope::ptx {
namespace {

struct Select {
  template <class T>
  static T apply(T a, T b, bool c) {
    return c ? a : b;
  }
};
template <bool ftz>
struct SelectBySign {
  template <class T>
  static T apply(T a, T b, std::int32_t c) {
    return c >= 0 ? a : b;
  }
  template <class T>
  static T apply(T a, T b, float c) {
    return c >= (ftz ? -0x1.fffffcp-127f : 0.0f) ? a : b;  // the largest that counts as zero
  }
};

void decode_selp(Decoder& d) {
  const Type type = d.demand_type();
  const int bits = bits_of(type);
  const auto set = [&](auto x) {
    using T = decltype(x);
    d.set_lanes<Select, T, T, T, bool>(type, {type, type, Type::pred});
    d.in.selects = true;
  };
  bits == 16 ? set(std::uint16_t{}) : bits == 32 ? set(std::uint32_t{}) : set(std::uint64_t{});
}

void decode_slct(Decoder& d) {
  const bool ftz = d.modifiers.take("ftz");
  const Type type = d.demand_type(), by = d.demand_type();
  if (by != Type::s32 && by != Type::f32) d.fail("it chooses by .s32 or .f32");
  const auto set = [&](auto x, auto c) {
    using T = decltype(x);
    ftz ? d.set_lanes<SelectBySign<true>, T, T, T, decltype(c)>(type, {type, type, by})
        : d.set_lanes<SelectBySign<false>, T, T, T, decltype(c)>(type, {type, type, by});
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
        return std::isfinite(x) && std::fpclassify(x) != FP_SUBNORMAL;  // zeros are
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

bool decode_select(Decoder& d) {
  const std::string_view base = d.modifiers.base();
  if (base == "selp") {
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
