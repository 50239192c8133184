#pragma once

#include <cstdint>
#include <cstring>

namespace lanescope::simt::columns {

using IntRows [[gnu::vector_size(32)]] = std::int32_t;

/// Eight rows of four numbers of 32 bits: the four columns.
[[gnu::always_inline]] inline void transpose_rows(const void* from, IntRows (&columns)[4]) {
  IntRows y[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    std::memcpy(&y[i], static_cast<const char*>(from) + 32 * i, sizeof y[i]);
  }
  IntRows t[4];  // rows i and i + 4
  t[0] = __builtin_shufflevector(y[0], y[2], 0, 1, 2, 3, 8, 9, 10, 11);
  t[1] = __builtin_shufflevector(y[0], y[2], 4, 5, 6, 7, 12, 13, 14, 15);
  t[2] = __builtin_shufflevector(y[1], y[3], 0, 1, 2, 3, 8, 9, 10, 11);
  t[3] = __builtin_shufflevector(y[1], y[3], 4, 5, 6, 7, 12, 13, 14, 15);
  IntRows u[4];
  u[0] = __builtin_shufflevector(t[0], t[1], 0, 8, 1, 9, 4, 12, 5, 13);
  u[1] = __builtin_shufflevector(t[0], t[1], 2, 10, 3, 11, 6, 14, 7, 15);
  u[2] = __builtin_shufflevector(t[2], t[3], 0, 8, 1, 9, 4, 12, 5, 13);
  u[3] = __builtin_shufflevector(t[2], t[3], 2, 10, 3, 11, 6, 14, 7, 15);
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    columns[2 * i] = __builtin_shufflevector(u[i], u[2 + i], 0, 1, 8, 9, 4, 5, 12, 13);
    columns[2 * i + 1] = __builtin_shufflevector(u[i], u[2 + i], 2, 3, 10, 11, 6, 7, 14, 15);
  }
}
/// The other way.
[[gnu::always_inline]] inline void transpose_columns(const IntRows (&columns)[4], void* to) {
  IntRows u[4];
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    u[i] = __builtin_shufflevector(columns[2 * i], columns[2 * i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    u[2 + i] =
        __builtin_shufflevector(columns[2 * i], columns[2 * i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  IntRows t[4];
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    t[2 * i] = __builtin_shufflevector(u[2 * i], u[2 * i + 1], 0, 1, 8, 9, 4, 5, 12, 13);
    t[2 * i + 1] = __builtin_shufflevector(u[2 * i], u[2 * i + 1], 2, 3, 10, 11, 6, 7, 14, 15);
  }
  IntRows y[4];
  y[0] = __builtin_shufflevector(t[0], t[1], 0, 1, 2, 3, 8, 9, 10, 11);
  y[1] = __builtin_shufflevector(t[2], t[3], 0, 1, 2, 3, 8, 9, 10, 11);
  y[2] = __builtin_shufflevector(t[0], t[1], 4, 5, 6, 7, 12, 13, 14, 15);
  y[3] = __builtin_shufflevector(t[2], t[3], 4, 5, 6, 7, 12, 13, 14, 15);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) std::memcpy(static_cast<char*>(to) + 32 * i, &y[i], sizeof y[i]);
}

/// Eight rows of eight numbers of 16 bits.
[[gnu::always_inline]] inline void transpose_eight(std::uint16_t (&matrix)[8][8]) {
  using Row [[gnu::vector_size(16)]] = std::uint16_t;
  Row rows[8];
  std::memcpy(rows, matrix, sizeof rows);
  // Row and column are six bits of a place, which each step turns by one.
  for (int step = 0; step < 3; ++step) {
    Row turned[8];
    for (int i = 0; i < 4; ++i) {
      turned[2 * i] = __builtin_shufflevector(rows[i], rows[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
      turned[2 * i + 1] = __builtin_shufflevector(rows[i], rows[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
    }
    std::memcpy(rows, turned, sizeof rows);
  }
  std::memcpy(matrix, rows, sizeof rows);
}

}  // namespace lanescope::simt::columns
