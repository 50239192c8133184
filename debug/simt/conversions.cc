#include <cstdint>

#include "debug/simt/branch_free.h"
#include "debug/simt/numerics.h"
#include "debug/simt/rounding.h"

namespace lanescope::simt {

std::uint16_t f32_to_f16(float x) { return branch_free::f32_to_f16(x); }
std::uint16_t f32_to_bf16(float x) { return branch_free::f32_to_bf16(x); }
float f16_to_f32(std::uint16_t bits) { return branch_free::f16_to_f32(bits); }

std::uint8_t f32_to_e4m3(float x) {
  constexpr bool saturates = true;
  return static_cast<std::uint8_t>(round_to(e4m3_format, x, Rounding::nearest_even, saturates));
}
std::uint16_t e4m3_to_f16(std::uint8_t bits) {
  return f32_to_f16(static_cast<float>(value_of(e4m3_format, bits)));
}

}  // namespace lanescope::simt
