// Whether elements are taken from where others lie, and whose mistake that is: of who put them
// there, or of who takes them.

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>

#include "debug/causes/cause_families.h"
#include "gates/run/placement.h"
#include "gates/run/term_judging.h"

namespace lanescope {
namespace {

using Term = Provenance::Term;

constexpr const char* names[] = {"Q", "K", "V", "S", "P"};
constexpr Stage writers[] = {Stage::load, Stage::load, Stage::load, Stage::qk, Stage::softmax};
constexpr Stage readers[] = {Stage::qk, Stage::qk, Stage::pv, Stage::softmax, Stage::pv};

/// The row and the column, or key, of a term of a kind; of a sum those of a part of it.
std::optional<std::pair<std::int64_t, std::int64_t>> element_of(const Term& term, int kind) {
  static constexpr const char* kinds[] = {"q", "k", "v", "score", "weight"};
  if (term.kind == kinds[kind]) {
    return std::pair(term.row, term.is_input() ? term.column : term.key);
  }
  if (kind == 2 && term.kind == "output" && count(term.set) == 1) {
    return std::pair(term.set.front().first, term.column);
  }
  if (kind == 4 && term.kind == "sum" && !term.set.empty()) {
    return std::pair(term.row, term.set.front().first);
  }
  return std::nullopt;
}

/// "rows 64 elements apart, swizzled by row".
std::string text_of(const Placement& tile) {
  return tile.steps().text() + (tile.is_swizzled() ? ", swizzled by row" : "");
}

/// What makes two layouts different; of equal steps it is a swizzle.
Cause difference(const ElementLayout& a, const ElementLayout& b) {
  if (a.by_rows() != b.by_rows()) return Cause::transposed;
  const bool same = a.row_step == b.row_step && a.column_step == b.column_step;
  return same ? Cause::permuted : Cause::wrong_stride;
}

}  // namespace

/// A tile may hold the rows of several heads; of an array of tiles, each with the keys of its head
/// alone, that of the first one.
Placement TermJudging::placement(int kind) const {
  const Provenance::Placed& placed = all_.placed[static_cast<std::size_t>(kind)];
  const Placement whole(placed);
  if (kind < 3 || placed.at.empty()) return whole;
  const std::int64_t head = head_of(placed.at.begin()->first.first);
  Provenance::Placed of_head{placed.room, {}};
  std::ranges::copy_if(placed.at, std::inserter(of_head.at, of_head.at.end()),
                       [&](const auto& at) { return head_of(at.first.first) == head; });
  Placement own(of_head);
  return own.is_known() && own.columns() < whole.columns() ? own : whole;
}

/// Whether a sample is none where elements of the kind are those that `taken` has at their places.
std::optional<bool> TermJudging::agrees(const Found& found, const std::pair<Term, Term>& sample,
                                        int kind, const Placement& tile,
                                        const Placement::Taken& taken) const {
  const auto all_meant = [&](const Term& term) {
    const auto element = element_of(term, kind);
    const auto at = element ? tile.at(tile.in_tile(element->first, element->second)) : std::nullopt;
    return at ? taken.equal_range(*at) : std::pair(taken.end(), taken.end());
  };
  const auto meant = [&](const Term& term) -> std::optional<Placement::Element> {
    const auto [first, end] = all_meant(term);
    return first != end ? std::optional(first->second) : std::nullopt;
  };
  const auto& [x, y] = sample;
  const auto own = meant(x) ? meant(x) : meant(y);
  if (!own) return std::nullopt;
  const Term& other = meant(x) ? y : x;
  switch (found.conflict) {
    case Conflict::column_of_other:
      if (!other.is_input()) return std::nullopt;
      return own->second == other.column;
    case Conflict::value_of_other_key:
      // A weight and a row of V.
      if (kind == 2 && other.key >= 0) return own->first == tile.in_tile(other.key, 0).first;
      if (kind >= 3 && other.kind == "v") {
        const auto [first, end] = all_meant(meant(x) ? x : y);
        const std::int64_t key = tile.in_tile(0, other.row).second;
        return std::any_of(first, end, [&](const auto& at) { return at.second.second == key; });
      }
      return std::nullopt;
    case Conflict::output_of_other_column: {
      const auto also = meant(other);
      if (!also || kind != 2) return std::nullopt;
      return own->second == also->second;
    }
    case Conflict::maximum_of_other_row:
    case Conflict::sum_of_other_row: {
      const auto also = meant(other);
      // Each a sum of one row's weights, which were taken as they lie.
      const bool of_rows = count(x.set) > 1 && count(y.set) > 1;
      if (!also || kind < 3 || of_rows) return std::nullopt;
      return own->first == also->first;
    }
    default:
      return std::nullopt;
  }
}

/// Which of those who put a tile there and those who take it is wrong, where it is taken as
/// `layout` would have it: nothing where neither is more likely.
std::optional<bool> TermJudging::is_writer_wrong(const Placement& tile, int kind,
                                                 const ElementLayout& layout) const {
  const ElementLayout own = tile.steps();
  // The one that fills its room.
  const auto fills = [&](const ElementLayout& as) {
    const std::int64_t span =
        as.by_rows() ? tile.rows() * as.row_step : tile.columns() * as.column_step;
    const std::int64_t all =
        as.by_rows() && kind >= 3 ? p_.batch * p_.heads * p_.len_q * as.row_step : span;
    return tile.room() > 0 && span > 0 && (tile.room() % span == 0 || tile.room() == all);
  };
  if (fills(own) != fills(layout)) return fills(layout);
  for (int other = 0; other < 3 && kind < 3; ++other) {
    if (other != kind && tile.lies_as(placement(other))) return false;
  }
  // Nobody swizzles, or leaves room in rows, without meaning to.
  if (tile.is_plain() != tile.is_plain(layout)) return tile.is_plain();
  if (kind >= 3 && own.by_rows() != layout.by_rows()) return layout.by_rows();
  return std::nullopt;
}

/// Whether a tile of Q, K or V lies otherwise than another, and of the two it is the odd one.
bool TermJudging::is_odd(int kind, int other) const {
  const Placement tile = placement(kind);
  const Placement like = placement(other);
  if (!like.is_known() || like.element_bytes() != tile.element_bytes() || like.lies_as(tile)) {
    return false;
  }
  const Placement third = placement(3 - kind - other);
  if (third.is_known() && third.lies_as(tile)) return false;
  if (third.is_known() && third.lies_as(like)) return true;
  if (tile.is_regular() != like.is_regular()) return like.is_regular();
  return tile.is_plain() && !like.is_plain();
}

bool TermJudging::explain_place(const Found& found, TermFault& fault, std::string& what) const {
  const auto tell = [&](int kind, bool by_writer, Cause cause, std::string words) {
    // Weights that take the place of their scores lie as those do.
    const Placement scores = placement(3);
    const bool in_place = kind == 4 && scores.is_known() && scores.lies_as(placement(4));
    // Who takes scores of other rows is wrong before those who take weights.
    const bool mixes_rows = std::ranges::any_of(all_.meetings, [](const auto& meeting) {
      return meeting.second.fresh > 0 &&
             (meeting.second.conflict == Conflict::maximum_of_other_row ||
              meeting.second.conflict == Conflict::sum_of_other_row);
    });
    if (in_place && (by_writer || mixes_rows)) kind = 3;
    fault.cause = cause;
    fault.stage = by_writer ? writers[kind] : readers[kind];
    fault.or_stage.reset();
    fault.stage_is_told = true;
    fault.operand = kind < 3 ? std::optional(kind) : std::nullopt;
    what = std::string(names[kind]) + std::move(words);
    return true;
  };
  for (int kind = 0; kind < 5; ++kind) {
    const Placement tile = placement(kind);
    if (!tile.is_known()) continue;
    const auto fits = [&](const Placement::Taken& taken) {
      std::int64_t good = 0, all = 0;
      for (const auto& sample : found.samples) {
        const auto one = agrees(found, sample, kind, tile, taken);
        if (!one) continue;
        ++all;
        good += *one;
      }
      return all >= 8 && 20 * good >= 19 * all && 2 * all >= std::ssize(found.samples);
    };
    if (fits(tile.taken_as(tile))) continue;  // it goes together as it is
    const std::vector<ElementLayout> layouts =
        tile.is_regular() ? layouts_for(tile) : std::vector<ElementLayout>{};
    // In its own rows, with another swizzle: nothing else is to be chosen.
    const auto swizzle = std::ranges::find_if(layouts, [&](const ElementLayout& layout) {
      return layout.mask > 0 && tile.is_swizzled() && !tile.lies_as(layout) &&
             fits(tile.taken_as(layout));
    });
    if (swizzle != layouts.end()) {
      const bool by_writer = is_writer_wrong(tile, kind, *swizzle).value_or(true);
      tell(kind, by_writer, Cause::permuted,
           " is stored with " + text_of(tile) + ", and taken as if another swizzle had been");
      if (by_writer) fault.or_stage = readers[kind];
      return true;
    }
    for (int other = 0; other < 3 && kind < 3; ++other) {
      const Placement like = placement(other);
      if (other == kind || !is_odd(kind, other) || !fits(tile.taken_as(like))) continue;
      const bool both_regular = tile.is_regular() && like.is_regular();
      const std::int64_t step = tile.panel_step(), other_step = like.panel_step();
      // Panels of as many rows as the tile has: it is right as it lies.
      if (both_regular && other_step > 0 && step != other_step && tile.is_dense()) {
        return tell(kind, false, Cause::wrong_stride,
                    " is stored in panels of columns that lie " + std::to_string(step) +
                        " elements apart, and taken as if they lay " + std::to_string(other_step) +
                        " apart, as those of " + names[other] + " do");
      }
      return tell(
          kind, true, both_regular ? difference(tile.steps(), like.steps()) : Cause::permuted,
          both_regular ? " is stored with " + text_of(tile) + ", and taken as if it lay as " +
                             names[other] + " does, with " + text_of(like)
                       : std::string(" is stored in an order of its own, and taken as if "
                                     "it lay as ") +
                             names[other] + " does");
    }
    for (const ElementLayout& layout : layouts) {
      if (tile.lies_as(layout) || !fits(tile.taken_as(layout))) continue;
      const auto by_writer = is_writer_wrong(tile, kind, layout);
      if (!by_writer) return false;
      return tell(
          kind, *by_writer, difference(tile.steps(), layout),
          " is stored with " + text_of(tile) + ", and taken as if it lay with " + layout.text());
    }
  }
  return false;
}

/// Whether a tile is put in memory in an order of its own, and no other one in the same.
bool TermJudging::is_disordered(int kind) const {
  const Placement tile = placement(kind);
  if (!tile.is_known() || tile.is_regular()) return false;
  // Weights may lie where their scores did.
  const int first = kind < 3 ? 0 : 3, last = kind < 3 ? 3 : kind;
  for (int other = first; other < last; ++other) {
    const Placement like = placement(other);
    if (other != kind && tile.lies_as(like)) return false;
  }
  return true;
}

/// What meets in the wrong order, where it was put in memory in that order.
void TermJudging::tell_disorder(const Found& found, TermFault& fault) const {
  if (!takes_others(fault.cause) || fault.cause == Cause::stale_operand) return;
  std::vector<int> kinds;
  switch (found.conflict) {
    case Conflict::column_of_other:
      kinds = {0, 1};
      break;
    case Conflict::value_of_other_key:
      // Where the weights come in their order, they lay in it.
      kinds = found.is_disordered(1) ? std::vector{2} : std::vector{1, 2, 3, 4};
      break;
    case Conflict::maximum_of_other_row:
    case Conflict::sum_of_other_row:
      kinds = {0, 3};
      break;
    case Conflict::output_of_other_column:
      kinds = {2};
      break;
    default:
      return;
  }
  for (const int kind : kinds) {
    if (!is_disordered(kind)) continue;
    fault.stage = writers[kind];
    fault.or_stage.reset();
    fault.stage_is_told = true;
    fault.operand = kind < 3 ? std::optional(kind) : std::nullopt;
    fault.evidence.push_back(std::string("rows or columns of ") + names[kind] +
                             " do not lie in their order where they are put in memory");
    return;
  }
}

}  // namespace lanescope
