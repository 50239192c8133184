#pragma once

// A kernel outside the tree that the lab can look into: it names its sites, and passes each through
// `seam` (where a gate gives or takes a value) and `trace`. One thread per query row, all of it in
// registers.

#include "gates/seam.h"
#include "kernels/attention.h"
#include "kernels/device/fragments.h"
#include "kernels/online_softmax.h"

namespace lanescope::kernels {

/// What it lets be traced: a lane of warp w holds row 32·w + lane, register r is column r.
template <class T, int D, int Br, int Bc>
struct MineSites {
  static constexpr int threads = Br, warps = Br / 32;
  static constexpr auto f32 = ElementType::f32;
  static constexpr auto in_registers = Space::registers;
  static constexpr Site table[] = {
      {SiteId::s, Stage::qk, in_registers, f32, Axes::query_key, true, Br, Bc, warps, Bc},
      {SiteId::m, Stage::softmax, in_registers, f32, Axes::query, true, Br, 1, warps, 1},
      {SiteId::alpha, Stage::softmax, in_registers, f32, Axes::query, true, Br, 1, warps, 1},
      {SiteId::p, Stage::softmax, in_registers, f32, Axes::query_key, true, Br, Bc, warps, Bc},
      {SiteId::l, Stage::softmax, in_registers, f32, Axes::query, true, Br, 1, warps, 1},
      {SiteId::o, Stage::pv, in_registers, f32, Axes::query_d, true, Br, D, warps, D},
      {SiteId::o_final, Stage::epilogue, Space::global, T::type, Axes::query_d, false, Br, D, 0, 0},
      {SiteId::lse, Stage::epilogue, Space::global, f32, Axes::query, false, Br, 1, 0, 0},
  };
  static constexpr int count = sizeof(table) / sizeof(table[0]);
  static constexpr device::Coordinate coordinate(SiteId, int warp, int lane, int reg) {
    return {warp * 32 + lane, reg};
  }
  static constexpr int owner(SiteId, int, int) { return -1; }  // of shared memory: there is none
};

template <Gate G, class T, int D, int Br, int Bc>
struct Mine {
  using Sites = MineSites<T, D, Br, Bc>;
  static constexpr int threads = Sites::threads;
  static constexpr Products products = Products::fp32_fma;
  struct SharedMemory {};

  template <class Trace>
  LANESCOPE_DEVICE static void run(const Attention& a, SharedMemory&, const Seam<G, Sites>& seam,
                                   const Trace& trace) {
    const Work work = work_of<Br, Bc>(a, seam.block);
    const int query = work.q_begin + device::thread();
    const bool exists = query < a.len_q;
    const T* q = rows_of<T, D>(a.q, work.batch, a.heads, work.head, a.len_q) +
                 std::int64_t{exists ? query : 0} * D;
    const T* k = rows_of<T, D>(a.k, work.batch, a.heads_kv, work.head_kv, a.len_kv);
    const T* v = rows_of<T, D>(a.v, work.batch, a.heads_kv, work.head_kv, a.len_kv);
    device::Registers<float, 1> m{{device::minus_infinity}}, alpha{}, l{};
    device::Registers<float, D> o{};

    for (int tile = 0; tile < work.tiles; ++tile) {
      const int first = tile * Bc, keys = a.len_kv - first < Bc ? a.len_kv - first : Bc;
      device::Registers<float, Bc> s{};
      if constexpr (runs<G, Stage::qk>) {
        s.fill(device::minus_infinity);
        for (int j = 0; j < keys; ++j) {
          const T* k_row = k + std::int64_t{first + j} * D;
          float dot = 0.0f;
          for (int d = 0; d < D; ++d) {
            dot = device::fma(device::widen(q[d]), device::widen(k_row[d]), dot);
          }
          if (visible(a, query, first + j)) s[j] = dot * a.scale_log2;
        }
      }
      seam.take(site::s, tile, s);
      seam.leave(site::s, tile, s);
      trace(site::s, tile, s);

      auto& p = s;  // in the place of S
      if constexpr (runs<G, Stage::softmax>) {
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
      seam.take(site::alpha, tile, alpha);
      seam.take(site::p, tile, p);
      seam.leave(site::m, tile, m);
      seam.leave(site::alpha, tile, alpha);
      seam.leave(site::p, tile, p);
      seam.leave(site::l, tile, l);
      trace(site::m, tile, m);
      trace(site::alpha, tile, alpha);
      trace(site::p, tile, p);
      trace(site::l, tile, l);

      if constexpr (runs<G, Stage::pv>) {
        for (int d = 0; d < D; ++d) o[d] = o[d] * alpha[0];
        for (int j = 0; j < keys; ++j) {
          const T* v_row = v + std::int64_t{first + j} * D;
          for (int d = 0; d < D; ++d) o[d] = device::fma(p[j], device::widen(v_row[d]), o[d]);
        }
      }
      seam.leave(site::o, tile, o);
      trace(site::o, tile, o);
    }

    if constexpr (runs<G, Stage::epilogue>) {
      if (!exists) return;
      const std::int64_t row = row_index(a, work, query);
      T* to = static_cast<T*>(a.o) + row * D;
      for (int d = 0; d < D; ++d) to[d] = device::narrow<T>(o[d] * inverse_sum(l[0]));
      a.lse[row] = log_sum_exp(m[0], l[0]);
    }
  }
};

}  // namespace lanescope::kernels
