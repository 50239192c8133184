#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "debug/causes/linear.h"
#include "reference/elementary.h"

namespace lanescope {

using reference::ln_2;

namespace {

/// What the kernel stored for the log-sum-exp is that of `times` l.
bool is_in_lse(const Scene& scene, const Scene::Array& m, const Scene::Array& l, int times) {
  const std::optional<Scene::Array> lse = scene.left_lse();
  for (reference::Index row = 0; lse && row < l.rows(); ++row) {
    const double want = (m(row) + std::log2(times * l(row))) * ln_2;
    if (!(std::abs((*lse)(row)-want) <= 1e-4 * (1 + std::abs(want)))) return false;
  }
  return lse.has_value();
}

/// l is added up once more over lanes that have all of it: both outputs show that.
void try_repeated_l(const Scene& scene, const Scene::Array& o, const Scene::Array& l,
                    const Scene::Array& m, Findings& findings) {
  const Formulas fits(scene, findings);
  const std::size_t before = findings.size();
  for (const int times : {2, 4, 8, 16, 32}) {
    if (!is_in_lse(scene, m, l, times)) continue;
    fits(Cause::contribution_repeated,
         "l counts " + std::to_string(times) +
             " times, in O and in the log-sum-exp: it is put together once more over lanes that "
             "have all of it",
         scene.site() == SiteId::lse ? (m + log2(times * l)) * ln_2 : o * (1 / (times * l)));
  }
  // A constant of O alone would leave the other output to be said.
  for (std::size_t i = before; i < findings.size(); ++i) findings[i].bits /= 2;
}

/// The parts of l that the lanes of each row hold at the end.
struct PartsOfL {
  std::vector<std::vector<double>> of_row;
  std::size_t count = 0;  ///< of a row
};

PartsOfL parts_of_l(const Scene& scene) {
  const SiteSlots& slots = *scene.judge().slots(SiteId::l);
  const auto rows = static_cast<std::size_t>(scene.rows());
  PartsOfL parts{std::vector<std::vector<double>>(rows)};
  const std::int64_t begin = slots.first(scene.block(), scene.end_tile());
  for (std::int64_t slot = 0; slot < slots.count(); ++slot) {
    const int row = slots.row(slot);
    if (row < 0 || row >= scene.rows()) continue;
    parts.of_row[static_cast<std::size_t>(row)].push_back(slots.tensor().at(begin + slot));
  }
  parts.count = parts.of_row.front().size();
  return parts;
}

/// Of a kernel whose lanes hold parts of l, which are added up behind the last tile: each lane has
/// those of some lanes alone, `together(lane, other)` saying which, and `first` stores l.
template <class Together>
void try_lanes_together(const Scene& scene, const PartsOfL& parts, const std::string& which,
                        std::size_t first, const Together& together,
                        const std::optional<Scene::Array>& m, const std::optional<Scene::Array>& o,
                        const Formulas& fits) {
  const auto sum_at = [&](reference::Index row, std::size_t lane) {
    const std::vector<double>& own = parts.of_row[static_cast<std::size_t>(row)];
    double sum = 0;
    for (std::size_t other = 0; other < own.size(); ++other) {
      if (together(lane, other)) sum += own[other];
    }
    return sum;
  };
  const std::string text = "l is put together over " + which + " of the " +
                           std::to_string(parts.count) + " lanes that hold the row";
  if (scene.site() != SiteId::o_final && scene.site() != SiteId::o_partial) {
    Scene::Array l = Scene::Array::Zero(scene.rows(), 1);
    for (reference::Index row = 0; row < l.rows(); ++row) l(row) = sum_at(row, first);
    return fits(Cause::incomplete_reduction, text,
                scene.site() == SiteId::lse ? (*m + log2(l)) * ln_2 : l);
  }
  if (!o || first != 0) return;
  // A lane divides some columns: whose sum each column has, most of its rows say.
  Scene::Array value = *o;
  for (reference::Index col = 0; col < value.cols(); ++col) {
    std::size_t divides = 0;
    int most = -1;
    for (std::size_t lane = 0; lane < parts.count; ++lane) {
      int fitting = 0;
      for (reference::Index row = 0; row < scene.rows(); ++row) {
        fitting += scene.fits(row, col, scene.got()(row, col), (*o)(row, col) / sum_at(row, lane));
      }
      if (fitting > most) divides = lane, most = fitting;
    }
    for (reference::Index row = 0; row < scene.rows(); ++row) {
      value(row, col) /= sum_at(row, divides);
    }
  }
  fits(Cause::incomplete_reduction, text + ", by which each divides its columns", value, 1);
}

void try_parts_of_l(const Scene& scene, const std::optional<Scene::Array>& m,
                    const std::optional<Scene::Array>& o, const Formulas& fits) {
  if (!scene.judge().slots(SiteId::l)->sums_lanes()) return;
  const PartsOfL parts = parts_of_l(scene);
  for (std::size_t some = 1; some < parts.count; some *= 2) {
    for (std::size_t first = 0; first < parts.count; first += some) {
      const std::string from = std::to_string(first);
      try_lanes_together(
          scene, parts,
          some == 1 ? "lane " + from + " alone"
                    : "lanes " + from + " to " + std::to_string(first + some - 1),
          first, [=](std::size_t a, std::size_t b) { return a / some == b / some; }, m, o, fits);
    }
    for (std::size_t first = 0; some > 1 && first < some; ++first) {
      try_lanes_together(
          scene, parts,
          "lanes " + std::to_string(first) + " and each " + std::to_string(some) + " on", first,
          [=](std::size_t a, std::size_t b) { return a % some == b % some; }, m, o, fits);
    }
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
    if (m) {
      fits(Cause::wrong_formula, "o was divided by m", *o * (1 / *m));
      try_repeated_l(scene, *o, *l, *m, findings);
      try_parts_of_l(scene, m, o, fits);
    }
  } else if (scene.site() == SiteId::lse && m) {
    try_parts_of_l(scene, m, o, fits);
    if (o) try_repeated_l(scene, *o, *l, *m, findings);
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
    try_parts_of_l(scene, m, o, fits);
    fits(Cause::wrong_formula, "l_partial holds log2 l", log2(*l));
    fits(Cause::wrong_formula, "l_partial holds ln l", log2(*l) * ln_2);
    fits(Cause::wrong_formula, "l_partial holds 1 / l", 1 / *l);
  }
}

}  // namespace lanescope
