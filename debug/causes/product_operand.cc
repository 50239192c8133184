#include "debug/causes/product_operand.h"

#include <Eigen/Cholesky>
#include <utility>

#include "reference/array_algebra.h"

namespace lanescope {
namespace {

using Array = Scene::Array;
using reference::Index;
using Maybe = std::optional<Array>;

/// X from X · b = c, b [n, m] with n <= m, and how far it may be off. Nothing where b does not
/// determine X, or no X gives c.
std::optional<std::pair<Array, Array>> solve(const Array& b, const Array& c, const Array& c_error) {
  if (b.rows() > b.cols()) return std::nullopt;
  const Eigen::MatrixXd gram = b.matrix() * b.matrix().transpose();
  const Eigen::LLT<Eigen::MatrixXd> factor(gram);
  constexpr double least = 1e-10;  // b amplifies what is off by 1e5
  if (factor.info() != Eigen::Success || !(factor.rcond() >= least)) return std::nullopt;
  const Eigen::MatrixXd inverse = factor.solve(b.matrix());  // [n, m]
  const Array x = (c.matrix() * inverse.transpose()).array();
  const Array error = (c_error.matrix() * inverse.transpose().cwiseAbs()).array();
  const Array misfit = ((x.matrix() * b.matrix()).array() - c).abs();
  if (!(misfit <= 8 * c_error + 1e-5 * c.abs().maxCoeff()).all()) return std::nullopt;
  return std::pair(x, error);
}

/// Rows of a left operand and of the product that they gave, [rows, depth] and [rows, outer].
struct Equations {
  Eigen::ArrayXXd left, product;

  void add(const Array& more_left, const Array& more_product) {
    for (Index row = 0; row < more_product.rows(); ++row) {
      if (!more_product.row(row).isFinite().all() || !more_left.row(row).isFinite().all()) continue;
      const Index at = left.rows();
      left.conservativeResize(at + 1, more_left.cols());
      product.conservativeResize(at + 1, more_product.cols());
      left.row(at) = more_left.row(row);
      product.row(at) = more_product.row(row);
    }
  }

  /// The operand X [outer, depth] that all rows were multiplied with; `error` is that of an element
  /// of the product.
  std::optional<std::pair<Array, Array>> operand(double error) const {
    if (left.rows() == 0) return std::nullopt;
    return solve(left.transpose(), product.transpose(),
                 Array::Constant(product.cols(), product.rows(), error));
  }
};

/// The values of a site at a block and tile of the scene's head, its first `rows` rows.
Maybe held(const Scene& scene, SiteId id, std::int64_t block, std::int64_t tile, Index rows) {
  const SiteSlots* slots = scene.judge().slots(id);
  const std::int64_t own_tile = slots && slots->site().per_tile ? tile : 0;
  if (!slots || tile < 0 || !slots->holds(block, own_tile)) return std::nullopt;
  if (slots->untouched(block, own_tile)) return std::nullopt;
  return slots->elements(block, own_tile, rows);
}

double largest_bound(const Scene& scene) {
  return scene.bound().isFinite().select(scene.bound().array(), 0.0).maxCoeff();
}

/// Calls take(block, rows) for the scene's block, then for the others of its heads and split.
template <class Take>
void for_each_block(const Scene& scene, const Take& take) {
  const DumpInfo& info = scene.info();
  const std::int64_t first = scene.block() - scene.place().q_tile * info.splits;
  take(scene.block(), scene.rows());
  for (std::int64_t i = 0; i < info.q_tiles(); ++i) {
    const std::int64_t block = first + i * info.splits;
    if (block != scene.block()) take(block, info.rows(info.place(block)));
  }
}

std::optional<ProductOperand> solve_keys(const Scene& scene) {
  const auto k = scene.held(SiteId::k_smem, scene.tile());
  if (!k) return std::nullopt;
  const Index d = scene.info().problem.d;
  Equations equations;
  std::optional<std::pair<Array, Array>> solved;
  for_each_block(scene, [&](std::int64_t block, Index rows) {
    if (solved) return;
    const Maybe q = held(scene, SiteId::q_smem, block, 0, rows),
                s = held(scene, SiteId::s, block, scene.tile(), rows);
    if (!q || !s) return;
    equations.add(q->leftCols(d), *s / scene.reference().score_factor().value);
    if (equations.left.rows() >= d) {
      solved = equations.operand(2 * largest_bound(scene) / scene.reference().score_factor().value);
    }
  });
  if (!solved) return std::nullopt;
  return ProductOperand{solved->first, k->leftCols(d), solved->second, "columns of d", "key"};
}

std::optional<ProductOperand> solve_queries(const Scene& scene) {
  const auto q = scene.held(SiteId::q_smem, 0);
  if (!q) return std::nullopt;
  const Index d = scene.info().problem.d, rows = scene.rows();
  Equations equations;
  std::optional<std::pair<Array, Array>> solved;
  for (std::int64_t i = 0; i <= scene.last_tile() && !solved; ++i) {
    const std::int64_t tile = i == 0 ? scene.tile() : i <= scene.tile() ? i - 1 : i;
    const Maybe k = held(scene, SiteId::k_smem, scene.block(), tile, scene.info().bc),
                s = held(scene, SiteId::s, scene.block(), tile, rows);
    if (!k || !s) continue;
    equations.add(k->leftCols(d), (*s / scene.reference().score_factor().value).transpose());
    if (equations.left.rows() >= d) {
      solved = equations.operand(2 * largest_bound(scene) / scene.reference().score_factor().value);
    }
  }
  if (!solved) return std::nullopt;
  return ProductOperand{solved->first, q->topRows(rows).leftCols(d), solved->second, "columns of d",
                        "query"};
}

/// P·V of the scene's tile in `block`: o less what was there before.
Maybe product_of(const Scene& scene, std::int64_t block, Index rows) {
  const std::int64_t tile = scene.tile();
  const Maybe alpha = held(scene, SiteId::alpha, block, tile, rows),
              o = held(scene, SiteId::o, block, tile, rows),
              before = tile == 0 ? Array::Zero(rows, scene.info().head_dim)
                                 : held(scene, SiteId::o, block, tile - 1, rows);
  if (!alpha || !o || !before) return std::nullopt;
  return Array((*o - before->colwise() * alpha->col(0)).leftCols(scene.info().problem.d));
}

std::optional<ProductOperand> solve_weights(const Scene& scene) {
  const std::int64_t tile = scene.tile();
  const Maybe p = scene.held(SiteId::p, tile), v = scene.held(SiteId::v_smem, tile),
              given = product_of(scene, scene.block(), scene.rows());
  if (!p || !given || !given->isFinite().all()) return std::nullopt;
  const Index d = scene.info().problem.d;
  const Index keys = std::min<Index>(
      scene.info().bc, scene.info().problem.len_kv - scene.info().key_of(scene.place(), tile));
  const Array own_v = (v ? *v : scene.reference().v_tile(tile)).array().topLeftCorner(keys, d);
  const auto solved = solve(own_v, *given, scene.bound().leftCols(d) * 2);
  if (!solved) return std::nullopt;
  return ProductOperand{solved->first, p->leftCols(keys), solved->second, "keys", "row"};
}

std::optional<ProductOperand> solve_values(const Scene& scene) {
  const auto v = scene.held(SiteId::v_smem, scene.tile());
  if (!v) return std::nullopt;
  const Index d = scene.info().problem.d;
  Equations equations;
  std::optional<std::pair<Array, Array>> solved;
  for_each_block(scene, [&](std::int64_t block, Index rows) {
    if (solved) return;
    const Maybe p = held(scene, SiteId::p, block, scene.tile(), rows),
                given = product_of(scene, block, rows);
    if (!p || !given) return;
    equations.add(*p, *given);
    if (equations.left.rows() >= p->cols()) solved = equations.operand(2 * largest_bound(scene));
  });
  if (!solved) return std::nullopt;
  return ProductOperand{solved->first, v->leftCols(d).transpose(), solved->second, "keys",
                        "column of V"};
}

}  // namespace

std::vector<ProductOperand> solve_operands(const Scene& scene) {
  std::vector<ProductOperand> operands;
  const auto add = [&](std::optional<ProductOperand> operand) {
    if (operand) operands.push_back(std::move(*operand));
  };
  if (scene.site() == SiteId::o) {
    add(solve_weights(scene));
    add(solve_values(scene));
  } else if (scene.site() == SiteId::s) {
    add(solve_keys(scene));
    add(solve_queries(scene));
  }
  return operands;
}

}  // namespace lanescope
