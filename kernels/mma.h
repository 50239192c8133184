#pragma once

#include "kernels/parts/arguments.h"
#include "kernels/parts/mma_epilogue.h"
#include "kernels/parts/mma_site_table.h"
#include "kernels/parts/mma_stages.h"
#include "kernels/parts/mma_tile_loop.h"
#include "kernels/trace/seam.h"

namespace lanescope::kernels {

/// What the `mma` kernel lets be traced.
template <class T, int D, int Br, int Bc>
struct MmaSites : MmaStages<T, D, Br, Bc, 4> {
  using Stages = MmaStages<T, D, Br, Bc, 4>;
  static constexpr auto table = mma_site_table<Stages>(
      alpha_of<Stages>(), global<T>(SiteId::o_final), global<float>(SiteId::lse));
};

/// FlashAttention-2 on mma.sync.m16n8k16 (kernels/parts/mma_stages.h), four warps over the query
/// rows, K and V double-buffered.
template <Gate G, class T, int D, int Br, int Bc>
struct Mma : MmaStages<T, D, Br, Bc, 4> {
  using Epilogue = MmaEpilogue<MmaStages<T, D, Br, Bc, 4>>;
  using Sites = MmaSites<T, D, Br, Bc>;
  using Stages = MmaStages<T, D, Br, Bc, 4>;
  using Loop = MmaTileLoop<G, Stages, Mask, 2>;
  using SharedMemory = typename Loop::SharedMemory;
  using typename Stages::Output;
  using typename Stages::Rows;
  static constexpr Products products = Products::tensor_core;

  template <class Trace>
  LANESCOPE_DEVICE static void run(const Attention& a, SharedMemory& smem,
                                   const Seam<G, Sites, Trace>& seam) {
    const Work work = work_of<Br, Bc>(a, seam.block);
    Loop::run(
        a, work, TilesFromStart{work.tiles}, smem, seam,
        [&](Output& o, const Rows& m, const Rows& l) { Epilogue::run(a, work, o, m, l, seam); });
  }
};

}  // namespace lanescope::kernels
