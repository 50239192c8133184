#pragma once

// A kernel outside the tree that the lab can look into: it names its sites, and passes them through
// `seam`, where a gate gives or takes a value and tracing sees it. One thread per query row, all of
// it in registers. kernels/README.md goes through it.

#include "kernels/device/fragments.h"
#include "kernels/parts/arguments.h"
#include "kernels/parts/online_softmax.h"
#include "kernels/trace/seam.h"
#include "kernels/trace/site_table.h"

namespace lanescope::kernels {

/// What it lets be traced.
template <class T, int D, int Br, int Bc>
struct MineSites {
  static constexpr int threads = Br;  ///< thread i holds row i of the tile, register r its column r
  using Scores = device::Registers<float, Bc>;
  using RowValue = device::Registers<float, 1>;
  using Output = device::Registers<float, D>;

  static constexpr auto table = site_table<D, Br, Bc, threads>(
      registers<Scores>(SiteId::s), registers<RowValue>(SiteId::m),
      registers<RowValue>(SiteId::alpha), registers<Scores>(SiteId::p),
      registers<RowValue>(SiteId::l), registers<Output>(SiteId::o), global<T>(SiteId::o_final),
      global<float>(SiteId::lse));

  /// The element of the tile that a register stands for.
  static constexpr device::Coordinate coordinate(SiteId, int warp, int lane, int reg) {
    return {warp * 32 + lane, reg};
  }
  /// The thread that wrote an element of shared memory: there is none.
  static constexpr int owner(SiteId, int, int) { return -1; }
};

template <Gate G, class T, int D, int Br, int Bc>
struct Mine {
  using Sites = MineSites<T, D, Br, Bc>;
  using Scores = typename Sites::Scores;
  using RowValue = typename Sites::RowValue;
  using Output = typename Sites::Output;
  static constexpr int threads = Sites::threads;
  static constexpr Products products = Products::fp32_fma;
  struct SharedMemory {};

  /// S = Q·Kᵀ · scale · log2(e), −inf where the row does not see the key.
  LANESCOPE_DEVICE static void qk(const Attention& a, const T* q, const T* k, int query,
                                  int first_key, Scores& s) {
    for (int j = 0; j < Bc; ++j) {
      s[j] = device::minus_infinity;
      if (query >= a.len_q || !visible(a, query, first_key + j)) continue;
      float dot = 0.0f;
      for (int d = 0; d < D; ++d) {
        dot = device::fma(device::widen(q[std::int64_t{query} * D + d]),
                          device::widen(k[std::int64_t{first_key + j} * D + d]), dot);
      }
      s[j] = dot * a.scale_log2;
    }
  }

  /// m = max(m_prev, max_j S_j)   alpha = 2^(m_prev − m)   P_j = 2^(S_j − m)   l = l·alpha + Σ P_j
  LANESCOPE_DEVICE static void softmax(const Scores& s, RowValue& m, RowValue& alpha, RowValue& l,
                                       Scores& p) {
    const float m_prev = m[0];
    for (int j = 0; j < Bc; ++j) m[0] = device::max(m[0], s[j]);
    alpha[0] = rescale(m_prev, m[0]);
    float sum = 0.0f;
    for (int j = 0; j < Bc; ++j) {
      p[j] = device::ex2(s[j] - shift_of(m[0]));
      sum = sum + p[j];
    }
    l[0] = device::fma(l[0], alpha[0], sum);
  }

  /// O = O·alpha + P·V
  LANESCOPE_DEVICE static void pv(const T* v, int keys, const Scores& p, const RowValue& alpha,
                                  Output& o) {
    for (int d = 0; d < D; ++d) o[d] = o[d] * alpha[0];
    for (int j = 0; j < keys; ++j) {
      for (int d = 0; d < D; ++d) o[d] = device::fma(p[j], device::widen(v[j * D + d]), o[d]);
    }
  }

  /// O / l and the log-sum-exp, to global memory.
  LANESCOPE_DEVICE static void epilogue(const Attention& a, std::int64_t row, const Output& o,
                                        const RowValue& m, const RowValue& l) {
    T* to = static_cast<T*>(a.o) + row * D;
    for (int d = 0; d < D; ++d) to[d] = device::narrow<T>(o[d] * inverse_sum(l[0]));
    a.lse[row] = log_sum_exp(m[0], l[0]);
  }

  template <class Trace>
  LANESCOPE_DEVICE static void run(const Attention& a, SharedMemory&,
                                   const Seam<G, Sites, Trace>& seam) {
    const Work work = work_of<Br, Bc>(a, seam.block);
    const int query = work.q_begin + device::thread();
    const T* q = rows_of<T, D>(a.q, work.batch, a.heads, work.head, a.len_q);
    const T* k = rows_of<T, D>(a.k, work.batch, a.heads_kv, work.head_kv, a.len_kv);
    const T* v = rows_of<T, D>(a.v, work.batch, a.heads_kv, work.head_kv, a.len_kv);
    Scores s{}, p{};
    RowValue m{{device::minus_infinity}}, alpha{}, l{};
    Output o{};

    for (int tile = 0; tile < work.tiles; ++tile) {
      const int first_key = tile * Bc;
      const int keys = a.len_kv - first_key < Bc ? a.len_kv - first_key : Bc;
      if constexpr (runs<G, Stage::qk>) qk(a, q, k, query, first_key, s);
      seam(tile, site::s(s));

      if constexpr (runs<G, Stage::softmax>) softmax(s, m, alpha, l, p);
      seam(tile, site::m(m), site::alpha(alpha), site::p(p), site::l(l));

      if constexpr (runs<G, Stage::pv>) pv(v + std::int64_t{first_key} * D, keys, p, alpha, o);
      seam(tile, site::o(o));
    }
    if constexpr (runs<G, Stage::epilogue>) {
      if (query < a.len_q) epilogue(a, row_index(a, work, query), o, m, l);
    }
  }
};

}  // namespace lanescope::kernels
