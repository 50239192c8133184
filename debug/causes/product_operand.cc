#include "debug/causes/product_operand.h"

#include <utility>

#include "reference/solver.h"

namespace lanescope {
namespace {

using Array = Scene::Array;
using reference::Index;
using Maybe = std::optional<Array>;

/// X from X · b = c, b [n, m] with n <= m, and how far it may be off. Nothing where b does not
/// determine X, or no X gives c.
std::optional<std::pair<Array, Array>> solve(const Array& b, const Array& c, const Array& c_error) {
  const Maybe inverse = reference::solver(b, 1e-10);  // b amplifies what is off by 1e5
  if (!inverse) return std::nullopt;
  const Array x = product_transposed(c, *inverse);
  const Array error = product_transposed(c_error, inverse->abs());
  const Array misfit = (product(x, b) - c).abs();
  if (!(misfit <= 8 * c_error + 1e-5 * c.abs().largest()).all()) return std::nullopt;
  return std::pair(x, error);
}

/// Rows of a left operand and of the product that they gave, of `depth` and `outer` numbers.
struct Equations {
  std::vector<double> left, product;
  Index count = 0;

  void add(const Array& more_left, const Array& more_product) {
    for (Index row = 0; row < more_product.rows(); ++row) {
      const Array a = more_left.row(row), b = more_product.row(row);
      if (!a.is_finite().all() || !b.is_finite().all()) continue;
      left.insert(left.end(), a.begin(), a.end());
      product.insert(product.end(), b.begin(), b.end());
      ++count;
    }
  }

  /// The operand X [outer, depth] that all rows were multiplied with; `error` is that of an element
  /// of the product.
  std::optional<std::pair<Array, Array>> operand(double error) const {
    if (count == 0) return std::nullopt;
    const Array b = columns(left), c = columns(product);
    return solve(b, c, Array::Constant(c.rows(), count, error));
  }

 private:
  /// Rows one after the other are columns of the transpose.
  Array columns(const std::vector<double>& rows) const {
    Array result(std::ssize(rows) / count, count);
    std::copy(rows.begin(), rows.end(), result.begin());
    return result;
  }
};

/// The values of a site at a block and tile of the scene's head, its first `rows` rows.
Maybe held(const Scene& scene, SiteId id, std::int64_t block, std::int64_t tile, Index rows) {
  const SiteSlots* slots = scene.judge().slots(id);
  if (!slots && id == SiteId::q_smem) {
    return scene.judge().reference_of(block).q_tile().top_rows(rows);
  }
  if (!slots && id == SiteId::k_smem && block == scene.block()) return scene.held(id, tile);
  const std::int64_t own_tile = slots && slots->site().per_tile ? tile : 0;
  if (!slots || tile < 0 || !slots->holds(block, own_tile)) return std::nullopt;
  if (slots->untouched(block, own_tile)) return std::nullopt;
  return slots->elements(block, own_tile, rows);
}

double largest_bound(const Scene& scene) {
  return scene.bound().is_finite().select(scene.bound(), 0).largest();
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
    equations.add(q->left_cols(d), *s / scene.reference().score_factor().value);
    if (equations.count >= d) {
      solved = equations.operand(2 * largest_bound(scene) / scene.reference().score_factor().value);
    }
  });
  if (!solved) return std::nullopt;
  return ProductOperand{solved->first, k->left_cols(d), solved->second, "columns of d", "key"};
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
    equations.add(k->left_cols(d), (*s / scene.reference().score_factor().value).transpose());
    if (equations.count >= d) {
      solved = equations.operand(2 * largest_bound(scene) / scene.reference().score_factor().value);
    }
  }
  if (!solved) return std::nullopt;
  return ProductOperand{solved->first, q->top_rows(rows).left_cols(d), solved->second,
                        "columns of d", "query"};
}

/// P·V of the scene's tile in `block`: o less what was there before.
Maybe product_of(const Scene& scene, std::int64_t block, Index rows) {
  const std::int64_t tile = scene.tile();
  const Maybe alpha = held(scene, SiteId::alpha, block, tile, rows),
              o = held(scene, SiteId::o, block, tile, rows),
              before = scene.earlier(tile) < 0
                           ? Array::Zero(rows, scene.info().head_dim)
                           : held(scene, SiteId::o, block, scene.earlier(tile), rows);
  if (!alpha || !o || !before) return std::nullopt;
  return (*o - *before * *alpha).left_cols(scene.info().problem.d);
}

std::optional<ProductOperand> solve_weights(const Scene& scene) {
  const std::int64_t tile = scene.tile();
  const Maybe p = scene.weights(tile), v = scene.held(SiteId::v_smem, tile),
              given = product_of(scene, scene.block(), scene.rows());
  if (!p || !given || !given->is_finite().all()) return std::nullopt;
  const Index d = scene.info().problem.d;
  const Index keys = std::min<Index>(
      scene.info().bc, scene.info().problem.len_kv - scene.info().key_of(scene.place(), tile));
  const Array own_v = (v ? *v : scene.reference().v_tile(tile)).top_rows(keys).left_cols(d);
  const auto solved = solve(own_v, *given, scene.bound().left_cols(d) * 2);
  if (!solved) return std::nullopt;
  return ProductOperand{solved->first, p->left_cols(keys), solved->second, "keys", "row"};
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
    equations.add(scene.as_weights(*p), *given);
    if (equations.count >= p->cols()) solved = equations.operand(2 * largest_bound(scene));
  });
  if (!solved) return std::nullopt;
  return ProductOperand{solved->first, v->left_cols(d).transpose(), solved->second, "keys",
                        "column of V"};
}

}  // namespace

bool is_sharp(const ProductOperand& e) {
  double squares = 0, noise = 0;
  for (Index i = 0; i < e.right.size(); ++i) {
    squares += e.right(i) * e.right(i);
    noise += e.noise(i);
  }
  const auto count = static_cast<double>(e.right.size());
  return noise / count < std::sqrt(squares / count) / 20;
}

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
