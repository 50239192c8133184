#pragma once

#include <cstdint>

#include "reference/splitmix64.h"
#include "reference/tensor.h"

namespace lanescope {

/// One stream of random numbers per (seed, tensor), addressed by counter. `fine`: normal() has
/// steps below those of f32.
struct Stream {
  std::uint64_t key;
  bool fine;
  Stream(std::uint64_t seed, std::uint64_t tensor, bool fine = false)
      : key(splitmix64(splitmix64(seed) + tensor)), fine(fine) {}

  std::uint64_t bits(std::uint64_t counter) const { return splitmix64(key ^ splitmix64(counter)); }

  /// In [0, 1), exact in 32 bits.
  double uniform(std::uint64_t counter) const {
    return static_cast<double>(bits(counter) >> 32) * 0x1p-32;
  }

  /// Sum of 12 uniforms of 16 bits each, less its mean: variance 1, magnitude below 6, exact.
  double normal(std::uint64_t counter) const {
    std::int64_t sum = 0;
    for (std::uint64_t part = 0; part < 3; ++part) {
      const std::uint64_t word = bits(3 * counter + part);
      for (int shift = 0; shift < 64; shift += 16) sum += (word >> shift) & 0xffff;
    }
    const double part = fine ? uniform(~counter) - 0.5 : 0;
    return (static_cast<double>(sum - 12 * 65535 / 2) + part) * 0x1p-16;
  }
};

/// Fills `tensor` with what the stream's normal() gives, times `deviation`. The inputs of problems
/// that are run one after another begin with the same numbers: these are kept.
void fill_normal(Tensor& tensor, const Stream& stream, double deviation);

}  // namespace lanescope
