#pragma once

#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include "kernels/scalar.h"
#include "kernels/splitk.h"

// The kernel `scalar` with one lane that breaks down: LANESCOPE_FAULT names a function of `faults`,
// which lane 5 of warp 1 of block 1 calls after it has traced m of tile 1 (softmax); and the kernel
// `splitk`, where the same lane of the combine pass calls it before it does anything.

namespace lanescope::faults {

LANESCOPE_DEVICE void segfault() {
  volatile std::size_t address = 16;
  *reinterpret_cast<volatile int*>(address) = 1;
}

LANESCOPE_DEVICE void hang() {
#if defined(__CUDA_ARCH__)
  while (clock64() != 0) {  // a loop over memory of its own is dropped by ptxas, volatile or not
  }
#else
  volatile int turns = 0;
  while (turns >= 0) turns = turns ^ 1;
#endif
}

LANESCOPE_DEVICE void trap() {
#if defined(__CUDA_ARCH__)
  __trap();
#elif !defined(__CUDACC__)
  __builtin_trap();
#endif
}

#if !defined(__CUDACC__)
inline void abort() { std::abort(); }

inline void leave() { std::exit(7); }

inline void leave_at_once() {
  std::fputs("some words\nno kernel for this shape\n", stderr);
  std::_Exit(0);
}

inline void raise() { throw std::runtime_error("no such tile"); }

/// More than the address space has.
inline void ask_too_much() {
  static char* volatile all;
  all = new char[std::size_t{1} << 46];
  all[0] = 1;
}

/// In pieces, all of them touched.
inline void eat_all_memory() {
  for (;;) {
    constexpr std::size_t piece = std::size_t{1} << 26;
    auto* bytes = new char[piece];
    for (std::size_t i = 0; i < piece; i += 4096) static_cast<volatile char*>(bytes)[i] = 1;
  }
}

inline int overflow_stack(int depth = 0) {
  volatile char frame[4096];
  frame[0] = static_cast<char>(depth);
  if (frame[0] != static_cast<char>(depth)) return depth;  // never: compilers warn of no end
  return overflow_stack(depth + 1) + frame[0];
}

inline void big_frame() {
  volatile char frame[std::size_t{1} << 20];
  for (std::size_t i = sizeof frame; i-- > 0;) frame[i] = 1;
}
#endif

template <class Trace>
struct FaultyTrace {
  const Trace& trace;

  template <SiteId X, class V>
  LANESCOPE_DEVICE void operator()(int tile, const AtSite<X, V>& at) const {
    trace(tile, at);
    if constexpr (X == SiteId::m) {
      if (device::block() == 1 && device::thread() == 37 && tile == 1) LANESCOPE_FAULT();
    }
  }
};

}  // namespace lanescope::faults

namespace lanescope::kernels {

template <Gate G, class T, int D, int Br, int Bc>
struct Faulty : Scalar<G, T, D, Br, Bc> {
  using Base = Scalar<G, T, D, Br, Bc>;

  template <class Trace>
  LANESCOPE_DEVICE static void run(const Attention& a, Base::SharedMemory& smem,
                                   const Seam<G, typename Base::Sites, Trace>& seam) {
    using FaultySeam = Seam<G, typename Base::Sites, faults::FaultyTrace<Trace>>;
    Base::run(a, smem, FaultySeam{seam.injected, seam.left, seam.block, {seam.trace}});
  }
};

template <Gate G, class T, int D, int Br, int Bc>
struct FaultyCombine : Splitk<G, T, D, Br, Bc> {
  template <class Seam>
  LANESCOPE_DEVICE static void combine(const Attention& a, std::int64_t block, const Seam& seam) {
    if (block == 1 && device::thread() == 37) LANESCOPE_FAULT();
    Splitk<G, T, D, Br, Bc>::combine(a, block, seam);
  }
};

}  // namespace lanescope::kernels
