#pragma once

#include <cstdint>

#include "reference/site.h"

namespace lanescope {

/// A compile-time choice of the stages that are real. A gate changes where a stage's input comes
/// from and where its output goes, never the stage's body.
///
/// gate          real stages              injected       leaves
/// qk_only       load, qk (scale, mask)   –              s of every tile
/// softmax_only  softmax                  s              m, alpha, p, l of every tile
/// pv_only       load (V), pv             p, alpha       unnormalised o of every tile
/// fused         all                      –              o_final, lse
/// combine_only  combine                  o_partial,     o_final, lse
///                                        m_partial, l_partial
enum class Gate : std::uint8_t { qk_only, softmax_only, pv_only, fused, combine_only };

inline constexpr Gate all_gates[] = {Gate::qk_only, Gate::softmax_only, Gate::pv_only, Gate::fused,
                                     Gate::combine_only};

constexpr const char* name_of(Gate gate) {
  constexpr const char* names[] = {"qk_only", "softmax_only", "pv_only", "fused", "combine_only"};
  return names[static_cast<int>(gate)];
}

/// Whether gate G runs stage S. A variable, because device code may use it as it is.
template <Gate G, Stage S>
inline constexpr bool runs = G == Gate::fused || (G == Gate::qk_only && S == Stage::qk) ||
                             (G == Gate::softmax_only && S == Stage::softmax) ||
                             (G == Gate::pv_only && S == Stage::pv) ||
                             (G == Gate::combine_only && S == Stage::combine);

/// Whether site `x` is there in gate `g`: a stage of the gate makes it or reads it.
constexpr bool has(Gate g, SiteId x) {
  switch (g) {
    case Gate::qk_only:
      return x == SiteId::q_smem || x == SiteId::k_smem || x == SiteId::s;
    case Gate::softmax_only:
      return x == SiteId::s || x == SiteId::m_prev || x == SiteId::m || x == SiteId::alpha ||
             x == SiteId::p || x == SiteId::l;
    case Gate::pv_only:
      return x == SiteId::v_smem || x == SiteId::p || x == SiteId::alpha || x == SiteId::o;
    case Gate::fused:
      return true;
    case Gate::combine_only:
      return is_partial(x) || is_output(x);
  }
  return false;
}

/// Whether gate `g` gets site `x` from the reference.
constexpr bool takes(Gate g, SiteId x) {
  return (g == Gate::softmax_only && x == SiteId::s) ||
         (g == Gate::pv_only && (x == SiteId::p || x == SiteId::alpha)) ||
         (g == Gate::combine_only && is_partial(x));
}

/// Whether gate `g` stores the outputs, in global memory.
constexpr bool stores_outputs(Gate g) { return g == Gate::fused || g == Gate::combine_only; }

/// Whether gate `g` leaves site `x` as its result, besides the outputs.
constexpr bool leaves(Gate g, SiteId x) {
  return (g == Gate::qk_only && x == SiteId::s) ||
         (g == Gate::softmax_only &&
          (x == SiteId::m || x == SiteId::alpha || x == SiteId::p || x == SiteId::l)) ||
         (g == Gate::pv_only && x == SiteId::o);
}

/// Whether a trace of gate `g` puts `site` into the trace buffer: what the gate leaves, and what is
/// in global memory, is kept without it.
constexpr bool traces(Gate g, const Site& site) {
  return has(g, site.id) && !leaves(g, site.id) && site.space != Space::global;
}

}  // namespace lanescope
