#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "reference/element_type.h"

namespace lanescope {

/// The grid of numbers that a type can hold: sign, exponent, `fraction_bits` bits of fraction.
struct Format {
  int fraction_bits;
  int min_exponent;        ///< of the normal numbers; subnormals share its spacing
  std::uint32_t max_bits;  ///< the largest finite number
};

/// Source: IEEE 754; for e4m3 (no infinity, one NaN) the OCP 8-bit floating point specification.
constexpr Format format_of(ElementType type) {
  constexpr Format formats[] = {
      {23, -126, 0x7f7fffff}, {10, -14, 0x7bff}, {7, -126, 0x7f7f}, {3, -6, 0x7e}};
  return formats[static_cast<int>(type)];
}

/// Bytes of their own, or those of a file that is mapped read-only: shared until they are written
/// to, which makes a copy.
class Bytes {
 public:
  Bytes() = default;
  /// `size` bytes that `begin` keeps alive.
  Bytes(std::shared_ptr<const std::byte> begin, std::size_t size)
      : shared_(std::move(begin)), shared_size_(size) {}

  std::size_t size() const { return shared_ ? shared_size_ : own_.size(); }
  const std::byte* data() const { return shared_ ? shared_.get() : own_.data(); }
  const std::byte* begin() const { return data(); }
  const std::byte* end() const { return data() + size(); }
  std::byte* data() { return own().data(); }
  void resize(std::size_t size) { own().resize(size); }
  bool operator==(const Bytes& other) const;

 private:
  std::vector<std::byte>& own();

  std::shared_ptr<const std::byte> shared_;
  std::size_t shared_size_ = 0;
  std::vector<std::byte> own_;
};

/// A dense row-major tensor as plain bytes.
struct Tensor {
  ElementType type = ElementType::f32;
  std::vector<std::int64_t> dims;
  Bytes bytes;

  Tensor() = default;
  /// All zero.
  Tensor(ElementType type, std::vector<std::int64_t> dims);

  /// Number of elements: the product of dims.
  std::int64_t size() const;
  /// Element `index` (row-major), exactly; e4m3, f16 and bf16 widen without loss.
  double at(std::int64_t index) const;
  /// Elements `first` and those behind it, as many as `to` has room for, as at() gives them.
  void read(std::int64_t first, std::span<double> to) const;
  /// Rounds to nearest even into `type` and stores.
  void set(std::int64_t index, double value);
  /// The raw bits of an element, zero-extended.
  std::uint32_t bits(std::int64_t index) const {
    const std::byte* at = bytes.data() + index * size_of(type);
    std::uint32_t word = 0;
    switch (size_of(type)) {
      case 1:
        std::memcpy(&word, at, 1);
        break;
      case 2:
        std::memcpy(&word, at, 2);
        break;
      default:
        std::memcpy(&word, at, 4);
    }
    return word;
  }
};

/// The bits of `value` rounded once, to nearest even, from double to `type`.
/// e4m3 saturates to ±448 as `cvt.rn.satfinite` does (PTX ISA, cvt).
std::uint32_t round_to(ElementType type, double value);
/// The value of `bits` read as `type`.
double value_of(ElementType type, std::uint32_t bits);
/// What is left of a value in a tensor of this type: the nearest number, as round_to has it.
inline double held_as(ElementType type, double value) {
  return value_of(type, round_to(type, value));
}

}  // namespace lanescope
