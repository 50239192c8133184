#pragma once

#include <vector>

#include "reference/arithmetic.h"
#include "reference/site.h"

namespace lanescope::reference {

// The stages of the tiled recurrence (Dao 2023, FlashAttention-2, algorithm 1; scores in base 2),
// each with a bound on what a kernel may hold. Given inputs without error, a stage judges what a
// kernel made of the inputs it really received; composed from Q, K, V on, it gives the true values
// with the bounds of the whole chain.
//
// Common shift. A row maximum held too large by δ scales p, l and o down by 2^δ together, which
// O = o / l and lse = m + log2(l) undo. So the errors of p, alpha, l and o are *anchored*: they
// bound |held · 2^(m held − m) − value|. `shifted` gives the bound on what is held. The alphas of
// a row telescope: what is held of m in between cancels, so it does not pile up over the tiles.

/// How many keys of a tile each row sees; they are the first ones, the others are masked. [rows]
using Visible = std::vector<int>;

/// A factor and how far the one that a kernel multiplies by may be from it.
struct Factor {
  double value = 1, error = 0;
  /// Whether there is nothing to multiply by.
  bool none() const { return value == 1 && error == 0; }
};

/// s = q·kᵀ · factor, masked positions −infinity. q [rows, d], k [keys, d] → [rows, keys].
/// factor = log2(e) / sqrt(d), times the scales of q and k; none where the softmax has it.
Bounded qk(const Array& q, const Array& k, const Visible& visible, const Factor& factor,
           const Arithmetic& arithmetic);

/// When the row maximum follows the scores; where it need not, it stays, and p is up to 2^above.
struct Rise {
  RescaleRule rule;
  /// [rows, 1]: the m that a kernel holds behind the tile, or null. Where errors leave it open
  /// whether a row rises, the way that the kernel took is followed; without it, m may be either.
  const Array* held = nullptr;
};

/// What one tile does to the softmax. m, alpha, l [rows, 1]; p, weights [rows, keys].
struct Softmax {
  Bounded m;        ///< max(m_prev, max s), s in base 2; m_prev where the rise is too small
  Bounded alpha;    ///< 2^(m_prev − m), anchored; 0 within 1 where the row has no visible key yet
  Bounded p;        ///< 2^(s − m), anchored, as fp32
  Bounded l;        ///< alpha·l_prev + Σ p, anchored
  Bounded weights;  ///< p in the type in which it enters P·V, anchored
};

/// s [rows, keys], to be multiplied by `factor` to be in base 2: rounded where m takes it, in one
/// fused multiply-add with m where p does. m_prev, l_prev [rows, 1], l_prev anchored. NaN scores do
/// not reach m (fmaxf). `converts`: m is held in another unit than base 2, and each exponent rounds
/// what it makes of it.
Softmax softmax(const Bounded& s, const Factor& factor, const Bounded& m_prev,
                const Bounded& l_prev, const Rise& rise, const Arithmetic& arithmetic,
                bool converts = false);

/// o = alpha·o_prev + weights·v, all anchored. weights [rows, keys], alpha [rows, 1],
/// v [keys, d] exact, o_prev [rows, d] → [rows, d].
Bounded pv(const Bounded& weights, const Bounded& alpha, const Array& v, const Bounded& o_prev,
           const Arithmetic& arithmetic);

/// What a block that sees only a split of the keys leaves: o [rows, d] and l [rows, 1] anchored,
/// m [rows, 1].
struct Partial {
  Bounded o, m, l;
};

/// The partials of all splits as one: m = max_i m_i, w_i = 2^(m_i − m), o = Σ o_i·w_i,
/// l = Σ l_i·w_i. At least one. Source: Dao et al. 2023, Flash-Decoding, its last step.
/// `converts`: as in softmax.
Partial combine(const std::vector<Partial>& partials, bool converts = false);

/// What a block stores.
struct Outputs {
  Bounded o_final;  ///< o / l · factor as stored; 0 where l = 0. [rows, d]
  Bounded lse;      ///< ln 2 · (m + log2 l); −infinity where l = 0. [rows, 1]
};

/// o [rows, d] and l [rows, 1] anchored, m [rows, 1]. factor = 1, or the scale of v, its error that
/// of one multiplication more. `converts`: as in softmax.
Outputs epilogue(const Bounded& o, const Bounded& l, const Bounded& m, const Factor& factor,
                 const Arithmetic& arithmetic, bool converts = false);

/// The bound on what is held of an anchored `x` where the maxima it refers to are held within
/// `shift` [rows, 1]: |x|·(2^shift − 1) + error·2^shift.
Bounded shifted(const Bounded& x, const Array& shift);

}  // namespace lanescope::reference
