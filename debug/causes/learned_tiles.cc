// Which tiles of K and V a head takes, where they are others than its own: solved for.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "debug/causes/flaw_families.h"
#include "debug/causes/flaw_trial.h"
#include "reference/solver.h"

namespace lanescope {
namespace {

using Term = RowPlan::Term;

/// Of all kv heads of all batches, counted through.
struct Tiles {
  std::int64_t size, of_head, heads, len;
  std::int64_t count() const { return of_head * heads; }
  /// What may be taken in one place: a tile, or a part of it.
  std::int64_t choices(bool values_alone) const {
    return values_alone || len % size == 0 ? count() : 2 * count();
  }
  /// Rows of the tensor seen as [·, d].
  std::int64_t first(std::int64_t tile) const {
    return tile / of_head * len + tile % of_head * size;
  }
  std::int64_t rows(std::int64_t tile) const { return std::min(size, len - tile % of_head * size); }
};

/// How often a head takes each tile: of V, for each tile of its weights.
using TileCounts = std::vector<std::vector<int>>;

/// The terms of a row whose weights are of tile `own`, or of those that it takes (−1): where V is
/// alone, K stays. `tile`: of all of them, behind the last one with zeros; those from the number of
/// tiles on: as much of the tile as a head has of its last.
void add_terms(const Tiles& tiles, std::int64_t own, std::int64_t tile, double times,
               std::vector<Term>& terms) {
  const bool is_part = tile >= tiles.count();
  if (is_part) tile -= tiles.count();
  const std::int64_t last = tiles.rows(tiles.of_head - 1);
  const std::int64_t count = own >= 0 ? tiles.rows(own) : is_part ? last : tiles.size;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t value = i < tiles.rows(tile) ? tiles.first(tile) + i : -1;
    terms.push_back({.key = own < 0 ? value : tiles.first(own) + i,
                     .value = value,
                     .in_o = times,
                     .in_l = times});
  }
}

RowPlan absolute(RowPlan plan) {
  plan.k_first = plan.v_first = 0;
  plan.terms.clear();
  return plan;
}

/// O and l of the rows are sums over the tiles, each as often as it is taken: in the sense of least
/// squares. Nothing where that leaves it open, or no whole numbers come out.
std::optional<TileCounts> solve(PlanInputs& inputs, const std::vector<const OutputRow*>& rows,
                                const Tiles& tiles, std::int64_t head, bool values_alone) {
  const std::int64_t groups = values_alone ? tiles.of_head : 1;
  const std::int64_t choices = tiles.choices(values_alone);
  const std::int64_t unknown = groups * choices, d = inputs.problem().d;
  const std::int64_t equations = std::ssize(rows) * (d + !values_alone);
  constexpr std::int64_t most_unknown = 128;
  if (unknown > most_unknown || equations < 2 * unknown) return std::nullopt;
  reference::Array factors(unknown, equations);
  std::vector<double> values;
  for (const OutputRow* row : rows) {
    const RowPlan empty = absolute(inputs.right_plan(row->batch, row->head, row->query));
    std::vector<PlannedRow> parts;
    for (std::int64_t x = 0; x < unknown; ++x) {
      const std::int64_t own = values_alone ? head * tiles.of_head + x / choices : std::int64_t{-1};
      RowPlan plan = empty;
      add_terms(tiles, own, x % choices, 1, plan.terms);
      parts.push_back(inputs.carry_out(plan));
    }
    const auto add = [&](double value, const auto& of_part) {
      for (std::int64_t x = 0; x < unknown; ++x) {
        const PlannedRow& part = parts[static_cast<std::size_t>(x)];
        factors(x, std::ssize(values)) = std::exp(part.lse - row->lse->got) * of_part(part);
      }
      values.push_back(value);
    };
    for (std::size_t col = 0; col < row->o.size(); ++col) {
      add(row->o[col].got, [&](const PlannedRow& part) { return part.o[col]; });
    }
    if (!values_alone) add(1, [](const PlannedRow&) { return 1; });
  }
  const std::optional<reference::Array> inverse = reference::solver(factors, 1e-10);
  if (!inverse) return std::nullopt;
  TileCounts taken(static_cast<std::size_t>(groups));
  for (std::int64_t x = 0; x < unknown; ++x) {
    double times = 0;
    for (std::int64_t i = 0; i < equations; ++i) {
      times += (*inverse)(x, i) * values[static_cast<std::size_t>(i)];
    }
    const double whole = std::round(times);
    if (!(std::abs(times - whole) < 0.1) || whole < 0) return std::nullopt;
    taken[static_cast<std::size_t>(x / choices)].push_back(static_cast<int>(whole));
  }
  return taken;
}

std::string name_of_tile(const Tiles& tiles, std::int64_t tile) {
  const std::int64_t whole = tile % tiles.count();
  const std::string text =
      (tile == whole ? "tile " : "the first rows of tile ") + std::to_string(whole % tiles.of_head);
  return tiles.heads == 1 ? text : text + " of head " + std::to_string(whole / tiles.of_head);
}

/// Whether each is as often there as it should be; else the first that is not is told.
bool is_right(const Tiles& tiles, std::int64_t head, const TileCounts& taken, std::string& what) {
  const std::int64_t first = head * tiles.of_head;
  for (std::size_t group = 0; group < taken.size(); ++group) {
    for (std::int64_t tile = 0; tile < std::ssize(taken[group]); ++tile) {
      const std::int64_t in_head = tile % tiles.count() - first;
      const bool is_of_head = in_head >= 0 && in_head < tiles.of_head;
      const bool parts = std::ssize(taken[group]) > tiles.count();
      const bool is_own =
          taken.size() > 1
              ? in_head == static_cast<std::int64_t>(group)
              : is_of_head && (tile >= tiles.count()) == (parts && in_head + 1 == tiles.of_head);
      const int times = taken[group][static_cast<std::size_t>(tile)];
      if (times == is_own) continue;
      what = name_of_tile(tiles, tile) + (times == 0 ? " is not taken"
                                          : times == 1
                                              ? " is taken"
                                              : " is taken " + std::to_string(times) + " times");
      if (taken.size() > 1 && times > 0) {
        what += " for " + name_of_tile(tiles, first + static_cast<std::int64_t>(group));
      }
      if (times > 0 || taken.size() == 1) return false;
    }
  }
  return what.empty();
}

}  // namespace

std::optional<Flaw> learned_tiles(PlanInputs& inputs, const std::vector<OutputRow>& rows,
                                  std::int64_t size, bool values_alone) {
  const Problem& p = inputs.problem();
  const Tiles tiles{size, (p.len_kv + size - 1) / size, p.batch * p.heads_kv, p.len_kv};
  if (tiles.count() < 2 || inputs.info().dtype == ElementType::e4m3) return std::nullopt;
  std::map<std::int64_t, std::vector<const OutputRow*>> by_head;
  for (const OutputRow& row : rows) {
    const bool sees_all = p.visible_keys(row.query) == p.len_kv;
    if (!sees_all || !row.lse || !std::isfinite(row.lse->got)) continue;
    by_head[row.batch * p.heads_kv + p.kv_head(row.head)].push_back(&row);
  }
  std::map<std::int64_t, TileCounts> taken_by;
  std::string said;
  for (const auto& [head, own_rows] : by_head) {
    const std::optional<TileCounts> taken = solve(inputs, own_rows, tiles, head, values_alone);
    if (!taken) return std::nullopt;
    std::string what;
    if (!is_right(tiles, head, *taken, what) && said.empty()) {
      said = "head " + std::to_string(head) + ": " + what;
    }
    taken_by.emplace(head, *taken);
  }
  if (said.empty()) return std::nullopt;
  return Flaw{Cause::wrong_source, Stage::load,
              "in which the tiles of " + std::string(values_alone ? "V" : "K and V") + " (" +
                  std::to_string(size) + " keys each) are others; " + said,
              3, [=](RowPlan& plan) {
                const std::int64_t head = plan.batch * p.heads_kv + p.kv_head(plan.head);
                const auto taken = taken_by.find(head);
                if (taken == taken_by.end()) return;
                plan = absolute(plan);
                for (std::size_t group = 0; group < taken->second.size(); ++group) {
                  const std::int64_t own =
                      values_alone ? head * tiles.of_head + static_cast<std::int64_t>(group)
                                   : std::int64_t{-1};
                  for (std::int64_t tile = 0; tile < std::ssize(taken->second[group]); ++tile) {
                    const int times = taken->second[group][static_cast<std::size_t>(tile)];
                    if (times > 0) add_terms(tiles, own, tile, times, plan.terms);
                  }
                }
              }};
}

}  // namespace lanescope
