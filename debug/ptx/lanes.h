#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "debug/ptx/program.h"

namespace lanescope::ptx {

/// The condition code register's carry flag, a predicate (PTX ISA, "Extended-Precision Integer
/// Arithmetic").
inline constexpr Place carry_place = 256;

/// The lanes of a register whose elements are T, e.g. float; of a predicate they are bool.
template <class T>
[[gnu::always_inline]] inline T lane_of(const std::byte* registers, Place place, int lane) {
  if constexpr (std::is_same_v<T, bool>) {
    return (*reinterpret_cast<const std::uint32_t*>(registers + place) >> lane & 1) != 0;
  } else {
    return reinterpret_cast<const T*>(registers + place)[lane];
  }
}

/// d = Op::apply(a, b, ...) for each lane of `mask`.
template <class Op, class D, class... S, std::size_t... I>
[[gnu::always_inline]] inline void each_lane(std::byte* registers, const Instruction& in,
                                             std::uint32_t mask, std::index_sequence<I...>) {
  if constexpr (std::is_same_v<D, bool>) {
    std::uint32_t bits = 0;
    for (int i = 0; i < 32; ++i) {
      bits |= static_cast<std::uint32_t>(Op::apply(lane_of<S>(registers, in.s[I], i)...)) << i;
    }
    auto& d = *reinterpret_cast<std::uint32_t*>(registers + in.d);
    d = (d & ~mask) | (bits & mask);
  } else {
    alignas(64) D result[32];
    for (int i = 0; i < 32; ++i) result[i] = Op::apply(lane_of<S>(registers, in.s[I], i)...);
    D* d = reinterpret_cast<D*>(registers + in.d);
    if (mask == ~0u) {
      std::memcpy(d, result, sizeof result);
    } else {
      for (int i = 0; i < 32; ++i) {
        if (mask >> i & 1) d[i] = result[i];
      }
    }
  }
}

template <class Op, class D, class... S>
void lanes_portable(std::byte* registers, const Instruction& in, std::uint32_t mask) {
  each_lane<Op, D, S...>(registers, in, mask, std::index_sequence_for<S...>{});
}

#if defined(__x86_64__)
template <class Op, class D, class... S>
[[gnu::target("avx2,fma")]] void lanes_avx2(std::byte* registers, const Instruction& in,
                                            std::uint32_t mask) {
  each_lane<Op, D, S...>(registers, in, mask, std::index_sequence_for<S...>{});
}
inline bool has_wide_lanes() {
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return has;
}
#endif

/// The form of an operation that this CPU runs fastest; all give the same bits. D: the type of the
/// result, S: those of the sources.
template <class Op, class D, class... S>
LaneOperation lane_operation() {
#if defined(__x86_64__)
  if (has_wide_lanes()) return lanes_avx2<Op, D, S...>;
#endif
  return lanes_portable<Op, D, S...>;
}

}  // namespace lanescope::ptx
