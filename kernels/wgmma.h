#pragma once

#include "kernels/parts/arguments.h"
#include "kernels/parts/mma_site_table.h"
#include "kernels/parts/ring.h"
#include "kernels/parts/wgmma_consumer.h"
#include "kernels/parts/wgmma_memory.h"
#include "kernels/parts/wgmma_operands.h"
#include "kernels/parts/wgmma_stages.h"
#include "kernels/parts/work_items.h"
#include "kernels/trace/seam.h"

namespace lanescope::kernels {

/// What the `wgmma` kernel lets be traced: the values of its consumers.
template <class T, int D, int Br, int Bc>
struct WgmmaSites : WgmmaStages<T, D, Br, Bc> {
  using Stages = WgmmaStages<T, D, Br, Bc>;
  static constexpr auto table = mma_site_table<Stages>(
      rescaled(Stages::rescale, alpha_of<Stages>()),
      global<device::OperandType<T>>(SiteId::o_final), global<float>(SiteId::lse));
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
  using typename Stages::Queries;
  using Turn = Turns<Br / 64>;
  using SharedMemory = WgmmaMemory<Stages>;
  static constexpr Products products =
      Stages::transposes_values ? Products::tensor_core_e4m3 : Products::tensor_core;
  static constexpr int warpgroups = Br / 64;  ///< that consume
  using Transposer = ValueTransposer<Stages>;
  using Item = typename SharedMemory::Item;
  /// A warpgroup more: one warp copies, those behind it transpose V where the products ask for it.
  static constexpr int threads = Stages::threads + 4 * 32;
  static constexpr int blocks_per_multiprocessor = 1;
  static constexpr bool is_persistent = true;

  /// What the copies know of Q, K and V, and the order of the work, made by the host.
  struct Arguments : AttentionOf<T> {
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
    Ring<SharedMemory::places_of_k> k;
    Ring<SharedMemory::places_of_v> v;
    Ring<SharedMemory::places_of_q> q;
    Ring<2> next;
    const int items = item_count<Br>(a), blocks = static_cast<int>(device::block_count());
    int index = static_cast<int>(device::block());
    while (true) {
      const Item item = index < items ? item_of<Br, Bc>(a, a.section, index) : Item{};
      const auto& work = item.work;
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
          device::mbarrier_wait(smem.q_empty[q.slot], q.parity ^ 1);
          load(a.q_map, work.q_begin, head, smem.q[q.slot], smem.q_full[q.slot]);
          q.advance();
        }
      }
      device::mbarrier_wait(smem.item_empty[next.slot], next.parity ^ 1);
      smem.item[next.slot] = item;
      device::mbarrier_arrive(smem.item_full[next.slot]);
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

  /// A consuming warpgroup.
  template <class Seam>
  LANESCOPE_DEVICE static void consume(const Arguments& a, int warpgroup, SharedMemory& smem,
                                       const Seam& seam) {
    WgmmaConsumer<G, Stages, Seam> c(a, smem, warpgroup);
    if (warpgroup == warpgroups - 1) Turn::pass(warpgroup);  // to the first
    const Item* item = &c.next_item();
    while (item->block >= 0)
      item = c.has_scores(*item) ? &c.run(*item, seam) : &c.skip(*item, seam);
    if (warpgroup == 0) Turn::take(warpgroup);  // that the last one passed
  }

  /// Before the grid before this one has ended.
  LANESCOPE_DEVICE static void set_up(const Arguments& a, SharedMemory& smem) {
    if (device::thread() == 0) {
      device::prefetch(a.q_map);
      device::prefetch(a.k_map);
      device::prefetch(a.v_map);
      smem.set_up();
    }
    device::block_sync();  // barriers and flags are there
  }

  template <class Trace>
  LANESCOPE_DEVICE static void run(const Arguments& a, SharedMemory& memory,
                                   const Seam<G, Sites, Trace>& seam) {
    SharedMemory& smem = device::held(memory);
    const int warpgroup = device::warpgroup();
    if (warpgroup < warpgroups) {
      if constexpr (warpgroups > 1) device::increase_registers<consumer_registers>();
      consume(a, warpgroup, smem, seam);
    } else {
      if constexpr (warpgroups > 1) device::decrease_registers<producer_registers>();
      if (device::warp() == Stages::warps) {
        if (device::elect_one()) produce(a, smem);
      } else if constexpr (Stages::transposes_values) {
        Transposer::template run<runs<G, Stage::pv>>(smem);
      }
    }
  }

 private:
  /// Of a lane, where there are several warpgroups that consume; a multiprocessor has 64 Ki.
  static constexpr int producer_registers = warpgroups == 3             ? 32
                                            : Stages::transposes_values ? 40
                                                                        : 24;
  static constexpr int consumer_registers = warpgroups == 3             ? 160
                                            : Stages::transposes_values ? 232
                                                                        : 240;

  /// The rows of a tensor [heads, len, D], in boxes of a tile's rows and 128 bytes.
  template <class TileType>
  static const char* rows_map(device::TensorMap& map, const void* base, int len, int heads) {
    constexpr std::int64_t row_bytes = D * sizeof(T);
    return device::make_tensor_map<T>(map, base, {D, len, heads}, {row_bytes, row_bytes * len},
                                      {TileType::box_cols, TileType::rows, 1},
                                      swizzle_of<TileType>);
  }
};

}  // namespace lanescope::kernels
