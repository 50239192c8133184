#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "debug/simt/hopper.h"
#include "debug/simt/numerics.h"

namespace lanescope::simt {

/// What registers hold while a product is under way: as what was never assigned.
inline constexpr std::uint32_t in_flight_pattern = 0xfefefefe;
/// Whether these 16 bits are of it.
inline bool is_in_flight(const std::byte* half) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, half, sizeof bits);
  return bits == static_cast<std::uint16_t>(in_flight_pattern);
}

/// Registers of the lanes of a warp, of 32 bits: those of a lane side by side, or the lanes of a
/// register.
struct RegisterArray {
  std::vector<std::uint32_t*> first;  ///< of each lane, or of each register
  int count = 0;                      ///< of a lane
  bool by_lane = true;

  std::uint32_t* at(int lane, int i) const {
    return by_lane ? first[static_cast<std::size_t>(lane)] + i
                   : first[static_cast<std::size_t>(i)] + lane;
  }
  bool operator==(const RegisterArray&) const = default;
};

/// 16 bits of a register that all lanes have: those of lane 0, and how far they are from one lane's
/// to the next one's.
struct HalfRegister {
  std::byte* first = nullptr;
  std::size_t stride = 0;
  std::byte* at(int lane) const { return first + static_cast<std::size_t>(lane) * stride; }
  bool operator==(const HalfRegister&) const = default;
};

struct Accumulators;

/// Where a half of an accumulator goes: of register `reg`, 0 the lower one, in these lanes.
struct HalfTo {
  int reg, half;
  HalfRegister to;
  std::uint32_t lanes;
};
/// Where a half of an accumulator comes from: it is that of `from`, as that is before the first
/// product that adds to it.
struct HalfFrom {
  std::shared_ptr<Accumulators> from;
  int from_reg, from_half;
  int reg, half;
  std::uint32_t lanes;
};

/// What products of a warp accumulate, while they are under way: n columns of 16 rows. Those of f16
/// are floats here, of s32 there are their bits.
struct Accumulators {
  int n;
  SumType sums;
  std::unique_ptr<float[][16]> x;
  RegisterArray registers;          ///< none: they hold something else by now
  std::vector<HalfTo> copies;       ///< of the registers, made while they were in flight
  std::vector<HalfFrom> beginning;  ///< what they take over when the first product is carried out

  /// The 32 bits of a lane's register.
  std::uint32_t bits(int lane, int reg) const;
  void set_bits(int lane, int reg, std::uint32_t bits);
  /// The first product is carried out now.
  void begin();
  /// The registers get something else: what of them was copied does not.
  void leave_registers();
};

/// Where in the product a sum lies, the i-th of a lane: its row and column (PTX ISA, "Register
/// Fragments and Shared Memory Matrix Layouts").
inline std::pair<std::size_t, std::size_t> place_of_sum(int lane, int i) {
  return {static_cast<std::size_t>(lane / 4 + i / 2 % 2 * 8),
          static_cast<std::size_t>(i / 4 * 8 + lane % 4 * 2 + i % 2)};
}

inline std::uint32_t Accumulators::bits(int lane, int reg) const {
  const auto sum = [&](int i) {
    const auto [row, col] = place_of_sum(lane, i);
    return x[col][row];
  };
  if (sums != SumType::f16) return std::bit_cast<std::uint32_t>(sum(reg));
  const std::uint32_t high = f32_to_f16(sum(2 * reg + 1));
  return high << 16 | f32_to_f16(sum(2 * reg));
}

inline void Accumulators::set_bits(int lane, int reg, std::uint32_t bits) {
  const auto set = [&](int i, float sum) {
    const auto [row, col] = place_of_sum(lane, i);
    x[col][row] = sum;
  };
  if (sums != SumType::f16) return set(reg, std::bit_cast<float>(bits));
  set(2 * reg, f16_to_f32(static_cast<std::uint16_t>(bits)));
  set(2 * reg + 1, f16_to_f32(static_cast<std::uint16_t>(bits >> 16)));
}

}  // namespace lanescope::simt
