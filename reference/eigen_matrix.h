#pragma once

#include <Eigen/Core>

#include "reference/array.h"

/// Arrays as matrices of Eigen.
namespace lanescope::reference {

inline auto as_matrix(const Array& x) {
  return Eigen::Map<const Eigen::MatrixXd>(x.data(), x.rows(), x.cols());
}
inline auto as_matrix(Array& x) {
  return Eigen::Map<Eigen::MatrixXd>(x.data(), x.rows(), x.cols());
}

template <class Vector>
Array from_vector(const Vector& vector) {
  Array result(vector.rows(), vector.cols());
  std::copy(vector.data(), vector.data() + vector.size(), result.begin());
  return result;
}

/// Pins the block sizes of Eigen's products, which follow the CPU's caches otherwise and with them
/// the order of its additions.
inline void pin_product_order() {
  static const bool pinned = [] {
    Eigen::setCpuCacheSizes(32 << 10, 256 << 10, 4 << 20);
    return true;
  }();
  static_cast<void>(pinned);
}

}  // namespace lanescope::reference
