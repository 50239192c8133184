#pragma once

#include <cstdint>

#include "debug/slots.h"
#include "gates/gate.h"

namespace lanescope {

/// The place between two stages, the only one that knows gates: there a stage's input may come from
/// the reference, and its output may be the gate's result.
template <Gate G, class Sites>
struct Seam {
  struct Injected {
    static constexpr bool holds(const Site& site) { return takes(G, site.id); }
  };
  struct Left {
    static constexpr bool holds(const Site& site) { return leaves(G, site.id); }
  };

  Slots injected;
  Slots left;
  std::int64_t block;

  /// Fills `value` from the reference where this gate takes site X.
  template <SiteId X, class V>
  LANESCOPE_DEVICE void take(SiteTag<X>, int tile, V&& value) const {
    if constexpr (takes(G, X)) load_slots<Sites, Injected, X>(injected, block, tile, value);
  }
  /// Keeps `value` as a result where this gate leaves site X.
  template <SiteId X, class V>
  LANESCOPE_DEVICE void leave(SiteTag<X>, int tile, V&& value) const {
    if constexpr (leaves(G, X)) store_slots<Sites, Left, X>(left, block, tile, value);
  }
};

}  // namespace lanescope
