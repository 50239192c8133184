// Right outputs of another recurrence are no bug; a bug with right outputs is no other recurrence.
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "debug/judge/diff.h"
#include "debug/judge/find_recurrence.h"
#include "tests/support/catch.h"
#include "tests/support/diagnosed.h"
#include "tests/support/recurrent_kernel.h"

namespace lanescope {
namespace {

using testing::recurrent_dump;

struct Run {
  Problem problem;
  const char* input;
};
/// As `locate` has them: several tiles, a rising maximum, ragged, rows that see nothing, groups.
const Run runs[] = {
    {{1, 1, 1, 16, 48, 32, false}, "random"}, {{1, 1, 1, 16, 64, 32, false}, "rising"},
    {{1, 1, 1, 37, 43, 32, true}, "random"},  {{1, 1, 1, 40, 25, 32, true}, "random"},
    {{2, 4, 2, 20, 70, 32, false}, "random"}, {{1, 2, 1, 16, 64, 32, false}, "large"}};

/// What all runs say together, as `locate` puts them together: match, variant or diverged.
std::string verdict_of_all(const std::string& style, std::string& differences,
                           ElementType dtype = ElementType::f16) {
  std::optional<Recurrence> all;
  Recurrence always_taken;
  for (const Run& run : runs) {
    // Rows that share a maximum vanish where their scores are far below it: wrong outputs.
    const bool is_large = std::string_view(run.input) == "large";
    if (style.starts_with("maximum_of") && is_large) continue;
    // What is relative to a first maximum passes 2^128 where the maximum rises by that.
    if (style == "of_first_maximum" && (is_large || std::string_view(run.input) == "rising"))
      continue;
    const Dump dump = recurrent_dump(run.problem, style, run.input, 16, 16, dtype);
    const DiffReport report = diff_against_reference(dump);
    if (report.match) {
      always_taken.merge(decisions_of(dump));
      continue;
    }
    if (!report.recurrence || (all && !all->agrees(*report.recurrence))) return "diverged";
    if (all) all->merge(*report.recurrence);
    if (!all) all = report.recurrence;
  }
  if (!all) return "match";
  all->merge(always_taken.decisions);
  for (const std::string& line : all->differences()) differences += line + "; ";
  return all->is_settled() ? "variant" : "diverged";
}

TEST_CASE("another recurrence is named, not called a bug") {
  using Catch::Matchers::ContainsSubstring;
  const std::map<std::string, std::string> words = {
      {"backwards", "visited from the last to the first"},
      {"last_tile_first", "visited in the order"},
      {"odd_tiles_last", "visited in the order 0, 2, 4, 1, 3"},
      {"lazy_8", "m: kept until it rises by more than a threshold"},
      {"lazy_8_by_4_rows", "rows decide together"},
      {"lazy_8_by_lane", "rows decide together"},
      {"from_lowest", "m: starts from -1e+30"},
      {"from_lowest_of_f16", "m: starts from -1e+04"},
      {"sum_in_epilogue", "l: each lane has a part"},
      {"raw", "m: in units of the raw scores"},
      {"base_e", "s: in base e"},
      {"base_e_of_m", "m: in base e"},
      {"maximum_of_4_rows", "the maximum of 4 rows"},
      {"maximum_of_tile", "the maximum of 16 rows"},
      {"m_above_by_1", "m: the maximum plus 1, base 2"},
      {"m_below_by_8", "m: the maximum minus 8, base 2"},
      {"polynomial", "2^x is an approximation"},
      {"output_divided", "o: divided by l in every tile"},
      {"weights_divided", "p, pv / o: divided by l in every tile"},
      {"lazy_8_backwards_sum_in_epilogue", "kept until it rises"},
      {"raw_from_lowest_sum_in_epilogue", "raw scores"},
      {"two_tiles_in_a_step", "2 tiles in a step take the maximum of all of them"},
      {"two_chains", "goes on from the one 2 before it"},
      {"sum_of_rounded", "l: sums P as P.V takes it, rounded"},
      {"first_alpha_1", "alpha: not 0 in rows that have seen no key"},
      {"backwards_by_visit", "the number of a tile is that of the visit"},
      {"of_first_maximum", "o: relative to the first maximum of its row"}};
  REQUIRE(words.size() == testing::recurrences().size());
  std::string none;
  CHECK(verdict_of_all("usual", none) == "match");
  for (const std::string& style : testing::recurrences()) {
    INFO(style);
    std::string differences;
    CHECK(verdict_of_all(style, differences) == "variant");
    CHECK_THAT(differences, ContainsSubstring(words.at(style)));
  }
}

TEST_CASE("units and lanes' sums that a kernel declares match") {
  struct Declared {
    const char* style;
    ScoreUnit scores, maxima;
    bool lane_sums;
  };
  const Declared all[] = {{"raw", ScoreUnit::base_2, ScoreUnit::raw, false},
                          {"base_e", ScoreUnit::base_e, ScoreUnit::base_e, false},
                          {"base_e_of_m", ScoreUnit::base_2, ScoreUnit::base_e, false},
                          {"sum_in_epilogue", ScoreUnit::base_2, ScoreUnit::base_2, true}};
  for (const Declared& one : all) {
    for (const Run& run : runs) {
      Dump dump = recurrent_dump(run.problem, one.style, run.input, 16, 16, ElementType::f16);
      dump.info.scores = one.scores;
      dump.info.maxima = one.maxima;
      dump.info.lane_sums = one.lane_sums;
      INFO(one.style << ", " << run.input);
      CHECK(diff_against_reference(dump).match);
      // What is declared and not held is wrong.
      Dump usual = recurrent_dump(run.problem, "usual", run.input, 16, 16, ElementType::f16);
      usual.info.scores = one.scores;
      usual.info.maxima = one.maxima;
      if (!one.lane_sums) CHECK_FALSE(diff_against_reference(usual).match);
    }
  }
}

TEST_CASE("a bug that leaves outputs right is no recurrence of its own") {
  for (const std::string& bug : testing::recurrence_bugs()) {
    for (const ElementType dtype : {ElementType::f16, ElementType::bf16}) {
      INFO(bug << " " << name_of(dtype));
      std::string differences;
      const std::string verdict = verdict_of_all(bug, differences, dtype);
      INFO(differences);
      CHECK(verdict == "diverged");
    }
  }
}

TEST_CASE("a maximum that is kept where P cannot hold what comes of it is no stale one") {
  const Problem problem{1, 1, 1, 96, 96, 64, false};
  const Dump dump = recurrent_dump(problem, "lazy_20", "large");
  const Diagnosis diagnosis = diagnose(dump, diff_against_reference(dump));
  INFO(testing::joined(diagnosis.evidence));
  CHECK(testing::named(diagnosis) == "softmax m overflow");
  CHECK_THAT(testing::joined(diagnosis.evidence),
             Catch::Matchers::ContainsSubstring("holds no more than 2^15"));
  // Where no row takes what is above, it may never be.
  const Dump never = recurrent_dump(problem, "m_stays", "large");
  CHECK(testing::named(diagnose(never, diff_against_reference(never))) ==
        "softmax m never_updated");
}

/// Changes the values of a traced site: `change` gets tile, row, column (of l, m, m_prev and alpha
/// the lane of the row) and value.
template <class Change>
void spoil(Dump& dump, SiteId id, const Change& change) {
  const Site& site = dump.find_site(name_of(id))->site;
  const bool registers = site.space == Space::registers;
  const std::int64_t cols = registers ? testing::lanes_of_row : site.cols;
  const std::int64_t count = cols * site.rows;
  for (Dump::Entry& entry : dump.tensors) {
    if (entry.name != name_of(id)) continue;
    for (std::int64_t i = 0; i < entry.tensor.size(); ++i) {
      const std::int64_t tile = i / count % dump.info.kv_tiles(), at = i % count;
      entry.tensor.set(i, change(tile, at / cols, at % cols, entry.tensor.at(i)));
    }
  }
}

TEST_CASE("a bug beside another recurrence is no recurrence") {
  using Values = const std::function<double(std::int64_t, std::int64_t, std::int64_t, double)>;
  struct Bug {
    const char* style;
    SiteId site;
    Values change;
  };
  const auto other_lane = [](auto, auto, auto lane, double x) { return lane == 2 ? x + 3 : x; };
  const auto hidden = [](auto, auto row, auto, double x) {
    return row == 3 && x < -100 ? 1.5 * x : x;
  };
  const Bug bugs[] = {
      {"backwards", SiteId::l, other_lane},
      {"sum_of_rounded", SiteId::l, other_lane},
      {"backwards", SiteId::m, other_lane},
      {"backwards", SiteId::m_prev,
       [](auto tile, auto row, auto, double x) { return tile == 1 && row == 3 ? x + 0.5 : x; }},
      // What is small changes nothing behind it.
      {"backwards", SiteId::alpha,
       [](auto, auto, auto, double x) { return x > 0 && x < 1e-8 ? 2 * x : x; }},
      {"backwards", SiteId::p,
       [](auto, auto row, auto col, double x) {
         return row == 3 && x == 0 && col == 1 ? 0x1p-21 : x;
       }},
      {"backwards", SiteId::s, hidden},
      // Nothing is kept, and l is off by what an order of its sums does not bring about.
      {"usual", SiteId::l,
       [](auto tile, auto, auto, double x) { return tile == 0 ? x * (1 + 0x1p-18) : x; }},
  };
  for (const Bug& bug : bugs) {
    INFO(bug.style << ", " << name_of(bug.site));
    Dump dump = recurrent_dump(runs[5].problem, bug.style, runs[5].input);
    const DiffReport right = diff_against_reference(dump);
    CHECK((right.match || right.recurrence));
    spoil(dump, bug.site, bug.change);
    const DiffReport report = diff_against_reference(dump);
    CHECK(report.first);
    CHECK_FALSE(report.recurrence);
  }
}

TEST_CASE("a bug behind a softmax of another recurrence is named, not the recurrence") {
  const std::pair<const char*, Run> all[] = {{"backwards", runs[4]},
                                             {"from_lowest", runs[1]},
                                             {"lazy_8", runs[5]},
                                             {"sum_in_epilogue", runs[1]},
                                             {"lazy_8_backwards_sum_in_epilogue", runs[5]}};
  for (const auto& [name, run] : all) {
    INFO(name);
    const std::string style = name;
    const Dump dump = recurrent_dump(run.problem, style + "_rescale_dropped", run.input);
    const DiffReport report = diff_against_reference(dump);
    CHECK_FALSE(report.holds());
    REQUIRE(report.softmax);
    CHECK(report.softmax->order.empty() == (style.find("backwards") == std::string::npos));
    CHECK(testing::named(diagnose(dump, report)) == "pv o not_rescaled");
  }
  // Where m follows one, and nothing behind it, the fault is there, whatever else is wrong.
  for (const std::string style : {"backwards_p_times_1_01", "from_lowest_p_times_1_01"}) {
    const DiffReport wrong = diff_against_reference(
        recurrent_dump(runs[4].problem, style + "_rescale_dropped", runs[4].input));
    INFO(style);
    REQUIRE(wrong.first);
    CHECK(wrong.softmax);
    CHECK(wrong.first->site == SiteId::p);
  }
}

TEST_CASE("the order of the tiles is known where l is not traced") {
  Dump dump = recurrent_dump(runs[0].problem, "backwards");
  std::erase_if(dump.tensors, [](const Dump::Entry& entry) { return entry.name == "l"; });
  std::erase_if(dump.info.sites, [](const DumpSite& entry) { return entry.site.id == SiteId::l; });
  const DiffReport report = diff_against_reference(dump);
  REQUIRE(report.recurrence);
  CHECK(report.recurrence->order == std::vector<std::int64_t>{2, 1, 0});
}

TEST_CASE("what no output depends on is not the first divergence beside what outputs depend on") {
  const DiffReport alone = diff_against_reference(recurrent_dump(runs[0].problem, "first_alpha_1"));
  REQUIRE(alone.first);
  CHECK(alone.first->site == SiteId::alpha);
  const DiffReport both =
      diff_against_reference(recurrent_dump(runs[0].problem, "first_alpha_1_p_times_1_01"));
  REQUIRE(both.first);
  CHECK(both.first->site == SiteId::p);
}

TEST_CASE("a kernel that declares its recurrence is held to it") {
  Dump dump = recurrent_dump(runs[0].problem, "backwards");
  REQUIRE(diff_against_reference(dump).recurrence);
  dump.info.rescale.above = 8;
  CHECK_FALSE(diff_against_reference(dump).recurrence);
}

TEST_CASE("a threshold is settled where it was seen from both sides and P fits") {
  Recurrence lazy;
  lazy.kept = true;
  lazy.decisions = {{.kept_up_to = 7}, {.rows = 4}};
  CHECK_FALSE(lazy.is_settled());  // it was never passed
  lazy.decisions[0].taken_from = 9;
  CHECK(lazy.is_settled());
  Recurrence other = lazy;
  other.decisions = {{.kept_up_to = 10}};  // where the first took it
  CHECK_FALSE(lazy.agrees(other));
  other.decisions[0].taken_from = 20;
  lazy.decisions[0].taken_from = std::numeric_limits<double>::infinity();
  REQUIRE(lazy.agrees(other));
  lazy.merge(other);
  REQUIRE(lazy.decisions.size() == 1);  // four rows did not all do the same
  CHECK(lazy.decisions[0].kept_up_to == 10);
  CHECK(lazy.decisions[0].taken_from == 20);
  lazy.decisions[0].kept_up_to = 18;  // 2^18 is no f16
  CHECK_FALSE(lazy.is_settled());
  Recurrence rows;
  rows.rows_per_maximum = 4;
  Recurrence more = rows;
  CHECK(rows.agrees(more));
  more.rows_per_maximum = 16;
  CHECK_FALSE(rows.agrees(more));
}

TEST_CASE("P.V of given weights may visit the tiles from the last to the first") {
  for (const bool causal : {false, true}) {
    testing::Setup setup{.problem = {1, 1, 1, 40, 96, 32, causal}, .gate = "pv_only"};
    Dump dump = testing::synthetic_dump(setup);
    for (std::int64_t block = 0; block < 2; ++block) {
      reference::Array o = reference::Array::Zero(32, 32);
      for (std::int64_t tile = 3; tile-- > 0;) {
        const SiteSlots weights(dump, *dump.find_site("p"));
        if (weights.untouched(block, tile)) continue;
        const auto of = [&](SiteId id) { return testing::held(dump, id, block, tile, 32); };
        const reference::Array p = of(SiteId::p), v = of(SiteId::v_smem), alpha = of(SiteId::alpha);
        for (int row = 0; row < 32; ++row) {
          for (int col = 0; col < 32; ++col) {
            double sum = alpha(row) * o(row, col);
            for (int key = 0; key < 32; ++key) sum += p(row, key) * v(key, col);
            o(row, col) = sum;
          }
        }
        testing::change(dump, SiteId::o, block, tile,
                        [&](int row, int col) { return o(row, col); });
      }
    }
    const DiffReport report = diff_against_reference(dump);
    REQUIRE(report.recurrence);
    CHECK(report.recurrence->order.front() == 2);
    // Not where a tile is wrong.
    const reference::Array o = testing::held(dump, SiteId::o, 0, 1, 32);
    testing::change(dump, SiteId::o, 0, 1, [&](int row, int col) { return o(row, col) + 1; });
    CHECK_FALSE(diff_against_reference(dump).recurrence);
  }
}

TEST_CASE("a kernel that declares when m follows may start it far below all scores") {
  const auto starting_at = [](double start, bool spoils_output) {
    Dump dump = testing::synthetic_dump({.problem = {1, 1, 1, 64, 32, 32, true}});
    dump.info.rescale.above = 1;
    // The rows of block 0 see no key.
    testing::change(dump, SiteId::m_prev, 1, 0, [&](int, int) { return start; });
    if (spoils_output) testing::tensor_of(dump, SiteId::o_final).set(40 * 32, 9);
    return diff_against_reference(dump).recurrence;
  };
  const auto found = starting_at(-1e30, false);
  REQUIRE(found);
  CHECK(found->start == static_cast<double>(-1e30f));
  CHECK_FALSE(starting_at(-5, false));
  CHECK_FALSE(starting_at(-1e30, true));
}

}  // namespace
}  // namespace lanescope
