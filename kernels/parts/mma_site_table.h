#pragma once

#include "kernels/trace/site_table.h"

namespace lanescope::kernels {

/// The sites of a kernel on `Stages` (kernels/parts/mma_stages.h and what derives from it): the
/// tiles in shared memory, what its lanes hold, alpha as the kernel makes it, and what it stores.
template <class Stages, class... Stored>
constexpr auto mma_site_table(const Site& alpha, const Stored&... stored) {
  using T = device::OperandType<typename Stages::Element>;
  using Rows = typename Stages::Rows;
  return site_table<Stages::head_dim, Stages::br, Stages::bc, Stages::threads>(
      shared<T>(SiteId::q_smem), shared<T>(SiteId::k_smem), shared<T>(SiteId::v_smem),
      unscaled(registers<typename Stages::Scores>(SiteId::s)), registers<Rows>(SiteId::m_prev),
      registers<Rows>(SiteId::m), alpha, registers<typename Stages::Weights, T>(SiteId::p),
      registers<Rows>(SiteId::l), registers<typename Stages::Output>(SiteId::o), stored...);
}

/// alpha of one whose maximum follows every tile.
template <class Stages>
constexpr Site alpha_of() {
  return registers<typename Stages::Rows>(SiteId::alpha);
}

}  // namespace lanescope::kernels
