#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "kernels/trace/at_site.h"
#include "kernels/trace/slots.h"
#include "reference/gate.h"

namespace lanescope {

namespace simt {
void pass_site(SiteId site, int tile, std::int64_t item, const void* value, std::size_t bytes);
}

// The sinks of what passes a seam, in one block; `of` gives that of another. A kernel does not know
// which one it was given.

/// Nothing: the call vanishes.
struct NoTrace {
  static constexpr bool is_on = false;
  LANESCOPE_DEVICE NoTrace of(std::int64_t) const { return {}; }
  template <SiteId X, class V>
  LANESCOPE_DEVICE void operator()(int, const AtSite<X, V>&) const {}
};

/// Nothing but how far the lane has come, for the memory checker of the SIMT machine.
struct ProgressTrace {
  static constexpr bool is_on = false;
  std::int64_t item = -1;  ///< the block whose seams it passes, where they are not its own

  ProgressTrace of(std::int64_t other) const { return {other}; }
  template <SiteId X, class V>
  void operator()(int tile, const AtSite<X, V>& at) const {
    simt::pass_site(X, tile, item, &at.value, sizeof(V));
  }
};

/// What of a gate goes into the trace buffer: the sites that it leaves as its result are in a
/// buffer already, and so are the outputs in global memory.
template <Gate G>
struct TracedBy {
  static constexpr bool holds(const Site& site) { return traces(G, site); }
};

/// Slots of the trace buffer, for the sites that `Traced` holds.
template <class Sites, class Traced>
struct BufferTrace {
  static constexpr bool is_on = true;
  Slots slots;
  std::int64_t block;

  LANESCOPE_DEVICE BufferTrace of(std::int64_t other) const { return {slots, other}; }

  template <SiteId X, class V>
  LANESCOPE_DEVICE void operator()(int tile, const AtSite<X, V>& at) const {
    constexpr Site site = site_of<Sites, X>();
    if constexpr (Traced::holds(site)) {
      const Window& w = slots.window;
      if (block < w.block_begin || block >= w.block_end) return;
      if (site.per_tile && (tile < w.tile_begin || tile >= w.tile_end)) return;
      store_slots<Sites, Traced, X>(slots, block, tile, at.value);
    }
  }
};

/// Text on stdout, a line per element, of registers with the register's index:
///   block=0 tile=2 site=s warp=1 lane=5 reg=8 row=17 col=2 : 0.5
/// Lines of different lanes come in any order; whoever prints them sorts them by their labels.
template <Gate G, class Sites>
struct PrintTrace {
  static constexpr bool is_on = true;
  Window window;
  std::int64_t block;

  LANESCOPE_DEVICE PrintTrace of(std::int64_t other) const { return {window, other}; }

  template <SiteId X, class V>
  LANESCOPE_DEVICE void operator()(int tile, const AtSite<X, V>& at) const {
    if constexpr (has(G, X)) {
      constexpr Site site = site_of<Sites, X>();
      if (block < window.block_begin || block >= window.block_end) return;
      if (site.per_tile && (tile < window.tile_begin || tile >= window.tile_end)) return;
      int nth = 0;
      for_each_chunk<Sites::threads>(at.value, [&](int place, auto chunk) {
        const auto words = chunk.get();
        constexpr int count = static_cast<int>(sizeof(words) / 4);
        constexpr bool is_float = decltype(chunk)::is_float;
        const int first = (site.space == Space::shared ? place : nth++) * count;
        LANESCOPE_UNROLL
        for (int i = 0; i < count; ++i) print<X, is_float>(tile, first + i, words.x[i]);
      });
    }
  }

 private:
  /// Prints the one or two elements of `word`, which is word `at` of the lane or the tile.
  template <SiteId X, bool IsFloat>
  LANESCOPE_DEVICE_CALL void print(int tile, int at, std::uint32_t word) const {
    constexpr Site site = site_of<Sites, X>();
    constexpr ElementType type = IsFloat ? ElementType::f32 : site.type;
    constexpr int per_word = 4 / size_of(type);
    constexpr const char* name = name_of(X);
    for (int i = 0; i < per_word; ++i) {
      const int element = at * per_word + i;
      const auto half = static_cast<std::uint16_t>(word >> (16 * i));
      const float value = type == ElementType::f32   ? device::from_bits<float>(word)
                          : type == ElementType::f16 ? device::widen(device::f16{half})
                                                     : device::widen(device::bf16{half});
      const bool shared = site.space == Space::shared;
      const device::Coordinate c =
          shared ? device::Coordinate{element / site.cols, element % site.cols}
                 : Sites::coordinate(X, device::warp(), device::lane(), element);
      // Any thread may print an element of shared memory; it belongs to the one that wrote it.
      const int thread = shared ? Sites::owner(X, c.row, c.col) : device::thread();
      const int warp = thread / 32, lane = thread % 32;
      if (warp < window.warp_begin || warp >= window.warp_end) continue;
      if (lane < window.lane_begin || lane >= window.lane_end) continue;
      std::printf("block=%lld tile=%d site=%s warp=%d lane=%d reg=%d row=%d col=%d : %.9g\n",
                  static_cast<long long>(block), tile, name, warp, lane, shared ? -1 : element,
                  c.row, c.col, static_cast<double>(value));
    }
  }
};

}  // namespace lanescope
