#include "debug/causes/known_flaws.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "debug/causes/flaw_families.h"

namespace lanescope {
namespace {

void add_scales(const DumpInfo& info, Flaws& flaws) {
  const double d = static_cast<double>(info.problem.d), width = info.head_dim;
  struct Factor {
    const char* what;
    double value;
  };
  const Factor factors[] = {
      {"are not scaled", std::sqrt(d)},
      {"are scaled by 1/d: 1/sqrt(d) twice", 1 / std::sqrt(d)},
      {"are scaled by sqrt(d)", d},
      {"are in base 2 and go into e^x: log2(e) too much", std::numbers::log2e},
      {"are in base e and go into 2^x: log2(e) is missing", std::numbers::ln2},
      {"are scaled by 1/sqrt(D) of the padded head", std::sqrt(d / width)},
      {"are scaled by 1/sqrt(d/2)", std::numbers::sqrt2},
      {"are scaled by 1/sqrt(2 d)", 1 / std::numbers::sqrt2},
      {"are not scaled, in base 2^x", std::sqrt(d) * std::numbers::ln2},
  };
  for (const auto& [what, factor] : factors) {
    if (factor == 1) continue;
    const bool base = factor == std::numbers::log2e || factor == std::numbers::ln2;
    flaws.push_back({base ? Cause::wrong_base : Cause::wrong_scale, Stage::qk,
                     std::string("whose scores ") + what, 0,
                     [factor = factor](RowPlan& plan) { plan.scale *= factor; }});
  }
  for (const double cap : {5., 10., 15., 20., 30., 50., 100.}) {
    for (const bool base_2 : {false, true}) {
      flaws.push_back(
          {Cause::clamped, Stage::qk,
           std::string("whose scores s") + (base_2 ? " in base 2" : "") +
               " are capped: c tanh(s / c) with c = " + std::to_string(static_cast<int>(cap)),
           2 + base_2, [=](RowPlan& plan) { plan.cap = base_2 ? cap * std::numbers::ln2 : cap; }});
    }
  }
  const std::int64_t heads = info.problem.heads;
  for (const bool even : {false, true}) {
    // Press, Smith and Lewis 2021: slopes 2^(-8 (h + 1) / heads).
    flaws.push_back({Cause::wrong_formula, Stage::qk,
                     std::string("whose scores have ALiBi's bias besides, ") +
                         (even ? "-slope * |key - query|" : "slope * (key - query)") +
                         " with the slopes 2^(-8 (h + 1) / heads)",
                     even, [=](RowPlan& plan) {
                       plan.slope = std::exp2(-8.0 * static_cast<double>(plan.head + 1) /
                                              static_cast<double>(heads));
                       plan.slope_is_even = even;
                     }});
  }
  flaws.push_back({Cause::wrong_formula, Stage::softmax,
                   "in which l counts one key more, whose score is 0 and whose value is none", 0,
                   [](RowPlan& plan) { plan.sink = 1; }});
  // A number of parts that is rounded up, to the next power of two, to what memory has room for or
  // to the lanes of a warp.
  for (int parts = 2; parts < 32; ++parts) {
    flaws.push_back({Cause::reduction_too_wide, Stage::combine,
                     "in which " + std::to_string(parts) +
                         " parts that are none count as keys with score 0, in l alone",
                     1, [=](RowPlan& plan) { plan.sink = parts; }});
  }
}

}  // namespace

std::string keys_text(std::int64_t count) {
  return std::to_string(count) + (count == 1 ? " key" : " keys");
}

std::int64_t rounded_up(std::int64_t x, std::int64_t step) { return (x + step - 1) / step * step; }

/// Sizes of a tile of keys: the kernel's own, then what else is in use.
std::vector<std::int64_t> tile_sizes(const DumpInfo& info) {
  std::vector<std::int64_t> sizes = {info.bc};
  for (const std::int64_t size : {16, 32, 64, 128}) {
    if (size != info.bc && size < info.problem.len_kv) sizes.push_back(size);
  }
  return sizes;
}

void take_row_by_column(RowPlan& plan, std::function<void(RowPlan&)> edit) {
  const std::int64_t own = plan.query / 8 & 1;
  plan.in_columns = [=](std::int64_t col) { return (col & 1) != own; };
  plan.edit_there = std::move(edit);
}

std::string size_text(const DumpInfo& info, std::int64_t size) {
  return size == info.bc ? "" : " (tiles of " + keys_text(size) + ")";
}

std::vector<SomeTiles> some_tiles(const DumpInfo& info) {
  const Problem p = info.problem;
  const std::int64_t br = info.br;
  const auto is_whole = [=](const RowPlan& plan, std::int64_t tile) {
    return (tile + 1) * plan.tile <= p.visible_keys(plan.query / br * br);
  };
  std::vector<SomeTiles> some = {
      {"the tiles that need no mask", is_whole},
      {"the tiles that are masked",
       [=](const RowPlan& plan, std::int64_t tile) { return !is_whole(plan, tile); }},
      {"odd tiles", [](const RowPlan&, std::int64_t tile) { return tile % 2 == 1; }},
      {"even tiles", [](const RowPlan&, std::int64_t tile) { return tile % 2 == 0; }},
      {"the last tile",
       [](const RowPlan& plan, std::int64_t tile) { return tile + 1 == plan.tiles; }},
      {"all tiles but the last",
       [](const RowPlan& plan, std::int64_t tile) { return tile + 1 < plan.tiles; }},
      {"all tiles but the first", [](const RowPlan&, std::int64_t tile) { return tile > 0; }},
      {"the first tile", [](const RowPlan&, std::int64_t tile) { return tile == 0; }},
  };
  for (const std::int64_t tile : {1, 2, 3}) {
    some.push_back({"tile " + std::to_string(tile),
                    [=](const RowPlan&, std::int64_t other) { return other == tile; }});
    some.push_back({"the tiles from " + std::to_string(tile + 1) + " on",
                    [=](const RowPlan&, std::int64_t other) { return other > tile; }});
  }
  return some;
}

Flaw both_of(const Flaw& one, const Flaw& other) {
  return {one.cause, one.stage, one.text + besides + other.text, one.choices + other.choices + 2,
          [one = one.edit, other = other.edit](RowPlan& plan) {
            one(plan);
            other(plan);
          }};
}

std::vector<Flaw> known_flaws(const DumpInfo& info) {
  Flaws flaws;
  add_flaws_of_masks(info, flaws);
  add_flaws_of_keys(info, flaws);
  add_scales(info, flaws);
  add_flaws_of_operands(info, flaws);
  add_flaws_of_tiles(info, flaws);
  add_flaws_of_places(info, flaws);
  add_flaws_of_fragments(info, flaws);
  add_flaws_of_lanes(info, flaws);
  add_flaws_of_sums(info, flaws);
  add_flaws_of_splits(info, flaws);
  add_flaws_of_outputs(info, flaws);
  add_flaws_of_addresses(info, flaws);
  add_flaws_of_input_scales(info, flaws);
  add_flaws_of_rounding(info, flaws);
  add_flaws_of_widening(info, flaws);
  return flaws;
}

std::vector<Flaw> composed_flaws(const DumpInfo& info) {
  Flaws flaws;
  add_rules_of_tiles(info, flaws);
  add_flaws_of_subsets(info, flaws);
  return flaws;
}

}  // namespace lanescope
