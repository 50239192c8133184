#include "reference/quantise.h"

#include <algorithm>
#include <cmath>

namespace lanescope {
namespace {

double scale_for(double largest) {
  if (largest == 0) return 1;
  const ElementType type = ElementType::e4m3;
  const double fitting = largest / value_of(type, format_of(type).max_bits);
  return std::max(value_of(ElementType::f32, round_to(ElementType::f32, fitting)), 0x1p-126);
}

}  // namespace

Quantised quantise(const Tensor& from) {
  Quantised result{Tensor(ElementType::e4m3, from.dims),
                   Tensor(ElementType::f32, {from.dims[0], from.dims[1]})};
  const std::int64_t heads = result.scales.size(), size = from.dims[2] * from.dims[3];
  for (std::int64_t head = 0; head < heads; ++head) {
    double largest = 0;
    for (std::int64_t i = head * size; i < (head + 1) * size; ++i) {
      if (std::isfinite(from.at(i))) largest = std::max(largest, std::abs(from.at(i)));
    }
    result.scales.set(head, scale_for(largest));
    const double scale = result.scales.at(head);
    for (std::int64_t i = head * size; i < (head + 1) * size; ++i) {
      result.elements.set(i, from.at(i) / scale);
      result.saturated += std::isinf(from.at(i));
    }
  }
  return result;
}

}  // namespace lanescope
