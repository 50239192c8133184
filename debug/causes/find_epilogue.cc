#include <string>
#include <vector>

#include "debug/causes/linear.h"
#include "reference/elementary.h"

namespace lanescope {

using reference::ln_2;

namespace {

/// Of a kernel whose lanes hold parts of l, which are added up behind the last tile: the part of
/// one lane in the place of the sum.
void try_parts_of_l(const Scene& scene, const Scene::Array& m, const Formulas& fits) {
  const SiteSlots& slots = *scene.judge().slots(SiteId::l);
  if (!slots.sums_lanes()) return;
  const std::int64_t begin = slots.first(scene.block(), scene.end_tile());
  std::vector<std::vector<double>> parts(static_cast<std::size_t>(scene.rows()));
  for (std::int64_t slot = 0; slot < slots.count(); ++slot) {
    const int row = slots.row(slot);
    if (row < 0 || row >= scene.rows()) continue;
    parts[static_cast<std::size_t>(row)].push_back(slots.tensor().at(begin + slot));
  }
  for (std::size_t lane = 0; lane < parts.front().size(); ++lane) {
    Scene::Array l = 0 * m;
    for (reference::Index row = 0; row < l.rows(); ++row) {
      const std::vector<double>& own = parts[static_cast<std::size_t>(row)];
      if (lane < own.size()) l(row) = own[lane];
    }
    const std::string text = "l is the part of lane " + std::to_string(lane) + " of the " +
                             std::to_string(parts.front().size()) + " that hold the row";
    fits(Cause::incomplete_reduction, text, scene.site() == SiteId::lse ? (m + log2(l)) * ln_2 : l);
  }
}

}  // namespace

void find_epilogue(const Scene& scene, Findings& findings) {
  if (scene.first().stage != Stage::epilogue) return;
  const Formulas fits(scene, findings);
  const std::int64_t last = scene.end_tile();
  auto o = scene.held(SiteId::o, last), o_before = scene.before(SiteId::o, last);
  const auto l = scene.held(SiteId::l, last), m = scene.held(SiteId::m, last);
  if (!l) return;
  const auto l_before = scene.before(SiteId::l, last);
  const double factor = scene.reference().output_factor().value;
  if (o) *o *= factor;
  if (o_before) *o_before *= factor;
  if (scene.site() == SiteId::o_final && o) {
    try_divisor(scene, *o, *l, true, fits);
    fits(Cause::normalised_twice, "O = o / l^2", *o * (1 / l->square()));
    fits(Cause::wrong_formula, "O = o * l", *o * *l);
    if (l_before) {
      fits(Cause::stale_operand, "o was divided by l of before the last tile",
           *o * (1 / *l_before));
    }
    if (o_before) {
      fits(Cause::stale_operand, "O is o of before the last tile, divided by l",
           *o_before * (1 / *l));
    }
    if (const auto alpha = scene.held(SiteId::alpha, last)) {
      fits(Cause::rescaled_twice, "O = alpha o / l", *o * (*alpha / *l));
    }
    if (m) fits(Cause::wrong_formula, "o was divided by m", *o * (1 / *m));
  } else if (scene.site() == SiteId::lse && m) {
    try_parts_of_l(scene, *m, fits);
    try_lse_terms(scene, *m, *l, fits);
    fits(Cause::wrong_formula, "lse holds l", *l);
    fits(Cause::wrong_formula, "lse = m ln 2 + l: the logarithm is missing", *m * ln_2 + *l);
    if (l_before) {
      fits(Cause::stale_operand, "lse takes l of before the last tile",
           (*m + log2(*l_before)) * ln_2);
    }
  } else if (scene.site() == SiteId::o_partial && o) {
    try_divisor(scene, *o, *l, false, fits);
  } else if (scene.site() == SiteId::l_partial) {
    try_parts_of_l(scene, *l, fits);
    fits(Cause::wrong_formula, "l_partial holds log2 l", log2(*l));
    fits(Cause::wrong_formula, "l_partial holds ln l", log2(*l) * ln_2);
    fits(Cause::wrong_formula, "l_partial holds 1 / l", 1 / *l);
  }
}

}  // namespace lanescope
