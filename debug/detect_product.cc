#include <Eigen/QR>
#include <cmath>
#include <map>

#include "debug/detectors.h"
#include "debug/words.h"

namespace lanescope {
namespace {

using Array = Scene::Array;
using Eigen::Index;

/// A product got = left · right, solved for the operand that the kernel must have used.
struct Effective {
  Array used, right;  ///< what was used, what should have been
  Array noise;        ///< how far `used` may be off because of rounding
  std::string depth;  ///< what the columns are: "keys", "columns of d"
  std::string outer;  ///< what the rows are
};

/// X from X · b = c, b [n, m] with n <= m. Nothing where b does not determine X.
std::optional<std::pair<Array, Array>> solve(const Array& b, const Array& c, const Array& c_error) {
  if (b.rows() > b.cols()) return std::nullopt;
  const Eigen::ColPivHouseholderQR<Eigen::MatrixXd> qr(b.matrix().transpose());
  if (qr.rank() < b.rows()) return std::nullopt;
  const Eigen::MatrixXd inverse =
      qr.solve(Eigen::MatrixXd::Identity(b.cols(), b.cols()));  // [n, m]
  const Array x = (c.matrix() * inverse.transpose()).array();
  const Array error = (c_error.matrix() * inverse.transpose().cwiseAbs()).array();
  const Array misfit = ((x.matrix() * b.matrix()).array() - c).abs();
  if (!(misfit <= 8 * c_error + 1e-5 * c.abs().maxCoeff()).all()) return std::nullopt;
  return std::pair(x, error);
}

std::optional<Effective> effective_weights(const Scene& scene) {
  const std::int64_t tile = scene.tile();
  const auto p = scene.held(SiteId::p, tile), alpha = scene.held(SiteId::alpha, tile);
  const auto o_prev = scene.before(SiteId::o, tile), v = scene.held(SiteId::v_smem, tile);
  if (!p || !alpha || !o_prev || !scene.got().isFinite().all()) return std::nullopt;
  const Index d = scene.info().problem.d;
  const Index keys =
      std::min<Index>(scene.info().bc, scene.info().problem.len_kv - tile * scene.info().bc);
  const Array own_v = (v ? *v : scene.reference().v_tile(tile)).topLeftCorner(keys, d);
  const Array given = (scene.got() - o_prev->colwise() * alpha->col(0)).leftCols(d);
  const auto solved = solve(own_v, given, scene.bound().leftCols(d) * 2);
  if (!solved) return std::nullopt;
  return Effective{solved->first, p->leftCols(keys), solved->second, "keys", "row"};
}

std::optional<Effective> effective_keys(const Scene& scene) {
  const auto q = scene.held(SiteId::q_smem, 0), k = scene.held(SiteId::k_smem, scene.tile());
  if (!q || !k || !scene.want().isFinite().all() || !scene.got().isFinite().all())
    return std::nullopt;
  const Index d = scene.info().problem.d;
  const double factor = scene.reference().score_factor().value;
  const Array columns = q->topRows(scene.rows()).leftCols(d).transpose();
  const auto solved =
      solve(columns, scene.got().transpose() / factor, scene.bound().transpose() * 2 / factor);
  if (!solved) return std::nullopt;
  return Effective{solved->first, k->leftCols(d), solved->second, "columns of d", "key"};
}

/// The other operand of the same product: V from P, Q from K.
std::optional<Effective> effective_values(const Scene& scene) {
  const std::int64_t tile = scene.tile();
  const auto p = scene.held(SiteId::p, tile), alpha = scene.held(SiteId::alpha, tile);
  const auto o_prev = scene.before(SiteId::o, tile), v = scene.held(SiteId::v_smem, tile);
  if (!p || !alpha || !o_prev || !v || !scene.got().isFinite().all()) return std::nullopt;
  const Index d = scene.info().problem.d;
  const Array given = (scene.got() - o_prev->colwise() * alpha->col(0)).leftCols(d);
  const auto solved =
      solve(p->transpose(), given.transpose(), scene.bound().leftCols(d).transpose() * 2);
  if (!solved) return std::nullopt;
  return Effective{solved->first, v->leftCols(d).transpose(), solved->second, "keys",
                   "column of V"};
}

std::optional<Effective> effective_queries(const Scene& scene) {
  const auto q = scene.held(SiteId::q_smem, 0), k = scene.held(SiteId::k_smem, scene.tile());
  if (!q || !k || !scene.want().isFinite().all() || !scene.got().isFinite().all()) {
    return std::nullopt;
  }
  const Index d = scene.info().problem.d;
  const double factor = scene.reference().score_factor().value;
  const auto solved =
      solve(k->leftCols(d).transpose(), scene.got() / factor, scene.bound() * 2 / factor);
  if (!solved) return std::nullopt;
  return Effective{solved->first, q->topRows(scene.rows()).leftCols(d), solved->second,
                   "columns of d", "query"};
}

/// The factor with which each column of the right operand was used, where all rows agree.
void find_counts(const Scene& scene, const Effective& e, Findings& findings) {
  std::map<int, std::vector<std::int64_t>> by_count;
  Index explained = 0, telling = 0;
  for (Index col = 0; col < e.used.cols(); ++col) {
    std::map<int, int> counts;
    for (Index row = 0; row < e.used.rows(); ++row) {
      const double right = e.right(row, col), noise = e.noise(row, col) + 1e-4 * std::abs(right);
      if (std::abs(right) < 10 * noise) continue;
      const double ratio = e.used(row, col) / right;
      const double whole = std::round(ratio);
      ++telling;
      if (std::abs(ratio - whole) * std::abs(right) <= noise && std::abs(whole) <= 32) {
        ++counts[static_cast<int>(whole)];
      }
    }
    for (const auto& [count, rows] : counts) {
      explained += rows;
      if (count != 1) by_count[count].push_back(col);
    }
  }
  if (telling < 8 || by_count.empty() || explained < 0.98 * static_cast<double>(telling)) return;
  for (const auto& [count, cols] : by_count) {
    Finding finding{count == 0 ? Cause::contribution_missing : Cause::contribution_repeated, 1};
    finding.evidence = {e.depth + " " + list_text(cols) + " of the tile count " +
                        std::to_string(count) + " times in " + name_of(scene.site()) +
                        ", the others once"};
    findings.push_back(finding);
  }
}

/// Right numbers in the wrong place of the operand.
void find_places(const Effective& e, Findings& findings) {
  for (const Index height : {Index(0), Index(8), Index(1)}) {
    const Index width = height == 0 ? 1 : 8, rows = height == 0 ? e.used.rows() : height;
    if (e.used.rows() % rows != 0 || e.used.cols() % width != 0) continue;
    std::vector<std::pair<std::int64_t, std::int64_t>> map;
    std::vector<std::string> examples;
    Index groups = 0, found_groups = 0;
    const auto same = [&](Index row, Index col, Index other_row, Index other_col) {
      for (Index r = 0; r < rows; ++r) {
        for (Index c = 0; c < width; ++c) {
          const double right = e.right(other_row + r, other_col + c);
          const double noise = e.noise(row + r, col + c) + 1e-4 * std::abs(right);
          if (!(std::abs(e.used(row + r, col + c) - right) <= noise)) return false;
        }
      }
      return true;
    };
    for (Index row = 0; row < e.used.rows(); row += rows) {
      for (Index col = 0; col < e.used.cols(); col += width) {
        if (same(row, col, row, col)) continue;
        ++groups;
        int matches = 0;
        std::pair<Index, Index> source;
        for (Index other_row = 0; other_row < e.right.rows(); other_row += rows) {
          for (Index other_col = 0; other_col < e.right.cols(); other_col += width) {
            if (!same(row, col, other_row, other_col)) continue;
            ++matches;
            source = {other_row, other_col};
          }
        }
        if (matches != 1) continue;
        ++found_groups;
        map.emplace_back(col, source.second);
        if (height == 0 || examples.size() >= 3) continue;
        examples.push_back(e.outer + " " + std::to_string(row) + ", " + e.depth + " from " +
                           std::to_string(col) + " was computed with what belongs to " + e.outer +
                           " " + std::to_string(source.first) + ", " + e.depth + " from " +
                           std::to_string(source.second));
      }
    }
    if (groups < 2 || found_groups < 0.98 * static_cast<double>(groups)) continue;
    Finding finding{Cause::permuted,
                    static_cast<double>(found_groups) / static_cast<double>(groups)};
    if (height == 0) {
      finding.evidence = {"in the product, " + e.depth +
                          " are paired wrongly: " + mapping_text(map, "number")};
    } else {
      finding.evidence = examples;
      finding.evidence.insert(finding.evidence.begin(),
                              "the operand of the product was put together of the wrong " +
                                  std::string(height == 8 ? "8x8 blocks" : "chunks of 8"));
    }
    findings.push_back(finding);
    return;
  }
}

/// The operand with rows and columns exchanged, as a whole or in each 8x8 block.
void find_transposed(const Effective& e, Findings& findings) {
  for (const Index side : {e.used.rows(), Index(8)}) {
    if (e.used.rows() % side != 0 || e.used.cols() % side != 0) continue;
    if (e.right.rows() != e.used.rows() || e.right.cols() != e.used.cols()) continue;
    Index same = 0;
    for (Index row = 0; row < e.used.rows(); ++row) {
      for (Index col = 0; col < e.used.cols(); ++col) {
        const double right =
            e.right(row / side * side + col % side, col / side * side + row % side);
        same += std::abs(e.used(row, col) - right) <= e.noise(row, col) + 1e-4 * std::abs(right);
      }
    }
    const double share = static_cast<double>(same) / static_cast<double>(e.used.size());
    if (share < 0.98) continue;
    Finding finding{Cause::transposed, share};
    finding.evidence = {"in the product, " + e.outer + " and " + e.depth + " are exchanged in " +
                        (side == 8 ? "each 8x8 block" : "the whole tile")};
    findings.push_back(finding);
    return;
  }
}

}  // namespace

void find_product(const Scene& scene, Findings& findings) {
  using Solve = std::optional<Effective> (*)(const Scene&);
  std::vector<Solve> operands;
  if (scene.site() == SiteId::o) operands = {effective_weights, effective_values};
  if (scene.site() == SiteId::s) operands = {effective_keys, effective_queries};
  for (const Solve effective_operand : operands) {
    const std::optional<Effective> effective = effective_operand(scene);
    if (!effective) continue;
    const std::size_t known = findings.size();
    find_counts(scene, *effective, findings);
    find_places(*effective, findings);
    find_transposed(*effective, findings);
    if (findings.size() > known) return;
  }
}

}  // namespace lanescope
