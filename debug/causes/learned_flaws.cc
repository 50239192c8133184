#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "debug/causes/flaw_families.h"
#include "debug/causes/flaw_trial.h"
#include "debug/causes/linear.h"
#include "debug/text/text.h"
#include "reference/elementary.h"

namespace lanescope {
namespace {

/// Heads of all batches that are tried for a head.
constexpr std::int64_t most_heads = 32;

/// The factor of the scores that comes nearest to the first wrong rows.
Flaw nearest_scale(PlanInputs& inputs, const std::vector<OutputRow>& rows) {
  const auto error = [&](double factor) {
    double sum = 0;
    for (std::size_t i = 0; i < std::min<std::size_t>(rows.size(), 4); ++i) {
      RowPlan plan = inputs.right_plan(rows[i].batch, rows[i].head, rows[i].query);
      plan.scale *= factor;
      const PlannedRow planned = inputs.carry_out(plan);
      // In units of what rounding may do: the log-sum-exp says more than O.
      const auto add = [&](const OutputValue& value, double predicted) {
        sum += std::abs(value.got - predicted) / std::max(value.bound, 0x1p-24);
      };
      for (std::size_t col = 0; col < rows[i].o.size(); ++col) {
        add(rows[i].o[col], planned.o[col]);
      }
      if (rows[i].lse) add(*rows[i].lse, planned.lse);
    }
    return sum;
  };
  double best = 1, step = 1.04;
  for (int i = -60; i <= 60; ++i) {
    if (error(std::pow(step, i)) < error(best)) best = std::pow(step, i);
  }
  // From there on by ever smaller steps, down to the rounding of a factor in fp32.
  while (step > 1 + 0x1p-24) {
    const double up = best * step, down = best / step;
    if (error(up) < error(best)) {
      best = up;
    } else if (error(down) < error(best)) {
      best = down;
    } else {
      step = std::sqrt(step);
    }
  }
  return {Cause::wrong_scale, Stage::qk,
          "whose scores have the factor " + number_text(best, 4) + " too much", 3,
          [=](RowPlan& plan) { plan.scale *= best; }};
}

/// Scores that are cut off above: the log-sum-exp of the row that is most off says where.
void add_cut(PlanInputs& inputs, const std::vector<OutputRow>& rows, std::vector<Flaw>& flaws) {
  const auto lost = [](const OutputRow& row) {
    const bool tells = row.lse && std::isfinite(row.lse->got) && std::isfinite(row.lse->want);
    return tells ? row.lse->want - row.lse->got : 0;
  };
  const auto most = std::max_element(
      rows.begin(), rows.end(), [&](const auto& a, const auto& b) { return lost(a) < lost(b); });
  if (most == rows.end() || lost(*most) == 0 || !(lost(*most) > most->lse->bound)) return;
  const RowPlan right = inputs.right_plan(most->batch, most->head, most->query);
  const auto edit = [](double end) {
    return [=](RowPlan& plan) { plan.score_kept = [=](double s) { return std::min(s, end); }; };
  };
  double low = -128, high = 128;
  for (int i = 0; i < 40; ++i) {
    const double middle = (low + high) / 2;
    RowPlan plan = right;
    edit(middle)(plan);
    (inputs.carry_out(plan, {}).lse < most->lse->got ? low : high) = middle;
  }
  flaws.push_back({Cause::clamped, Stage::qk,
                   "whose scores are cut off at " + number_text(high, 4) + " (of base e)", 3,
                   edit(high)});
}

/// Which rows of k and v, or of q, a head takes: (batch, head) → head of all batches.
using HeadMap = std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t>;

enum class Taken : std::uint8_t { keys_and_values, keys, values, queries };

/// Of each batch.
std::int64_t heads_of(const Problem& p, Taken taken) {
  return taken == Taken::queries ? p.heads : p.heads_kv;
}

/// The head, of all batches, that one should take.
std::int64_t right_head(const Problem& p, Taken taken, std::int64_t batch, std::int64_t head) {
  return batch * heads_of(p, taken) + (taken == Taken::queries ? head : p.kv_head(head));
}

Flaw flaw_of(const Problem& p, Taken taken, const HeadMap& map) {
  const char* const names[] = {"kv head of K and V are", "kv head of K is", "kv head of V is",
                               "head of Q is"};
  std::string text = std::string("in which the ") + names[static_cast<int>(taken)];
  const std::int64_t heads = heads_of(p, taken);
  int said = 0;
  for (const auto& [place, flat] : map) {
    const auto [batch, head] = place;
    if (flat == right_head(p, taken, batch, head)) continue;
    if (++said > 3) {
      text += ", ...";
      break;
    }
    text += (said > 1 ? ", " : " ") + std::to_string(flat % heads);
    if (flat / heads != batch) text += " of batch " + std::to_string(flat / heads);
    text += " for head " + std::to_string(head);
    if (p.batch > 1) text += " of batch " + std::to_string(batch);
  }
  return {Cause::wrong_head, Stage::load, text, 3, [=](RowPlan& plan) {
            const auto place = map.find({plan.batch, plan.head});
            if (place == map.end()) return;
            if (taken == Taken::queries) {
              plan.q_row = place->second * p.len_q + plan.query;
              return;
            }
            const std::int64_t first = place->second * p.len_kv;
            if (taken != Taken::values) plan.k_first = first;
            if (taken != Taken::keys) plan.v_first = first;
          }};
}

/// The heads that explain the rows, head by head.
std::optional<HeadMap> taken_heads(PlanInputs& inputs, const std::vector<OutputRow>& rows,
                                   Taken taken) {
  const Problem& p = inputs.problem();
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<OutputRow>> by_head;
  for (const OutputRow& row : rows) by_head[{row.batch, row.head}].push_back(row);
  HeadMap map;
  bool any = false;
  for (const auto& [place, own_rows] : by_head) {
    const std::int64_t own = right_head(p, taken, place.first, place.second);
    map[place] = own;
    if (std::none_of(own_rows.begin(), own_rows.end(),
                     [](const OutputRow& row) { return row.wrong(); })) {
      continue;
    }
    for (std::int64_t flat = 0; flat < p.batch * heads_of(p, taken) && map[place] == own; ++flat) {
      if (flat == own) continue;
      const Flaw flaw = flaw_of(p, taken, {{place, flat}});
      if (try_flaw(flaw, inputs, own_rows).wins()) map[place] = flat;
    }
    if (map[place] == own) return std::nullopt;
    any = true;
  }
  return any ? std::optional(map) : std::nullopt;
}

/// How many keys a row has the mean of V of, zeros behind the last: of `plan`, which has none.
std::int64_t keys_counted(PlanInputs& inputs, const OutputRow& row, RowPlan plan) {
  const std::int64_t keys = inputs.problem().len_kv;
  for (std::int64_t key = 0; key < keys; ++key)
    plan.terms.push_back({.key = key, .value = key, .masked_score = 0, .is_masked = true});
  const PlannedRow all = inputs.carry_out(plan);
  double squares = 0, products = 0;
  for (std::size_t i = 0; i < row.o.size(); ++i) {
    squares += all.o[i] * all.o[i];
    products += all.o[i] * row.o[i].got;
  }
  const double counted = static_cast<double>(keys) * squares / products;
  constexpr double most = 1 << 20;
  return counted > 0 && counted < most ? std::llround(counted) : 0;
}

/// Masked scores that are large and finite: they count in rows that see no key alone, where all
/// keys are as good as each other. The log-sum-exp says how large they are.
void add_finite_masks(PlanInputs& inputs, const std::vector<OutputRow>& rows,
                      std::vector<Flaw>& flaws) {
  const Problem& p = inputs.problem();
  const std::int64_t bc = inputs.info().bc, padded = rounded_up(p.len_kv, bc);
  const auto empty = std::find_if(rows.begin(), rows.end(), [&](const OutputRow& row) {
    return row.wrong() && p.visible_keys(row.query) == 0;
  });
  if (empty == rows.end()) return;
  const double held = empty->lse ? empty->lse->got : -reference::infinity;
  const double score = std::isfinite(held) && held < -100 ? held : -1e30;
  const RowPlan first = inputs.right_plan(empty->batch, empty->head, empty->query);
  const auto add = [&](const std::string& which, int choices, const auto& end) {
    const double own = score - std::log(std::max<double>(1, static_cast<double>(end(first))));
    flaws.push_back({Cause::mask_value, Stage::qk,
                     "in which the score of a masked key is " + number_text(score, 3) + which,
                     choices, [=](RowPlan& plan) {
                       if (!plan.terms.empty()) return;
                       const std::int64_t count = end(plan);
                       for (std::int64_t key = 0; key < count; ++key) {
                         const std::int64_t row = key < p.len_kv ? key : -1;
                         plan.terms.push_back(
                             {.key = row, .value = row, .masked_score = own, .is_masked = true});
                       }
                     }});
  };
  add("", 1, [=](const RowPlan&) { return p.len_kv; });
  add(", those behind the last, too", 2, [=](const RowPlan&) { return padded; });
  const std::int64_t counted = keys_counted(inputs, *empty, first);
  if (counted > p.len_kv && counted != padded) {
    add(", those behind the last up to " + std::to_string(counted) + ", too", 2,
        [=](const RowPlan&) { return counted; });
  }
  add(", in the tiles of its block", 2, [=](const RowPlan& plan) { return plan.tiles * bc; });
  add(", in the tiles of its block, but for those behind the last", 3,
      [=](const RowPlan& plan) { return std::min(p.len_kv, plan.tiles * bc); });
  add(", in the tiles of its block, at least one of which it goes through", 3,
      [=](const RowPlan& plan) { return std::max<std::int64_t>(plan.tiles, 1) * bc; });
}

}  // namespace

std::optional<Flaw> learned_log_sum(PlanInputs& inputs, const std::vector<OutputRow>& rows) {
  const auto count = std::ssize(rows);
  Scene::Array m(count, 1), ln_l(count, 1), held(count, 1);
  for (std::int64_t i = 0; i < count; ++i) {
    const OutputRow& row = rows[static_cast<std::size_t>(i)];
    RowPlan plan = inputs.right_plan(row.batch, row.head, row.query);
    const double both = inputs.carry_out(plan, {}).lse;
    plan.lse_of_l = 0;
    m(i) = inputs.carry_out(plan, {}).lse;
    ln_l(i) = both - m(i);
    held(i) = row.lse && !row.lse->unwritten ? row.lse->got : std::nan("");
  }
  const double scale = 1 / std::sqrt(static_cast<double>(inputs.problem().d));
  const std::optional<Linear> fit = linear_fit(m, ln_l, held, scale);
  if (!fit) return std::nullopt;
  const auto term = [](const std::string& factor, const char* what) {
    return factor.empty() ? std::string(what) : factor + " " + what;
  };
  return Flaw{fit->y == 1 ? Cause::wrong_scale : Cause::wrong_formula, Stage::epilogue,
              "whose log-sum-exp is " + term(fit->x_text, "m") + " + " + term(fit->y_text, "ln l"),
              2 + 2 * fit->free_numbers, [x = fit->x, y = fit->y](RowPlan& plan) {
                plan.lse_of_m = x;
                plan.lse_of_l = y;
              }};
}

std::vector<Flaw> learned_flaws(PlanInputs& inputs, const std::vector<OutputRow>& rows) {
  std::vector<Flaw> flaws = window_flaws(inputs.info());
  const Problem& p = inputs.problem();
  for (const Taken taken : {Taken::keys_and_values, Taken::keys, Taken::values, Taken::queries}) {
    const std::int64_t heads = p.batch * heads_of(p, taken);
    if (heads > 1 && heads <= most_heads) {
      if (const auto map = taken_heads(inputs, rows, taken)) {
        flaws.push_back(flaw_of(p, taken, *map));
      }
    }
  }
  for (const std::int64_t size : tile_sizes(inputs.info())) {
    for (const bool values_alone : {true, false}) {
      if (auto flaw = learned_tiles(inputs, rows, size, values_alone)) {
        flaws.push_back(std::move(*flaw));
      }
    }
  }
  add_finite_masks(inputs, rows, flaws);
  flaws.push_back(nearest_scale(inputs, rows));
  add_cut(inputs, rows, flaws);
  for (Flaw& flaw : flaws_of_two_fragments(inputs.info())) flaws.push_back(std::move(flaw));
  return flaws;
}

}  // namespace lanescope
