#include <algorithm>
#include <cmath>
#include <limits>

#include "debug/causes/detectors.h"
#include "debug/causes/formulas.h"
#include "reference/elementary.h"

namespace lanescope {
namespace {

using Array = Scene::Array;
using reference::Index;
using reference::product;

/// How far apart the rows of a tile lie where it is stored, and how far where it is read, both in
/// elements; in blocks of `block` rows and columns that each begin where they should, 0: the whole
/// tile is one.
struct Strides {
  Index stored, read, block;
};

/// `tile` as it is read so. NaN: the padding, or what lies behind the tile.
Array read_with(const Strides& strides, const Array& tile) {
  Array seen(tile.rows(), tile.cols(), std::numeric_limits<double>::quiet_NaN());
  for (Index row = 0; row < tile.rows(); ++row) {
    for (Index col = 0; col < tile.cols(); ++col) {
      const Index in_row = strides.block == 0 ? row : row % strides.block;
      const Index address = (row - in_row) * strides.stored + in_row * strides.read + col;
      const Index line = address / strides.stored, place = address % strides.stored;
      if (line < tile.rows() && place < tile.cols()) seen(row, col) = tile(line, place);
    }
  }
  return seen;
}

/// How well values fit that are unknown, or NaN themselves, where they are predicted as NaN.
Fit fit_known(const Scene& scene, const Array& values) {
  FitCount count;
  for (const Element& e : scene.elements()) {
    const double value = values(e.row, e.col);
    if (std::isnan(value) && std::isfinite(e.got)) continue;
    const bool hit = std::isnan(value) ? std::isnan(e.got)
                                       : !e.unwritten && scene.fits(e.row, e.col, e.got, value);
    const bool decisive = e.wrong && !scene.fits(e.row, e.col, e.got, e.want);
    // Where padding is read, anything may come of it: that alone is no evidence.
    if (decisive && std::isnan(value)) continue;
    count.add(decisive, hit);
  }
  return count.fit();
}

/// Whether the values are NaN exactly where padding would have been read.
bool explains_nans(const Scene& scene, const Array& values) {
  int nans = 0;
  for (const Element& e : scene.elements()) {
    if (std::isnan(values(e.row, e.col)) != std::isnan(e.got)) return false;
    nans += std::isnan(e.got);
  }
  return nans >= 8;
}

/// What `use` makes of `tile` where it is read with another stride.
template <class Use>
void try_strides(const Scene& scene, const std::string& name, const Array& tile, const Use& use,
                 Findings& findings) {
  constexpr Index pads[] = {0, 8, 4, 16, 1, 2};
  std::optional<Finding> padding_alone;
  for (const Index block : {Index(0), Index(16)}) {
    for (const Index stored_pad : pads) {
      for (const Index side : {tile.cols(), tile.rows()}) {
        for (const Index read_pad : pads) {
          const Strides strides{tile.cols() + stored_pad, side + read_pad, block};
          if (strides.stored == strides.read) continue;
          const Array values = use(read_with(strides, tile));
          const Fit fit = fit_known(scene, values);
          const bool known = fit.decisive >= 8;
          if (known ? fit.explained < 0.98 || fit.consistent < 0.98
                    : padding_alone || !explains_nans(scene, values)) {
            continue;
          }
          Finding finding{Cause::wrong_stride, known ? fit.explained : 0.92, fit.consistent, known};
          finding.evidence = {
              name + " is stored every " + std::to_string(strides.stored) + " elements and read" +
              " every " + std::to_string(strides.read) +
              (block == 0 ? "" : " in blocks of " + std::to_string(block) + " rows")};
          if (known) {
            findings.push_back(finding);
            return;
          }
          finding.evidence[0] =
              "NaN stands exactly where padding is read if " + finding.evidence[0];
          finding.reads_unwritten = true;
          padding_alone = finding;
        }
      }
    }
  }
  if (padding_alone) findings.push_back(*padding_alone);
}

/// `tile` in panels of `width` columns, each of `height` rows behind the other, read as if they
/// were of `taken` rows. NaN: behind the last one, or in rows that nobody knows.
Array read_in_panels(const Array& tile, Index width, Index height, Index taken) {
  Array seen(tile.rows(), tile.cols(), std::numeric_limits<double>::quiet_NaN());
  for (Index row = 0; row < tile.rows(); ++row) {
    for (Index col = 0; col < tile.cols(); ++col) {
      const Index line = col / width * taken + row;
      const Index from = line / height * width + col % width;
      if (from < tile.cols() && line % height < tile.rows()) {
        seen(row, col) = tile(line % height, from);
      }
    }
  }
  return seen;
}

/// What `use` makes of a `tile` of panels that lie `height` rows apart, as the boxes of a tensor
/// map do, where it takes another distance: that of another operand's, or of a part of the rows.
template <class Use>
void try_panels(const Scene& scene, const std::string& name, const Array& tile, Index height,
                const Use& use, Findings& findings) {
  for (const Index width : {64, 128, 32}) {
    if (width >= tile.cols()) continue;
    for (const Index taken : {Index{scene.info().br}, Index{scene.info().bc}, Index{8}, Index{16},
                              Index{32}, Index{64}, Index{128}, Index{256}}) {
      if (taken == height) continue;
      const Array values = use(read_in_panels(tile, width, height, taken));
      const Fit fit = fit_known(scene, values);
      if (fit.decisive < 8 || fit.explained < 0.98 || fit.consistent < 0.98) continue;
      Finding finding{Cause::wrong_stride, fit.explained, fit.consistent, true};
      finding.evidence = {name + " has every " + std::to_string(width) + " columns " +
                          std::to_string(height) +
                          " rows behind those before, and is read as if "
                          "it were " +
                          std::to_string(taken)};
      findings.push_back(finding);
      return;
    }
  }
}

/// The site itself, stored in blocks with another stride than it has.
void try_stored(const Scene& scene, Findings& findings) {
  constexpr Index pads[] = {0, 8, 4, 16, 1, 2};
  const Array& want = scene.want();
  const Index rows = want.rows(), cols = want.cols();
  const SiteSlots* slots = scene.judge().slots(scene.site());
  if (!slots || slots->site().space != Space::shared || cols == 1) return;
  for (const Index block : {Index(16), Index(0)}) {
    for (const Index own_pad : pads) {
      for (const Index other_pad : pads) {
        const Index own = cols + own_pad, other = cols + other_pad;
        if (own == other) continue;
        // Later writers overwrite earlier ones: any of them may be the last.
        std::vector<std::vector<double>> written(static_cast<std::size_t>(rows * own + rows * 16));
        for (Index row = 0; row < rows; ++row) {
          for (Index col = 0; col < cols; ++col) {
            const Index in_row = block == 0 ? row : row % block;
            const auto at = static_cast<std::size_t>((row - in_row) * own + in_row * other + col);
            if (at < written.size()) written[at].push_back(want(row, col));
          }
        }
        FitCount count;
        for (const Element& e : scene.elements()) {
          const auto& all = written[static_cast<std::size_t>(e.row * own + e.col)];
          if (all.empty()) continue;
          count.add(e.wrong, !e.unwritten && std::any_of(all.begin(), all.end(), [&](double value) {
                      return scene.fits(e.row, e.col, e.got, value);
                    }));
        }
        const Fit fit = count.fit();
        if (fit.decisive < 16 || fit.explained < 0.98 || fit.consistent < 0.98) continue;
        Finding finding{Cause::wrong_stride, 1, 1, true};
        finding.evidence = {std::string(name_of(scene.site())) + " has its rows every " +
                            std::to_string(own) + " elements and is written every " +
                            std::to_string(other) +
                            (block == 0 ? "" : " in blocks of " + std::to_string(block) + " rows")};
        findings.push_back(finding);
        return;
      }
    }
  }
}

}  // namespace

void find_stride(const Scene& scene, Findings& findings) {
  const std::int64_t tile = scene.tile();
  if (scene.wrong_count() < 8) return;
  if (scene.site() == SiteId::s) {
    const auto q = scene.held(SiteId::q_smem, 0), k = scene.held(SiteId::k_smem, tile);
    if (!q || !k) return;
    const double factor = scene.reference().score_factor().value;
    const reference::Visible seen = scene.reference().visible(tile);
    const auto scores = [&](const Array& queries, const Array& keys) {
      Array s = factor * product_transposed(queries.top_rows(scene.rows()), keys);
      for (Index row = 0; row < s.rows(); ++row) {
        s.fill_row(row, -reference::infinity, seen[static_cast<std::size_t>(row)]);
      }
      return s;
    };
    const auto of_keys = [&](const Array& x) { return scores(*q, x); };
    try_strides(
        scene, "Q", *q, [&](const Array& x) { return scores(x, *k); }, findings);
    try_strides(scene, "K", *k, of_keys, findings);
    try_panels(
        scene, "Q", *q, scene.info().br, [&](const Array& x) { return scores(x, *k); }, findings);
    try_panels(scene, "K", *k, scene.info().bc, of_keys, findings);
    try_strides(
        scene, "K, stored by columns,", k->transpose(),
        [&](const Array& x) { return of_keys(x.transpose()); }, findings);
  } else if (scene.site() == SiteId::o) {
    const auto p = scene.weights(tile), alpha = scene.held(SiteId::alpha, tile);
    const auto before = scene.before(SiteId::o, tile), v = scene.held(SiteId::v_smem, tile);
    if (!p || !alpha || !before || !v) return;
    const Array kept = *before * *alpha;
    try_strides(
        scene, "V", *v, [&](const Array& x) { return kept + product(*p, x); }, findings);
    try_panels(
        scene, "V", *v, scene.info().bc, [&](const Array& x) { return kept + product(*p, x); },
        findings);
    try_strides(
        scene, "P", *p, [&](const Array& x) { return kept + product(x, *v); }, findings);
  }
  try_stored(scene, findings);
}

}  // namespace lanescope
