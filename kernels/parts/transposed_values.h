#pragma once

#include <cstdint>

#include "kernels/device/hopper.h"
#include "kernels/parts/ring.h"

namespace lanescope::kernels {

// wgmma takes operands of 8 bits with the summed index contiguous alone. K lies so: its rows are
// along d. P·V sums over the keys, so V is transposed on its way, by warps of the producer's
// warpgroup, between the ring that the copies fill and the one that the products read.
//
// A lane holds the scores of the keys 2t, 2t + 1 and 2t + 8, 2t + 9 of each 16 (t = lane mod 4),
// and a left operand of 8 bits has in one register the elements 4t to 4t + 3. So that P need not
// move between lanes, the products sum over the keys in another order: position 4t + j of 16 is key
// 2t + j mod 2 + 8·(j / 2).

constexpr int key_at_position(int position) {
  const int lane = position % 16 / 4, j = position % 4;
  return position / 16 * 16 + j / 2 * 8 + lane * 2 + j % 2;
}
constexpr int position_of_key(int key) {
  return key / 16 * 16 + key % 8 / 2 * 4 + key / 8 % 2 * 2 + key % 2;
}

/// A tile of V [Bc, D] of 8-bit elements as P·V reads it: a row of shared memory per column of V.
template <class E, int Bc, int D>
struct TransposedValues {
  using Element = E;
  using Tile = device::TensorTile<E, D, (Bc + 63) / 64 * 64>;  ///< in whole boxes
  static constexpr int rows = Bc, cols = D, bytes = Tile::bytes;
  Tile by_column;  ///< [d][position of the key]

  LANESCOPE_DEVICE E& at(int key, int d) { return by_column.at(d, position_of_key(key)); }
};

/// P of a warp's 16 rows and 32·Kt keys as the left operand of such a product, four e4m3 elements
/// to a register.
template <int Kt>
struct PackedWeights : device::LeftOperand<1, Kt> {
  static constexpr int elements_per_register = 4;
  /// Element `i` of `lane`: its row and key (PTX ISA, "Matrix fragments for mma.m16n8k32").
  static constexpr device::Coordinate coordinate(int lane, int i) {
    const int reg = i / 4 % 4, position = i / 16 * 32 + reg / 2 * 16 + lane % 4 * 4 + i % 4;
    return {lane / 4 + reg % 2 * 8, key_at_position(position)};
  }
};

/// The warps that transpose: behind the one that has the copies made, in its warpgroup.
template <class Stages>
struct ValueTransposer {
  using Values = typename Stages::Values;
  static constexpr int warps = 3, first_warp = Stages::warps + 1;
  static constexpr int bc = Values::rows, d = Values::cols;
  /// Parts of 32 keys, and how many of them a warp has in its registers, which are few.
  static constexpr int parts = bc / 32, at_once = Stages::warps > 8 ? 1 : 2;
  static_assert(bc % 32 == 0);

  /// to ← from, 16 columns at a time of those that are the calling warp's. Of 32 keys of them, a
  /// lane gets the keys 2t, 2t + 1 of each eight for the columns 2g and 2g + 1 (ldmatrix.trans of
  /// pairs of elements): with the bytes sorted, four positions of either column. The rows that
  /// stmatrix stores at once are even columns of the first eight and odd ones of the others, so
  /// that they meet different banks.
  LANESCOPE_DEVICE static void transpose(typename Stages::Keys& from, Values& to) {
    const int lane = device::lane(), row = lane % 8;
    const bool odd_first = lane >= 16;  // g >= 4
    const std::uint32_t first = odd_first ? odd_column : even_column;
    const std::uint32_t second = odd_first ? even_column : odd_column;
    const int own_col = row * 2 + (lane / 8 % 2 ^ row / 4);
    for (int col = (device::warp() - first_warp) * 16; col < d; col += warps * 16) {
      E* const keys = &from.at(lane, col);
      LANESCOPE_UNROLL
      for (int part = 0; part < parts; part += at_once) {
        std::uint32_t pairs[at_once][4];  // [8 keys]: columns 2g, 2g + 1 of key 2t, then of 2t + 1
        LANESCOPE_UNROLL
        for (int i = 0; i < at_once && part + i < parts; ++i) {
          device::ldmatrix_x4_trans(pairs[i], keys + (part + i) * 32 * Stages::Keys::box_cols);
        }
        LANESCOPE_UNROLL
        for (int i = 0; i < at_once && part + i < parts; ++i) {
          std::uint32_t columns[4];  // two columns of 16 positions, then of the next
          LANESCOPE_UNROLL
          for (int half = 0; half < 4; half += 2) {
            columns[half] = device::permute_bytes(pairs[i][half], pairs[i][half + 1], first);
            columns[half + 1] = device::permute_bytes(pairs[i][half], pairs[i][half + 1], second);
          }
          E* const positions = &to.by_column.at(col + own_col, (part + i) * 32 + lane / 16 * 16);
          device::stmatrix_x4(positions, columns);
        }
      }
    }
  }
  /// The thread that stores an element.
  static constexpr int owner(int key, int col) {
    return (first_warp + col / 16 % warps) * 32 + col % 16 / 2 * 4 + key % 8 / 2;
  }

  /// Every tile of V of every item: as soon as it is there, and its place is empty.
  template <bool Transposes, class SharedMemory>
  LANESCOPE_DEVICE static void run(SharedMemory& smem) {
    Ring<SharedMemory::places_of_v> v;
    Ring<2> next;
    while (true) {
      device::mbarrier_wait(smem.item_full[next.slot], next.parity);
      const int block = smem.item[next.slot].block, tiles = smem.item[next.slot].work.tiles;
      release(smem.item_empty[next.slot]);
      next.advance();
      if (block < 0) return;
      for (int tile = 0; Transposes && tile < tiles; ++tile) {
        device::mbarrier_wait(smem.v_full[v.slot], v.parity);
        device::mbarrier_wait(smem.transposed_empty[v.slot], v.parity ^ 1);
        transpose(smem.v[v.slot], smem.transposed[v.slot]);
        device::fence_proxy_async();  // the products read what was stored
        device::warp_sync();
        if (device::lane() == 0) {
          device::mbarrier_arrive(smem.transposed_full[v.slot]);
          device::mbarrier_arrive(smem.v_empty[v.slot]);
        }
        v.advance();
      }
    }
  }

 private:
  using E = typename Values::Element;
  /// Bytes of column 2g, and of 2g + 1, of four keys in two registers.
  static constexpr std::uint32_t even_column = 0x6420, odd_column = 0x7531;
};

/// What a kernel on `Stages` has of it in shared memory: nothing where V is read as it came.
template <class Stages, int Places, bool Transposes>
struct TransposedRing {};
template <class Stages, int Places>
struct TransposedRing<Stages, Places, true> {
  typename Stages::Values transposed[Places];
  device::Mbarrier transposed_full[Places], transposed_empty[Places];
};

}  // namespace lanescope::kernels
