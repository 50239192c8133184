#include "reference/arithmetic.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <string>

#include "reference/error.h"

namespace lanescope::reference {

double gamma(std::int64_t n) {
  const double total = static_cast<double>(n) * unit;
  return total / (1 - total);
}

namespace {

/// 90 of "sm_90a"; 0 where there is none.
int number_of(std::string_view arch) {
  int number = 0;
  if (arch.starts_with("sm_")) {
    std::from_chars(arch.data() + 3, arch.data() + arch.size(), number);
  }
  return number;
}

}  // namespace

Accumulation Accumulation::tensor_core(std::string_view arch) {
  const int number = number_of(arch);
  // Measured on Hopper; the others as published (Khattak, Mikaitis 2025, arXiv 2512.07004; MMA-Sim,
  // arXiv 2511.10909). Turing is taken with Volta's smaller groups: the bound then holds for
  // groups of 4 and, being larger, for groups of 8.
  if (number >= 90) return {16, 25};
  if (number >= 80) return {8, 24};
  if (number >= 75) return {4, 24};
  if (number >= 70) return {4, 23};
  throw UsageError("no rounding rule of matrix products known for '" + std::string(arch) +
                   "': expected sm_70 or later");
}

Accumulation Accumulation::tensor_core_e4m3(std::string_view arch) {
  // Measured on Hopper, whose wgmma alone has such products.
  if (number_of(arch) / 10 == 9) return {32, 13, 13};
  throw UsageError("no rounding rule of matrix products of e4m3 known for '" + std::string(arch) +
                   "': expected sm_90a");
}

Accumulation Accumulation::tensor_core_tf32(std::string_view arch) {
  const int number = number_of(arch);
  if (number < 80) {
    throw UsageError("no rounding rule of matrix products of tf32 known for '" + std::string(arch) +
                     "': expected sm_80 or later");
  }
  // Half as many products at once as of 16 bits (arXiv 2512.07004). A kernel rounds its operands
  // (cvt.rna.tf32, 2^-11 of each) or leaves it to the unit, which takes the leading bits of f32:
  // less than 2^-10 of each.
  Accumulation products = tensor_core(arch);
  products.group /= 2;
  products.product_error = 0x1p-9 + 0x1p-20;
  return products;
}

// One group: the products and the running sum C, each truncated to F fractional bits relative to
// 2^M (error below 2^(M − F) each), are added exactly, and the sum is truncated to `sum_bits` S
// (error below 2^-S of it). 2^M is at most the largest term, and no partial sum exceeds T, so a
// group adds at most ((group + 1)·2^-F + 2^-S)·T. Two fp32 operations more are allowed for kernels
// that start from zero and add C afterwards, or rescale C before.
double Accumulation::relative_error(std::int64_t terms) const {
  if (group == 0) return gamma(terms);
  const auto groups = static_cast<double>((terms + group - 1) / group);
  const double each =
      std::ldexp(static_cast<double>(group + 1), -fraction_bits) + std::ldexp(1.0, -sum_bits);
  const double rounding = groups * each / (1 - groups * each) + gamma(2);
  return rounding + product_error * (1 + rounding);
}

Array Accumulation::magnitude(const Array& x, ElementType type) const {
  if (group == 0) return x.abs();
  const double smallest = std::ldexp(1.0, format_of(type).min_exponent);
  return (x == 0).select(0, x.abs().max(smallest));
}

Bounded rounded(const Bounded& x, ElementType type) {
  const Format format = format_of(type);
  const double relative = std::ldexp(1.0, -format.fraction_bits - 1);
  const double absolute = std::ldexp(1.0, format.min_exponent - format.fraction_bits - 1);
  const double largest = value_of(type, format.max_bits);
  const double overflow = largest + (largest - value_of(type, format.max_bits - 1)) / 2;
  const double beyond = held_as(type, std::numeric_limits<double>::infinity());
  const auto held = [&](double value, double error) {
    return std::abs(value) - error >= overflow ? std::copysign(beyond, value) : value;
  };
  const auto error_of = [&](double value, double error) {
    const double largest_held = std::abs(value) + error;
    if (largest_held == 0 || !std::isfinite(value)) return 0.0;
    return std::fmin(error + relative * largest_held + absolute, anything);
  };
  const Array value = x.value.map(x.error, held);
  return {value, value.is_finite().select(x.value.map(x.error, error_of), 0)};
}

Array round_values(const Array& x, ElementType type) {
  return x.map([type](double value) { return held_as(type, value); });
}

Array load_rows(const Tensor& tensor, std::int64_t first, std::int64_t rows, std::int64_t height,
                std::int64_t width) {
  const std::int64_t cols = tensor.dims.back();
  Array tile = Array::Zero(height, width);
  std::vector<double> held(static_cast<std::size_t>(cols));
  for (std::int64_t row = 0; row < rows; ++row) {
    tensor.read((first + row) * cols, held);
    for (std::int64_t col = 0; col < cols; ++col) {
      tile(row, col) = held[static_cast<std::size_t>(col)];
    }
  }
  return tile;
}

}  // namespace lanescope::reference
