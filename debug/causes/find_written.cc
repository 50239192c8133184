#include <cmath>
#include <optional>

#include "debug/causes/detectors.h"
#include "debug/causes/phrases.h"

namespace lanescope {
namespace {

/// The tile that the loop over the tiles may have left out where the scene's site was not written:
/// its own, for Q the first.
std::optional<std::int64_t> tile_in_doubt(const Scene& scene) {
  const SiteSlots* slots = scene.judge().slots(scene.site());
  if (!slots) return std::nullopt;
  if (slots->site().per_tile) return scene.tile();
  if (slots->site().stage == Stage::load && scene.info().tiles.begin == 0) return 0;
  return std::nullopt;
}

/// Whether no traced site has anything for the tile.
bool is_untouched(const Scene& scene, std::int64_t tile) {
  int sites = 0;
  for (int i = 0; i < site_id_count; ++i) {
    const auto* slots = scene.judge().slots(static_cast<SiteId>(i));
    if (!slots || !slots->site().per_tile || !slots->holds(scene.block(), tile)) continue;
    if (!slots->untouched(scene.block(), tile)) return false;
    ++sites;
  }
  return sites > 1;
}

/// Whether no block came to the rows: their outputs are not written, either.
bool is_untaken(const Scene& scene) {
  const Tensor* const o = scene.dump().find(name_of(SiteId::o_final));
  if (!o || scene.info().splits > 1) return false;
  const std::int64_t d = o->dims.back(), first = scene.info().first_q_row(scene.place()) * d;
  const std::int64_t end = first + scene.info().rows(scene.place()) * d;
  for (std::int64_t i = first; i < end; ++i) {
    if (!is_unwritten(*o, i)) return false;
  }
  return first < end;
}

/// Of m_prev that was not written at the first tile: whether it was at the second, so that its
/// registers went there as nobody had set them. Nothing where that is not known.
std::optional<bool> is_unset_start(const Scene& scene) {
  const SiteSlots* slots = scene.judge().slots(scene.site());
  if (scene.site() != SiteId::m_prev || !slots || scene.tile() != 0) return false;
  if (!slots->holds(scene.block(), 1)) return std::nullopt;
  return !slots->untouched(scene.block(), 1);
}

/// A loop that comes to a tile twice, where it leaves another one out: m_prev is that tile's own m.
void find_tile_twice(const Scene& scene, Findings& findings) {
  if (scene.site() != SiteId::m_prev) return;
  const auto m = scene.held(SiteId::m, scene.tile());
  if (!m) return;
  const bool is_own = std::ranges::all_of(
      scene.elements(), [&](const Element& e) { return !e.wrong || e.got == (*m)(e.row, 0); });
  for (std::int64_t tile = 0; is_own && tile <= scene.last_tile(); ++tile) {
    if (!is_untouched(scene, tile)) continue;
    Finding finding{Cause::tile_skipped, 1, 1, true};
    finding.stage = Stage::load;
    finding.evidence = {"no site of tile " + std::to_string(tile) + " of block " +
                        std::to_string(scene.block()) + " was written, and tile " +
                        std::to_string(scene.tile()) +
                        " comes twice: its m_prev is the m that it had before"};
    findings.push_back(finding);
    return;
  }
}

/// "rows 3..7, columns 0..63", of the elements that `pick` picks.
template <class Pick>
std::string extent_text(const Scene& scene, const Pick& pick) {
  std::vector<std::int64_t> rows, cols, lanes, warps;
  for (const Element& e : scene.elements()) {
    if (!pick(e)) continue;
    rows.push_back(e.row);
    cols.push_back(e.col);
    if (e.holder.lane >= 0) lanes.push_back(e.holder.lane);
    if (e.holder.warp >= 0) warps.push_back(e.holder.warp);
  }
  std::string text = "rows " + list_text(rows);
  if (scene.cols() > 1) text += "; columns " + list_text(cols);
  if (!warps.empty()) text += "; warps " + list_text(warps) + "; lanes " + list_text(lanes);
  return text;
}

/// Whether l or O held zeros before the tile where it is wrongly zero, as nothing was added; or
/// alpha did, which is 0 in the first tile.
bool stays_zero(const Scene& scene) {
  const SiteId id = scene.site();
  const bool starts_at_zero = id == SiteId::l || id == SiteId::o || id == SiteId::alpha;
  if (scene.at_end() || !starts_at_zero) return false;
  const auto before = scene.before(scene.site(), scene.tile());
  return before && std::ranges::all_of(scene.elements(), [&](const Element& e) {
           return !e.wrong || e.unwritten || e.got != 0 || (*before)(e.row, e.col) == 0;
         });
}

void find_zeros(const Scene& scene, Findings& findings) {
  int zeros = 0, telling = 0;
  const auto is_zero = [&](const Element& e) { return e.wrong && !e.unwritten && e.got == 0; };
  for (const Element& e : scene.elements()) {
    zeros += is_zero(e);
    telling += e.wrong;
  }
  if (telling == 0 || 2 * zeros < telling) return;
  // How they are wrong, not why: never certain, so that other problems are asked.
  const bool stays = stays_zero(scene);
  // Who writes zeros does it whatever the sign.
  const bool may_be_limit = scene.site() == SiteId::lse || is_maximum(scene.site());
  const bool is_limit =
      may_be_limit && std::ranges::all_of(scene.elements(), [&](const Element& e) {
        return is_zero(e) ? e.want < 0 : !(e.want < 0);
      });
  Finding finding{stays      ? Cause::never_updated
                  : is_limit ? Cause::clamped
                             : Cause::written_zero,
                  0.9 * zeros / telling};
  finding.evidence = {share_text(zeros, telling) + " wrong values are " +
                      (stays ? "still 0, what they start from: " : "zero: ") +
                      extent_text(scene, is_zero)};
  if (is_limit) finding.evidence.emplace_back("all of them should be below 0, and no others");
  if (scene.first().stage == Stage::load) {
    finding.evidence.push_back("zeros also lie beyond the end: other places may have been loaded");
  }
  findings.push_back(finding);
}

}  // namespace

void find_unwritten(const Scene& scene, Findings& findings) {
  find_zeros(scene, findings);
  find_tile_twice(scene, findings);
  const auto unwritten = [](const Element& e) { return e.unwritten; };
  const auto count = std::count_if(scene.elements().begin(), scene.elements().end(), unwritten);
  if (count == 0) return;
  const double share = static_cast<double>(count) / scene.wrong_count();
  const std::optional<std::int64_t> tile = tile_in_doubt(scene);
  if (tile && is_untouched(scene, *tile)) {
    const bool untaken = *tile == 0 && is_untaken(scene);
    Finding skipped{untaken ? Cause::never_written : Cause::tile_skipped, share};
    skipped.evidence = {"no site of tile " + std::to_string(*tile) + " of block " +
                        std::to_string(scene.block()) + " was written, " +
                        (untaken ? "and none of its outputs: nobody took these rows"
                                 : "though its rows see keys " +
                                       std::to_string(scene.info().key_of(scene.place(), *tile)) +
                                       " on")};
    skipped.untaken = untaken;
    findings.push_back(skipped);
    return;
  }
  Finding finding{Cause::never_written, share};
  const std::string name = name_of(scene.site());
  const std::optional<bool> unset = is_unset_start(scene);
  if (!unset) finding.explained *= 0.9;  // a problem of several tiles tells
  if (unset.value_or(false)) {
    finding.cause = Cause::uninitialised_register;
    finding.evidence = {
        "m_prev is written from the second tile on: nothing is assigned to m before the first"};
  }
  if (scene.at_end()) {
    const Tensor& tensor = *scene.dump().find(name);
    std::int64_t empty = 0;
    for (std::int64_t i = 0; i < tensor.size(); ++i) empty += is_unwritten(tensor, i);
    finding.evidence = {share_text(empty, tensor.size()) + " elements of the output " + name +
                        " still hold what was there before the run"};
  }
  finding.evidence.push_back(share_text(count, std::ssize(scene.elements())) + " slots of " + name +
                             " were never written: " + extent_text(scene, unwritten));
  findings.push_back(finding);
}

void find_disagreement(const Scene& scene, Findings& findings) {
  if (scene.at_end()) return;
  const auto& all = scene.elements();
  const auto differ = [](const Element& a, const Element& b) {
    return a.row == b.row && a.col == b.col && a.got != b.got &&
           !(std::isnan(a.got) && std::isnan(b.got));
  };
  std::vector<std::int64_t> rows;
  std::vector<std::string> examples;
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = i + 1; scene.cols() == 1 && j < all.size(); ++j) {
      if (!differ(all[i], all[j])) continue;
      if (examples.size() < 2) {
        examples.push_back("row " + std::to_string(all[i].row) + ": " + holder_text(all[i].holder) +
                           " holds " + value_text(all[i].got) + ", " + holder_text(all[j].holder) +
                           " holds " + value_text(all[j].got));
      }
      rows.push_back(all[i].row);
    }
  }
  if (rows.empty()) return;
  int explained = 0;
  for (const Element& e : all) {
    explained += e.wrong && std::find(rows.begin(), rows.end(), e.row) != rows.end();
  }
  Finding finding{Cause::lanes_disagree, static_cast<double>(explained) / scene.wrong_count()};
  finding.evidence = {"the lanes of a row hold different values in rows " + list_text(rows)};
  finding.evidence.insert(finding.evidence.end(), examples.begin(), examples.end());
  findings.push_back(finding);
}

}  // namespace lanescope
