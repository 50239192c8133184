#pragma once

#include <string>

#include "reference/site.h"

namespace lanescope {

/// Why there are no such products of elements of `type`; empty where there are.
inline std::string why_no_products(Products products, ElementType type) {
  if (takes(products, type)) return {};
  return std::string("products is ") + name_of(products) + ", which does not take " +
         name_of(type) +
         (type == ElementType::f32 ? ": there is fp32_fma and tensor_core_tf32" : "");
}

}  // namespace lanescope
