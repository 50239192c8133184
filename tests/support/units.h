#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace lanescope::units {

/// A function of the special functions' unit, and the floats it is tried on: all that lie between
/// two, bit by bit, in blocks.
struct Range {
  const char* function;  ///< "sqrt.approx.ftz"
  std::uint32_t first, blocks;
};
inline constexpr std::uint32_t block_floats = 1 << 17;

/// Every fraction, where a function takes one apart; every float that it looks at, of those that do
/// not scale.
inline constexpr Range ranges[] = {
    {"ex2.approx.ftz", 0x3f800000, 64},     // [1, 2)
    {"ex2.approx.ftz", 0xbf000000, 128},    // (−2, −0.5]
    {"lg2.approx.ftz", 0x3f000000, 128},    // [0.5, 2)
    {"rcp.approx.ftz", 0x3f800000, 64},     // [1, 2)
    {"rsqrt.approx.ftz", 0x3f800000, 128},  // [1, 4)
    {"sqrt.approx.ftz", 0x3f800000, 128},   // [1, 4)
    {"sin.approx.ftz", 0x3f000000, 256},    // [0.5, 8)
    {"cos.approx.ftz", 0xbf000000, 256},    // (−8, −0.5]
    {"tanh.approx", 0x3b000000, 832},       // [2^-9, 16)
};

/// "sqrt.approx.ftz 3f800000"
inline std::string name_of(const Range& range) {
  char text[16];
  std::snprintf(text, sizeof text, " %08x", range.first);
  return range.function + std::string(text);
}

/// FNV-1a by words of what a block gives.
class Digest {
 public:
  void add(std::uint32_t word) { value_ = (value_ ^ word) * 1099511628211u; }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 1469598103934665603u;
};

}  // namespace lanescope::units
