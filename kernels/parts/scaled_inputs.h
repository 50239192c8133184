#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/parts/arguments.h"

namespace lanescope::kernels {

/// What a kernel of 8-bit inputs is launched with: an element stands for itself times the scale of
/// its head.
struct ScaledAttention : Attention {
  const float* q_scale;  ///< [batch, heads]
  const float* k_scale;  ///< [batch, heads_kv]
  const float* v_scale;  ///< [batch, heads_kv]
};

/// What a kernel of inputs of type T is launched with.
template <class T>
using AttentionOf = std::conditional_t<sizeof(T) == 1, ScaledAttention, Attention>;

/// The part of the problem that one block computes, with the factors of its head.
struct ScaledWork : Work {
  float score_factor;  ///< scale_log2 times the scales of the head's Q and K
  float v_scale;
};

/// What a block of a kernel of inputs of type T does.
template <class T>
using WorkOf = std::conditional_t<sizeof(T) == 1, ScaledWork, Work>;

template <int Br, int Bc, class Index>
LANESCOPE_DEVICE ScaledWork work_of(const ScaledAttention& a, Index block) {
  ScaledWork w{work_of<Br, Bc>(static_cast<const Attention&>(a), block), 0, 0};
  const int head_kv = w.batch * a.heads_kv + w.head_kv;
  w.score_factor = a.scale_log2 * a.q_scale[w.batch * a.heads + w.head] * a.k_scale[head_kv];
  w.v_scale = a.v_scale[head_kv];
  return w;
}

/// What a dot product of rows of Q and K is multiplied by to be a score in base 2.
LANESCOPE_DEVICE float score_factor(const Attention& a, const Work&) { return a.scale_log2; }
LANESCOPE_DEVICE float score_factor(const Attention&, const ScaledWork& w) {
  return w.score_factor;
}

/// Takes `x`, a factor of a sum of rows of V, into the scale of V.
LANESCOPE_DEVICE void apply_scale_of_v(const Work&, float&) {}
LANESCOPE_DEVICE void apply_scale_of_v(const ScaledWork& w, float& x) { x = x * w.v_scale; }

}  // namespace lanescope::kernels
