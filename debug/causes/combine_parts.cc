#include "debug/causes/combine_parts.h"

#include <cmath>

#include "debug/causes/linear.h"
#include "reference/elementary.h"

namespace lanescope {
namespace {

using Array = Scene::Array;

using reference::infinity;
using reference::ln_2;

/// The right sum, of the parts of other blocks.
void try_other_blocks(const Scene& scene, Findings& findings) {
  const Formulas fits(scene, findings);
  const std::int64_t blocks = scene.info().block_count(), splits = scene.info().splits;
  for (const std::int64_t step : {std::int64_t{1}, scene.info().row_tiles()}) {
    for (std::int64_t first = 0; first < blocks && first < 256; ++first) {
      if (first == scene.block() && step == 1) continue;
      const auto parts = parts_of(scene, first, step);
      if (!parts) continue;
      const Factors weight = [&](std::size_t i) { return parts->weight[i]; };
      const Array l = sum_of_parts(parts->l, weight);
      const std::string text = "the parts are those of the blocks " + std::to_string(first) + ", " +
                               std::to_string(first + step) + ", ..., and should be those from " +
                               std::to_string(scene.block()) + " on";
      if (scene.site() == SiteId::o_final) {
        fits(Cause::wrong_source, text, sum_of_parts(parts->o, weight) * (l == 0).select(0, 1 / l));
      } else {
        fits(Cause::wrong_source, text, (parts->top + log2(l)) * ln_2);
      }
    }
    if (splits == 1) return;
  }
}

/// What `parts` come to, by the maximum of their own, or by `right_top`: it is taken in a loop of
/// its own.
void try_maxima(const Scene& scene, const Parts& parts, const Array& right_top, Cause cause,
                const std::string& text, const Formulas& fits) {
  Array own_top = parts.m[0];
  for (const Array& m : parts.m) own_top = own_top.max(m);
  for (Array top : {right_top, own_top}) {
    top = (top == -infinity).select(0, top);
    const Factors weight = [&](std::size_t i) { return exp2(parts.m[i] - top); };
    const Array sum_l = sum_of_parts(parts.l, weight);
    fits(cause, text,
         scene.site() == SiteId::lse
             ? (top + log2(sum_l)) * ln_2
             : sum_of_parts(parts.o, weight) * (sum_l == 0).select(0, 1 / sum_l));
  }
}

/// The loop over the splits ends early.
void try_first_alone(const Scene& scene, const Parts& right, Findings& findings) {
  const Formulas fits(scene, findings);
  for (std::size_t taken = 1; taken < right.count(); ++taken) {
    Parts parts = right;
    for (std::vector<Array>* part : {&parts.o, &parts.l, &parts.m}) part->resize(taken);
    try_maxima(scene, parts, right.top, Cause::contribution_missing,
               "the first " + std::to_string(taken) + " splits alone count", fits);
  }
}

/// Splits from one on are taken for the first ones again: the loop over them has an inner one that
/// forgets where the outer is.
void try_repeated(const Scene& scene, const Parts& right, Findings& findings) {
  const Formulas fits(scene, findings);
  const std::size_t before = findings.size();
  for (std::size_t taken = 1; taken < right.count(); ++taken) {
    Parts parts = right;
    for (std::size_t i = taken; i < parts.count(); ++i) {
      parts.o[i] = right.o[i % taken];
      parts.l[i] = right.l[i % taken];
      parts.m[i] = right.m[i % taken];
    }
    try_maxima(scene, parts, right.top, Cause::contribution_repeated,
               "the splits from " + std::to_string(taken) + " on are taken for the first " +
                   std::to_string(taken) + " again",
               fits);
  }
  // Where all count equally often, O is that of the first ones alone, which takes fewer words.
  for (std::size_t i = before; i < findings.size(); ++i) findings[i].bits += 1;
}

/// The right sum, the parts of a split taken at another distance from those of the first one.
void try_distance(const Scene& scene, const Parts& right, Findings& findings) {
  const Formulas fits(scene, findings);
  const reference::Index rows = scene.rows(), br = scene.info().br;
  // All rows of the partials from the first split on, nothing in those that no query has.
  std::vector<Array> o, m, l;
  for (std::int64_t block = scene.block(); block < scene.info().block_count(); ++block) {
    const auto held = [&](SiteId id) -> std::optional<Array> {
      const SiteSlots* slots = scene.judge().slots(id);
      if (!slots->holds(block, 0)) return std::nullopt;
      const reference::Index own = scene.info().rows(scene.info().place(block));
      return slots->elements(block, 0, own) * scene.unit_of(id);
    };
    const auto block_o = held(SiteId::o_partial), block_m = held(SiteId::m_partial),
               block_l = held(SiteId::l_partial);
    if (!block_o || !block_m || !block_l) break;
    o.push_back(*block_o);
    m.push_back(*block_m);
    l.push_back(*block_l);
  }
  for (const reference::Index distance : {16, 32, 64, 128, 256}) {
    if (distance == br) continue;
    const auto taken = [&](const std::vector<Array>& x, std::size_t split) {
      Array part = Array::Constant(rows, x[0].cols(), std::nan(""));
      for (reference::Index row = 0; row < rows; ++row) {
        const reference::Index at = row + static_cast<reference::Index>(split) * distance;
        const auto block = static_cast<std::size_t>(at / br);
        if (block >= x.size() || at % br >= x[block].rows()) continue;
        for (reference::Index col = 0; col < part.cols(); ++col) {
          part(row, col) = x[block](at % br, col);
        }
      }
      return part;
    };
    Parts parts = right;
    for (std::size_t i = 0; i < parts.count(); ++i) {
      parts.o[i] = taken(o, i);
      parts.l[i] = taken(l, i);
      parts.m[i] = taken(m, i);
    }
    try_maxima(scene, parts, right.top, Cause::wrong_stride,
               "the parts of split i are taken i * " + std::to_string(distance) +
                   " rows behind those of split 0; they lie i * " + std::to_string(br) + " behind",
               fits);
  }
}
}  // namespace

std::optional<Parts> parts_of(const Scene& scene, std::int64_t first, std::int64_t step) {
  Parts parts;
  parts.scale = reference::softmax_scale(scene.info().problem);
  parts.unit = scene.unit_of(SiteId::m_partial);
  for (std::int64_t split = 0; split < scene.info().splits; ++split) {
    const auto held = [&](SiteId id) -> std::optional<Array> {
      const SiteSlots* slots = scene.judge().slots(id);
      const std::int64_t block = first + split * step;
      if (!slots || block >= scene.info().block_count() || !slots->holds(block, 0)) {
        return std::nullopt;
      }
      return slots->elements(block, 0, scene.rows()) * scene.unit_of(id);
    };
    const auto o = held(SiteId::o_partial), m = held(SiteId::m_partial),
               l = held(SiteId::l_partial);
    if (!o || !m || !l) return std::nullopt;
    parts.o.push_back(*o);
    parts.m.push_back(*m);
    parts.l.push_back(*l);
    parts.top = split == 0 ? *m : parts.top.max(*m);
  }
  parts.top = (parts.top == -infinity).select(0, parts.top);
  for (const Array& m : parts.m) parts.weight.push_back(exp2(m - parts.top));
  return parts;
}

Array sum_of_parts(const std::vector<Array>& x, const Factors& factor) {
  Array total = Array::Zero(x[0].rows(), x[0].cols());
  for (std::size_t i = 0; i < x.size(); ++i) total += x[i] * factor(i);
  return total;
}

void try_other_parts(const Scene& scene, const Parts& right, Findings& findings) {
  if (right.count() > 1) {
    try_distance(scene, right, findings);
    try_first_alone(scene, right, findings);
    try_repeated(scene, right, findings);
  }
  try_other_blocks(scene, findings);
}

void try_other_splits(const Scene& scene, Findings& findings) {
  const SiteId site = scene.site();
  if (site != SiteId::o_partial && site != SiteId::m_partial && site != SiteId::l_partial) return;
  const Formulas fits(scene, findings);
  const std::int64_t splits = scene.info().splits, own = scene.block() / splits;
  constexpr std::int64_t most = 16;  // row tiles
  for (std::int64_t tile = 0; tile < std::min(most, scene.info().row_tiles()); ++tile) {
    scene.judge().judge(tile, [&](SiteId id, std::int64_t block, std::int64_t, Judgement judgement,
                                  const reference::Bounded& want) {
      if (id != site || block == scene.block()) return;
      if (judgement != scene.first().judgement) return;
      fits(Cause::misplaced,
           "the part is that of split " + std::to_string(block % splits) +
               (tile == own ? "" : " of row tile " + std::to_string(tile)) +
               ": it is stored at the place of another",
           want.value);
    });
  }
}

}  // namespace lanescope
