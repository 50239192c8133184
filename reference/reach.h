#pragma once

#include <cstdint>

#include "reference/online.h"
#include "reference/site.h"

namespace lanescope::reference {

/// How far apart two values of a site can be whatever the arithmetic does, given the inputs of a
/// block. A bound that lets an interval as wide as that pass says nothing: every value that is
/// possible would go unnoticed.
///
/// site                   between                                     source
/// s                      ±‖q‖·‖k‖·factor                             Cauchy and Schwarz
/// m_prev, m, m_partial   ±‖q‖·max ‖k‖·factor, over the keys seen
/// alpha                  0 and 1; any number while the row maximum is −inf: alpha times 0
/// p                      0 and 1, or 2^a where the maximum follows rises by more than a alone
/// l, l_partial           0 and the number of keys seen, times what p comes to
/// o_final                two rows of V that the row sees; the sixteenth part of the largest of
///                        them, if that is more: a bound that is smaller tells O from no O. With P
///                        in e4m3, whose rounding alone is a sixteenth, it is half of the largest
/// o, o_partial           as o_final, times what l comes to
/// lse                    ±(ln 2·‖q‖·max ‖k‖·factor + ln of the number of keys)
class Reach {
 public:
  explicit Reach(const OnlineBlock& block);

  /// Takes the keys of the next tile, k and v [bc, width], of which each row sees `visible`.
  void step(const Array& k, const Array& v, const Visible& visible);
  /// Takes the row maxima behind that tile. [rows, 1]
  void take_maxima(const Array& m) { m_ = m; }
  /// Takes what another split of the same rows has seen.
  void merge(const Reach& other);

  /// Of an element of `site`, of the tile taken last where the site has tiles; 0 for those that are
  /// copied, whose bound is 0 as well.
  double of(SiteId site, Index row, Index col) const;

 private:
  double score_factor_;    ///< of s
  double softmax_factor_;  ///< from s to base 2
  double output_factor_;
  double largest_p_;
  double told_part_;       ///< of the largest row of V
  Array q_norm_, k_norm_;  ///< [rows], [bc]: of the tile taken last
  double k_largest_ = 0;
  Array keys_;        ///< that each row has seen. [rows]
  Array m_;           ///< −inf: nothing but zeros was added up so far. [rows]
  Array low_, high_;  ///< of V's rows that each row has seen. [rows, width]
};

/// Whether |held − value| <= bound says nothing about what reaches so far. `type` is what is held:
/// what its smallest numbers, or a flush to zero, cannot tell apart is told well enough.
bool says_nothing(double bound, double reach, ElementType type);

}  // namespace lanescope::reference
