#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/device/device.h"
#include "kernels/device/tiles.h"
#include "kernels/trace/site_table.h"
#include "reference/site.h"
#include "reference/window.h"

namespace lanescope {

/// 32-bit words that move as one access.
template <int N>
struct alignas(4 * N) Words {
  std::uint32_t x[N];
};

/// Bytes that the first `count` sites of the kernel's table take, of those that `Holds::holds`.
template <class Sites, class Holds>
constexpr std::int64_t slots_before(std::size_t count, std::int64_t blocks, std::int64_t tiles) {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Site& site = Sites::table[i];
    if (Holds::holds(site)) bytes += site.bytes() * blocks * (site.per_tile ? tiles : 1);
  }
  return bytes;
}

/// The index of site `id` in the kernel's table, the table's size if it has none.
template <class Sites>
constexpr std::size_t index_of(SiteId id) {
  std::size_t i = 0;
  while (i < Sites::table.size() && Sites::table[i].id != id) ++i;
  return i;
}

/// Site X of the kernel.
template <class Sites, SiteId X>
constexpr Site site_of() {
  constexpr std::size_t index = index_of<Sites>(X);
  static_assert(index < Sites::table.size(), "the kernel's site table does not have this site");
  return Sites::table[index];
}

/// Refuses to compile where the table says of site X what the value that passes a seam is not: the
/// slots would lie elsewhere than the host looks for them.
template <class Sites, SiteId X, class V>
constexpr void check_row() {
  constexpr Site site = site_of<Sites, X>();
  if constexpr (requires { V::count; }) {
    static_assert(site.space == Space::registers,
                  "the site table has in memory what is passed to the seam in registers");
    static_assert(site.regs == elements_of<V>(site.type),
                  "the site table says another number of registers than the seam is given");
    static_assert(site.warps * 32 == Sites::threads,
                  "the site table says another number of warps than Sites::threads has");
  } else {
    static_assert(site.space == Space::shared,
                  "the site table does not have in shared memory what is passed to the seam there");
    static_assert(sizeof(device::OperandType<typename V::Element>) == size_of(site.type),
                  "the site table says another type than the elements have");
    static_assert(site.cols == V::cols, "the site table says other columns than the tile has");
    if constexpr (requires { V::rows; }) {
      static_assert(site.rows == V::rows, "the site table says other rows than the tile has");
    }
  }
}

/// First byte of the slots of site X for (block, tile).
template <class Sites, class Holds, SiteId X>
LANESCOPE_DEVICE std::byte* slot_of(const Slots& slots, std::int64_t block, int tile) {
  constexpr Site site = site_of<Sites, X>();
  constexpr std::size_t index = index_of<Sites>(X);
  // What precedes the site, split into the part that is there once per tile and once per block.
  constexpr std::int64_t per_block = slots_before<Sites, Holds>(index, 1, 0);
  constexpr std::int64_t per_tile = slots_before<Sites, Holds>(index, 1, 1) - per_block;
  constexpr std::int64_t own_bytes = site.bytes();
  const Window& w = slots.window;
  const std::int64_t blocks = w.block_end - w.block_begin;
  const std::int64_t tiles = w.tile_end - w.tile_begin;
  const std::int64_t own_block = block - w.block_begin;
  const std::int64_t own = site.per_tile ? own_block * tiles + (tile - w.tile_begin) : own_block;
  return slots.base + blocks * (per_block + per_tile * tiles) + own * own_bytes;
}

/// A chunk of N words of one lane's registers.
template <class E, int N>
struct RegisterChunk {
  static constexpr bool is_float = std::is_same_v<E, float>;
  E* x;
  LANESCOPE_DEVICE Words<N> get() const {
    Words<N> words;
    LANESCOPE_UNROLL
    for (int i = 0; i < N; ++i) words.x[i] = device::bits_of(x[i]);
    return words;
  }
  LANESCOPE_DEVICE void put(const Words<N>& words) const {
    LANESCOPE_UNROLL
    for (int i = 0; i < N; ++i) x[i] = device::from_bits<E>(words.x[i]);
  }
};

/// A chunk of N words in shared memory, aligned to one word.
template <class E, int N>
struct SharedChunk {
  static constexpr bool is_float = std::is_same_v<E, float>;
  std::uint32_t* x;
  LANESCOPE_DEVICE Words<N> get() const {
    Words<N> words;
    LANESCOPE_UNROLL
    for (int i = 0; i < N; ++i) words.x[i] = x[i];
    return words;
  }
  LANESCOPE_DEVICE void put(const Words<N>& words) const {
    LANESCOPE_UNROLL
    for (int i = 0; i < N; ++i) x[i] = words.x[i];
  }
};

/// A chunk of N words of 16-bit elements that lie `stride` elements apart in shared memory.
template <class E, int N>
struct StridedChunk {
  static_assert(sizeof(E) == 2);
  static constexpr bool is_float = false;
  E* x;
  int stride;
  LANESCOPE_DEVICE Words<N> get() const {
    Words<N> words;
    LANESCOPE_UNROLL
    for (int i = 0; i < N; ++i) {
      const std::uint32_t high = x[(2 * i + 1) * stride].bits;
      words.x[i] = x[2 * i * stride].bits | high << 16;
    }
    return words;
  }
  LANESCOPE_DEVICE void put(const Words<N>& words) const {
    LANESCOPE_UNROLL
    for (int i = 0; i < N; ++i) {
      x[2 * i * stride].bits = static_cast<std::uint16_t>(words.x[i]);
      x[(2 * i + 1) * stride].bits = static_cast<std::uint16_t>(words.x[i] >> 16);
    }
  }
};

// Of 8 bits, nothing tells an element that was never written: the slots of e4m3 are f16, which it
// becomes and comes back from exactly.

/// A chunk of N words of registers that hold four e4m3 each.
template <int N>
struct WidenedRegisterChunk {
  static constexpr bool is_float = false;
  std::uint32_t* x;
  LANESCOPE_DEVICE Words<N> get() const {
    Words<N> words;
    LANESCOPE_UNROLL
    for (int i = 0; i < N; ++i) {
      words.x[i] = device::e4m3x2_to_f16x2(static_cast<std::uint16_t>(x[i / 2] >> (i % 2 * 16)));
    }
    return words;
  }
  LANESCOPE_DEVICE void put(const Words<N>& words) const {
    const auto half = [&](int i) {
      return device::widen(device::f16{static_cast<std::uint16_t>(words.x[i / 2] >> (i % 2 * 16))});
    };
    LANESCOPE_UNROLL
    for (int i = 0; i < N / 2; ++i) {
      x[i] = device::pack_e4m3(half(4 * i), half(4 * i + 1), half(4 * i + 2), half(4 * i + 3));
    }
  }
};

/// A chunk of N words of a row of a tile of e4m3.
template <class TileType, int N>
struct WidenedTileChunk {
  static constexpr bool is_float = false;
  TileType& tile;
  int row, col;
  LANESCOPE_DEVICE Words<N> get() const {
    Words<N> words;
    LANESCOPE_UNROLL
    for (int i = 0; i < N; ++i) {
      const int high = tile.at(row, col + 2 * i + 1).bits << 8;
      words.x[i] = device::e4m3x2_to_f16x2(
          static_cast<std::uint16_t>(tile.at(row, col + 2 * i).bits | high));
    }
    return words;
  }
};

/// Calls visit(place, chunk) for the calling lane's chunks of `value`; `place` counts chunks from
/// the slot's begin.
template <int Threads, class E, int N, class Visit>
LANESCOPE_DEVICE void for_each_chunk(device::Registers<E, N>& value, Visit&& visit) {
  constexpr int words = words_per_chunk(N);
  LANESCOPE_UNROLL
  for (int i = 0; i < N / words; ++i) {
    visit((device::warp() * (N / words) + i) * 32 + device::lane(),
          RegisterChunk<E, words>{value.x + i * words});
  }
}

template <int Threads, class V, class Visit>
LANESCOPE_DEVICE auto for_each_chunk(V& value, Visit&& visit)
    -> decltype(V::elements_per_register, void()) {
  constexpr int value_words = V::count * 2, words = words_per_chunk(value_words);
  LANESCOPE_UNROLL
  for (int i = 0; i < value_words / words; ++i) {
    visit((device::warp() * (value_words / words) + i) * 32 + device::lane(),
          WidenedRegisterChunk<words>{value.x + i * words / 2});
  }
}

/// All threads of the block share the rows of a tile in shared memory.
template <int Threads, class TileType, class Visit>
LANESCOPE_DEVICE auto for_each_chunk(TileType& tile, Visit&& visit)
    -> decltype(TileType::rows, void()) {
  using Element = typename TileType::Element;
  constexpr int element = static_cast<int>(sizeof(device::OperandType<Element>));
  constexpr int row_words = TileType::cols * element / 4;
  constexpr int words = words_per_chunk(row_words);
  constexpr int row_chunks = row_words / words;
  for (int i = device::thread(); i < TileType::rows * row_chunks; i += Threads) {
    const int row = i / row_chunks, col = i % row_chunks * words * 4 / element;
    if constexpr (sizeof(Element) == 1) {
      visit(i, WidenedTileChunk<TileType, words>{tile, row, col});
    } else {
      auto* x = &tile.at(row, col);
      visit(i, SharedChunk<Element, words>{reinterpret_cast<std::uint32_t*>(x)});
    }
  }
}

/// A transposed tile has the slots of its rows.
template <int Threads, class E, int Rows, int Cols, int Pad, class Visit>
LANESCOPE_DEVICE void for_each_chunk(device::TransposedTile<E, Rows, Cols, Pad>& tile,
                                     Visit&& visit) {
  constexpr int words = words_per_chunk(Cols / 2);
  constexpr int row_chunks = Cols / 2 / words;
  for (int i = device::thread(); i < Rows * row_chunks; i += Threads) {
    E* x = &tile.at(i / row_chunks, i % row_chunks * words * 2);
    visit(i, StridedChunk<E, words>{x, tile.stride});
  }
}

/// A row belongs to the thread that holds it.
template <int Threads, class E, int Cols, class Visit>
LANESCOPE_DEVICE void for_each_chunk(const device::RowOfTile<E, Cols>& row, Visit&& visit) {
  constexpr int row_words = Cols * static_cast<int>(sizeof(E)) / 4;
  constexpr int words = words_per_chunk(row_words);
  for (int i = 0; i < row_words / words; ++i) {
    visit(row.row * (row_words / words) + i,
          SharedChunk<E, words>{reinterpret_cast<std::uint32_t*>(row.x) + i * words});
  }
}

/// Copies the calling lane's part of `value` into the slots of site X.
template <class Sites, class Holds, SiteId X, class V>
LANESCOPE_DEVICE void store_slots(const Slots& slots, std::int64_t block, int tile, V& value) {
  check_row<Sites, X, std::remove_const_t<V>>();
  std::byte* base = slot_of<Sites, Holds, X>(slots, block, tile);
  for_each_chunk<Sites::threads>(value, [&](int place, auto chunk) {
    using Chunk = decltype(chunk.get());
    reinterpret_cast<Chunk*>(base)[place] = chunk.get();
  });
}

/// Copies the slots of site X into the calling lane's part of `value`.
template <class Sites, class Holds, SiteId X, class V>
LANESCOPE_DEVICE void load_slots(const Slots& slots, std::int64_t block, int tile, V& value) {
  check_row<Sites, X, std::remove_const_t<V>>();
  std::byte* base = slot_of<Sites, Holds, X>(slots, block, tile);
  for_each_chunk<Sites::threads>(value, [&](int place, auto chunk) {
    using Chunk = decltype(chunk.get());
    chunk.put(reinterpret_cast<const Chunk*>(base)[place]);
  });
}

}  // namespace lanescope
