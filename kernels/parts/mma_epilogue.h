#pragma once

#include "kernels/parts/arguments.h"
#include "kernels/parts/mma_stages.h"
#include "kernels/parts/online_softmax.h"
#include "kernels/parts/scaled_inputs.h"
#include "kernels/trace/at_site.h"

namespace lanescope::kernels {

/// From the fragments of `Stages` (kernels/parts/mma_stages.h) to global memory.
template <class Stages>
struct MmaEpilogue {
  using T = device::OperandType<typename Stages::Element>;  ///< of the output
  using Output = typename Stages::Output;
  using Rows = typename Stages::Rows;
  static constexpr int D = Stages::head_dim, rows = Stages::rows;

  /// Row register r of O, in the output's type, to the row at `to` in global memory, where
  /// `exists`. The quad of a row holds its columns in pairs, by turns: of four n8 tiles, the lanes
  /// exchange them so that each stores the eight columns of one.
  LANESCOPE_DEVICE static void store_row(const Output& o, int r, bool exists, T* to) {
    const int lane = device::lane();
    LANESCOPE_UNROLL
    for (int nt = 0; nt < D / 8; nt += 4) {
      Chunk chunk;
      LANESCOPE_UNROLL
      for (int j = 0; j < 4; ++j) {
        chunk.pairs[j] =
            device::pack<T>(o.at(r / 2, nt + j, r % 2 * 2), o.at(r / 2, nt + j, r % 2 * 2 + 1));
      }
      transpose_quad(lane, chunk.pairs);
      if (exists) *reinterpret_cast<Chunk*>(to + (nt + lane % 4) * 8) = chunk;
    }
  }

  /// O / l, in V's scale, and the log-sum-exp, to global memory.
  template <class Work, class Seam>
  LANESCOPE_DEVICE static void run(const Attention& a, const Work& work, Output& o, const Rows& m,
                                   const Rows& l, const Seam& seam) {
    const int lane = device::lane();
    Rows inverse, lse;
    LANESCOPE_UNROLL
    for (int r = 0; r < rows; ++r) {
      inverse[r] = inverse_sum(l[r]);
      apply_scale_of_v(work, inverse[r]);
      lse[r] = log_sum_exp(m[r], l[r]);
    }
    LANESCOPE_UNROLL
    for (int i = 0; i < Output::count; ++i) {
      o[i] = o[i] * inverse[Stages::row_register(i)];
    }
    seam(0, site::o_final(o), site::lse(lse));
    LANESCOPE_UNROLL
    for (int r = 0; r < rows; ++r) {
      const int query = work.q_begin + Stages::row_of(device::warp(), lane, r);
      const bool exists = query < a.len_q;
      const std::int64_t row = row_index(a, work, query);
      store_row(o, r, exists, static_cast<T*>(a.o) + row * D);
      if (exists && lane % 4 == 0) a.lse[row] = lse[r];
    }
  }

 private:
  struct alignas(16) Chunk {
    std::uint32_t pairs[4];
  };

  /// x[j] of the quad's lane i ← x[i] of its lane j.
  LANESCOPE_DEVICE static void transpose_quad(int lane, std::uint32_t (&x)[4]) {
    LANESCOPE_UNROLL
    for (int step = 1; step < 4; step *= 2) {
      LANESCOPE_UNROLL
      for (int i = 0; i < 4; ++i) {
        if (i & step) continue;
        const bool is_low = (lane & step) == 0;
        const std::uint32_t got = device::shfl_xor(is_low ? x[i + step] : x[i], step);
        (is_low ? x[i + step] : x[i]) = got;
      }
    }
  }
};

}  // namespace lanescope::kernels
