#include "reference/tensor.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

namespace lanescope {

bool Bytes::operator==(const Bytes& other) const {
  return std::equal(begin(), end(), other.begin(), other.end());
}

std::vector<std::byte>& Bytes::own() {
  if (shared_) {
    own_.assign(shared_.get(), shared_.get() + shared_size_);
    shared_.reset();
  }
  return own_;
}

Tensor::Tensor(ElementType type, std::vector<std::int64_t> dims)
    : type(type), dims(std::move(dims)) {
  bytes.resize(static_cast<std::size_t>(size() * size_of(type)));
}

std::int64_t Tensor::size() const {
  std::int64_t product = 1;
  for (const std::int64_t dim : dims) product *= dim;
  return product;
}

double Tensor::at(std::int64_t index) const { return value_of(type, bits(index)); }

void Tensor::set(std::int64_t index, double value) {
  const std::uint32_t rounded = round_to(type, value);
  const auto width = static_cast<std::size_t>(size_of(type));
  static_assert(std::endian::native == std::endian::little);
  std::memcpy(bytes.data() + index * size_of(type), &rounded, width);
}

std::uint32_t Tensor::bits(std::int64_t index) const {
  const std::byte* at = bytes.data() + index * size_of(type);
  switch (size_of(type)) {
    case 1:
      return std::to_integer<std::uint32_t>(*at);
    case 2: {
      std::uint16_t half;
      std::memcpy(&half, at, sizeof half);
      return half;
    }
    default: {
      std::uint32_t word;
      std::memcpy(&word, at, sizeof word);
      return word;
    }
  }
}

std::uint32_t round_to(ElementType type, double value) {
  const Format format = format_of(type);
  const bool has_infinity = type != ElementType::e4m3;
  const std::uint32_t beyond = format.max_bits + 1;  // infinity; the NaN of e4m3
  const std::uint32_t quiet = has_infinity ? 1u << (format.fraction_bits - 1) : 0u;
  const std::uint32_t overflow = has_infinity ? beyond : format.max_bits;
  const std::uint32_t sign = std::signbit(value) ? 1u << (8 * size_of(type) - 1) : 0u;
  if (std::isnan(value)) return sign | beyond | quiet;
  if (std::isinf(value)) return sign | overflow;
  if (value == 0) return sign;

  // Counting in steps of the spacing at `exponent` makes nearbyint the only rounding; a carry out
  // of the fraction moves into the exponent bits by itself.
  int exponent = 0;
  std::frexp(value, &exponent);
  exponent = std::max(exponent - 1, format.min_exponent);
  const double steps = std::nearbyint(std::ldexp(std::abs(value), format.fraction_bits - exponent));
  const std::int64_t bits = (std::int64_t{exponent - format.min_exponent} << format.fraction_bits) +
                            static_cast<std::int64_t>(steps);
  return sign | (bits > format.max_bits ? overflow : static_cast<std::uint32_t>(bits));
}

double value_of(ElementType type, std::uint32_t bits) {
  if (type == ElementType::f32) return std::bit_cast<float>(bits);
  const Format format = format_of(type);
  const std::uint32_t sign_bit = 1u << (8 * size_of(type) - 1);
  const std::uint32_t magnitude = bits & (sign_bit - 1);
  const std::uint64_t sign = bits & sign_bit ? std::uint64_t{1} << 63 : 0;
  const int field = static_cast<int>(magnitude >> format.fraction_bits);
  if (magnitude > format.max_bits) {
    const bool infinite = type != ElementType::e4m3 && magnitude == format.max_bits + 1;
    const double special = infinite ? std::numeric_limits<double>::infinity()
                                    : std::numeric_limits<double>::quiet_NaN();
    return std::copysign(special, sign ? -1.0 : 1.0);
  }
  if (field == 0) {
    const double spacing = std::bit_cast<double>(
        static_cast<std::uint64_t>(format.min_exponent - format.fraction_bits + 1023) << 52);
    return (sign ? -1.0 : 1.0) * magnitude * spacing;
  }
  // Same fraction bits further to the left, exponent with double's bias.
  const int exponent = field - 1 + format.min_exponent + 1023;
  const std::uint64_t fraction = magnitude & ((1u << format.fraction_bits) - 1);
  return std::bit_cast<double>(sign | (static_cast<std::uint64_t>(exponent) << 52) |
                               (fraction << (52 - format.fraction_bits)));
}

}  // namespace lanescope
