#pragma once

#include <cstdint>

#include "kernels/trace/at_site.h"
#include "kernels/trace/slots.h"
#include "reference/gate.h"

namespace lanescope {

/// The place between two stages, the only one that knows gates: there a stage's input may come from
/// the reference, its output may be the gate's result, and every value is traced.
template <Gate G, class Sites, class Trace>
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
  Trace trace;  ///< one of kernels/trace/trace.h

  /// The seams of another block, for blocks that take up more than one.
  LANESCOPE_DEVICE Seam of(std::int64_t other) const {
    return {injected, left, other, trace.of(other)};
  }
  /// Whether anyone looks at site X: what a kernel holds in another form is made for those alone.
  template <SiteId X>
  static constexpr bool shows = leaves(G, X) || Trace::is_on;

  /// seam(tile, site::s(s), site::m_prev(m)) fills the values that this gate takes from the
  /// reference, keeps those that it leaves as its result, and traces all. tile: 0 at a site that
  /// is there once per block.
  /// What threads share is complete behind a barrier only: a function as the last argument runs
  /// after the values are filled and before they are read.
  template <class... Passing>
  LANESCOPE_DEVICE void operator()(int tile, const Passing&... passing) const {
    (take(tile, passing), ...);
    (complete(passing), ...);
    (leave(tile, passing), ...);
    (show(tile, passing), ...);
  }

 private:
  template <SiteId X, class V>
  LANESCOPE_DEVICE void take(int tile, const AtSite<X, V>& at) const {
    if constexpr (takes(G, X)) load_slots<Sites, Injected, X>(injected, block, tile, at.value);
  }
  template <SiteId X, class V>
  LANESCOPE_DEVICE void leave(int tile, const AtSite<X, V>& at) const {
    if constexpr (leaves(G, X)) store_slots<Sites, Left, X>(left, block, tile, at.value);
  }
  template <SiteId X, class V>
  LANESCOPE_DEVICE void show(int tile, const AtSite<X, V>& at) const {
    trace(tile, at);
  }
  template <SiteId X, class V>
  LANESCOPE_DEVICE void complete(const AtSite<X, V>&) const {}

  template <class Complete>
  LANESCOPE_DEVICE void take(int, const Complete&) const {}
  template <class Complete>
  LANESCOPE_DEVICE void leave(int, const Complete&) const {}
  template <class Complete>
  LANESCOPE_DEVICE void show(int, const Complete&) const {}
  template <class Complete>
  LANESCOPE_DEVICE void complete(const Complete& complete) const {
    complete();
  }
};

}  // namespace lanescope
