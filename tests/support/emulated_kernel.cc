#include "tests/support/emulated_kernel.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/online.h"
#include "tests/support/infinity.h"

namespace lanescope::testing {
namespace {

using reference::Accumulation;
using reference::Array;
using reference::Index;

/// Toward zero, to 24 significant bits.
double truncated(double x) {
  if (x == 0) return x;
  const int exponent = std::ilogb(x);
  return std::ldexp(std::trunc(std::ldexp(x, 23 - exponent)), exponent - 23);
}

float ex2(float x) {
  const double y = std::exp2(static_cast<double>(x));
  return y < 0x1p-126 ? 0.0f : static_cast<float>(truncated(y));
}

/// The exponent that a matrix unit gives to a · b: not renormalised; f16 has the smallest one.
int product_exponent(double a, double b) {
  return std::max(std::ilogb(a), -14) + std::max(std::ilogb(b), -14);
}

double matrix_unit_group(const Accumulation& rule, const double* a, const double* b, Index count,
                         double c) {
  int largest = c != 0 ? std::ilogb(c) : std::numeric_limits<int>::min();
  for (Index i = 0; i < count; ++i) {
    if (a[i] * b[i] != 0) largest = std::max(largest, product_exponent(a[i], b[i]));
  }
  if (largest == std::numeric_limits<int>::min()) return 0;
  const int scale = rule.fraction_bits - largest;
  auto sum = static_cast<std::int64_t>(std::ldexp(c, scale));
  for (Index i = 0; i < count; ++i)
    sum += static_cast<std::int64_t>(std::ldexp(a[i] * b[i], scale));
  return truncated(std::ldexp(static_cast<double>(sum), -scale));
}

reference::Walk injecting_walk(const DumpInfo& info) {
  const bool matrix_unit = info.products == Products::tensor_core;
  reference::Walk walk{.br = info.br, .bc = info.bc, .width = info.head_dim, .arithmetic = {}};
  walk.injected = info.gate == "softmax_only" ? reference::Injected::scores
                  : info.gate == "pv_only"    ? reference::Injected::weights
                                              : reference::Injected::nothing;
  walk.injected_p = walk.arithmetic.p_type = matrix_unit ? info.dtype : ElementType::f32;
  return walk;
}

/// The rows of a tile that exist, from the reference; zeros below.
Array padded(const Array& x, Index rows) {
  Array tile = Array::Zero(rows, x.cols());
  tile.set_corner(x);
  return tile;
}

class Emulation {
 public:
  Emulation(const DumpInfo& info, const Inputs& inputs, std::int64_t block, Fault fault)
      : info_(info),
        fault_(fault),
        rule_(info.products == Products::tensor_core ? Accumulation::tensor_core(info.arch)
                                                     : Accumulation::fma_chain()),
        first_query_(block % info.q_tiles() * info.br),
        truth_(inputs, info.problem, injecting_walk(info),
               block / info.q_tiles() / info.problem.heads,
               block / info.q_tiles() % info.problem.heads, block % info.q_tiles()),
        q_(truth_.q_tile()),
        m_(Array::Constant(info.br, 1, -inf)),
        l_(Array::Zero(info.br, 1)),
        o_(Array::Zero(info.br, info.head_dim)) {}

  EmulatedBlock run() {
    EmulatedBlock block;
    for (std::int64_t tile = 0; tile < truth_.needed_tiles(); ++tile) {
      block.tiles.push_back(step(tile));
    }
    finish(block);
    return block;
  }

 private:
  EmulatedTile step(std::int64_t index) {
    const reference::TileState truth = truth_.step(index);
    const Array k = truth_.k_tile(index), v = truth_.v_tile(index);
    EmulatedTile tile;
    tile.s = info_.gate == "softmax_only" ? padded(truth.s.value, info_.br) : scores(k, index);
    softmax(tile);
    if (info_.gate == "pv_only") {
      tile.p = padded(truth.p.value, info_.br);
      tile.alpha = padded(truth.alpha.value, info_.br);
    }
    product(tile, v, index);
    s_before_ = tile.s;
    return tile;
  }

  Array scores(const Array& k, std::int64_t index) const {
    const Problem& problem = info_.problem;
    const double log2_e = fault_ == Fault::wrong_scale ? 1 : std::log2(std::exp(1.0));
    const auto factor = static_cast<float>(log2_e / std::sqrt(static_cast<double>(problem.d)));
    Array s(info_.br, info_.bc), q = q_;
    for (Index row = 0; fault_ == Fault::panels_of_q && row < q.rows(); ++row) {
      for (Index col = 0; col < q.cols(); ++col) {
        const Index line = col / 64 * 16 + row;
        q(row, col) = q_(line % q.rows(), line / q.rows() * 64 + col % 64);
      }
    }
    for (Index row = 0; row < s.rows(); ++row) {
      for (Index key = 0; key < s.cols(); ++key) {
        const std::int64_t at = index * info_.bc + key, query = first_query_ + row;
        const bool seen = at < problem.len_kv &&
                          (!problem.causal || at <= query + problem.len_kv - problem.len_q);
        if (fault_ == Fault::tile_left_out && index == 1 && row >= 16) {
          s(row, key) = -inf;
          continue;
        }
        const auto dot = static_cast<float>(accumulate(rule_, q.row(row), k.row(key), 0));
        s(row, key) = seen ? dot * factor : -inf;
      }
    }
    return s;
  }

  void softmax(EmulatedTile& tile) {
    tile.m_prev = m_;
    tile.alpha = Array::Zero(info_.br, 1);
    tile.p = Array::Zero(info_.br, info_.bc);
    const Array& seen = fault_ == Fault::stale_maximum ? s_before_ : tile.s;
    for (Index row = 0; row < info_.br; ++row) {
      if (seen.size() > 0) m_(row) = std::max(m_(row), seen.row(row).largest());
      const auto shift = m_(row) == -inf ? 0.0f : static_cast<float>(m_(row));
      const float alpha = ex2(static_cast<float>(tile.m_prev(row)) - shift);
      const double factor = std::log2(std::exp(1.0)) / std::sqrt(double(info_.problem.d));
      float taken = fault_ == Fault::raw_maximum ? static_cast<float>(shift / factor) : shift;
      float sum = 0, up_to_key = static_cast<float>(tile.m_prev(row));
      for (Index key = 0; key < info_.bc; ++key) {
        up_to_key = std::max(up_to_key, static_cast<float>(tile.s(row, key)));
        if (fault_ == Fault::one_pass) taken = up_to_key == -inf ? 0.0f : up_to_key;
        const float p = ex2(static_cast<float>(tile.s(row, key)) - taken);
        if (fault_ != Fault::half_of_l || key % 2 == 0) sum = sum + p;
        tile.p(row, key) = p;
      }
      tile.alpha(row) = alpha;
      l_(row) = static_cast<float>(l_(row)) * alpha + sum;
    }
    tile.unrounded_p = tile.p;
    if (info_.products == Products::tensor_core) {
      tile.p = reference::round_values(tile.p, info_.dtype);
    }
    tile.m = m_;
    tile.l = l_;
  }

  void product(EmulatedTile& tile, const Array& v, std::int64_t index) {
    for (Index row = 0; row < info_.br; ++row) {
      Array p = tile.p.row(row);
      if (fault_ == Fault::dropped_key && index == 1) p(1) = 0;
      const float alpha =
          fault_ == Fault::missing_rescale ? 1.0f : static_cast<float>(tile.alpha(row));
      for (Index col = 0; col < info_.head_dim; ++col) {
        const float by =
            fault_ == Fault::column_alpha ? float(tile.alpha(row / 16 * 16 + col % 16)) : alpha;
        const float rescaled = static_cast<float>(o_(row, col)) * by;
        o_(row, col) = accumulate(rule_, p, v.col(col).transpose(), rescaled);
      }
    }
    tile.o = o_;
  }

  void finish(EmulatedBlock& block) const {
    block.o_final = Array::Zero(info_.br, info_.head_dim);
    block.lse = Array::Constant(info_.br, 1, -inf);
    for (Index row = 0; row < info_.br; ++row) {
      const auto l = static_cast<float>(l_(row)), m = static_cast<float>(m_(row));
      if (l == 0) continue;
      float inverse = 1 / l;
      if (fault_ == Fault::l_twice) inverse = inverse / l;
      for (Index col = 0; col < info_.head_dim; ++col) {
        block.o_final(row, col) = static_cast<float>(o_(row, col)) * inverse;
      }
      const auto log = static_cast<float>(truncated(std::log2(static_cast<double>(l))));
      block.lse(row) = (m + log) * static_cast<float>(std::log(2.0));
    }
  }

  const DumpInfo& info_;
  Fault fault_;
  Accumulation rule_;
  std::int64_t first_query_;
  reference::OnlineBlock truth_;
  Array q_, m_, l_, o_, s_before_;
};

}  // namespace

double accumulate(const Accumulation& rule, const Array& a, const Array& b, double c) {
  const Index count = a.size();
  if (rule.group == 0) {
    for (Index i = 0; i < count; ++i) c = static_cast<float>(a(i) * b(i) + c);
    return c;
  }
  for (Index i = 0; i < count; i += rule.group) {
    c = matrix_unit_group(rule, a.data() + i, b.data() + i, std::min<Index>(rule.group, count - i),
                          c);
  }
  return c;
}

EmulatedBlock emulate(const DumpInfo& info, const Inputs& inputs, std::int64_t block, Fault fault) {
  return Emulation(info, inputs, block, fault).run();
}

}  // namespace lanescope::testing
