#pragma once

#include <cstdint>

#include "debug/site.h"

namespace lanescope {

/// A compile-time choice of the stages that are real. A gate changes where a stage's input comes
/// from and where its output goes, never the stage's body.
///
/// gate          real stages              injected    leaves
/// qk_only       load, qk (scale, mask)   –           s of every tile
/// softmax_only  softmax                  s           m, alpha, p, l of every tile
/// pv_only       load (V), pv             p, alpha    unnormalised o of every tile
/// fused         all                      –           o_final, lse
enum class Gate : std::uint8_t { qk_only, softmax_only, pv_only, fused };

constexpr const char* name_of(Gate gate) {
  constexpr const char* names[] = {"qk_only", "softmax_only", "pv_only", "fused"};
  return names[static_cast<int>(gate)];
}

/// Whether gate G runs stage S. A variable, because device code may use it as it is.
template <Gate G, Stage S>
inline constexpr bool runs = G == Gate::fused || (G == Gate::qk_only && S == Stage::qk) ||
                             (G == Gate::softmax_only && S == Stage::softmax) ||
                             (G == Gate::pv_only && S == Stage::pv);

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
  }
  return false;
}

/// Whether gate `g` gets site `x` from the reference.
constexpr bool takes(Gate g, SiteId x) {
  return (g == Gate::softmax_only && x == SiteId::s) ||
         (g == Gate::pv_only && (x == SiteId::p || x == SiteId::alpha));
}

/// Whether gate `g` leaves site `x` as its result. The outputs of `fused` go to global memory.
constexpr bool leaves(Gate g, SiteId x) {
  return (g == Gate::qk_only && x == SiteId::s) ||
         (g == Gate::softmax_only &&
          (x == SiteId::m || x == SiteId::alpha || x == SiteId::p || x == SiteId::l)) ||
         (g == Gate::pv_only && x == SiteId::o);
}

/// Whether a trace of gate `g` puts `site` into the trace buffer: what the gate leaves, and the
/// outputs in global memory, are kept without it.
constexpr bool traces(Gate g, const Site& site) {
  return has(g, site.id) && !leaves(g, site.id) && site.space != Space::global;
}

}  // namespace lanescope
