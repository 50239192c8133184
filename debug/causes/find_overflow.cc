#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "debug/causes/detectors.h"
#include "debug/causes/flaw_trial.h"
#include "debug/text/text.h"
#include "reference/elementary.h"

namespace lanescope {
namespace {

using reference::infinity;

/// What is subtracted from the scores of a row in the place of their maximum: that of some keys; of
/// none: nothing is.
struct Subtracted {
  Cause cause;
  std::string text;
  int choices;
  std::function<bool(std::int64_t key)> covers;
  bool forgets = false;  ///< of the keys before those whose powers are taken
  double keeps = 0;      ///< until a maximum is above it by more than that
};

std::vector<Subtracted> subtracted(const DumpInfo& info) {
  const std::int64_t bc = info.bc;
  std::vector<Subtracted> all = {
      {Cause::overflow, "nothing is subtracted from the scores", 0, nullptr},
      {Cause::incomplete_reduction, "m is that of the first tile alone", 0,
       [=](std::int64_t key) { return key < bc; }},
      {Cause::wrong_formula, "m after a tile is the tile's own maximum", 0,
       [](std::int64_t) { return true; }, true},
  };
  for (std::int64_t bit = 1; bit < std::min<std::int64_t>(info.problem.len_kv, 256); bit *= 2) {
    for (const bool set : {false, true}) {
      all.push_back({Cause::incomplete_reduction,
                     "m is taken over the keys whose bit " + std::to_string(bit) +
                         (set ? " is set" : " is not set"),
                     1, [=](std::int64_t key) { return ((key & bit) != 0) == set; }});
    }
    if (bit < 2 * bc) {
      all.push_back({Cause::incomplete_reduction,
                     "m is taken over the first of every " + std::to_string(2 * bit) + " keys", 1,
                     [=](std::int64_t key) { return key % (2 * bit) == 0; }});
    }
  }
  return all;
}

/// m that is kept until it would rise by more than a threshold, which lets powers be beyond
/// `limit`, in base e: whole numbers in base 2.
std::vector<Subtracted> kept(double limit) {
  std::vector<Subtracted> all;
  const double first = std::ceil(limit / std::numbers::ln2);
  for (double threshold = first; threshold <= 4 * first; ++threshold) {
    all.push_back(
        {Cause::overflow,
         "m is kept until it would rise by more than " + number_text(threshold, 3) + " in base 2",
         1, [](std::int64_t) { return true; }, false, threshold * std::numbers::ln2});
  }
  return all;
}

/// By how much scores of a row are above what is subtracted from them, at most: after the whole
/// row, or after each `step` keys, whose powers are taken then. What was summed up before goes down
/// with a maximum that falls.
double excess(const Subtracted& rule, const std::vector<double>& scores, std::size_t step) {
  double most = -infinity, taken = rule.covers ? -infinity : 0, top = -infinity;
  for (std::size_t first = 0; first < scores.size(); first += step) {
    const std::size_t end = std::min(first + step, scores.size());
    (rule.forgets ? taken : top) = -infinity;
    double risen = taken;
    for (std::size_t key = first; key < end; ++key) {
      top = std::max(top, scores[key]);
      if (rule.covers && rule.covers(static_cast<std::int64_t>(key))) {
        risen = std::max(risen, scores[key]);
      }
    }
    if (!(risen - taken <= rule.keeps)) taken = risen;
    if (top > -infinity) most = std::max(most, top - taken);
  }
  return most;
}

/// The scores of a row of the outputs, and whether they made numbers that are not finite.
struct Row {
  std::vector<double> scores;
  bool is_lost, is_right;
};

/// Whether the rows that are lost are those whose powers are beyond `limit`: nothing else but that
/// shows of a number that is subtracted from all scores of a row.
bool explains(const Subtracted& rule, double limit, std::size_t step,
              const std::vector<Row>& rows) {
  constexpr double margin = 0.01;
  int lost = 0, held = 0;
  for (const Row& row : rows) {
    const double over = excess(rule, row.scores, step) - limit;
    if (over == infinity) return false;  // the row sees none of the keys
    if (std::abs(over) < margin) continue;
    if (row.is_lost != (over > 0) || (over < 0 && !row.is_right)) return false;
    (over > 0 ? lost : held) += 1;
  }
  return lost >= 2 && held >= 2;
}

}  // namespace

void find_overflow(const Scene& scene, Findings& findings) {
  const DumpInfo& info = scene.info();
  // Of a kernel that is traced, m itself tells.
  const bool traced = std::any_of(info.sites.begin(), info.sites.end(),
                                  [](const DumpSite& entry) { return !is_output(entry.site.id); });
  if (!scene.at_end() || traced || scene.judge().gate() != Gate::fused) return;
  PlanInputs inputs(scene.dump());
  std::vector<Row> rows;
  bool any = false;
  for (const OutputRow& row : output_rows(scene, SiteId::o_final, Rows::all)) {
    const bool lost = std::any_of(row.o.begin(), row.o.end(), [](const OutputValue& value) {
      return !value.unwritten && !std::isfinite(value.got);
    });
    any = any || lost;
    rows.push_back(
        {inputs.scores_of(inputs.right_plan(row.batch, row.head, row.query)), lost, !row.wrong()});
  }
  if (!any) return;
  struct Limit {
    const char* text;
    double at;
  };
  std::vector<Limit> limits = {{"88.7, beyond f32", std::log(std::numeric_limits<float>::max())}};
  if (info.dtype == ElementType::f16) limits.push_back({"11.1, beyond f16", std::log(65520.0)});
  const auto whole = static_cast<std::size_t>(std::max<std::int64_t>(1, info.problem.len_kv));
  const auto tile = static_cast<std::size_t>(info.bc);
  for (const Limit& limit : limits) {
    const auto add_first = [&](const std::vector<Subtracted>& rules) {
      const auto rule = std::ranges::find_if(rules, [&](const Subtracted& rule) {
        return explains(rule, limit.at, whole, rows) || explains(rule, limit.at, tile, rows);
      });
      if (rule == rules.end()) return;
      Finding finding{rule->cause, 1};
      finding.formula = true;
      finding.bits += 4 * rule->choices;
      finding.stage = Stage::softmax;
      finding.evidence = {rule->text + ": O is finite in just those rows in which no score is by " +
                          limit.text + ", above that"};
      findings.push_back(finding);
    };
    add_first(subtracted(info));
    add_first(kept(limit.at));
  }
}

}  // namespace lanescope
