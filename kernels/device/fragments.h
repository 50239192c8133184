#pragma once

#include <cstdint>

#include "kernels/device/portable.h"

namespace lanescope::device {

/// N registers of one lane. Indexed by compile-time constants only (unrolled loops), so that they
/// stay registers.
template <class E, int N>
struct Registers {
  static_assert(sizeof(E) == 4, "a register has 32 bits");
  using Element = E;
  static constexpr int count = N;
  E x[N];

  LANESCOPE_DEVICE E& operator[](int i) { return x[i]; }
  LANESCOPE_DEVICE const E& operator[](int i) const { return x[i]; }
  LANESCOPE_DEVICE void fill(E value) {
    LANESCOPE_UNROLL
    for (int i = 0; i < N; ++i) x[i] = value;
  }
};

/// A place in a matrix.
struct Coordinate {
  int row;
  int col;
};

// Which element of its matrix each (lane, element) of an mma.m16n8k16 fragment is
// (PTX ISA, "Matrix fragments for mma.m16n8k16 with floating point type").

/// A: 16×16, 8 elements of 16 bits per lane; element i sits in register i / 2.
constexpr Coordinate a_m16k16(int lane, int i) {
  return {lane / 4 + (i / 2 % 2) * 8, lane % 4 * 2 + i % 2 + (i / 4) * 8};
}

/// B: 16×8 (k × n), 4 elements of 16 bits per lane.
constexpr Coordinate b_k16n8(int lane, int i) {
  return {lane % 4 * 2 + i % 2 + (i / 2) * 8, lane / 4};
}

/// C and D: 16×8, 4 elements of 32 bits per lane.
constexpr Coordinate c_m16n8(int lane, int i) {
  return {lane / 4 + (i / 2) * 8, lane % 4 * 2 + i % 2};
}

/// The accumulators of a warp's (16·Mt)×(8·Nt) product: m16n8 fragments, row of tiles by row.
template <int Mt, int Nt>
struct Accumulator : Registers<float, Mt * Nt * 4> {
  static constexpr int index(int mt, int nt, int i) { return (mt * Nt + nt) * 4 + i; }
  /// Element `reg` of `lane` in the warp's product.
  static constexpr Coordinate coordinate(int lane, int reg) {
    const Coordinate c = c_m16n8(lane, reg % 4);
    return {reg / 4 / Nt * 16 + c.row, reg / 4 % Nt * 8 + c.col};
  }
  LANESCOPE_DEVICE float& at(int mt, int nt, int i) { return this->x[index(mt, nt, i)]; }
  LANESCOPE_DEVICE const float& at(int mt, int nt, int i) const {
    return this->x[index(mt, nt, i)];
  }
  LANESCOPE_DEVICE float (&fragment(int mt, int nt))[4] {
    return *reinterpret_cast<float(*)[4]>(&this->x[index(mt, nt, 0)]);
  }
};

/// The accumulator of a 16×16×16 wmma product: 16×16, 8 elements of 32 bits per lane, two m16n8
/// fragments side by side. CUDA leaves the layout open; this is the one of sm_80 to sm_90
/// (`lanescope list --maps` measures it).
constexpr Coordinate c_m16n16(int lane, int i) {
  const Coordinate c = c_m16n8(lane, i % 4);
  return {c.row, i / 4 * 8 + c.col};
}

/// The lane that holds element (row, col) of such an accumulator.
constexpr int lane_of_m16n16(int row, int col) { return row % 8 * 4 + col % 8 / 2; }

/// The accumulators of a warp's 16×(16·Nt) product: 16×16 wmma fragments from left to right.
template <int Nt>
struct WmmaAccumulators : Registers<float, Nt * 8> {
  /// Element `reg` of `lane` in the warp's product.
  static constexpr Coordinate coordinate(int lane, int reg) {
    const Coordinate c = c_m16n16(lane, reg % 8);
    return {c.row, reg / 8 * 16 + c.col};
  }
  LANESCOPE_DEVICE float (&fragment(int nt))[8] {
    return *reinterpret_cast<float(*)[8]>(&this->x[nt * 8]);
  }
};

/// A warp's (16·Mt)×(16·Kt) left operand as A fragments, two 16-bit elements to a register.
template <int Mt, int Kt>
struct LeftOperand : Registers<std::uint32_t, Mt * Kt * 4> {
  static constexpr int index(int mt, int kt, int r) { return (mt * Kt + kt) * 4 + r; }
  /// 16-bit element `i` of `lane` in the warp's operand; it sits in register i / 2.
  static constexpr Coordinate coordinate(int lane, int i) {
    const Coordinate c = a_m16k16(lane, i % 8);
    return {i / 8 / Kt * 16 + c.row, i / 8 % Kt * 16 + c.col};
  }
  LANESCOPE_DEVICE std::uint32_t& at(int mt, int kt, int r) { return this->x[index(mt, kt, r)]; }
  LANESCOPE_DEVICE const std::uint32_t (&fragment(int mt, int kt) const)[4] {
    return *reinterpret_cast<const std::uint32_t(*)[4]>(&this->x[index(mt, kt, 0)]);
  }
  LANESCOPE_DEVICE std::uint32_t (&fragment(int mt, int kt))[4] {
    return *reinterpret_cast<std::uint32_t(*)[4]>(&this->x[index(mt, kt, 0)]);
  }
};

}  // namespace lanescope::device
