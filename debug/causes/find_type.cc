#include <algorithm>
#include <cmath>

#include "debug/causes/detectors.h"
#include "debug/causes/flaw_families.h"
#include "debug/causes/formulas.h"
#include "reference/elementary.h"
#include "reference/quantise.h"

namespace lanescope {
namespace {

using Array = Scene::Array;
using reference::product;

/// Bits of `written` read as `read`.
struct Misreading {
  ElementType written, read;

  Array operator()(const Array& values) const {
    return values.map([this](double x) { return value_of(read, round_to(written, x)); });
  }
  std::string text() const {
    return std::string("bits of ") + name_of(written) + " are taken for " + name_of(read);
  }
};

void try_scores(const Scene& scene, const Misreading& misread, const Formulas& fits) {
  const auto q = scene.held(SiteId::q_smem, 0), k = scene.held(SiteId::k_smem, scene.tile());
  if (!q || !k) return;
  const double factor = scene.reference().score_factor().value;
  const reference::Visible seen = scene.reference().visible(scene.tile());
  const auto attempt = [&](const char* which, const Array& left, const Array& right) {
    Array s = factor * product_transposed(left.top_rows(scene.rows()), right);
    for (reference::Index row = 0; row < s.rows(); ++row) {
      s.fill_row(row, -reference::infinity, seen[static_cast<std::size_t>(row)]);
    }
    fits(Cause::wrong_type, std::string("in ") + which + ", " + misread.text(), s);
  };
  attempt("Q and K", misread(*q), misread(*k));
  attempt("Q", misread(*q), *k);
  attempt("K", *q, misread(*k));
}

void try_output(const Scene& scene, const Misreading& misread, const Formulas& fits) {
  const std::int64_t tile = scene.tile();
  const auto p = scene.weights(tile), alpha = scene.held(SiteId::alpha, tile);
  const auto o_prev = scene.before(SiteId::o, tile), v = scene.held(SiteId::v_smem, tile);
  if (!p || !alpha || !o_prev) return;
  const Array own_v = v ? *v : scene.reference().v_tile(tile);
  const auto attempt = [&](const char* which, const Array& weights, const Array& values) {
    fits(Cause::wrong_type, std::string("in ") + which + ", " + misread.text(),
         *o_prev * *alpha + product(weights, values));
  };
  attempt("P and V", misread(*p), misread(own_v));
  attempt("V", *p, misread(own_v));
  attempt("P", misread(*p), own_v);
}

/// Numbers of e4m3 below the smallest normal one.
void try_subnormals(const Scene& scene, Findings& findings) {
  constexpr double normal = 0x1p-6;
  std::int64_t as_normal = 0, as_zero = 0;
  for (const Element& e : scene.elements()) {
    const bool is_subnormal = e.want != 0 && std::abs(e.want) < normal;
    if (e.wrong != is_subnormal || e.unwritten) return;  // all of them, and no others
    if (!e.wrong) continue;
    as_normal += e.got == widened_as_normal(e.want);
    as_zero += e.got == 0;
  }
  const bool is_normal = as_normal == scene.wrong_count();
  if (scene.wrong_count() < 4 || (!is_normal && as_zero != scene.wrong_count())) return;
  Finding finding{is_normal ? Cause::wrong_type : Cause::precision_lost, 1};
  finding.says_which = true;
  finding.evidence = {
      std::string("all that is wrong is subnormal in e4m3 (below 2^-6), and was ") +
      (is_normal ? "widened as if it were normal: its leading bit is 0, not 1" : "taken for 0")};
  findings.push_back(finding);
}

}  // namespace

void find_type(const Scene& scene, Findings& findings) {
  if (scene.info().dtype == ElementType::e4m3 && scene.first().stage == Stage::load) {
    try_subnormals(scene, findings);
  }
  const ElementType own = operand_type(scene.info().dtype);
  if (own != ElementType::f16 && own != ElementType::bf16) return;
  const ElementType other = own == ElementType::f16 ? ElementType::bf16 : ElementType::f16;
  const Formulas fits(scene, findings);
  if (scene.site() == SiteId::s) try_scores(scene, {own, other}, fits);
  if (scene.site() == SiteId::o) try_output(scene, {own, other}, fits);
  if (scene.site() == SiteId::p || scene.site() == SiteId::o_final) {
    // Read as what they were stored as, the values are right: forwards, what is read wrongly may be
    // so small that anything fits.
    const Misreading stored{other, own}, back{own, other};
    const Array read_back = back(scene.got());
    const auto differs = [&](const Element& e) {
      return e.wrong && !scene.fits(e.row, e.col, read_back(e.row, e.col), e.want);
    };
    const auto differing = std::count_if(scene.elements().begin(), scene.elements().end(), differs);
    if (static_cast<double>(differing) > 0.02 * scene.wrong_count()) return;
    fits(Cause::wrong_type, "it is stored in the other type: " + stored.text(),
         stored(scene.want()));
  }
}

}  // namespace lanescope
