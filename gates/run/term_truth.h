#pragma once

#include <cmath>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gates/run/provenance.h"
#include "reference/inputs.h"
#include "reference/problem.h"

namespace lanescope {

/// What terms are, in double.
class TermTruth {
 public:
  TermTruth(const Problem& problem, const Inputs& inputs) : p_(problem), inputs_(inputs) {}

  double product(std::int64_t row, std::int64_t key) {
    const auto [at, is_new] = products_.try_emplace(row * p_.keys() + key, 0.0);
    if (is_new) {
      at->second = product(row, key, [](std::int64_t) { return true; });
    }
    return at->second;
  }
  /// Of the heads of Q and K, and of V.
  double scales_of(std::int64_t row, std::int64_t key) const {
    if (!inputs_.scaled()) return 1;
    return inputs_.q_scale.at(row / p_.len_q) * inputs_.k_scale.at(key / p_.len_kv);
  }
  double v_scale_of(std::int64_t key) const {
    return inputs_.scaled() ? inputs_.v_scale.at(key / p_.len_kv) : 1;
  }
  /// A scaled score.
  double score(std::int64_t row, std::int64_t key) {
    return product(row, key) * scales_of(row, key) / std::sqrt(static_cast<double>(p_.d));
  }
  double unit(const Provenance::Unit& unit) {
    if (unit.kind == Provenance::Unit::Kind::none) return 0;
    if (unit.kind == Provenance::Unit::Kind::score) return score(unit.row, unit.key);
    return std::log(sum(unit.row, unit.keys, 0));
  }
  double sum(std::int64_t row, const Provenance::Set& keys, double from) {
    double sum = 0;
    each(keys, [&](std::int64_t key) { sum += std::exp(score(row, key) - from); });
    return sum;
  }
  double output(std::int64_t row, const Provenance::Set& keys, double from, std::int64_t column) {
    double sum = 0;
    each(keys, [&](std::int64_t key) {
      sum += std::exp(score(row, key) - from) *
             row_of(rows_of_v_, inputs_.v, key)[static_cast<std::size_t>(column)];
    });
    return sum;
  }

  template <class F>
  static void each(const Provenance::Set& keys, F&& f) {
    for (const auto& [from, to] : keys) {
      for (std::int64_t key = from; key <= to; ++key) f(key);
    }
  }
  /// Some columns of q·k alone.
  template <class F>
  double product(std::int64_t row, std::int64_t key, F&& counts) {
    const std::vector<double>&q = row_of(rows_of_q_, inputs_.q, row),
          &k = row_of(rows_of_k_, inputs_.k, key);
    double sum = 0;
    for (std::size_t i = 0; i < q.size(); ++i) {
      if (counts(static_cast<std::int64_t>(i))) sum += q[i] * k[i];
    }
    return sum;
  }

 private:
  using Rows = std::unordered_map<std::int64_t, std::vector<double>>;

  const std::vector<double>& row_of(Rows& rows, const Tensor& tensor, std::int64_t row) {
    std::vector<double>& values = rows[row];
    if (values.empty()) {
      values.resize(static_cast<std::size_t>(p_.d));
      tensor.read(row * tensor.dims.back(), values);
    }
    return values;
  }

  const Problem& p_;
  const Inputs& inputs_;
  Rows rows_of_q_, rows_of_k_, rows_of_v_;
  std::unordered_map<std::int64_t, double> products_;  ///< by row and key
};

}  // namespace lanescope
