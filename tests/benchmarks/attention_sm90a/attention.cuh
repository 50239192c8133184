#pragma once
// Attention forward for sm_90a: one producer warpgroup (TMA) and W consumer warpgroups of 64 query
// rows each.
#include "hopper.cuh"
namespace sm90a {

/// q, o: [batch, heads, len_q, D]; k, v: [batch, heads_kv, len_kv, D]; lse: [batch, heads, len_q].
struct Problem {
  CUtensorMap q, k, v, o;
  float* lse;
  void* out;
  unsigned* counter;
  int heads_all, group;  ///< batch · heads; query heads per kv head
  int len_q, len_kv;
  float scale_log2;
  int units;          ///< clusters of query rows per head (or per pair of heads)
  int items;          ///< work items of all clusters
  int section;        ///< heads (pairs) whose K and V share the L2 (causal)
  long long* clocks;  ///< if not null: cycles and nanoseconds of block 0
  int pair_heads;     ///< the two blocks of a cluster work on two heads instead of two row blocks
};

template <bool B>
struct Constant {
  static constexpr bool value = B;
};

enum Epilogue { through_q, through_own, direct };

template <class T_, int D_, int N_, int W_, int Stages_, bool Causal_, int Cluster_, int Order_,
          bool Dynamic_, int Lazy_, int Poly_, int Degree_, int Epi_, bool Halves_>
struct Config {
  using T = T_;
  static constexpr int D = D_, N = N_, W = W_, M = 64 * W_, Stages = Stages_, Cluster = Cluster_,
                       Order = Order_;
  static constexpr bool Causal = Causal_, Dynamic = Dynamic_;
  static constexpr int Lazy =
      Lazy_;  ///< 0: m follows every tile; 1: only by more than 2^8; 2: only if a sum of P passes
              ///< 2^12, which spares the maximum; 3: the same, found out behind the next turn
  static constexpr int Poly = Poly_;      ///< of 8 exponentials, how many on the FMA pipes
  static constexpr int Degree = Degree_;  ///< of their polynomial
  static constexpr int Epi = Epi_;
  static constexpr bool Halves =
      Halves_;  ///< a causal diagonal that only meets half a tile costs half
  static constexpr int threads = 128 * (W + 1);
  static constexpr int consumer_registers = W == 2 ? 240 : 160,
                       producer_registers = W == 2 ? 24 : 32;
  static_assert(Lazy < 3 || Order == 1, "the turns order who flags a sum and who looks");
  static constexpr int panels = D / 64;
  static constexpr int q_panel = M * 128, kv_panel = N * 128;  // bytes
  static constexpr int q_bytes = panels * q_panel, kv_bytes = panels * kv_panel;
  static constexpr int barriers = 4 + 4 * Stages;
  static constexpr int k_at = q_bytes, v_at = k_at + Stages * kv_bytes,
                       o_at = v_at + Stages * kv_bytes;
  static constexpr int barriers_at = o_at + (Epi == through_own ? q_bytes : 0);
  static constexpr int smem = barriers_at + barriers * 8 + 32;
};

/// What one block does of an item.
struct Item {
  int head, head_kv, q_begin;
  int tiles;  ///< K/V tiles that pass through this block: all that a row of the cluster sees
};

template <class C>
struct Kernel {
  using T = typename C::T;
  static constexpr int D = C::D, N = C::N, M = C::M, W = C::W, Stages = C::Stages,
                       Cluster = C::Cluster;
  static constexpr float lazy_threshold = 8.0f, largest_sum = 4096.0f;
  static constexpr uint32_t smem_base =
      1024;  ///< where dynamic shared memory starts behind the system's 1 KiB

  struct Barriers {
    uint32_t base;
    __device__ __forceinline__ uint32_t q_full() const { return base; }
    __device__ __forceinline__ uint32_t q_empty() const { return base + 8; }
    __device__ __forceinline__ uint32_t sched_full() const { return base + 16; }
    __device__ __forceinline__ uint32_t sched_empty() const { return base + 24; }
    __device__ __forceinline__ uint32_t k_full(int s) const { return base + 32 + 8 * s; }
    __device__ __forceinline__ uint32_t k_empty(int s) const {
      return base + 32 + 8 * (Stages + s);
    }
    __device__ __forceinline__ uint32_t v_full(int s) const {
      return base + 32 + 8 * (2 * Stages + s);
    }
    __device__ __forceinline__ uint32_t v_empty(int s) const {
      return base + 32 + 8 * (3 * Stages + s);
    }
    __device__ __forceinline__ uint32_t flag(int w, uint32_t round) const {
      return base + 40 + 32 * Stages + 8 * w + round % 2 * 4;
    }
    __device__ __forceinline__ uint32_t sched_value() const { return base + 32 + 32 * Stages; }
  };

  DEV int visible(const Problem& p, int q_begin, int rows) {
    if (q_begin >= p.len_q) return 0;
    if constexpr (!C::Causal) return p.len_kv;
    const int end = min(q_begin + rows, p.len_q) + p.len_kv - p.len_q;
    return max(0, min(end, p.len_kv));
  }
  DEV int tiles_of(const Problem& p, int q_begin, int rows) {
    return (visible(p, q_begin, rows) + N - 1) / N;
  }

  DEV Item item_of(const Problem& p, int index, int rank) {
    int head, unit;
    if constexpr (C::Causal) {  // sections of heads; in each the longest rows first
      const int per = p.section * p.units, section = index / per, within = index % per;
      const int all = p.pair_heads ? p.heads_all / 2 : p.heads_all;
      const int here = min(p.section, all - section * p.section);
      unit = p.units - 1 - within / here;
      head = section * p.section + within % here;
    } else {
      head = index / p.units;
      unit = index % p.units;
    }
    Item w;
    if (Cluster > 1 && p.pair_heads) {
      w.head = head * 2 + rank;
      w.q_begin = unit * M;
      w.tiles = tiles_of(p, unit * M, M);
    } else {
      w.head = head;
      w.q_begin = (unit * Cluster + rank) * M;
      w.tiles = tiles_of(p, unit * Cluster * M, Cluster * M);
    }
    w.head_kv = w.head / p.group;
    return w;
  }

  // The next item. Static: every clusters()-th. Dynamic: by a counter that the last fetch of a
  // launch leaves at 0 again: all items are fetched but the first of each cluster, and each cluster
  // fetches once in vain, together `items` times.
  DEV int clusters() { return gridDim.x / Cluster; }

  // ---------------------------------------------------------------- producer
  DEV void load_kv(const CUtensorMap* map, uint32_t to, uint32_t bar, int row, int head_kv,
                   int rank) {
#pragma unroll
    for (int i = 0; i < C::panels; ++i) {
      if constexpr (Cluster == 1) {
        tma_load(to + i * C::kv_panel, map, bar, i * 64, row, head_kv, evict_last);
      } else {
        const int part = N / Cluster * rank;
        tma_load_multicast(to + i * C::kv_panel + part * 128, map, bar, i * 64, row + part, head_kv,
                           (1 << Cluster) - 1, evict_last);
      }
    }
  }

  DEV void producer(const Problem& p, uint32_t smem, Barriers b, int rank) {
    Ring<Stages> k, v;
    uint32_t q_parity = 0, sched_parity = 0;
    int index = blockIdx.x / Cluster;
    while (index < p.items) {
      const Item w = item_of(p, index, rank);
      const auto load_k = [&](int tile) {
        barrier_wait(b.k_empty(k.slot), k.parity ^ 1);
        barrier_expect(b.k_full(k.slot), C::kv_bytes);
        load_kv(&p.k, smem + C::k_at + k.slot * C::kv_bytes, b.k_full(k.slot), tile * N, w.head_kv,
                rank);
        k.advance();
      };
      const auto load_v = [&](int tile) {
        barrier_wait(b.v_empty(v.slot), v.parity ^ 1);
        barrier_expect(b.v_full(v.slot), C::kv_bytes);
        load_kv(&p.v, smem + C::v_at + v.slot * C::kv_bytes, b.v_full(v.slot), tile * N, w.head_kv,
                rank);
        v.advance();
      };
      if (w.tiles > 0) load_k(0);
      barrier_wait(b.q_empty(), q_parity ^ 1);
      q_parity ^= 1;
      barrier_expect(b.q_full(), C::q_bytes);
#pragma unroll
      for (int i = 0; i < C::panels; ++i)
        tma_load(smem + i * C::q_panel, &p.q, b.q_full(), i * 64, w.q_begin, w.head, evict_first);
      for (int tile = 1; tile < w.tiles; ++tile) {
        load_k(tile);
        load_v(tile - 1);
      }
      if (w.tiles > 0) load_v(w.tiles - 1);
      if constexpr (C::Dynamic) {
        if (rank == 0) {
          // Not before the loads of this item are issued: an item fetched early goes to who is slow
          // as soon as to who is fast.
          index = static_cast<int>(atomicInc(p.counter, p.items - 1)) + clusters();
          barrier_wait(b.sched_empty(), sched_parity ^ 1);
          if constexpr (Cluster == 1) {
            asm volatile("st.shared.u32 [%0], %1;" ::"r"(b.sched_value()), "r"(index) : "memory");
            barrier_arrive(b.sched_full());
          } else {
#pragma unroll
            for (int r = 0; r < Cluster; ++r) {
              store_remote(b.sched_value(), r, index);
              barrier_arrive_remote_release(b.sched_full(), r);
            }
          }
        } else {
          index = read_next<false>(b, sched_parity);
        }
        sched_parity ^= 1;
      } else {
        index += clusters();
      }
    }
  }
  DEV void barrier_wait_any(uint32_t bar, uint32_t parity) {
    if constexpr (Cluster == 1)
      barrier_wait(bar, parity);
    else
      barrier_wait_cluster(bar, parity);
  }
  /// The index that the leader's producer published; one arrival per reader, a warp or a thread.
  template <bool Warp>
  DEV int read_next(Barriers b, uint32_t parity) {
    barrier_wait_any(b.sched_full(), parity);
    int index;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(index) : "r"(b.sched_value()) : "memory");
    if constexpr (Warp) __syncwarp();
    if (!Warp || lane() == 0) {
      if constexpr (Cluster == 1)
        barrier_arrive(b.sched_empty());
      else
        barrier_arrive_remote(b.sched_empty(), 0);
    }
    return index;
  }

  // ---------------------------------------------------------------- consumers
  using Scores = float[N / 2];
  using Output = float[D / 2];
  using Weights = uint32_t[N / 4];

  /// One arrival of each warp at the slot's barrier in every block of the cluster.
  DEV void release(uint32_t bar) {
    if constexpr (Cluster == 1) {
      if (lane() == 0) barrier_arrive(bar);
    } else {
      if (lane() < Cluster) barrier_arrive_remote(bar, lane());
    }
  }

  /// S = Q·Kᵀ (issued)
  DEV void qk(Scores& s, uint64_t q, uint64_t k) {
#pragma unroll
    for (int d = 0; d < D / 16; ++d) {
      const int panel = d / 4, inside = d % 4 * 32;
      Wgmma<T, N>::ss(s, q + ((panel * C::q_panel + inside) >> 4),
                      k + ((panel * C::kv_panel + inside) >> 4), d > 0);
    }
  }
  /// Of the first N / 2 keys only.
  DEV void qk_half(Scores& s, uint64_t q, uint64_t k) {
    auto& first = reinterpret_cast<float(&)[N / 4]>(s);
#pragma unroll
    for (int d = 0; d < D / 16; ++d) {
      const int panel = d / 4, inside = d % 4 * 32;
      Wgmma<T, N / 2>::ss(first, q + ((panel * C::q_panel + inside) >> 4),
                          k + ((panel * C::kv_panel + inside) >> 4), d > 0);
    }
  }
  /// O += P·V (issued), products [from, to) of N / 16
  template <int From, int To>
  DEV void pv(Output& o, const Weights& weights, uint64_t v) {
#pragma unroll
    for (int kt = From; kt < To; ++kt) Wgmma<T, D>::rs(o, weights + 4 * kt, v + (kt * 2048 >> 4));
  }
  DEV void pv(Output& o, const Weights& weights, uint64_t v) { pv<0, N / 16>(o, weights, v); }
  /// −inf where the row does not see the key: limit[r] keys of the tile, counted from this lane's
  /// first column, are seen.
  DEV void mask(Scores& s, const int (&limit)[2]) {
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      if (i / 4 * 8 + i % 2 >= limit[i / 2 % 2]) s[i] = -INFINITY;
    }
  }

  /// m_new = max(m, c · max S); whether m, l and O are to follow. Lazy: only when a row of the warp
  /// rose by more than 8.
  DEV bool maximum(const Scores& s, float c, const float (&m)[2], float (&m_new)[2]) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float top0 = fmaxf(s[2 * r], s[2 * r + 1]), top1 = fmaxf(s[4 + 2 * r], s[4 + 2 * r + 1]);
#pragma unroll
      for (int j = 2; j < N / 8; j += 2) {
        top0 = fmaxf(top0, fmaxf(s[4 * j + 2 * r], s[4 * j + 2 * r + 1]));
        if (j + 1 < N / 8)
          top1 = fmaxf(top1, fmaxf(s[4 * j + 4 + 2 * r], s[4 * j + 4 + 2 * r + 1]));
      }
      m_new[r] = fmaxf(top0, top1);
    }
#pragma unroll
    for (int step = 1; step < 4; step *= 2) {
#pragma unroll
      for (int r = 0; r < 2; ++r) m_new[r] = fmaxf(m_new[r], __shfl_xor_sync(~0u, m_new[r], step));
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) m_new[r] = fmaxf(m[r], m_new[r] * c);
    if constexpr (C::Lazy)
      return __any_sync(~0u, m_new[0] > m[0] + lazy_threshold || m_new[1] > m[1] + lazy_threshold);
    return true;
  }
  /// alpha = 2^(m − m_new); l, O ← alpha · l, O; m ← m_new
  DEV void rescale(const float (&m_new)[2], float (&m)[2], float (&l)[2], Output& o) {
    float alpha[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      alpha[r] = ex2(m[r] - (m_new[r] == -INFINITY ? 0.0f : m_new[r]));
      l[r] *= alpha[r];
      m[r] = m_new[r];
    }
    scale(o, alpha);
  }
  /// S ← P = 2^(c · S − m), sum = Σ P of this lane's columns.
  DEV void exponentials(Scores& s, float c, const float (&m)[2], float (&total)[2]) {
    const float shift[2] = {m[0] == -INFINITY ? 0.0f : m[0], m[1] == -INFINITY ? 0.0f : m[1]};
    float sum[4] = {0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      const int r = i / 2 % 2;
      const float x = __fmaf_rn(s[i], c, -shift[r]);
      const bool on_fma = (i * C::Poly) % 8 < C::Poly;
      if (on_fma)
        s[i] = ex2_polynomial<C::Degree>(x);
      else
        s[i] = ex2(x);
      sum[i % 4] += s[i];
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) total[r] = sum[2 * r] + sum[2 * r + 1];
  }
  DEV void to_weights(const Scores& s, Weights& weights) {
#pragma unroll
    for (int i = 0; i < N / 4; ++i) weights[i] = pack<T>(s[2 * i], s[2 * i + 1]);
  }
  DEV void scale(Output& o, const float (&by)[2]) {
#pragma unroll
    for (int i = 0; i < D / 2; ++i) o[i] *= by[i / 2 % 2];
  }

  // Named barriers: 1 + w lets warpgroup w issue its products; 1 + W + w is warpgroup w's own.
  DEV void my_turn(int w) {
    if constexpr (C::Order == 1) named_sync(1 + w, 256);
  }
  DEV void next_turn(int w) {
    if constexpr (C::Order == 1) named_arrive(1 + (w + 1) % W, 256);
  }

  DEV void consumer(const Problem& p, uint32_t smem, Barriers b, int rank, int w) {
    Ring<Stages> k, v;
    uint32_t q_parity = 0, sched_parity = 0, round = 0;
    const float c = p.scale_log2;
    // From the constant, not from smem: that the compiler makes again and again from the block's
    // rank.
    const uint64_t q_desc = descriptor(smem_base + w * 64 * 128, 16, 1024);
    const uint64_t k_desc = descriptor(smem_base + C::k_at, 16, 1024);
    const uint64_t v_desc = descriptor(smem_base + C::v_at, C::kv_panel, 1024);
    const int row = threadIdx.x % 128 / 32 * 16 + lane() / 4;  // of the warpgroup's 64, and + 8
    if (C::Order == 1 && w == W - 1) next_turn(w);
    int index = blockIdx.x / Cluster;
    while (index < p.items) {
      const Item work = item_of(p, index, rank);
      const int begin = work.q_begin + w * 64;
      const int tiles =
          tiles_of(p, begin, 64);  // of the block's, those that these rows see some key of
      int whole = p.len_kv / N;    // tiles that need no mask
      if constexpr (C::Causal) whole = max(0, min(p.len_kv, begin + p.len_kv - p.len_q + 1)) / N;
      int at = 0;  // the tile whose scores are masked next

      Output o;
      float m[2] = {-INFINITY, -INFINITY}, l[2] = {0, 0};
#pragma unroll
      for (int i = 0; i < D / 2; ++i) o[i] = 0;
      barrier_wait(b.q_full(), q_parity);
      q_parity ^= 1;
      if (tiles > 0) {
        Scores s;
        Weights weights;
        float m_new[2];
        constexpr bool halves = C::Halves && C::Causal && C::Lazy == 3 && N % 32 == 0;
        bool half_last = false;
        const auto limits = [&](int tile, int(&limit)[2]) {
#pragma unroll
          for (int r = 0; r < 2; ++r) {
            int seen = p.len_kv;
            if constexpr (C::Causal) seen = min(seen, begin + row + 8 * r + p.len_kv - p.len_q + 1);
            limit[r] = seen - tile * N - lane() % 4 * 2;
          }
        };
        const auto mask_of = [&](Scores& s, int tile) {
          if (tile < whole) return;
          int limit[2];
          limits(tile, limit);
          mask(s, limit);
        };
        const auto mask_tile = [&](Scores& s) {
          mask_of(s, at);
          ++at;
        };
        barrier_wait(b.k_full(k.slot), k.parity);
        pin(s);
        wgmma_fence();
        qk(s, q_desc, k_desc + (k.slot * C::kv_bytes >> 4));
        wgmma_commit();
        wgmma_wait<0>();
        pin(s);
        release(b.k_empty(k.slot));
        k.advance();
        mask_tile(s);
        maximum(s, c, m, m_new);
        rescale(m_new, m, l, o);
        exponentials(s, c, m, l);  // l was 0
        to_weights(s, weights);

        if constexpr (C::Lazy == 3) {
          Ring<Stages> k_last = k;
          float sum[2] = {0, 0};
          const auto too_large = [&] {
            return !(sum[0] <= largest_sum) || !(sum[1] <= largest_sum) || m[0] == -INFINITY ||
                   m[1] == -INFINITY;
          };
          int last_tile = 0;
          // P of the last tile was found too large by some warp: S once more, and with its maximum.
          const auto once_more = [&] {
            wgmma_wait<0>();
            pin(s);
            wgmma_fence();
            qk(s, q_desc, k_desc + (k_last.slot * C::kv_bytes >> 4));
            wgmma_commit();
            wgmma_wait<0>();
            pin(s);
            mask_of(s, last_tile);
            maximum(s, c, m, m_new);
            rescale(m_new, m, l, o);
            exponentials(s, c, m, sum);
            to_weights(s, weights);
          };
          const auto flagged = [&] {
            uint32_t x;
            asm volatile("ld.shared.u32 %0, [%1];" : "=r"(x) : "r"(b.flag(w, round)) : "memory");
            return __any_sync(~0u, x == round);
          };
          const auto issue = [&](auto half) {
            pin(s);
            pin(o);
            pin(weights);
            wgmma_fence();
            if constexpr (decltype(half)::value)
              qk_half(s, q_desc, k_desc + (k.slot * C::kv_bytes >> 4));
            else
              qk(s, q_desc, k_desc + (k.slot * C::kv_bytes >> 4));
            wgmma_commit();
          };
          const auto step = [&](int tile, auto half) {
            barrier_wait(b.k_full(k.slot), k.parity);
            my_turn(w);
            issue(half);
            if (tile > 1) {
              if (flagged()) {
                once_more();
                issue(half);
              }
              release(b.k_empty(k_last.slot));
              l[0] += sum[0];
              l[1] += sum[1];
            }
            barrier_wait(b.v_full(v.slot), v.parity);
            wgmma_fence();
            pv(o, weights, v_desc + (v.slot * C::kv_bytes >> 4));
            wgmma_commit();
            next_turn(w);
            wgmma_wait<1>();
            pin(s);
            k_last = k;
            k.advance();
            last_tile = at;
            mask_tile(s);
            wgmma_wait<0>();
            pin(o);
            release(b.v_empty(v.slot));
            v.advance();
            exponentials(s, c, m, sum);
            to_weights(s, weights);
            ++round;
            asm volatile(
                "{\n.reg .pred p;\nsetp.ne.b32 p, %2, 0;\n@p st.shared.u32 [%0], %1;\n}\n" ::"r"(
                    b.flag(w, round)),
                "r"(round), "r"(int(too_large()))
                : "memory");
          };
          // The rows see no key of the second half of their last tile: half the products.
          const bool half = halves && tiles > 1 && visible(p, begin, 64) <= (tiles - 1) * N + N / 2;
          half_last = half;
          int tile = 1;
#pragma unroll 1
          for (; tile < tiles - half; ++tile) step(tile, Constant<false>{});
          if constexpr (halves) {
            if (half) step(tile, Constant<true>{});
          }
          if (tiles > 1) {
            named_sync(1 + W + w, 128);
            if (flagged()) once_more();
            release(b.k_empty(k_last.slot));
            l[0] += sum[0];
            l[1] += sum[1];
          }
        } else {
#pragma unroll 1
          for (int tile = 1; tile < tiles; ++tile) {
            barrier_wait(b.k_full(k.slot), k.parity);
            my_turn(w);
            pin(s);
            pin(o);
            pin(weights);
            wgmma_fence();
            qk(s, q_desc, k_desc + (k.slot * C::kv_bytes >> 4));
            wgmma_commit();
            barrier_wait(b.v_full(v.slot), v.parity);
            wgmma_fence();
            pv(o, weights, v_desc + (v.slot * C::kv_bytes >> 4));
            wgmma_commit();
            next_turn(w);
            wgmma_wait<1>();
            pin(s);
            if constexpr (C::Lazy < 2) {
              release(b.k_empty(k.slot));
              k.advance();
            }
            const int this_tile = at;
            mask_tile(s);
            bool rises = false;
            if constexpr (C::Lazy < 2) rises = maximum(s, c, m, m_new);
            // P·V is through by now: its A operand comes from registers, so that it was issued only
            // as it was worked on. Two waits, since ptxas moves one as far up as there is no
            // branch.
            if (rises) {
              wgmma_wait<0>();
              pin(o);
              rescale(m_new, m, l, o);
            }
            wgmma_wait<0>();
            pin(o);
            release(b.v_empty(v.slot));
            v.advance();
            float sum[2];
            exponentials(s, c, m, sum);
            to_weights(s, weights);
            if constexpr (C::Lazy == 2) {
              // A P too large, a NaN, or a row that had seen no key: S once more, and with its
              // maximum.
              if (__any_sync(~0u, any_of_warpgroup(1 + W + w, !(sum[0] <= largest_sum) ||
                                                                  !(sum[1] <= largest_sum) ||
                                                                  m[0] == -INFINITY ||
                                                                  m[1] == -INFINITY))) {
                wgmma_fence();
                pin(s);
                qk(s, q_desc, k_desc + (k.slot * C::kv_bytes >> 4));
                wgmma_commit();
                wgmma_wait<0>();
                pin(s);
                mask_of(s, this_tile);
                maximum(s, c, m, m_new);
                rescale(m_new, m, l, o);
                exponentials(s, c, m, sum);
                to_weights(s, weights);
              }
              release(b.k_empty(k.slot));
              k.advance();
            }
            l[0] += sum[0];
            l[1] += sum[1];
          }
        }
        if constexpr (C::Epi != through_q) {
          if (lane() == 0) barrier_arrive(b.q_empty());
        }
        barrier_wait(b.v_full(v.slot), v.parity);
        pin(o);
        pin(weights);
        if (halves && half_last) {
          wgmma_fence();
          pv<0, N / 32>(o, weights, v_desc + (v.slot * C::kv_bytes >> 4));
          wgmma_commit();
          wgmma_wait<0>();
        } else {
          wgmma_fence();
          pv(o, weights, v_desc + (v.slot * C::kv_bytes >> 4));
          wgmma_commit();
          wgmma_wait<0>();
        }
        pin(o);
        release(b.v_empty(v.slot));
        v.advance();
      } else if (C::Epi != through_q) {
        if (lane() == 0) barrier_arrive(b.q_empty());
      }
      for (int tile = tiles; tile < work.tiles;
           ++tile) {  // tiles that only other rows of the cluster see
        if (tile > 0) {
          my_turn(w);
          next_turn(w);
        }
        barrier_wait(b.k_full(k.slot), k.parity);
        release(b.k_empty(k.slot));
        k.advance();
        barrier_wait(b.v_full(v.slot), v.parity);
        release(b.v_empty(v.slot));
        v.advance();
      }
      epilogue(p, smem, b, w, row, begin, work, o, m, l);
      if constexpr (C::Dynamic) {
        index = read_next<true>(b, sched_parity);
        sched_parity ^= 1;
      } else {
        index += clusters();
      }
    }
    if (C::Order == 1 && w == 0) my_turn(w);
    if constexpr (C::Epi != direct) {
      if (threadIdx.x % 128 == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
  }

  /// O / l in the element type, (m + log2 l) · ln 2.
  DEV void epilogue(const Problem& p, uint32_t smem, Barriers b, int w, int row, int begin,
                    const Item& work, Output& o, const float (&m)[2], float (&l)[2]) {
    float inverse[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      l[r] += __shfl_xor_sync(~0u, l[r], 1);
      l[r] += __shfl_xor_sync(~0u, l[r], 2);
      inverse[r] = l[r] == 0.0f ? 0.0f : 1.0f / l[r];
      const int query = begin + row + 8 * r;
      if (lane() % 4 == 0 && query < p.len_q) {
        p.lse[int64_t(work.head) * p.len_q + query] =
            l[r] == 0.0f ? -INFINITY : (m[r] + lg2(l[r])) * 0.6931471805599453f;
      }
    }
    scale(o, inverse);
    if constexpr (C::Epi == direct) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int query = begin + row + 8 * r;
        T* to = static_cast<T*>(p.out) + (int64_t(work.head) * p.len_q + query) * D;
#pragma unroll
        for (int n = 0; n < D / 8; n += 4) {
          uint32_t x[4];
#pragma unroll
          for (int j = 0; j < 4; ++j)
            x[j] = pack<T>(o[(n + j) * 4 + 2 * r], o[(n + j) * 4 + 2 * r + 1]);
#pragma unroll
          for (int step = 1; step < 4;
               step *= 2) {  // x[j] of the quad's lane i ← x[i] of its lane j
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              if (i & step) continue;
              const bool low = (lane() & step) == 0;
              const uint32_t got = __shfl_xor_sync(~0u, low ? x[i + step] : x[i], step);
              (low ? x[i + step] : x[i]) = got;
            }
          }
          if (query < p.len_q)
            *reinterpret_cast<uint4*>(to + (n + lane() % 4) * 8) =
                make_uint4(x[0], x[1], x[2], x[3]);
        }
      }
    } else {
      const uint32_t stage = smem + (C::Epi == through_own ? C::o_at : 0) + w * 64 * 128;
      const bool leads = threadIdx.x % 128 == 0;
      if constexpr (C::Epi == through_own) {
        if (leads) tma_store_wait_read();
        named_sync(1 + W + w, 128);
      }
      const int line = threadIdx.x % 128 / 32 * 16 + lane() % 16;
#pragma unroll
      for (int t = 0; t < D / 16; ++t) {
        const uint32_t x[4] = {pack<T>(o[8 * t], o[8 * t + 1]), pack<T>(o[8 * t + 2], o[8 * t + 3]),
                               pack<T>(o[8 * t + 4], o[8 * t + 5]),
                               pack<T>(o[8 * t + 6], o[8 * t + 7])};
        stmatrix_x4(stage + t / 4 * C::q_panel + line * 128 +
                        (((t % 4 * 2 + lane() / 16) ^ (line % 8)) << 4),
                    x);
      }
      fence_async();
      named_sync(1 + W + w, 128);
      if (leads) {
        if (begin < p.len_q) {
#pragma unroll
          for (int i = 0; i < C::panels; ++i)
            tma_store(&p.o, stage + i * C::q_panel, i * 64, begin, work.head);
        }
        tma_store_commit();
        if constexpr (C::Epi == through_q) {
          tma_store_wait_read();
          barrier_arrive(b.q_empty());
        }
      }
    }
  }

  DEV void run(const Problem& p, unsigned char* raw) {
    uint32_t smem = smem_address(raw);
    asm volatile("" : "+r"(smem));  // one register, not made again where it is used
    if ((smem & 0xffffff) != smem_base) __trap();
    const Barriers b{smem + C::barriers_at};
    const int rank = Cluster == 1 ? 0 : cluster_rank();
    long long cycles = 0, begin = 0;
    if (p.clocks != nullptr) {
      cycles = clock64();
      begin = nanoseconds();
    }
    const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0);
    if (threadIdx.x == 0) {
      prefetch_map(&p.q);
      prefetch_map(&p.k);
      prefetch_map(&p.v);
      barrier_init(b.q_full(), 1);
      barrier_init(b.q_empty(), C::Epi == through_q ? W : 4 * W);
      barrier_init(b.sched_full(), 1);
      barrier_init(b.sched_empty(), Cluster * 4 * W + Cluster - 1);
      for (int s = 0; s < Stages; ++s) {
        barrier_init(b.k_full(s), 1);
        barrier_init(b.v_full(s), 1);
        barrier_init(b.k_empty(s), Cluster * 4 * W);
        barrier_init(b.v_empty(s), Cluster * 4 * W);
      }
      for (int w = 0; w < 2 * W; ++w)
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(b.flag(w / 2, w)), "r"(0) : "memory");
      barrier_init_fence();
    }
    __syncthreads();
    if constexpr (Cluster > 1) cluster_sync();
    if (warpgroup == 0) {
      if constexpr (W > 1) registers_down<C::producer_registers>();
      if (threadIdx.x < 32 && elect()) producer(p, smem, b, rank);
    } else {
      if constexpr (W > 1) registers_up<C::consumer_registers>();
      consumer(p, smem, b, rank, warpgroup - 1);
    }
    if (p.clocks != nullptr && blockIdx.x == 0 && threadIdx.x == 128) {
      p.clocks[0] = clock64() - cycles;
      p.clocks[1] = nanoseconds() - begin;
    }
    if constexpr (Cluster > 1) {
      __syncwarp();
      cluster_sync();
    }
  }
  DEV long long nanoseconds() {
    long long t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
  }
};
}  // namespace sm90a
