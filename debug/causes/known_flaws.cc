#include "debug/causes/known_flaws.h"

#include <algorithm>
#include <cmath>
#include <numbers>

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
    flaws.push_back({Cause::wrong_formula, Stage::qk,
                     "whose scores s are capped: c tanh(s / c) with c = " +
                         std::to_string(static_cast<int>(cap)),
                     2, [=](RowPlan& plan) { plan.cap = cap; }});
  }
  flaws.push_back({Cause::wrong_formula, Stage::softmax,
                   "in which l counts one key more, whose score is 0 and whose value is none", 0,
                   [](RowPlan& plan) { plan.sink = 1; }});
}

void add_outputs(const DumpInfo& info, Flaws& flaws) {
  const auto add = [&](Cause cause, const std::string& text, int choices, auto edit) {
    flaws.push_back({cause, Stage::epilogue, text, choices, edit});
  };
  add(Cause::not_normalised, "whose O is not divided by l", 0,
      [](RowPlan& plan) { plan.output = OutputRule::undivided; });
  add(Cause::normalised_twice, "whose O is divided by l twice", 0,
      [](RowPlan& plan) { plan.output = OutputRule::divided_twice; });
  for (const std::int64_t distance : {1, 2, 4, 8, 16, 32}) {
    if (distance >= info.br) continue;
    add(Cause::operand_of_other_row,
        "whose O is divided by l of row i xor " + std::to_string(distance), 1,
        [=](RowPlan& plan) { plan.divisor_row = distance; });
  }
  const auto lse = [&](Cause cause, const char* text, LseRule rule) {
    add(cause, text, 0, [=](RowPlan& plan) { plan.lse = rule; });
  };
  lse(Cause::wrong_base, "whose log-sum-exp is in base 2", LseRule::base_two);
  lse(Cause::wrong_base, "whose log-sum-exp is m in base 2 plus ln l", LseRule::maximum_base_two);
  lse(Cause::wrong_base, "whose log-sum-exp is m plus log2 l", LseRule::sum_base_two);
  lse(Cause::wrong_base, "whose log-sum-exp is m plus log10 l", LseRule::sum_base_ten);
  lse(Cause::lse_without_maximum, "whose log-sum-exp lacks m", LseRule::no_maximum);
  lse(Cause::lse_without_sum, "whose log-sum-exp is m alone", LseRule::no_sum);
  lse(Cause::wrong_scale, "whose log-sum-exp takes m without its scale", LseRule::unscaled_maximum);
  lse(Cause::wrong_formula, "whose log-sum-exp is l itself", LseRule::plain_sum);
  for (const int times : {2, 4}) {
    add(Cause::contribution_repeated,
        "whose log-sum-exp counts every key " + std::to_string(times) + " times", 1,
        [=](RowPlan& plan) { plan.in_lse = times; });
  }
}

/// Rows of the right result that stand elsewhere.
void add_places(const DumpInfo& info, Flaws& flaws) {
  const Problem p = info.problem;
  struct Map {
    std::string what;
    int choices;
    std::function<std::array<std::int64_t, 3>(std::int64_t, std::int64_t, std::int64_t)> place;
    Cause cause = Cause::misplaced;
  };
  const std::int64_t heads = p.heads, len = p.len_q, batch = p.batch;
  std::vector<Map> maps = {
      {"as [batch, len_q, heads, d]", 0,
       [=](auto b, auto h, auto q) {
         const std::int64_t flat = h * len + q;
         return std::array{b, flat % heads, flat / heads};
       }},
      {"as [heads, batch, len_q, d]", 0,
       [=](auto b, auto h, auto q) {
         const std::int64_t flat = b * heads + h;
         return std::array{flat % batch, flat / batch, q};
       }},
      {"with the heads in reverse", 1,
       [=](auto b, auto h, auto q) {
         return std::array{b, heads - 1 - h, q};
       }},
      {"as those of the next head", 1,
       [=](auto b, auto h, auto q) {
         return std::array{b, (h + heads - 1) % heads, q};
       }},
  };
  for (const std::int64_t distance : {1, 2, 4, 8, 16, 32, 64}) {
    if (distance >= info.br) continue;
    maps.push_back({"in row i xor " + std::to_string(distance), 1, [=](auto b, auto h, auto q) {
                      return std::array{b, h, q ^ distance};
                    }});
    maps.back().cause = Cause::permuted;
  }
  for (const auto& [what, choices, place, cause] : maps) {
    flaws.push_back({cause, Stage::epilogue, "whose rows are stored " + what, choices,
                     [=, place = place](RowPlan& plan) {
                       const auto [b, h, q] = place(plan.batch, plan.head, plan.query);
                       plan.moved_from = {b, h, q};
                     }});
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

std::string size_text(const DumpInfo& info, std::int64_t size) {
  return size == info.bc ? "" : " (tiles of " + keys_text(size) + ")";
}

std::vector<Flaw> known_flaws(const DumpInfo& info) {
  Flaws flaws;
  add_flaws_of_keys(info, flaws);
  add_scales(info, flaws);
  add_flaws_of_operands(info, flaws);
  add_flaws_of_places(info, flaws);
  add_flaws_of_sums(info, flaws);
  add_flaws_of_splits(info, flaws);
  add_outputs(info, flaws);
  add_places(info, flaws);
  return flaws;
}

}  // namespace lanescope
