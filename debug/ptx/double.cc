// PTX ISA, "Floating-Point Instructions", for .f64.

#include <bit>
#include <cmath>

#include "debug/ptx/decoder.h"
#include "debug/ptx/double_nan.h"
#include "debug/ptx/host_rounding.h"

namespace lanescope::ptx {
namespace {

struct Add {
  static double apply(double a, double b) { return of_numbers(a + b, a, b); }
};
struct Subtract {
  static double apply(double a, double b) { return of_numbers(a - b, a, b); }
};
struct Multiply {
  static double apply(double a, double b) { return of_numbers(a * b, a, b); }
};
/// Negations: of the product, of the addend.
template <bool product, bool addend>
struct MultiplyAdd {
  static double apply(double a, double b, double c) {
    return of_numbers(__builtin_fma(product ? -a : a, b, addend ? -c : c), a, c, b);
  }
};
struct Divide {
  static double apply(double a, double b) { return a / b; }
};
struct Reciprocal {
  static double apply(double a) { return 1.0 / a; }
};
struct SquareRoot {
  static double apply(double a) { return __builtin_sqrt(a); }
};
struct Absolute {
  static double apply(double a) { return of_numbers(std::fabs(a), a); }
};
struct Negate {
  static double apply(double a) { return of_numbers(-a, a); }
};
template <bool least>
struct Extreme {
  static double apply(double a, double b) {
    if (b != b) return a != a ? quiet(b) : a;
    if (a != a) return b;
    if (a == b) return std::signbit(a) == least ? a : b;
    return (a < b) == least ? a : b;
  }
};
struct CopySign {
  static double apply(double a, double b) { return std::copysign(b, a); }
};

template <class Op, std::size_t sources>
void decode(Decoder& d) {
  const int rounding = d.modifiers.choose({"rn", "rz", "rm", "rp"}, 0);
  const Type f64 = d.demand_type();
  if constexpr (sources == 1) d.set_lanes<Op, double, double>(f64, {f64});
  if constexpr (sources == 2) d.set_lanes<Op, double, double, double>(f64, {f64, f64});
  if constexpr (sources == 3) d.set_lanes<Op, double, double, double, double>(f64, {f64, f64, f64});
  if (rounding == 0) return;
  d.in.kind = static_cast<std::uint8_t>(rounding);
  d.in.lanes = rounded_operation<Op, double, sources>();
}

void decode_fused(Decoder& d) {
  if (d.statement().negates_product) {
    d.statement().negates_addend ? decode<MultiplyAdd<true, true>, 3>(d)
                                 : decode<MultiplyAdd<true, false>, 3>(d);
  } else {
    d.statement().negates_addend ? decode<MultiplyAdd<false, true>, 3>(d)
                                 : decode<MultiplyAdd<false, false>, 3>(d);
  }
}

}  // namespace

bool decode_double(Decoder& d) {
  if (d.modifiers.peek_type() != Type::f64) return false;
  const std::string_view base = d.modifiers.base();
  if (base == "add") {
    decode<Add, 2>(d);
  } else if (base == "sub") {
    decode<Subtract, 2>(d);
  } else if (base == "mul") {
    decode<Multiply, 2>(d);
  } else if (base == "fma" || base == "mad") {
    decode_fused(d);
  } else if (base == "div") {
    decode<Divide, 2>(d);
  } else if (base == "rcp") {
    decode<Reciprocal, 1>(d);
  } else if (base == "sqrt") {
    decode<SquareRoot, 1>(d);
  } else if (base == "abs") {
    decode<Absolute, 1>(d);
  } else if (base == "neg") {
    decode<Negate, 1>(d);
  } else if (base == "min") {
    decode<Extreme<true>, 2>(d);
  } else if (base == "max") {
    decode<Extreme<false>, 2>(d);
  } else if (base == "copysign") {
    decode<CopySign, 2>(d);
  } else {
    return false;
  }
  return true;
}

}  // namespace lanescope::ptx
