#pragma once

#include "kernels/parts/arguments.h"
#include "kernels/parts/mma_epilogue.h"
#include "kernels/parts/ring.h"
#include "kernels/parts/wgmma_stages.h"
#include "kernels/parts/work_items.h"
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
      registers<Rows>(SiteId::m),
      rescaled_above(Stages::rescale_above, registers<Rows>(SiteId::alpha)),
      registers<Weights, T>(SiteId::p), registers<Rows>(SiteId::l), registers<Output>(SiteId::o),
      global<T>(SiteId::o_final), global<float>(SiteId::lse));
};

/// FlashAttention-3, warp-specialised (Shah et al. 2024, Algorithm 1): one warp has the tensor
/// memory accelerator fill a ring of K and V tiles in shared memory, the warpgroups before it
/// consume them, 64 query rows each. mbarriers tell who may go on: a tile is `full` when its bytes
/// have come, `empty` when every consuming warp is done with it. Blocks are persistent: each takes
/// one work item after the other (kernels/parts/work_items.h).
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
  static constexpr bool is_persistent = true;
  static constexpr int ring = D == 64 ? 4 : 2;  ///< tiles of K and of V

  /// What the copies know of Q, K and V, and the order of the work, made by the host.
  struct Arguments : Attention {
    device::TensorMap q_map, k_map, v_map;
    int section;  ///< heads whose items are taken by turns
  };
  static const char* prepare(Arguments& a) {
    a.section = heads_of_section(a, D * sizeof(T));
    const char* error = rows_map<Queries>(a.q_map, a.q, a.len_q, a.batch * a.heads);
    if (!error) error = rows_map<Keys>(a.k_map, a.k, a.len_kv, a.batch * a.heads_kv);
    if (!error) error = rows_map<Keys>(a.v_map, a.v, a.len_kv, a.batch * a.heads_kv);
    return error;
  }

  struct SharedMemory {
    Queries q;
    Keys k[ring];
    Keys v[ring];
    device::Mbarrier q_full[1], q_empty[1];
    device::Mbarrier k_full[ring], k_empty[ring], v_full[ring], v_empty[ring];
    device::Mbarrier item_full[1], item_empty[1];
    Item item[1];  ///< that the block works on next

    /// Tells the memory checker the names of its tiles.
    template <class Visit>
    void name_tiles(Visit&& visit) {
      constexpr const char* names[][2] = {
          {"k[0]", "v[0]"}, {"k[1]", "v[1]"}, {"k[2]", "v[2]"}, {"k[3]", "v[3]"}};
      static_assert(ring <= 4);
      visit("q", q);
      for (int i = 0; i < ring; ++i) {
        visit(names[i][0], k[i]);
        visit(names[i][1], v[i]);
      }
      visit("q_full", q_full);
      visit("q_empty", q_empty);
      visit("k_full", k_full);
      visit("k_empty", k_empty);
      visit("v_full", v_full);
      visit("v_empty", v_empty);
      visit("item_full", item_full);
      visit("item_empty", item_empty);
      visit("item", item);
    }
  };

  LANESCOPE_DEVICE static void init_barriers(SharedMemory& smem) {
    device::mbarrier_init(smem.q_full[0], 1);
    device::mbarrier_init(smem.q_empty[0], Stages::warps);
    device::mbarrier_init(smem.item_full[0], 1);
    device::mbarrier_init(smem.item_empty[0], Stages::warps);
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

  /// The producer, one lane: says which item is next, and copies K and V of every tile, each as
  /// soon as its place is empty, in the order in which they are used. Q comes behind the first K.
  /// An item is asked for behind the last load of the one before: whoever is slow asks late.
  LANESCOPE_DEVICE static void produce(const Arguments& a, SharedMemory& smem) {
    Ring<ring> k, v;
    Ring<1> q, next;
    const int items = item_count<Br>(a), blocks = static_cast<int>(device::block_count());
    int index = static_cast<int>(device::block());
    while (true) {
      const Item item = index < items ? item_of<Br, Bc>(a, a.section, index) : Item{};
      const Work& work = item.work;
      const int head = work.batch * a.heads + work.head;
      const int head_kv = work.batch * a.heads_kv + work.head_kv;
      const auto load_k = [&](int tile) {
        device::mbarrier_wait(smem.k_empty[k.slot], k.parity ^ 1);
        load(a.k_map, tile * Bc, head_kv, smem.k[k.slot], smem.k_full[k.slot]);
        k.advance();
      };
      const auto load_v = [&](int tile) {
        device::mbarrier_wait(smem.v_empty[v.slot], v.parity ^ 1);
        load(a.v_map, tile * Bc, head_kv, smem.v[v.slot], smem.v_full[v.slot]);
        v.advance();
      };
      if constexpr (runs<G, Stage::qk>) {
        if (work.tiles > 0) {
          load_k(0);
          device::mbarrier_wait(smem.q_empty[0], q.parity ^ 1);
          load(a.q_map, work.q_begin, head, smem.q, smem.q_full[0]);
          q.advance();
        }
      }
      device::mbarrier_wait(smem.item_empty[0], next.parity ^ 1);
      smem.item[0] = item;
      device::mbarrier_arrive(smem.item_full[0]);
      next.advance();
      if (index >= items) return;
      for (int tile = 0; tile < work.tiles; ++tile) {
        if constexpr (runs<G, Stage::qk>) {
          if (tile + 1 < work.tiles) load_k(tile + 1);
        }
        if constexpr (runs<G, Stage::pv>) load_v(tile);
      }
      // All items but the first of each block are asked for, and each block asks once in vain.
      index = blocks + device::next_ticket(items);
    }
  }

  /// The warpgroups issue their products by turns, so that one multiplies while another's softmax
  /// runs: barrier 1 + i is the turn of warpgroup i, which the one before it gives.
  LANESCOPE_DEVICE static void take_turn(int warpgroup) {
    if constexpr (warpgroups > 1) device::barrier_sync(1 + warpgroup, 2 * 128);
  }
  LANESCOPE_DEVICE static void pass_turn(int warpgroup) {
    if constexpr (warpgroups > 1) {
      device::barrier_arrive(1 + (warpgroup + 1) % warpgroups, 2 * 128);
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
    SharedMemory& smem;
    int warpgroup;
    Ring<ring> k, v;  ///< the tile of K whose scores come next, and the one of V
    Ring<1> q, next;
    Scores s;
    Weights p;
    Rows m, alpha, l;  ///< l: of the lane's columns
    Output o;
    bool rises;  ///< the m of a row of the warp, at this tile

    LANESCOPE_DEVICE Consumer(const Attention& attention, SharedMemory& memory, int own_warpgroup)
        : a(attention), smem(memory), warpgroup(own_warpgroup) {}

    /// The tiles that the gate has copied: Q, K and V are there, and may be overwritten.
    LANESCOPE_DEVICE void wait_for_queries() {
      if constexpr (runs<G, Stage::qk>) {
        device::mbarrier_wait(smem.q_full[0], q.parity);
        q.advance();
      }
    }
    LANESCOPE_DEVICE void leave_queries() {
      if constexpr (runs<G, Stage::qk>) release(smem.q_empty[0]);
    }
    LANESCOPE_DEVICE void wait_for_keys() {
      if constexpr (runs<G, Stage::qk>) device::mbarrier_wait(smem.k_full[k.slot], k.parity);
    }
    LANESCOPE_DEVICE void leave_keys() {
      if constexpr (runs<G, Stage::qk>) {
        release(smem.k_empty[k.slot]);
        k.advance();
      }
    }
    LANESCOPE_DEVICE void wait_for_values() {
      if constexpr (runs<G, Stage::pv>) device::mbarrier_wait(smem.v_full[v.slot], v.parity);
    }
    LANESCOPE_DEVICE void leave_values() {
      if constexpr (runs<G, Stage::pv>) {
        release(smem.v_empty[v.slot]);
        v.advance();
      }
    }
    /// Issues S = Q·Kᵀ.
    LANESCOPE_DEVICE void start_scores(const Seam& seam, int tile) {
      seam(tile, site::k_smem(smem.k[k.slot]));
      if constexpr (runs<G, Stage::qk>) Stages::start_qk(warpgroup, smem.q, smem.k[k.slot], s);
    }
    /// S is there.
    LANESCOPE_DEVICE void finish_scores(const Seam& seam, const Mask& mask, int whole, int tile) {
      device::pin(s);
      leave_keys();
      if constexpr (runs<G, Stage::qk>) {
        if (tile >= whole) Stages::mask_scores(mask, tile * Bc, s);
      }
      seam(tile, site::s(s), site::m_prev(m));
    }
    /// m and alpha of the tile. The warp that has to rescale O needs it now: without this branch,
    /// ptxas would have all warps wait before they look for the maximum.
    LANESCOPE_DEVICE void raise_maximum() {
      if constexpr (runs<G, Stage::softmax>) {
        rises = Stages::raise_maximum(a.scale_log2, s, m, alpha);
        if (rises) {
          device::wgmma_wait<0>();
          device::pin(o);
        }
      }
    }
    /// P and l; O is then in the units of the new maximum.
    LANESCOPE_DEVICE void weigh(const Seam& seam, int tile) {
      if constexpr (runs<G, Stage::softmax>) Stages::weigh(a.scale_log2, s, m, alpha, l, p);
      Rows row_l = l;
      if constexpr (Seam::template shows<SiteId::l>) row_l = Stages::row_sums(l);
      seam(tile, site::m(m), site::alpha(alpha), site::p(p), site::l(row_l));
      if constexpr (runs<G, Stage::pv>) {
        if constexpr (!runs<G, Stage::softmax>) rises = Stages::rescales(alpha);
        if (rises) Stages::rescale_output(alpha, o);
      }
    }
    /// Issues O = O + P·V.
    LANESCOPE_DEVICE void start_output(const Seam& seam, int tile) {
      wait_for_values();
      seam(tile, site::v_smem(smem.v[v.slot]));
      if constexpr (runs<G, Stage::pv>) Stages::start_pv(p, smem.v[v.slot], o);
    }
    /// O is there.
    LANESCOPE_DEVICE void finish_output(const Seam& seam, int tile) {
      device::wgmma_wait<0>();
      device::pin(o);
      leave_values();
      seam(tile, site::o(o));
    }

    /// The online softmax over the tiles of an item. Q·Kᵀ of a tile and P·V of the one before are
    /// issued together, so that P·V runs while the softmax does.
    LANESCOPE_DEVICE void run(const Work& work, const Seam& seam) {
      const Mask mask{a, work.q_begin};
      const int whole = Stages::whole_tiles(warpgroup, mask);
      m.fill(device::minus_infinity);
      l.fill(0.0f);
      o.fill(0.0f);
      if (work.tiles > 0) {
        wait_for_queries();
        seam(0, site::q_smem(smem.q));
        wait_for_keys();
        start_scores(seam, 0);
        device::wgmma_wait<0>();
        finish_scores(seam, mask, whole, 0);
        raise_maximum();
        weigh(seam, 0);
        for (int tile = 1; tile < work.tiles; ++tile) {
          wait_for_keys();
          take_turn(warpgroup);
          start_scores(seam, tile);
          start_output(seam, tile - 1);
          pass_turn(warpgroup);
          device::wgmma_wait<groups_of_output>();
          finish_scores(seam, mask, whole, tile);
          raise_maximum();
          finish_output(seam, tile - 1);
          weigh(seam, tile);
        }
        leave_queries();
        start_output(seam, work.tiles - 1);
        finish_output(seam, work.tiles - 1);
      }
      if constexpr (runs<G, Stage::epilogue>) {
        MmaEpilogue<Stages>::run(a, work, o, m, Stages::row_sums(l), seam);
      }
    }
    /// An item that ends before the warpgroup's rows: its tiles go by.
    LANESCOPE_DEVICE void pass_over(const Work& work, const Seam& seam) {
      if (work.tiles == 0) return;
      wait_for_queries();
      seam(0, site::q_smem(smem.q));
      leave_queries();
      for (int tile = 0; tile < work.tiles; ++tile) {
        wait_for_keys();
        if (tile > 0) {
          take_turn(warpgroup);
          pass_turn(warpgroup);
        }
        seam(tile, site::k_smem(smem.k[k.slot]));
        leave_keys();
        wait_for_values();
        seam(tile, site::v_smem(smem.v[v.slot]));
        leave_values();
      }
    }
    /// What the producer says is next.
    LANESCOPE_DEVICE Item next_item() {
      device::mbarrier_wait(smem.item_full[0], next.parity);
      next.advance();
      const Item item = smem.item[0];
      release(smem.item_empty[0]);
      return item;
    }
  };

  /// A consuming warpgroup.
  template <class Seam>
  LANESCOPE_DEVICE static void consume(const Arguments& a, int warpgroup, SharedMemory& smem,
                                       const Seam& seam) {
    Consumer<Seam> c(a, smem, warpgroup);
    if (warpgroup == warpgroups - 1) pass_turn(warpgroup);  // to the first
    for (Item item = c.next_item(); item.block >= 0; item = c.next_item()) {
      const bool has_rows = item.work.q_begin + warpgroup * 64 < a.len_q;
      if (has_rows) {
        c.run(item.work, seam.of(item.block));
      } else {
        c.pass_over(item.work, seam.of(item.block));
      }
    }
    if (warpgroup == 0) take_turn(warpgroup);  // that the last one passed
  }

  template <class Trace>
  LANESCOPE_DEVICE static void run(const Arguments& a, SharedMemory& memory,
                                   const Seam<G, Sites, Trace>& seam) {
    SharedMemory& smem = device::held(memory);
    if (device::thread() == 0) {
      device::prefetch(a.q_map);
      device::prefetch(a.k_map);
      device::prefetch(a.v_map);
      init_barriers(smem);
    }
    device::block_sync();  // the barriers are there
    const int warpgroup = device::warpgroup();
    if (warpgroup < warpgroups) {
      if constexpr (warpgroups > 1) device::increase_registers<warpgroups == 2 ? 240 : 160>();
      consume(a, warpgroup, smem, seam);
    } else {
      if constexpr (warpgroups > 1) device::decrease_registers<warpgroups == 2 ? 24 : 32>();
      if (device::warp() == Stages::warps && device::elect_one()) produce(a, smem);
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
