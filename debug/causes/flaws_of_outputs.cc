#include <cmath>
#include <numbers>
#include <string>
#include <utility>

#include "debug/causes/flaw_families.h"
#include "debug/text/text.h"

namespace lanescope {
namespace {

void add_divisions(const DumpInfo& info, Flaws& flaws) {
  const auto add = [&](Cause cause, Stage stage, const std::string& text, int choices, auto edit) {
    flaws.push_back({cause, stage, text, choices, edit});
  };
  struct Row {
    Cause cause;
    const char* text;
    OutputRule rule;
  };
  const Row rows[] = {
      {Cause::not_normalised, "is not divided by l", OutputRule::undivided},
      {Cause::normalised_twice, "is divided by l twice", OutputRule::divided_twice},
      {Cause::wrong_formula, "is multiplied by l", OutputRule::multiplied},
      {Cause::wrong_formula, "is divided by 1 + l", OutputRule::by_sum_and_one},
      {Cause::wrong_formula, "is divided by e^(m + ln l)", OutputRule::by_exponential},
      {Cause::wrong_formula, "is divided by the number of keys", OutputRule::by_count},
      {Cause::stale_operand, "is divided by l of before the last tile", OutputRule::by_earlier_sum},
      {Cause::precision_lost, "is divided by l that went through an integer",
       OutputRule::by_whole_sum},
      {Cause::rescaled_twice, "is rescaled by alpha once more behind the last tile",
       OutputRule::rescaled_again},
  };
  for (const auto& [cause, text, rule] : rows) {
    add(cause, Stage::epilogue, std::string("whose O ") + text, 0,
        [=, rule = rule](RowPlan& plan) { plan.output = rule; });
  }
  for (const Division division : {Division::running_sum, Division::tile_sum}) {
    const std::string by = division == Division::running_sum ? "l" : "the tile's own sum";
    add(Cause::normalised_twice, Stage::pv, "whose P is divided by " + by + " in every tile, O too",
        0, [=](RowPlan& plan) { plan.p_divided = division; });
    // Who divides P by l of so far has to bring what earlier tiles gave to that l, too.
    add(division == Division::running_sum ? Cause::not_rescaled : Cause::normalised_twice,
        Stage::pv, "whose P is divided by " + by + " in every tile, O no more", 1,
        [=](RowPlan& plan) {
          plan.p_divided = division;
          plan.output = OutputRule::undivided;
        });
  }
  for (const bool own_tiles : {true, false}) {
    add(Cause::normalised_twice, Stage::pv,
        std::string("whose O is divided by l after every tile") +
            (own_tiles ? "" : ", those that the row does not see included") +
            ", and not multiplied by it again before the next",
        !own_tiles, [=](RowPlan& plan) {
          if (own_tiles) plan.tiles = rounded_up(std::ssize(plan.terms), plan.tile) / plan.tile;
          plan.p_divided = Division::all_sums;
          plan.output = OutputRule::undivided;
        });
  }
  if (info.br % 16 == 0) {
    add(Cause::operand_of_other_row, Stage::epilogue,
        "whose O is divided by l of the row 8 further on in odd columns, of its own in even ones "
        "(layout of mma.m16n8)",
        1, [](RowPlan& plan) {
          take_row_by_column(plan, [](RowPlan& other) { other.divisor_row = 8; });
        });
  }
  const auto row_of = [br = info.br](std::int64_t i) { return i % br; };
  const auto in_tile = [br = info.br](const RowPlan& plan) { return plan.query % br; };
  add(Cause::operand_of_other_row, Stage::epilogue,
      "whose O is divided by l of the row that has the column's number", 1, [=](RowPlan& plan) {
        plan.edit_of_column = [=](RowPlan& own, std::int64_t col) {
          own.divisor_row = in_tile(own) ^ row_of(col);
        };
      });
  add(Cause::operand_of_other_row, Stage::pv,
      "in which O is rescaled by alpha of the row that has the column's number", 1,
      [=](RowPlan& plan) {
        plan.edit_of_column = [=](RowPlan& own, std::int64_t col) {
          own.alpha_row = in_tile(own) ^ row_of(col);
        };
      });
  add(Cause::operand_of_other_row, Stage::softmax,
      "whose P is relative to m of the row that has the key's number in the tile", 1,
      [](RowPlan& plan) { plan.by_key = ByKey::maximum; });
  add(Cause::operand_of_other_row, Stage::softmax,
      "whose P is divided by l of the row that has the key's number in the tile, O no more", 1,
      [](RowPlan& plan) {
        plan.by_key = ByKey::divisor;
        plan.output = OutputRule::undivided;
      });
  for (const std::int64_t distance : {1, 2, 4, 8, 16, 32}) {
    if (distance >= info.br) continue;
    add(Cause::operand_of_other_row, Stage::epilogue,
        "whose O is divided by l of row i xor " + std::to_string(distance), 1,
        [=](RowPlan& plan) { plan.divisor_row = distance; });
  }
}

void add_log_sums(const DumpInfo& info, Flaws& flaws) {
  using std::numbers::ln2;
  using std::numbers::log10e;
  using std::numbers::log2e;
  const double scale = 1 / std::sqrt(static_cast<double>(info.problem.d));
  struct Factor {
    const char* text;
    double value;
    Cause cause;
  };
  const Factor of_m[] = {
      {"m", 1, Cause::wrong_formula},
      {"m / ln 2", log2e, Cause::wrong_base},
      {"0", 0, Cause::lse_without_maximum},
      {"m ln 2", ln2, Cause::wrong_base},
      {"m without its scale", 1 / scale, Cause::wrong_scale},
      {"m scaled twice", scale, Cause::wrong_scale},
      {"m without its scale, in base 2", log2e / scale, Cause::wrong_scale},
      {"m without its scale, times ln 2", ln2 / scale, Cause::wrong_scale},
      {"m scaled twice, in base 2", scale * ln2, Cause::wrong_scale},
      {"-m", -1, Cause::wrong_formula},
      {"2 m", 2, Cause::wrong_formula},
      {"m / ln 10", log10e, Cause::wrong_base},
      {"m (2 - ln 2)", 2 - ln2, Cause::wrong_base},
      {"m (2 - log2 e)", 2 - log2e, Cause::wrong_base},
  };
  const Factor of_l[] = {
      {"ln l", 1, Cause::wrong_formula},          {"log2 l", log2e, Cause::wrong_base},
      {"0", 0, Cause::lse_without_sum},           {"ln l ln 2", ln2, Cause::wrong_base},
      {"log10 l", log10e, Cause::wrong_base},     {"-ln l", -1, Cause::wrong_formula},
      {"ln l scaled", scale, Cause::wrong_scale}, {"2 ln l", 2, Cause::wrong_formula},
      {"ln l / 2", 0.5, Cause::wrong_formula},
  };
  for (const Factor& m : of_m) {
    for (const Factor& l : of_l) {
      if ((m.value == 1 && l.value == 1) || (m.value == 0 && l.value == 0)) continue;
      const bool both = m.value != 1 && l.value != 1 && m.value != l.value;
      const std::string text = m.value == 0 && l.value == 1   ? "lacks m"
                               : l.value == 0 && m.value == 1 ? "is m alone"
                               : m.value == log2e && l.value == log2e
                                   ? "is in base 2, as lse_base_2 would declare it"
                                   : "is " + std::string(m.text) + " plus " + l.text;
      flaws.push_back({m.value != 1 ? m.cause : l.cause, Stage::epilogue,
                       "whose log-sum-exp " + text, both ? 2 : 0,
                       [m = m.value, l = l.value](RowPlan& plan) {
                         plan.lse_of_m = m;
                         plan.lse_of_l = l;
                       }});
    }
  }
  const std::pair<LseRule, const char*> rules[] = {
      {LseRule::sum, "l itself"},
      {LseRule::maximum_and_sum, "m plus l, without its logarithm"},
      {LseRule::logarithm_of_both, "the logarithm of m plus l"},
      {LseRule::product, "m times ln l"}};
  for (const auto& [rule, what] : rules) {
    flaws.push_back({Cause::wrong_formula, Stage::epilogue,
                     std::string("whose log-sum-exp is ") + what, 0,
                     [rule = rule](RowPlan& plan) { plan.lse = rule; }});
  }
  for (const int times : {2, 4, 8, 16, 32}) {
    flaws.push_back({Cause::contribution_repeated, Stage::epilogue,
                     "whose log-sum-exp counts every key " + std::to_string(times) + " times", 1,
                     [=](RowPlan& plan) { plan.in_lse = times; }});
    flaws.push_back({Cause::contribution_missing, Stage::epilogue,
                     "whose log-sum-exp is of l / " + std::to_string(times), 1,
                     [=](RowPlan& plan) { plan.in_lse = 1.0 / times; }});
  }
}

/// Columns of O that stand elsewhere in their row.
void add_stored_columns(const DumpInfo& info, Flaws& flaws) {
  const std::int64_t d = info.problem.d;
  // V whose columns stand so in every tile gives the same. What stands twice was rather read twice
  // than stored twice.
  const auto add = [&](Cause cause, const std::string& text, int choices, const auto& from) {
    const bool twice = cause == Cause::wrong_source;
    flaws.push_back({cause, Stage::epilogue, "whose columns of O are stored " + text,
                     choices + twice, [=](RowPlan& plan) { plan.o_column = from; }});
    flaws.push_back({cause, Stage::pv, "in which the columns of V stand " + text, choices + !twice,
                     [=](RowPlan& plan) {
                       plan.v_from = [=](std::int64_t row, std::int64_t col) {
                         return ElementPlace{row, from(col)};
                       };
                     }});
  };
  for (std::int64_t bit = 1; bit < d; bit *= 2) {
    const std::string number = std::to_string(bit);
    add(Cause::permuted, "in column i xor " + number, 0,
        [=](std::int64_t col) { return col ^ bit; });
    add(Cause::wrong_source, "with those of column i without its bit " + number + " for both", 0,
        [=](std::int64_t col) { return col & ~bit; });
    add(Cause::wrong_source, "with those of column i with its bit " + number + " for both", 0,
        [=](std::int64_t col) { return col | bit; });
    add(Cause::permuted, number + " behind their place", 1,
        [=](std::int64_t col) { return (col + d - bit) % d; });
    if (bit > 1) {
      add(Cause::permuted, number + " before their place", 1,
          [=](std::int64_t col) { return (col + bit) % d; });
      add(Cause::permuted, "as if a row were [" + number + ", d / " + number + "]", 1,
          [=](std::int64_t col) { return col % (d / bit) * bit + col / (d / bit); });
    }
  }
  add(Cause::permuted, "in reverse order", 0, [=](std::int64_t col) { return d - 1 - col; });
  for (std::int64_t width = 2; width <= 32 && width < d; width *= 2) {
    add(Cause::permuted, "in reverse order in every " + std::to_string(width), 1,
        [=](std::int64_t col) { return col / width * width + width - 1 - col % width; });
  }
}

/// Rows of the right result that stand elsewhere.
void add_places(const DumpInfo& info, Flaws& flaws) {
  const Problem p = info.problem;
  struct Map {
    std::string what;
    int choices;
    std::function<std::array<std::int64_t, 3>(std::int64_t, std::int64_t, std::int64_t)> place;
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
  }
  for (const std::int64_t off : {1, -1}) {
    maps.push_back({std::string("in the ") + (off > 0 ? "next row" : "row before"), 1,
                    [=](auto b, auto h, auto q) {
                      return std::array{b, h, q - off};
                    }});
  }
  maps.push_back({"in reverse order", 1, [=](auto b, auto h, auto q) {
                    return std::array{b, h, len - 1 - q};
                  }});
  if (batch > 1) {
    maps.push_back({"as those of the other batch", 1, [=](auto b, auto h, auto q) {
                      return std::array{(b + 1) % batch, h, q};
                    }});
  }
  // Tiles of rows before the heads, of each batch or of all.
  const std::int64_t br = info.br, tiles = len / br;
  for (const bool of_all : {false, true}) {
    const std::int64_t outer = of_all ? batch * heads : heads;
    if (tiles < 2 || len % br != 0 || outer == 1 || (of_all && batch == 1)) continue;
    maps.push_back(
        {of_all ? "as [tiles, batch, heads, rows of a tile, d]"
                : "as [batch, tiles, heads, rows of a tile, d]",
         1, [=](auto b, auto h, auto q) {
           const std::int64_t head = of_all ? b * heads + h : h;
           const std::int64_t flat = head * tiles + q / br, from = flat % outer;
           return std::array{of_all ? from / heads : b, from % heads, flat / outer * br + q % br};
         }});
  }
  const std::int64_t group = heads / p.heads_kv;
  if (group > 1) {
    maps.push_back({"in the order of the rows of a group of heads: [heads_kv, len_q, group, d]", 0,
                    [=](auto b, auto h, auto q) {
                      const std::int64_t flat = h % group * len + q;
                      return std::array{b, h / group * group + flat % group, flat / group};
                    }});
  }
  for (const auto& [what, choices, place] : maps) {
    flaws.push_back({Cause::misplaced, Stage::epilogue, "whose rows are stored " + what, choices,
                     [=, place = place](RowPlan& plan) {
                       const auto [b, h, q] = place(plan.batch, plan.head, plan.query);
                       plan.moved_from = {b, h, q};
                     }});
    flaws.push_back({Cause::misplaced, Stage::epilogue, "whose log-sum-exp is stored " + what,
                     choices + 1, [=, place = place](RowPlan& plan) {
                       const auto from = place(plan.batch, plan.head, plan.query);
                       if (from[2] >= 0 && from[2] < len) plan.lse_from = from;
                     }});
  }
}

}  // namespace

void add_flaws_of_outputs(const DumpInfo& info, Flaws& flaws) {
  add_divisions(info, flaws);
  add_log_sums(info, flaws);
  add_stored_columns(info, flaws);
  add_places(info, flaws);
}

}  // namespace lanescope
