#include <cmath>
#include <limits>
#include <numbers>
#include <set>

#include "debug/causes/detectors.h"
#include "debug/causes/phrases.h"
#include "reference/elementary.h"

namespace lanescope {
namespace {

using Array = Scene::Array;
using reference::Index;

/// The ratio got / want that all wrong elements share which `group` puts together; NaN where none.
struct Ratio {
  double value = std::numeric_limits<double>::quiet_NaN();
  bool constant = true;
  int count = 0;
  int telling = 0;  ///< of them, those that no rounding explains
  double least = std::numeric_limits<double>::infinity(), most = 0;  ///< magnitudes of those

  /// Whether it is a factor, and not something that looks like one within rounding: it holds for
  /// values of several sizes, and is not nearly 1.
  bool tells(double rounding) const {
    return constant && 2 * telling >= count && std::isfinite(value) && value != 0 &&
           std::abs(value - 1) > 8 * rounding && (telling < 8 || most > 4 * least);
  }
};

/// Whether `e` is `ratio` times what it should be: errors, too, are multiplied by it.
bool has_ratio(const Scene& scene, const Element& e, double ratio) {
  const double value = ratio * e.want, own = std::isfinite(e.bound) ? 2 * e.bound : 0;
  return std::abs(e.got - value) <=
         scene.tolerance(e.row, e.col, value) + (std::min(std::abs(ratio), 64.0) - 1) * own;
}

template <class Group>
std::vector<Ratio> ratios(const Scene& scene, Index groups, const Group& group) {
  std::vector<Ratio> all(static_cast<std::size_t>(groups));
  // From the largest value of the group, where rounding matters least.
  std::vector<double> largest(all.size(), 0);
  const auto tells = [](const Element& e) {
    return !e.unwritten && std::isfinite(e.got) && std::isfinite(e.want) && e.want != 0;
  };
  for (const Element& e : scene.elements()) {
    const std::size_t g = static_cast<std::size_t>(group(e));
    if (!e.wrong || !tells(e) || std::abs(e.want) <= largest[g]) continue;
    largest[g] = std::abs(e.want);
    all[g].value = e.got / e.want;
  }
  for (const Element& e : scene.elements()) {
    Ratio& own = all[static_cast<std::size_t>(group(e))];
    if (!e.wrong) continue;
    ++own.count;
    own.constant = own.constant && tells(e) && has_ratio(scene, e, own.value);
    if (scene.fits(e.row, e.col, e.got, e.want)) continue;
    ++own.telling;
    own.least = std::min(own.least, std::abs(e.want));
    own.most = std::max(own.most, std::abs(e.want));
  }
  return all;
}

/// By what values are off, relatively, that went through the type of the inputs.
double rounding_of(const Scene& scene) {
  return std::ldexp(1.0, -format_of(operand_type(scene.info().dtype)).fraction_bits - 1);
}

/// Whether all wrong values of a site with columns are in the same row.
bool in_one_row(const Scene& scene) {
  std::set<int> rows;
  for (const Element& e : scene.elements()) {
    if (e.wrong) rows.insert(e.row);
  }
  return scene.cols() > 1 && rows.size() < 2;
}

std::string constant_text(const Scene& scene, double ratio) {
  const double d = static_cast<double>(scene.info().problem.d);
  const double width = scene.info().head_dim;
  const std::pair<double, const char*> known[] = {
      {std::numbers::log2e, "log2(e)"},
      {std::numbers::ln2, "ln 2"},
      {std::sqrt(d), "sqrt(d)"},
      {1 / std::sqrt(d), "1/sqrt(d)"},
      {d, "d"},
      {1 / d, "1/d"},
      {std::sqrt(d / width), "sqrt(d/D)"},
      {std::sqrt(d) * std::numbers::ln2, "sqrt(d) ln 2"},
      {std::numbers::ln2 / std::sqrt(d), "ln 2/sqrt(d)"},
      {std::numbers::log2e * std::numbers::log2e, "log2(e)^2"},
      {2, "2"},
      {0.5, "1/2"},
      {4, "4"},
      {0.25, "1/4"},
      {-1, "-1"}};
  for (const auto& [value, name] : known) {
    if (std::abs(ratio / value - 1) < 1e-3) return std::string(" = ") + name;
  }
  return {};
}

}  // namespace

void find_scale(const Scene& scene, Findings& findings) {
  if (scene.first().stage == Stage::load && scene.wrong_count() < 4) return;
  const double rounding = rounding_of(scene);
  const Ratio whole = ratios(scene, 1, [](const Element&) { return 0; })[0];
  const std::string known = constant_text(scene, whole.value);
  // Of one row alone, a number that is no known one may be the row's own.
  if (whole.tells(rounding) && whole.count > 2 && (!known.empty() || !in_one_row(scene))) {
    // Maxima and logarithms have a base.
    const bool has_base = scene.site() == SiteId::m_partial || scene.site() == SiteId::lse;
    const bool of_bases = std::abs(whole.value / std::numbers::ln2 - 1) < 1e-3 ||
                          std::abs(whole.value / std::numbers::log2e - 1) < 1e-3;
    Finding finding{has_base && of_bases ? Cause::wrong_base : Cause::wrong_scale, 1};
    if (known.empty()) finding.bits += free_number_bits;
    finding.evidence = {"got / want is " + value_text(whole.value) + known + " for all " +
                        std::to_string(whole.count) + " wrong values"};
    findings.push_back(finding);
    return;
  }
  for (const bool by_row : {true, false}) {
    if (scene.cols() == 1) break;
    const Index groups = by_row ? scene.rows() : scene.cols();
    const std::vector<Ratio> all =
        ratios(scene, groups, [&](const Element& e) { return by_row ? e.row : e.col; });
    int explained = 0, numbers = 0;
    std::string examples;
    for (std::size_t g = 0; g < all.size(); ++g) {
      if (!all[g].tells(rounding) || all[g].count < 3) continue;
      explained += all[g].count;
      ++numbers;
      if (examples.size() > 60) continue;
      examples += (examples.empty() ? "" : ", ") + std::to_string(g) + ": " +
                  value_text(all[g].value) + constant_text(scene, all[g].value);
    }
    const double share = static_cast<double>(explained) / scene.wrong_count();
    if (share < 0.5) continue;
    // A free number each: it says how the values are wrong, not why.
    Finding finding{Cause::wrong_scale, 0.9 * share};
    finding.bits += numbers * free_number_bits;
    finding.evidence = {std::string("got / want is constant in each ") +
                        (by_row ? "row" : "column") + ": " + examples};
    findings.push_back(finding);
  }
}

/// Whether l or O is no number after the first tile, though all that goes into it is: what it was
/// before is NaN, and 0 times that is no 0. Of a tile that is read beside what was written of it,
/// the memory checker knows.
bool is_uncleared(const Scene& scene) {
  const bool of_sum = scene.site() == SiteId::l;
  if ((!of_sum && scene.site() != SiteId::o) || scene.tile() != 0) return false;
  if (std::ranges::any_of(scene.elements(), [](const Element& e) { return e.unwritten; })) {
    return false;
  }
  for (const SiteId id : {SiteId::alpha, SiteId::p, SiteId::v_smem}) {
    if (of_sum && id == SiteId::v_smem) continue;
    const auto operand = scene.held(id, 0);
    if (!operand || !operand->is_finite().all()) return false;
  }
  return true;
}

void add_uncleared(const Scene& scene, Findings& findings) {
  const bool of_sum = scene.site() == SiteId::l;
  // O after padding of V, before the symptom.
  Finding finding{Cause::accumulator_not_cleared, of_sum ? 1 : 0.91};
  finding.evidence = {of_sum
                          ? "alpha and P are numbers and l is none: l, or the sum that is added "
                            "to it, starts from what was in its register"
                          : "alpha, P and V are numbers and O is none: O starts from what was in "
                            "its registers or its tile, which alpha = 0 does not clear"};
  findings.push_back(finding);
}

void find_non_finite(const Scene& scene, Findings& findings) {
  const auto& all = scene.elements();
  const auto strange = [&](const Element& e) {
    // -inf is what masked scores and maxima of no score are.
    const bool is_number =
        e.got == -reference::infinity && (scene.site() == SiteId::s || is_maximum(scene.site()));
    return e.wrong && !e.unwritten && !std::isfinite(e.got) && std::isfinite(e.want) && !is_number;
  };
  const auto first = std::find_if(all.begin(), all.end(), strange);
  if (first == all.end()) return;
  const bool uncleared = is_uncleared(scene);
  if (uncleared) add_uncleared(scene, findings);
  const double share =
      static_cast<double>(std::count_if(all.begin(), all.end(), strange)) / scene.wrong_count();
  const bool at_end = scene.at_end();
  const std::int64_t tile = at_end ? scene.end_tile() : scene.tile();
  const auto values_of = [&](SiteId id) {
    auto values = scene.held(id, tile);
    if (id == SiteId::m_prev && !values) values = scene.before(SiteId::m, tile);
    return values;
  };
  const auto value_at = [&](SiteId id, Index col) -> std::optional<double> {
    const auto values = values_of(id);
    if (!values || first->row >= values->rows() || col >= values->cols()) return std::nullopt;
    return (*values)(first->row, col);
  };
  std::string operands;
  const auto operand = [&](SiteId id, Index col) {
    const auto value = value_at(id, col);
    if (!value) return;
    operands += (operands.empty() ? "" : ", ") +
                element_text(name_of(id), first->row, col, values_of(id)->cols()) + " = " +
                value_text(*value);
  };
  const Stage stage = scene.first().stage;
  if (stage == Stage::softmax) {
    if (scene.site() == SiteId::p) operand(SiteId::s, first->col);
    operand(SiteId::m_prev, 0);
    if (scene.site() != SiteId::m) operand(SiteId::m, 0);
    if (scene.site() == SiteId::l) operand(SiteId::alpha, 0);
  } else if (stage == Stage::pv) {
    operand(SiteId::alpha, 0);
  } else if (at_end) {
    if (scene.site() == SiteId::o_final) operand(SiteId::o, first->col);
    operand(SiteId::m, 0);
    operand(SiteId::l, 0);
  }
  using reference::infinity;
  bool unseen = value_at(SiteId::m, 0) == -infinity;
  if (const auto scores = scene.held(SiteId::s, tile); scores && first->row < scores->rows()) {
    bool masked = true;
    for (Index col = 0; col < scores->cols(); ++col) {
      masked = masked && (*scores)(first->row, col) == -infinity;
    }
    unseen = unseen || masked;
  }
  // A block whose rows see no key has no tile; of a kernel that does not show its sums, that says
  // nothing of them.
  const bool no_tile =
      stage == Stage::epilogue && scene.last_tile() < 0 && scene.judge().slots(SiteId::l);
  // It divides all columns.
  bool is_whole = true;
  for (Index col = 0; col < scene.cols(); ++col) {
    is_whole = is_whole && !std::isfinite(scene.got()(first->row, col));
  }
  bool no_sum = at_end && is_whole && (value_at(SiteId::l, 0) == 0.0 || no_tile);
  bool meets_none = true;  // of a combine: what goes before is -inf, too
  if (stage == Stage::combine) {
    // Of the partials, some or all have seen no key of the row.
    int splits_without_keys = 0;
    meets_none = false;
    for (std::int64_t split = 0; split < scene.info().splits; ++split) {
      const SiteSlots* slots = scene.judge().slots(SiteId::m_partial);
      if (!slots || !slots->holds(scene.block() + split, 0)) continue;
      const Array m = slots->elements(scene.block() + split, 0, scene.rows());
      if (m(first->row) != -infinity) continue;
      ++splits_without_keys;
      meets_none = meets_none || split == 0;
      operands += (operands.empty() ? "" : ", ") + element_text("m_partial", first->row, 0, 1) +
                  " of split " + std::to_string(split) + " = -inf";
    }
    unseen = splits_without_keys > 0;
    no_sum = no_sum && !unseen;
  }
  const Cause cause = no_sum ? Cause::divided_by_zero
                      : (stage == Stage::softmax || stage == Stage::combine) && unseen &&
                              !uncleared && std::isnan(first->got)
                          ? Cause::masked_row_unguarded
                          : Cause::non_finite;
  Finding finding{cause, share};
  finding.evidence = {"the first: " + example_text(scene, *first)};
  if (!operands.empty()) finding.evidence.push_back("its operands: " + operands);
  // A symptom: other inputs may show what was read, so that nobody takes it for the cause.
  if (cause == Cause::non_finite) {
    finding.explained *= 0.88;
    finding.evidence.emplace_back(suspects_memory);
  }
  if (cause == Cause::masked_row_unguarded) {
    finding.evidence.push_back(value_at(SiteId::m, 0) == -infinity
                                   ? "the row has seen no key so far: -inf - (-inf) is NaN"
                                   : "the row sees no key of this tile: -inf - (-inf) is NaN");
    // Relative to a maximum, or to what splits before have left, -inf is a weight of 0.
    if (!meets_none) finding.explained *= 0.88;
  }
  findings.push_back(finding);
}

}  // namespace lanescope
