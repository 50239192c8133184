#pragma once

#include <cstddef>
#include <type_traits>

#include "reference/site.h"

namespace lanescope {

// The table of a kernel's sites. A row says what the kernel decides: where a value lives, and in
// which type. Stage, axes, rows and columns follow from the site and the tile. E.g.
//   static constexpr auto table = site_table<D, Br, Bc, threads>(
//       shared<T>(SiteId::q_smem), registers<Scores>(SiteId::s), global<float>(SiteId::lse));

/// What a site is in every kernel. The outputs are the epilogue's here; where there are partials,
/// the combine pass makes them.
struct SiteFacts {
  Stage stage;
  Axes axes;
  bool per_tile;
};

constexpr SiteFacts facts_of(SiteId id) {
  switch (id) {
    case SiteId::q_smem:
      return {Stage::load, Axes::query_d, false};
    case SiteId::k_smem:
    case SiteId::v_smem:
      return {Stage::load, Axes::key_d, true};
    case SiteId::s:
      return {Stage::qk, Axes::query_key, true};
    case SiteId::p:
      return {Stage::softmax, Axes::query_key, true};
    case SiteId::m_prev:
    case SiteId::m:
    case SiteId::alpha:
    case SiteId::l:
      return {Stage::softmax, Axes::query, true};
    case SiteId::o:
      return {Stage::pv, Axes::query_d, true};
    case SiteId::o_partial:
    case SiteId::o_final:
      return {Stage::epilogue, Axes::query_d, false};
    case SiteId::m_partial:
    case SiteId::l_partial:
    case SiteId::lse:
      return {Stage::epilogue, Axes::query, false};
  }
  return {};
}

/// The type of an element E: float, or one of kernels/device/numbers.h.
template <class E>
constexpr ElementType element_type_of() {
  if constexpr (std::is_same_v<E, float>) {
    return ElementType::f32;
  } else {
    return E::type;
  }
}

/// A row of the table, but for what site_table knows.
constexpr Site site_row(SiteId id, Space space, ElementType type, int regs) {
  const SiteFacts facts = facts_of(id);
  return {id, facts.stage, space, type, facts.axes, facts.per_tile, 0, 0, 0, regs};
}

/// Elements of `type` in a V (device::Registers): as many as there is room for, or what it says.
template <class V>
constexpr int elements_of(ElementType type) {
  if constexpr (requires { V::elements_per_register; }) {
    return V::count * V::elements_per_register;
  } else {
    return V::count * 4 / size_of(type);
  }
}

/// A site in registers, which every lane of the block holds as a V (device::Registers). E: its
/// elements, where V packs two of 16 bits to a register, and f16 where it packs four e4m3.
template <class V, class E = typename V::Element>
constexpr Site registers(SiteId id) {
  constexpr ElementType type = element_type_of<E>();
  return site_row(id, Space::registers, type, elements_of<V>(type));
}

/// A site in shared memory, of elements E; of e4m3 it is f16.
template <class E>
constexpr Site shared(SiteId id) {
  return site_row(id, Space::shared, element_type_of<E>(), 0);
}

/// A site in global memory, of elements E.
template <class E>
constexpr Site global(SiteId id) {
  return site_row(id, Space::global, element_type_of<E>(), 0);
}

/// The same site of scores, or of maxima, in another unit than base 2. m_prev, m and m_partial
/// share theirs; that of s is its own.
constexpr Site in_unit(ScoreUnit unit, Site site) {
  site.unit = unit;
  return site;
}
/// Scores as the products leave them: the softmax multiplies with scale · log2(e).
constexpr Site unscaled(Site site) { return in_unit(ScoreUnit::raw, site); }

/// l of a kernel whose lanes each sum up their own columns and put the parts together at the end.
constexpr Site in_lanes(Site site) {
  site.in_lanes = true;
  return site;
}

/// alpha of a kernel whose m follows the scores by this rule alone.
constexpr Site rescaled(RescaleRule rule, Site site) {
  site.rescale = rule;
  return site;
}

/// A std::array of sites, without its header: to parse that is a tenth of a module's compilation.
template <std::size_t N>
struct SiteTable {
  Site rows[N];
  static constexpr std::size_t size() { return N; }
  constexpr const Site* data() const { return rows; }
  constexpr const Site* begin() const { return rows; }
  constexpr const Site* end() const { return rows + N; }
  constexpr const Site& operator[](std::size_t i) const { return rows[i]; }
  constexpr Site* begin() { return rows; }
  constexpr Site* end() { return rows + N; }
  constexpr Site& operator[](std::size_t i) { return rows[i]; }
};

/// The sites of a kernel of head dimension D whose blocks of `Threads` threads take tiles of Br
/// queries and Bc keys; in any order.
template <int D, int Br, int Bc, int Threads, class... Rows>
constexpr SiteTable<sizeof...(Rows)> site_table(const Rows&... rows) {
  SiteTable<sizeof...(Rows)> table = {{rows...}};
  const bool combines = (is_partial(rows.id) || ...);
  for (Site& site : table) {
    site.rows = site.axes == Axes::key_d ? Bc : Br;
    site.cols = site.axes == Axes::query_key ? Bc : site.axes == Axes::query ? 1 : D;
    if (site.space == Space::registers) site.warps = Threads / 32;
    if (combines && is_output(site.id)) site.stage = Stage::combine;
  }
  return table;
}

}  // namespace lanescope
