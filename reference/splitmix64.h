#pragma once

#include <cstdint>

namespace lanescope {

/// How far splitmix64 counts between two numbers of a stream: 2^64 over the golden ratio.
inline constexpr std::uint64_t splitmix64_step = 0x9e3779b97f4a7c15;

/// splitmix64: 64 well mixed bits, the next ones of the stream whose counter is at `counter`.
/// Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
constexpr std::uint64_t splitmix64(std::uint64_t counter) {
  std::uint64_t z = counter + splitmix64_step;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

/// A stream of it, the upper 32 bits of each number.
struct Random32 {
  std::uint64_t counter;  ///< at first: the seed
  std::uint32_t next() {
    const std::uint64_t bits = splitmix64(counter);
    counter += splitmix64_step;
    return static_cast<std::uint32_t>(bits >> 32);
  }
};

}  // namespace lanescope
