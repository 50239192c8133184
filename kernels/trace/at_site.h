#pragma once

#include "kernels/device/portable.h"
#include "reference/site.h"

namespace lanescope {

/// A value of a kernel that stands at site X.
template <SiteId X, class V>
struct AtSite {
  V& value;
};

// How a kernel says so: `site::alpha(alpha)`.
namespace site {

template <class V>
LANESCOPE_DEVICE AtSite<SiteId::q_smem, V> q_smem(V& value) {
  return {value};
}
template <class V>
LANESCOPE_DEVICE AtSite<SiteId::k_smem, V> k_smem(V& value) {
  return {value};
}
template <class V>
LANESCOPE_DEVICE AtSite<SiteId::v_smem, V> v_smem(V& value) {
  return {value};
}
template <class V>
LANESCOPE_DEVICE AtSite<SiteId::s, V> s(V& value) {
  return {value};
}
template <class V>
LANESCOPE_DEVICE AtSite<SiteId::m_prev, V> m_prev(V& value) {
  return {value};
}
template <class V>
LANESCOPE_DEVICE AtSite<SiteId::m, V> m(V& value) {
  return {value};
}
template <class V>
LANESCOPE_DEVICE AtSite<SiteId::alpha, V> alpha(V& value) {
  return {value};
}
template <class V>
LANESCOPE_DEVICE AtSite<SiteId::p, V> p(V& value) {
  return {value};
}
template <class V>
LANESCOPE_DEVICE AtSite<SiteId::l, V> l(V& value) {
  return {value};
}
template <class V>
LANESCOPE_DEVICE AtSite<SiteId::o, V> o(V& value) {
  return {value};
}
template <class V>
LANESCOPE_DEVICE AtSite<SiteId::o_partial, V> o_partial(V& value) {
  return {value};
}
template <class V>
LANESCOPE_DEVICE AtSite<SiteId::m_partial, V> m_partial(V& value) {
  return {value};
}
template <class V>
LANESCOPE_DEVICE AtSite<SiteId::l_partial, V> l_partial(V& value) {
  return {value};
}
template <class V>
LANESCOPE_DEVICE AtSite<SiteId::o_final, V> o_final(V& value) {
  return {value};
}
template <class V>
LANESCOPE_DEVICE AtSite<SiteId::lse, V> lse(V& value) {
  return {value};
}

}  // namespace site

}  // namespace lanescope
