#include "reference/solver.h"

#include <Eigen/Cholesky>

#include "reference/eigen_matrix.h"

namespace lanescope::reference {

std::optional<Array> solver(const Array& b, double least) {
  if (b.rows() > b.cols()) return std::nullopt;
  pin_product_order();
  const Eigen::MatrixXd gram = as_matrix(b) * as_matrix(b).transpose();
  const Eigen::LLT<Eigen::MatrixXd> factor(gram);
  if (factor.info() != Eigen::Success || !(factor.rcond() >= least)) return std::nullopt;
  return from_vector(Eigen::MatrixXd(factor.solve(as_matrix(b))));
}

}  // namespace lanescope::reference
