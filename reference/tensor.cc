#include "reference/tensor.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

namespace lanescope {
namespace {

/// The value of a narrow type's bits: those of a double whose fraction begins with the same bits,
/// and whose exponent is too small by the difference of the biases. The product is exact,
/// subnormals included.
template <ElementType type>
double widened(std::uint32_t bits) {
  constexpr Format format = format_of(type);
  constexpr std::uint32_t sign_bit = 1u << (8 * size_of(type) - 1);
  constexpr int bias = 1 - format.min_exponent;
  constexpr double biases =
      std::bit_cast<double>(static_cast<std::uint64_t>(2 * 1023 - bias) << 52);
  const std::uint32_t magnitude = bits & (sign_bit - 1);
  const bool infinite = type != ElementType::e4m3 && magnitude == format.max_bits + 1;
  const double special =
      infinite ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  const double finite =
      std::bit_cast<double>(std::uint64_t{magnitude} << (52 - format.fraction_bits)) * biases;
  const double value = magnitude > format.max_bits ? special : finite;
  return bits & sign_bit ? -value : value;
}

template <ElementType type, typename Stored>
void widen(const Bytes& bytes, std::int64_t first, std::span<double> to) {
  const std::byte* from = bytes.data() + first * size_of(type);
  for (double& value : to) {
    Stored stored;
    std::memcpy(&stored, from, sizeof stored);
    from += sizeof stored;
    if constexpr (type == ElementType::f32) {
      value = stored;
    } else {
      value = widened<type>(stored);
    }
  }
}

}  // namespace

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

void Tensor::read(std::int64_t first, std::span<double> to) const {
  switch (type) {
    case ElementType::f32:
      return widen<ElementType::f32, float>(bytes, first, to);
    case ElementType::f16:
      return widen<ElementType::f16, std::uint16_t>(bytes, first, to);
    case ElementType::bf16:
      return widen<ElementType::bf16, std::uint16_t>(bytes, first, to);
    case ElementType::e4m3:
      return widen<ElementType::e4m3, std::uint8_t>(bytes, first, to);
  }
}

void Tensor::set(std::int64_t index, double value) {
  const std::uint32_t rounded = round_to(type, value);
  const auto width = static_cast<std::size_t>(size_of(type));
  static_assert(std::endian::native == std::endian::little);
  std::memcpy(bytes.data() + index * size_of(type), &rounded, width);
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

  // Counting in steps of the spacing at `exponent` makes the sum with 2^52, whose spacing is one
  // step, the only rounding; a carry out of the fraction moves into the exponent bits by itself.
  const auto biased = static_cast<int>(std::bit_cast<std::uint64_t>(value) >> 52 & 0x7ff);
  const int exponent = std::max(biased - 1023, format.min_exponent);
  const auto per_step = static_cast<std::uint64_t>(1023 + format.fraction_bits - exponent) << 52;
  const double steps = std::abs(value) * std::bit_cast<double>(per_step) + 0x1p52 - 0x1p52;
  const std::int64_t bits = (std::int64_t{exponent - format.min_exponent} << format.fraction_bits) +
                            static_cast<std::int64_t>(steps);
  return sign | (bits > format.max_bits ? overflow : static_cast<std::uint32_t>(bits));
}

double value_of(ElementType type, std::uint32_t bits) {
  switch (type) {
    case ElementType::f32:
      return std::bit_cast<float>(bits);
    case ElementType::f16:
      return widened<ElementType::f16>(bits);
    case ElementType::bf16:
      return widened<ElementType::bf16>(bits);
    case ElementType::e4m3:
      return widened<ElementType::e4m3>(bits);
  }
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace lanescope
