#pragma once

#include <cstddef>
#include <cstdint>

#include "debug/simt/hopper.h"

namespace lanescope::simt {

/// Where the elements of an operand of wgmma lie, of 16 bits each (PTX ISA, "Asynchronous Warpgroup
/// Level Matrix Shared Memory Layout" and "Matrix Descriptor Format"). Rows are those of M or N.
class MatrixDescriptor {
 public:
  explicit constexpr MatrixDescriptor(std::uint64_t bits) : bits_(bits) {}
  constexpr Swizzle swizzle() const { return static_cast<Swizzle>(bits_ >> 62); }
  constexpr bool has_base_offset() const { return (bits_ >> 49 & 7) != 0; }

  /// The byte of shared memory at which the eight elements from (row, k) on begin: along K, or
  /// along the rows where the matrix is transposed.
  constexpr std::size_t offset(int row, int k, bool transposed) const {
    const auto width = static_cast<std::size_t>(bytes_of(swizzle()));  // of a row of the pattern
    const auto r = static_cast<std::size_t>(row), c = static_cast<std::size_t>(k) * 2;
    const auto at = static_cast<std::size_t>(bits_ & 0x3fff) << 4;
    const bool plain = swizzle() == Swizzle::none;
    std::size_t linear;
    if (transposed) {
      const std::size_t along = r * 2;
      linear = at + along / width * (plain ? stride() : leading()) +
               c / 16 * (plain ? leading() : stride()) + c / 2 % 8 * width + along % width;
    } else {
      linear = at + r / 8 * stride() + r % 8 * width + (plain ? c / 16 * leading() + c % 16 : c);
    }
    return swizzled(swizzle(), linear);
  }

 private:
  constexpr std::size_t leading() const {
    return static_cast<std::size_t>(bits_ >> 16 & 0x3fff) << 4;
  }
  constexpr std::size_t stride() const {
    return static_cast<std::size_t>(bits_ >> 32 & 0x3fff) << 4;
  }
  std::uint64_t bits_;
};

/// The chunks of 16 bytes of shared memory that some rows (of M or N) of an operand lie in, by rows
/// and steps of K, or transposed: visit(address, row, k), k in units of 16 bits.
template <class Visit>
void for_each_chunk(std::uint64_t descriptor, bool transposed, int first_row, int rows,
                    Visit&& visit) {
  const MatrixDescriptor matrix(descriptor);
  if (transposed) {
    for (int k = 0; k < 16; ++k) {
      for (int row = first_row; row < first_row + rows; row += 8) {
        visit(matrix.offset(row, k, true), row, k);
      }
    }
  } else {
    for (int row = first_row; row < first_row + rows; ++row) {
      for (int k = 0; k < 16; k += 8) visit(matrix.offset(row, k, false), row, k);
    }
  }
}

}  // namespace lanescope::simt
