// The parts of `sweep`: what cells are drawn, how results are kept, how failures become smaller,
// what rules are learnt, and processes that end in a task. sweep_test.py runs the command.

#include "gates/sweep/sweep.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include "gates/sweep/crew.h"
#include "gates/sweep/shrink.h"
#include "reference/error.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"

namespace lanescope {
namespace {

using Fails = std::function<bool(const Cell&)>;

/// A plan over two tiles and two types of a kernel that need not be there.
DrawPlan plan_over(const std::string& space, std::uint64_t seed = 1) {
  DrawPlan plan;
  for (const ElementType type : {ElementType::f16, ElementType::bf16}) {
    for (const int head_dim : {64, 128}) {
      plan.modules.push_back({"mma", Gate::fused, type, head_dim, 64, 64, "sim"});
      plan.modules.push_back({"mma", Gate::fused, type, head_dim, 64, 32, "sim"});
    }
  }
  plan.space = parse_space(space);
  plan.modules = modules_of(plan.modules, plan.space);
  plan.seed = seed;
  return plan;
}

std::vector<Cell> cells_of(const DrawPlan& plan, std::uint64_t count) {
  std::vector<Cell> cells;
  for (std::uint64_t i = 0; i < count; ++i) cells.push_back(draw_cell(plan, i));
  return cells;
}

CellResult result_of(const Cell& cell, bool fails, std::int64_t index = -1) {
  CellResult result;
  result.sweep = "0123456789abcdef";
  result.build = "fedcba9876543210";
  result.index = index;
  result.cell = cell;
  if (fails) {
    result.outcome = Outcome::diverged;
    result.stage = "qk";
    result.site = "s";
  }
  result.bits = "00000000000000aa";
  return result;
}

std::vector<CellResult> results_of(const std::vector<Cell>& cells, const Fails& fails) {
  std::vector<CellResult> results;
  for (const Cell& cell : cells) {
    results.push_back(result_of(cell, fails(cell), std::ssize(results)));
  }
  return results;
}

/// What is learnt of 800 cells of the usual space that fail as `fails` says.
Rule rule_of(const Fails& fails) {
  return learn_rule(results_of(cells_of(plan_over(usual_space), 800), fails));
}

/// "a and b; c".
std::string text_of(const Rule& rule) {
  std::string text;
  for (const Clause& clause : rule.clauses) text += (text.empty() ? "" : "; ") + clause.text();
  return text;
}

CellResult shrunk(const DrawPlan& plan, const Fails& fails) {
  for (std::uint64_t i = 0;; ++i) {
    const Cell cell = draw_cell(plan, i);
    if (!fails(cell)) continue;
    const Trial trial = [&](const std::vector<Cell>& cells) { return results_of(cells, fails); };
    return shrink(result_of(cell, true), plan, trial);
  }
}

}  // namespace

TEST_CASE("sweep: what --over says") {
  const SweepSpace space = parse_space("s=1..300,skv=s..2000,d=64,128,causal,dtype=*,tile=64x32");
  REQUIRE(space.sides.at("skv").size() == 1);
  CHECK(space.sides.at("skv")[0].least.side == "s");
  CHECK(space.sides.at("skv")[0].most.number == 2000);
  CHECK(space.sides.at("d").size() == 2);
  CHECK(space.both_masks);
  CHECK(space.dtypes == std::vector<std::string>{"*"});
  CHECK(parse_space("causal=yes").causal_alone);
  CHECK_NOTHROW(parse_space(usual_space));
  for (const char* wrong :
       {"", "s", "64", "s=", "s=0", "s=5..3", "s=1..", "s=skv", "s=*", "s=1,s=2", "q=3", "s=1,",
        "causal=no", "dtype=f8", "tile=64", "input=randm", "causal,3", "s=-1", "hkv=1..q"}) {
    INFO(wrong);
    CHECK_THROWS_AS(parse_space(wrong), UsageError);
  }
}

TEST_CASE("sweep: cells are of the space, and always the same") {
  const DrawPlan plan = plan_over("s=3..90,skv=s..200,h=1..6,hkv=1,3,d=64..100,causal,tile=*");
  const std::vector<Cell> cells = cells_of(plan, 2000);
  CHECK(cells == cells_of(plan, 2000));
  CHECK_FALSE(
      cells ==
      cells_of(plan_over("s=3..90,skv=s..200,h=1..6,hkv=1,3,d=64..100,causal,tile=*", 2), 2000));
  std::set<std::int64_t> lengths, dims;
  std::set<int> keys;
  std::int64_t at_tile = 0, masked = 0;
  for (const Cell& cell : cells) {
    const Problem& p = cell.problem;
    INFO(command_of(cell));
    REQUIRE(allows(plan.space, cell));
    REQUIRE((3 <= p.len_q && p.len_q <= 90 && p.len_q <= p.len_kv && p.len_kv <= 200));
    REQUIRE(p.heads % p.heads_kv == 0);
    REQUIRE((p.heads_kv == 1 || p.heads_kv == 3 || p.heads_kv == p.heads));
    REQUIRE(p.batch == 1);
    REQUIRE((p.d >= 64 && p.d <= cell.head_dim));
    REQUIRE(cell.dtype == ElementType::f16);
    lengths.insert(p.len_q);
    dims.insert(p.d);
    keys.insert(cell.bc);
    const std::int64_t beside = (p.len_kv + 1) % cell.bc;
    at_tile += beside <= 2;
    masked += p.causal;
  }
  CHECK(lengths.size() == 88);  // every one
  CHECK(dims.size() > 30);
  CHECK(keys.size() == 2);
  CHECK(at_tile > 600);  // of 2000: uniform, it were a twentieth to a tenth
  CHECK((masked > 800 && masked < 1200));
}

TEST_CASE("sweep: a space that no module takes") {
  CHECK_THROWS_AS(plan_over("d=200"), UsageError);
  CHECK_THROWS_AS(plan_over("dtype=e4m3"), UsageError);
  CHECK_THROWS_AS(plan_over("tile=16x16"), UsageError);
}

TEST_CASE("sweep: a line says all of a result") {
  CellResult result = result_of(draw_cell(plan_over(usual_space), 7), true, 7);
  result.detail = "got \"1\", want 2";
  result.tile_index = 3;
  result.errors = {{"s", 0.25}, {"o", std::numeric_limits<double>::infinity()}};
  result.seconds = 0.125;
  const std::string line = result_line(result);
  CHECK(line.find('\n') == line.npos);
  const CellResult again = parse_result(line);
  CHECK(again.cell == result.cell);
  CHECK(again.way() == "diverged at qk / s");
  CHECK(result_line(again) == line);
  for (const char* wrong : {"", "[]", "{}", "{\"schema\":1}", "{\"schema\":2}", "x"}) {
    INFO(wrong);
    CHECK_THROWS_AS(parse_result(wrong), UsageError);
  }
}

TEST_CASE("sweep: results files survive, and can be put together") {
  const testing::TemporaryFolder folder;
  const std::string a = folder / "a.jsonl", b = folder / "b.jsonl";
  const std::vector<CellResult> results =
      results_of(cells_of(plan_over(usual_space), 6), [](const Cell&) { return false; });
  {
    ResultFile file(a);
    CHECK_THROWS_AS(ResultFile(a), UsageError);  // another one writes it
    for (int i = 0; i < 4; ++i) file.add(result_line(results[static_cast<std::size_t>(i)]));
  }
  std::ofstream(a, std::ios::app) << result_line(results[4]).substr(0, 50);  // a crash
  CHECK(read_results({a}).size() == 4);
  {
    ResultFile file(a);
    file.add(result_line(results[5]));
  }
  CHECK(read_results({a}).back().index == 5);
  CHECK(read_results({a}).size() == 5);
  ResultFile(b).add(result_line(results[0]));
  ResultFile(b).add(result_line(results[4]));
  CHECK(read_results({a, b}).size() == 6);
  std::ofstream(b, std::ios::app) << "{}\n";
  CHECK(testing::usage_error([&] { read_results({b}); }).find("line 3") != std::string::npos);
  CHECK_THROWS_AS(read_results({folder / "none.jsonl"}), UsageError);
}

TEST_CASE("sweep: the smallest cell that fails") {
  const DrawPlan plan = plan_over(usual_space);
  const auto problem_of = [&](const Fails& fails) { return shrunk(plan, fails).cell.problem; };
  const Problem tail =
      problem_of([](const Cell& c) { return c.problem.len_kv % c.bc == 33 % c.bc; });
  CHECK(tail == Problem{1, 1, 1, 1, tail.len_kv == 1 ? 1 : 33, 64, false});
  CHECK(problem_of([](const Cell& c) { return c.problem.len_kv >= 449; }) ==
        Problem{1, 1, 1, 1, 449, 64, false});
  CHECK(problem_of([](const Cell& c) {
          return c.problem.causal && c.problem.len_q > c.problem.len_kv;
        }) == Problem{1, 1, 1, 2, 1, 64, true});
  CHECK(problem_of([](const Cell& c) { return c.problem.heads / c.problem.heads_kv >= 3; }) ==
        Problem{1, 3, 1, 1, 1, 64, false});
  const CellResult wide = shrunk(plan, [](const Cell& c) {
    return c.head_dim == 128 && c.dtype == ElementType::bf16 && c.problem.batch == 2;
  });
  CHECK(wide.cell.problem == Problem{2, 1, 1, 1, 1, 128, false});
  CHECK(wide.cell.bc == 64);
  CHECK((wide.cell.seed == 0 && wide.cell.input == "random"));
}

TEST_CASE("sweep: what gets smaller stays in the space") {
  const DrawPlan plan = plan_over("s=64,128,skv=64..256,h=4,causal=yes");
  const CellResult least = shrunk(plan, [](const Cell&) { return true; });
  CHECK(least.cell.problem == Problem{1, 4, 4, 64, 64, 64, true});
}

TEST_CASE("sweep: rules are those by which cells fail") {
  CHECK(text_of(rule_of([](const Cell& c) { return c.problem.causal; })) == "causal");
  const Rule tail =
      rule_of([](const Cell& c) { return c.problem.causal && c.problem.len_kv % c.bc != 0; });
  REQUIRE(tail.clauses.size() == 1);
  CHECK(
      std::set<std::string>(tail.clauses[0].conditions.begin(), tail.clauses[0].conditions.end()) ==
      std::set<std::string>{"causal", "skv % Bc != 0"});
  CHECK((tail.clauses[0].passing == 0 && tail.unexplained == 0));
  CHECK(text_of(rule_of([](const Cell& c) { return c.problem.len_q > c.problem.len_kv; })) ==
        "s > skv");
  CHECK(text_of(rule_of([](const Cell& c) { return (c.problem.len_kv + c.bc - 1) / c.bc >= 5; })) ==
        "ceil(skv / Bc) >= 5");
  CHECK(text_of(rule_of([](const Cell& c) { return c.dtype == ElementType::bf16; })) ==
        "dtype = bf16");
  const Rule two = rule_of([](const Cell& c) {
    return c.problem.batch == 3 || c.problem.heads / c.problem.heads_kv >= 4;
  });
  CHECK(two.clauses.size() == 2);
  CHECK(two.unexplained == 0);
}

TEST_CASE("sweep: a rule counts its exceptions") {
  const Rule rule = rule_of([](const Cell& c) {
    return (c.problem.len_kv % c.bc != 0) != (c.seed % 40 == 7);  // now and then by luck
  });
  REQUIRE_FALSE(rule.clauses.empty());
  CHECK(rule.clauses[0].text() == "skv % Bc != 0");
  CHECK(rule.clauses[0].passing > 0);
  CHECK(std::ssize(rule.clauses[0].exceptions) ==
        std::min<std::int64_t>(3, rule.clauses[0].passing));
  std::int64_t failing = rule.unexplained;
  for (const Clause& clause : rule.clauses) failing += clause.failing;
  CHECK(failing == rule.failing);
}

TEST_CASE("sweep: of failures without a rule, none is made up") {
  const Rule rule = rule_of([](const Cell& c) { return c.seed % 97 == 3; });
  CHECK(rule.failing > 0);
  CHECK(rule.clauses.empty());
  CHECK(rule.unexplained == rule.failing);
}

TEST_CASE("sweep: what is new against a baseline") {
  const std::vector<Cell> cells = cells_of(plan_over(usual_space), 5);
  const auto fails = [](bool fails_now) { return [fails_now](const Cell&) { return fails_now; }; };
  std::vector<CellResult> before = results_of({cells.begin(), cells.begin() + 4}, fails(false));
  before[0].outcome = before[1].outcome = Outcome::crash;
  SweepReport report;
  report.results = results_of(cells, fails(false));
  report.results[0].outcome = Outcome::crash;     // as before
  report.results[2].outcome = Outcome::diverged;  // newly
  report.results[3].bits = "00000000000000bb";
  SweepReport with_bits = report;
  compare_with(before, false, report);
  CHECK(report.newly_failing.size() == 1);
  CHECK(report.newly_right.size() == 1);
  CHECK(report.changed_bits.empty());
  CHECK(report.not_in_baseline == 1);
  CHECK_FALSE(report.holds());
  report.newly_failing.clear();
  CHECK(report.holds());
  compare_with(before, true, with_bits);
  CHECK(with_bits.changed_bits.size() == 1);
}

TEST_CASE("sweep: a process that ends costs its task alone", "[quick]") {
  const testing::TemporaryFolder folder;
  const std::string once = folder / "once";
  Crew crew(2, [&]() -> Crew::Work {
    return [&](const std::string& task) {
      if (task == "crash") kill(getpid(), SIGSEGV);
      if (task == "crash once" && !std::ifstream(once)) {
        std::ofstream(once) << "x";
        kill(getpid(), SIGKILL);
      }
      return "did " + task;
    };
  });
  std::vector<std::string> tasks = {"a", "crash", "b", "crash once", "c", "d"};
  std::size_t given = 0;
  std::map<std::string, std::string> answers;
  crew.run(
      [&]() -> std::optional<std::string> {
        if (given == tasks.size()) return std::nullopt;
        return tasks[given++];
      },
      [&](const std::string& task, const auto& answer, const std::string& lost) {
        CHECK(answers.emplace(task, answer.value_or(lost)).second);
      },
      [] { return false; });
  CHECK(answers.size() == tasks.size());
  CHECK(answers["crash once"] == "did crash once");
  CHECK(answers["crash"] == "Segmentation fault (SIGSEGV)");
  CHECK(answers["d"] == "did d");
}

}  // namespace lanescope
