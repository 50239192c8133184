#pragma once

#include "kernels/parts/arguments.h"
#include "kernels/parts/mma_epilogue.h"
#include "kernels/parts/wgmma_stages.h"
#include "kernels/trace/seam.h"
#include "kernels/trace/site_table.h"

namespace lanescope::kernels {

/// What the `wgmma` kernel lets be traced: the values of its consumers.
template <class T, int D, int Br, int Bc>
struct WgmmaSites : WgmmaStages<T, D, Br, Bc> {
  using Stages = WgmmaStages<T, D, Br, Bc>;
  using typename Stages::Output;
  using typename Stages::Rows;
  using typename Stages::Scores;
  using typename Stages::Weights;
  static constexpr auto table = site_table<D, Br, Bc, Stages::threads>(
      shared<T>(SiteId::q_smem), shared<T>(SiteId::k_smem), shared<T>(SiteId::v_smem),
      unscaled(registers<Scores>(SiteId::s)), registers<Rows>(SiteId::m_prev),
      registers<Rows>(SiteId::m), registers<Rows>(SiteId::alpha), registers<Weights, T>(SiteId::p),
      registers<Rows>(SiteId::l), registers<Output>(SiteId::o), global<T>(SiteId::o_final),
      global<float>(SiteId::lse));
};

/// FlashAttention-3, warp-specialised (Shah et al. 2024, Algorithm 1): one warp has the tensor
/// memory accelerator fill a ring of K and V tiles in shared memory, the warpgroups before it
/// consume them, 64 query rows each. mbarriers tell who may go on: a tile is `full` when its bytes
/// have come, `empty` when every consuming warp is done with it.
template <Gate G, class T, int D, int Br, int Bc>
struct Wgmma : WgmmaStages<T, D, Br, Bc> {
  using Sites = WgmmaSites<T, D, Br, Bc>;
  using Stages = WgmmaStages<T, D, Br, Bc>;
  using typename Stages::Keys;
  using typename Stages::Output;
  using typename Stages::Queries;
  using typename Stages::Rows;
  using typename Stages::Scores;
  using typename Stages::Weights;
  static constexpr Products products = Products::tensor_core;
  static constexpr int warpgroups = Br / 64;          ///< that consume
  static constexpr int consumers = Stages::threads;   ///< threads
  static constexpr int threads = consumers + 4 * 32;  ///< a warpgroup more, of which one warp works
  static constexpr int blocks_per_multiprocessor = 1;
  static constexpr int ring = 2;  ///< tiles of K and of V

  /// What the copies know of Q, K and V, made by the host.
  struct Arguments : Attention {
    device::TensorMap q_map, k_map, v_map;
  };
  static const char* prepare(Arguments& a) {
    const char* error = rows_map<Queries>(a.q_map, a.q, a.len_q, a.batch * a.heads);
    if (!error) error = rows_map<Keys>(a.k_map, a.k, a.len_kv, a.batch * a.heads_kv);
    if (!error) error = rows_map<Keys>(a.v_map, a.v, a.len_kv, a.batch * a.heads_kv);
    return error;
  }

  struct SharedMemory {
    Queries q;
    Keys k[ring];
    Keys v[ring];
    device::Mbarrier q_full[1], k_full[ring], k_empty[ring], v_full[ring], v_empty[ring];

    /// Tells the memory checker the names of its tiles.
    template <class Visit>
    void name_tiles(Visit&& visit) {
      visit("q", q);
      visit("k[0]", k[0]);
      visit("k[1]", k[1]);
      visit("v[0]", v[0]);
      visit("v[1]", v[1]);
      visit("q_full", q_full);
      visit("k_full", k_full);
      visit("k_empty", k_empty);
      visit("v_full", v_full);
      visit("v_empty", v_empty);
    }
  };

  /// Visits of a ring: the first goes round 0, the next `ring` tiles later round 1, and so on.
  LANESCOPE_DEVICE static int parity(int tile) { return tile / ring % 2; }

  LANESCOPE_DEVICE static void init_barriers(SharedMemory& smem) {
    device::mbarrier_init(smem.q_full[0], 1);
    LANESCOPE_UNROLL
    for (int i = 0; i < ring; ++i) {
      device::mbarrier_init(smem.k_full[i], 1);
      device::mbarrier_init(smem.v_full[i], 1);
      device::mbarrier_init(smem.k_empty[i], Stages::warps);
      device::mbarrier_init(smem.v_empty[i], Stages::warps);
    }
    device::fence_mbarrier_init();
  }

  /// tile ← its rows from `first` on of a head, zeros beyond the end; `full` counts their bytes.
  template <class TileType>
  LANESCOPE_DEVICE static void load(const device::TensorMap& map, int first, int head,
                                    TileType& tile, device::Mbarrier& full) {
    device::mbarrier_arrive_expect_tx(full, TileType::bytes);
    LANESCOPE_UNROLL
    for (int box = 0; box < TileType::boxes; ++box) {
      device::tensor_load(&tile.x[box][0][0], map, {box * TileType::box_cols, first, head}, full);
    }
  }

  /// The producer, one lane: K and V of every tile, each as soon as its place is empty, in the
  /// order in which they are used. Q comes behind the first K.
  LANESCOPE_DEVICE static void produce(const Arguments& a, const Work& work, SharedMemory& smem) {
    const int head = work.batch * a.heads + work.head;
    const int head_kv = work.batch * a.heads_kv + work.head_kv;
    const auto load_k = [&](int tile) {
      const int slot = tile % ring;
      device::mbarrier_wait(smem.k_empty[slot], parity(tile) ^ 1);
      load(a.k_map, tile * Bc, head_kv, smem.k[slot], smem.k_full[slot]);
    };
    const auto load_v = [&](int tile) {
      const int slot = tile % ring;
      device::mbarrier_wait(smem.v_empty[slot], parity(tile) ^ 1);
      load(a.v_map, tile * Bc, head_kv, smem.v[slot], smem.v_full[slot]);
    };
    if (work.tiles == 0) return;
    if constexpr (runs<G, Stage::qk>) {
      load_k(0);
      load(a.q_map, work.q_begin, head, smem.q, smem.q_full[0]);
    }
    for (int tile = 0; tile < work.tiles; ++tile) {
      if constexpr (runs<G, Stage::qk>) {
        if (tile + 1 < work.tiles) load_k(tile + 1);
      }
      if constexpr (runs<G, Stage::pv>) load_v(tile);
    }
  }

  /// The warpgroups issue their products by turns, so that one multiplies while another's softmax
  /// runs: barrier 1 + i is the turn of warpgroup i, which the one before it gives.
  LANESCOPE_DEVICE static void take_turn() {
    if constexpr (warpgroups > 1) device::barrier_sync(1 + device::warp() / 4, 2 * 128);
  }
  LANESCOPE_DEVICE static void pass_turn() {
    if constexpr (warpgroups > 1) {
      device::barrier_arrive(1 + (device::warp() / 4 + 1) % warpgroups, 2 * 128);
    }
  }

  /// Groups of products that a tile's P·V is.
  static constexpr int groups_of_output = runs<G, Stage::pv> ? 1 : 0;

  /// The calling warp has done with a tile.
  LANESCOPE_DEVICE static void release(device::Mbarrier& empty) {
    device::warp_sync();  // all its lanes have
    if (device::lane() == 0) device::mbarrier_arrive(empty);
  }

  /// What a lane of a consuming warpgroup holds, and the steps of a tile.
  template <class Seam>
  struct Consumer {
    const Attention& a;
    const Mask mask;
    SharedMemory& smem;
    const Seam& seam;
    Scores s;
    Weights p;
    Rows m, alpha, l;
    Output o;

    LANESCOPE_DEVICE Consumer(const Attention& attention, const Work& work, SharedMemory& memory,
                              const Seam& seam_of_block)
        : a(attention), mask{attention, work.q_begin}, smem(memory), seam(seam_of_block) {
      m.fill(device::minus_infinity);
      l.fill(0.0f);
      o.fill(0.0f);
    }

    /// Issues S = Q·Kᵀ.
    LANESCOPE_DEVICE void start_scores(int tile) {
      Keys& k = smem.k[tile % ring];
      if constexpr (runs<G, Stage::qk>) {
        device::mbarrier_wait(smem.k_full[tile % ring], parity(tile));
      }
      seam(tile, site::k_smem(k));
      if constexpr (runs<G, Stage::qk>) Stages::start_qk(smem.q, k, s);
    }
    /// S is there.
    LANESCOPE_DEVICE void finish_scores(int tile) {
      device::pin(s);
      if constexpr (runs<G, Stage::qk>) {
        release(smem.k_empty[tile % ring]);
        Stages::mask_scores(mask, tile * Bc, s);
      }
      seam(tile, site::s(s), site::m_prev(m));
    }
    /// The softmax, P in S's registers.
    LANESCOPE_DEVICE void weigh() {
      if constexpr (runs<G, Stage::softmax>) Stages::softmax(a.scale_log2, s, m, alpha, l);
    }
    /// P is what the next product takes, O what it adds to.
    LANESCOPE_DEVICE void keep_weights(int tile) {
      if constexpr (runs<G, Stage::softmax>) Stages::pack_weights(s, p);
      seam(tile, site::m(m), site::alpha(alpha), site::p(p), site::l(l));
      if constexpr (runs<G, Stage::pv>) Stages::rescale_output(alpha, o);
    }
    /// Issues O = O + P·V.
    LANESCOPE_DEVICE void start_output(int tile) {
      Keys& v = smem.v[tile % ring];
      if constexpr (runs<G, Stage::pv>) {
        device::mbarrier_wait(smem.v_full[tile % ring], parity(tile));
      }
      seam(tile, site::v_smem(v));
      if constexpr (runs<G, Stage::pv>) Stages::start_pv(p, v, o);
    }
    /// O is there.
    LANESCOPE_DEVICE void finish_output(int tile) {
      device::pin(o);
      if constexpr (runs<G, Stage::pv>) release(smem.v_empty[tile % ring]);
      seam(tile, site::o(o));
    }
  };

  /// A consuming warpgroup: the online softmax over the tiles. Q·Kᵀ of a tile and P·V of the one
  /// before are issued together, so that P·V runs while the softmax does.
  template <class Seam>
  LANESCOPE_DEVICE static void consume(const Attention& a, const Work& work, SharedMemory& smem,
                                       const Seam& seam) {
    Consumer<Seam> c(a, work, smem, seam);
    if (work.tiles > 0) {
      if constexpr (runs<G, Stage::qk>) device::mbarrier_wait(smem.q_full[0], 0);
      seam(0, site::q_smem(smem.q));
      if (device::warp() / 4 == warpgroups - 1) pass_turn();  // to the first
      take_turn();
      c.start_scores(0);
      pass_turn();
      device::wgmma_wait<0>();
      c.finish_scores(0);
      c.weigh();
      c.keep_weights(0);
    }
    for (int tile = 1; tile < work.tiles; ++tile) {
      take_turn();
      c.start_scores(tile);
      c.start_output(tile - 1);
      pass_turn();
      device::wgmma_wait<groups_of_output>();
      c.finish_scores(tile);
      c.weigh();
      device::wgmma_wait<0>();
      c.finish_output(tile - 1);
      c.keep_weights(tile);
    }
    if (work.tiles > 0) {
      c.start_output(work.tiles - 1);
      device::wgmma_wait<0>();
      c.finish_output(work.tiles - 1);
    }
    if constexpr (runs<G, Stage::epilogue>) MmaEpilogue<Stages>::run(a, work, c.o, c.m, c.l, seam);
  }

  template <class Trace>
  LANESCOPE_DEVICE static void run(const Arguments& a, SharedMemory& smem,
                                   const Seam<G, Sites, Trace>& seam) {
    const Work work = work_of<Br, Bc>(a, seam.block);
    if (device::thread() == 0) init_barriers(smem);
    device::block_sync();  // the barriers are there
    if (device::thread() < consumers) {
      if constexpr (warpgroups > 1) device::increase_registers<warpgroups == 2 ? 240 : 160>();
      consume(a, work, smem, seam);
    } else {
      if constexpr (warpgroups > 1) device::decrease_registers<warpgroups == 2 ? 24 : 32>();
      if (device::warp() == Stages::warps && device::elect_one()) produce(a, work, smem);
    }
  }

 private:
  /// The rows of a tensor [heads, len, D], in boxes of a tile's rows and 128 bytes.
  template <class TileType>
  static const char* rows_map(device::TensorMap& map, const void* base, int len, int heads) {
    constexpr std::int64_t row_bytes = D * sizeof(T);
    return device::make_tensor_map<T>(map, base, {D, len, heads}, {row_bytes, row_bytes * len},
                                      {TileType::box_cols, TileType::rows, 1},
                                      device::Swizzle::b128);
  }
};

}  // namespace lanescope::kernels
