#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "debug/causes/detectors.h"
#include "debug/causes/mask_rules.h"
#include "debug/causes/phrases.h"
#include "reference/elementary.h"

namespace lanescope {
namespace {

using reference::infinity;

/// What it takes to say from where keys are counted.
constexpr double shift_bits = 4;

/// What it takes to say that a rule holds in some tiles alone.
constexpr double one_tile_bits = 6;

/// What it takes to say in which rows a mask is left out.
constexpr double rows_bits = 8;

/// What it takes to say how wide a window is.
constexpr double width_bits = 6;

/// Share of the wrong scores that are masked or not as `rule` says; nothing where another score is
/// not, for a mask knows no rounding.
std::optional<double> explained_by(const Scene& scene, const MaskRule& rule) {
  const DumpInfo& info = scene.info();
  const BlockPlace place = scene.place();
  const std::int64_t first_key = info.key_of(place, scene.tile());
  int explained = 0;
  for (const Element& e : scene.elements()) {
    if (e.unwritten) continue;
    const bool masked = e.got == -infinity;
    if (rule.sees(info, place, e.row, first_key + e.col) == masked) return std::nullopt;
    explained += e.wrong && masked != (e.want == -infinity);
  }
  return static_cast<double>(explained) / scene.wrong_count();
}

/// Whether the other tiles of the scene's block are masked as `rule` says, too.
bool holds_elsewhere(const Scene& scene, const MaskRule& rule) {
  const BlockPlace place = scene.place();
  for (std::int64_t tile = 0; tile <= scene.last_tile(); ++tile) {
    const std::optional<Scene::Array> s = scene.held(SiteId::s, tile);
    const std::int64_t first_key = scene.info().key_of(place, tile);
    for (reference::Index row = 0; s && row < s->rows(); ++row) {
      for (reference::Index col = 0; col < s->cols(); ++col) {
        const double got = (*s)(row, col);
        if (std::isnan(got)) continue;
        const bool masked = got == -infinity;
        if (rule.sees(scene.info(), place, row, first_key + col) == masked) return false;
      }
    }
  }
  return true;
}

/// Windows of one width alone that fit: where several do, the tile shows no window's edge.
std::vector<MaskRule> fitting_windows(const Scene& scene) {
  const auto fits = [&](const MaskRule& rule) {
    const std::optional<double> explained = explained_by(scene, rule);
    return explained && *explained >= 0.98;
  };
  std::vector<MaskRule> found;
  const std::size_t kinds = window_masks(scene.info(), 1).size();
  for (std::size_t kind = 0; kind < kinds; ++kind) {
    std::vector<MaskRule> of_kind;
    for (std::int64_t keys = 1; keys < scene.info().problem.len_kv && of_kind.size() < 2; ++keys) {
      const MaskRule rule = window_masks(scene.info(), keys)[kind];
      if (fits(rule)) of_kind.push_back(rule);
    }
    if (of_kind.size() == 1) found.push_back(of_kind.front());
  }
  return found;
}

/// Whether a masked score holds what it would be without a mask.
bool is_product(const Scene& scene, const Element& e) {
  const auto q = scene.held(SiteId::q_smem, 0), k = scene.held(SiteId::k_smem, scene.tile());
  if (!q || !k || !std::isfinite(e.got)) return false;
  const double factor = scene.reference().score_factor().value;
  double dot = 0;
  for (reference::Index i = 0; i < q->cols(); ++i) dot += (*q)(e.row, i) * (*k)(e.col, i);
  const double score = factor * dot;
  return std::abs(score - e.got) <= 1e-4 * (1 + std::abs(score));
}

/// Whether a row has scores that should be masked and are not, and others that are.
bool masks_in_part(const Scene& scene) {
  std::set<int> leaking, masked;
  for (const Element& e : scene.elements()) {
    if (e.unwritten || e.want != -infinity) continue;
    (e.got == -infinity ? masked : leaking).insert(e.row);
  }
  return std::any_of(leaking.begin(), leaking.end(), [&](int row) { return masked.contains(row); });
}

/// Whether there are scores that should be masked and are.
bool masks_some(const Scene& scene) {
  return std::ranges::any_of(scene.elements(), [](const Element& e) {
    return !e.unwritten && e.want == -infinity && e.got == -infinity;
  });
}

/// Rows whose scores are masked, all of them, in a tile of which they see at least three keys: they
/// left the tile out. 0 where another score is wrong, or a row of the same 16, which a warp has
/// together, has scores that count.
int rows_that_leave_out(const Scene& scene) {
  constexpr int fewest_keys = 3;
  constexpr reference::Index together = 16;
  const auto count = static_cast<std::size_t>(scene.rows());
  std::vector<int> lost(count), counting(count), sees(count);
  for (const Element& e : scene.elements()) {
    const auto row = static_cast<std::size_t>(e.row);
    const bool masked = e.got == -infinity, hidden = e.want == -infinity;
    if (e.unwritten || (e.wrong && !(masked && !hidden))) return 0;
    lost[row] += masked && !hidden;
    counting[row] += !masked;
    sees[row] += !hidden;
  }
  int rows = 0;
  bool is_telling = false;
  for (std::size_t row = 0; row < count; ++row) {
    if (lost[row] == 0) continue;
    const std::size_t first = row / together * together;
    for (std::size_t other = first; other < std::min(count, first + together); ++other) {
      if (counting[other] > 0) return 0;
    }
    ++rows;
    is_telling = is_telling || sees[row] >= fewest_keys;
  }
  return is_telling ? rows : 0;
}

}  // namespace

void find_mask(const Scene& scene, Findings& findings) {
  if (scene.site() != SiteId::s) return;
  int leaked = 0, beyond_end = 0, lost = 0, same_value = 0;
  const std::int64_t first_key = scene.info().key_of(scene.place(), scene.tile());
  const Element* example = nullptr;
  double value = 0;
  for (const Element& e : scene.elements()) {
    if (!e.wrong || e.unwritten || (e.want == -infinity) == (e.got == -infinity)) continue;
    (e.want == -infinity ? leaked : lost) += 1;
    beyond_end += e.want == -infinity && first_key + e.col >= scene.info().problem.len_kv;
    if (example == nullptr) {
      example = &e;
      value = e.got;
    }
    same_value += e.got == value;
  }
  if (example == nullptr) return;
  std::string counts;
  if (leaked > 0) counts = std::to_string(leaked) + " scores should be masked and are not";
  if (lost > 0) {
    counts += (leaked > 0 ? ", " : "") + std::to_string(lost) + (leaked > 0 ? "" : " scores") +
              " are masked and should not be";
  }
  const std::string example_line = "e.g. " + example_text(scene, *example);
  if (lost == 0 && leaked > 1 && same_value == leaked) {
    // Keys beyond the end that are zeros have scores of 0 as well: other masks tell.
    const bool may_be_product = is_product(scene, *example);
    const bool masks_rightly = std::ranges::any_of(
        scene.elements(), [](const Element& e) { return !e.wrong && e.want == -infinity; });
    if (!may_be_product || (value == 0 && !masks_rightly)) {
      Finding finding{Cause::mask_value, static_cast<double>(leaked) / scene.wrong_count()};
      finding.evidence = {"all " + std::to_string(leaked) + " masked scores that are wrong hold " +
                          value_text(value)};
      finding.formula = may_be_product;
      finding.shows = [](const DumpInfo& info) {
        return info.problem.causal || info.problem.len_kv % info.bc != 0;
      };
      findings.push_back(finding);
    }
    if (!may_be_product) return;
  }
  const auto attempt = [&](const MaskRule& rule, double bits) {
    const std::optional<double> explained = explained_by(scene, rule);
    if (!explained || *explained < 0.98) return false;
    Finding finding{rule.cause, *explained, 1, true};
    finding.bits += bits + (holds_elsewhere(scene, rule) ? 0 : one_tile_bits);
    finding.evidence = {rule.text, counts, example_line};
    finding.shows = [rule](const DumpInfo& info) { return rule.shows(info); };
    findings.push_back(finding);
    return true;
  };
  const std::ptrdiff_t first = std::ssize(findings);
  for (const MaskRule& rule : mask_rules(scene.info())) attempt(rule, 0);
  // Of one cause, what holds in other tiles as well.
  std::stable_sort(findings.begin() + first, findings.end(),
                   [](const Finding& a, const Finding& b) { return a.bits < b.bits; });
  for (const MaskRule& rule : shifted_masks(scene.info(), scene.place(), scene.tile())) {
    if (attempt(rule, shift_bits)) break;  // what it sees of the tile is the same for many
  }
  for (const MaskRule& rule : fitting_windows(scene)) attempt(rule, width_bits);
  if (const int rows = rows_that_leave_out(scene)) {
    Finding finding{Cause::tile_skipped, 1, 1, true};
    finding.bits += width_bits;
    finding.evidence = {
        "all scores of the tile are -inf in " + std::to_string(rows) +
            " rows that see keys of it, and in those beside them: they leave it out",
        counts, example_line};
    findings.push_back(finding);
  }
  // No known rule says in which tiles or rows; of one mask alone, that it is left out there.
  const Cause cause = lost > 0 || masks_in_part(scene) ? Cause::mask_wrong
                      : beyond_end == leaked           ? Cause::tail_mask_missing
                      : beyond_end == 0                ? Cause::causal_mask_missing
                                                       : Cause::mask_wrong;
  Finding finding{cause, static_cast<double>(leaked + lost) / scene.wrong_count()};
  finding.bits = 1.5 * (leaked + lost) + (masks_some(scene) ? rows_bits : 0);
  finding.evidence = {counts, example_line};
  findings.push_back(finding);
}

}  // namespace lanescope
