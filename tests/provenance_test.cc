// What is read of numbers that were followed, and the lines that are quoted of them.

#include "gates/run/provenance.h"

#include <string>
#include <utility>
#include <vector>

#include "gates/run/judge_terms.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/followed_rows.h"

namespace lanescope {
namespace {

using namespace testing;
using Catch::Matchers::ContainsSubstring;

}  // namespace

TEST_CASE("provenance: a file is read as it was written, the last launch", "[terms]") {
  const testing::TemporaryFolder folder;
  const auto conflict = std::to_string(static_cast<int>(Conflict::output_of_other_row));
  const std::string before = "launch\no 4 8 output/4/-/-/0 own - - 1\nstop 1 k.cu:1\nmerge 0 old\n";
  const std::string last = R"( 512 500 3 1 17 k.cu:20 add.f32
sample 0 weight/3:17/3:20/-/0 sum/3/3:1/0-15,40-40/0 4 0 1 0
fault 1 4 2 0 0 0 0 -
sample 1 q/3/5 k/9/6 0 0 - -
input 2 64 4
address 4 k.cu:3
mask 0 k.cu:5
keys 7 2
rescale 1 k.cu:6
o 3 7 output/3/3{0-15,40-40}/0-31/0 own 0-30 0-1 5
o 3 1 - - - - 0
o 5 8 output/5/5:2/0-31/0 other 0-31 - 6
lse 3 1 log_sum/3{0-31}/-/-/0 own - 1-1 6
stop 4 k.cu:11
stop 4 k.cu:12, called at k.cu:13
stop 5 k.cu:11
stop 5 k.cu:30 st.global
stop 6 k.cu:31
merge 0 k.cu:9
combine 0 k.cu:8
combine 0 k.cu:9
made 0 k.cu:10 ex2
value 0 -1.5 score/3:17/-/0-7/0
value 0 inf difference/3:17/3{0-31}/-/0
scored 3 0-31 4-7
)";
  testing::write_bytes(folder / "terms", before + "launch\nfault 0 " + conflict + last);
  const Provenance all = read_provenance((folder / "terms").string());
  const Provenance::Meeting& first = all.meetings.at(0);
  CHECK((first.conflict == Conflict::output_of_other_row && first.count == 512));
  CHECK((first.fresh == 500 && first.roads[0].at(4) == 1));
  CHECK((first.ordered[0] == 1 && first.disordered[1] == 1 && first.disordered[0] == 0));
  CHECK((first.block == 3 && first.warp == 1 && first.lane == 17));
  CHECK(first.line == "k.cu:20 add.f32");
  const auto& [weight, sum] = first.samples.at(0);
  CHECK((weight.kind == "weight" && weight.row == 3 && weight.key == 17 && weight.b.key == 20));
  CHECK((sum.kind == "sum" && sum.row == 3 && sum.key == -1 && sum.b.kind == Unit::Kind::score));
  CHECK(sum.set == Keys{{0, 15}, {40, 40}});
  const auto& [q, k] = all.meetings.at(1).samples.at(0);
  CHECK((q.is_input() && q.row == 3 && q.column == 5 && k.kind == "k" && k.column == 6));
  REQUIRE((all.o.size() == 2 && all.o.at(3).size() == 2 && all.lse.size() == 1));
  const Provenance::Output& o = all.o.at(3)[0];
  CHECK((o.count == 7 && o.term.kind == "output" && o.term.row == 3 && o.own_column));
  CHECK(o.term.b == Unit{Unit::Kind::log_sum, 3, -1, {{0, 15}, {40, 40}}});
  CHECK((o.term.set == Keys{{0, 31}} && o.values == Keys{{0, 30}}));
  CHECK((o.meetings == std::vector<Row>{0, 1} && o.line == "k.cu:30 st.global"));
  CHECK((all.o.at(3)[1].term.kind == "-" && !all.o.at(5).at(0).own_column));
  const Provenance::Output& lse = all.lse.at(3).at(0);
  CHECK((lse.term.row == 3 && lse.term.a.keys == Keys{{0, 31}} && lse.meetings.size() == 1));
  CHECK(all.roads.at(4) == std::vector<std::string>{"k.cu:11", "k.cu:12, called at k.cu:13"});
  CHECK((all.input_roads[2].at(4) == 64 && all.addresses.at(4)[0] == "k.cu:3"));
  CHECK((all.keys_in_order == 7 && all.keys_out_of_order == 2));
  CHECK((all.masks[0] == "k.cu:5" && all.rescales[1][0] == "k.cu:6" && !all.roads.contains(1)));
  CHECK(all.outline.merges.lines == std::vector<std::string>{"k.cu:9"});
  CHECK(all.outline.merges.around == std::vector<std::string>{"k.cu:8", "k.cu:9"});
  REQUIRE((all.made.size() == 1 && all.made[0].values.size() == 2));
  const auto& [line, values] = all.made[0];
  CHECK((line == "k.cu:10 ex2" && values[1].second.b.keys == Keys{{0, 31}}));
  CHECK((values[0].first == -1.5 && values[0].second.key == 17));
  CHECK(all.scored.at(3) == std::vector<Keys>{{{0, 31}}, {{4, 7}}});
  CHECK(read_provenance((folder / "none").string()).o.empty());
}

TEST_CASE("provenance: where a kernel puts and takes what", "[terms]") {
  const testing::TemporaryFolder folder;
  testing::write_bytes(folder / "terms",
                       "launch\nroom 1 8704\nput 1 64 0 3 16 4\nvariable 1024 64\n"
                       "stored 1024 1040 2\nread 3 k.cu:5, called at k.cu:9\n"
                       "rounding 0 k.cu:12\ncolumns_of_v 8 2\ncolumns_by_row 1\nweights_of_zero 6\n"
                       "weighed 3 0-31\n");
  const Provenance all = read_provenance((folder / "terms").string());
  using Place = std::pair<Row, Row>;
  CHECK(all.placed[1].room == 8704);
  CHECK(all.placed[1].at == std::map<Place, Row>{{{64, 0}, 16}, {{64, 1}, 20}, {{64, 2}, 24}});
  CHECK(all.placed[0].at.empty());
  CHECK(all.outline.shared.variables == std::vector<Place>{{1024, 1088}});
  CHECK(all.outline.shared.stage_around(1044) == Stage::softmax);
  CHECK(all.outline.reads.at("k.cu:5, called at k.cu:9") == Stage::pv);
  CHECK(all.outline.roundings == std::vector<std::string>{"k.cu:12"});
  CHECK((all.columns_in_order == 8 && all.columns_out_of_order == 2 && all.columns_by_row));
  CHECK(all.weights_of_zero == 6);
  CHECK(all.weighed.at(3) == Keys{{0, 31}});
}

TEST_CASE("provenance: log-sum-exps that are nothing in all rows are not stored", "[terms]") {
  const testing::TemporaryFolder folder;
  const auto stored = [&](const std::string& last) {
    testing::write_bytes(folder / "terms",
                         "launch\no 3 8 output/3/-/0-31/0 own 0-31 - 1\n"
                         "lse 3 1 - - - - 0\nlse 4 1 " +
                             last + "\n");
    return read_provenance((folder / "terms").string());
  };
  CHECK(stored("- - - - 0").lse.empty());
  CHECK(stored("- - - - 0").o.size() == 1);
  CHECK(stored("log_sum/4{0-31}/-/-/0 own - - 1").lse.size() == 2);
}

TEST_CASE("judge terms: lines by which numbers came there are quoted", "[terms]") {
  const auto shifted = [](Row row) {
    Pair pair{part("weight", row, {}, row), term("v", row + 16)};
    pair.first.key = row;
    return pair;
  };
  Followed run = met(Conflict::value_of_other_key, shifted);
  run.all.roads = {{1, {"k.cu:3", "k.cu:4", "k.cu:6"}}, {2, {"k.cu:2", "k.cu:4", "k.cu:6"}}};
  run.all.meetings.at(0).roads[1] = {{1, 64}};
  run.all.input_roads[2] = {{1, 64}, {2, 640}};
  for (Row row = 64; row < 128; ++row) run.all.o[row][0].values = {{row / 64 * 64 + 16, row}};
  TermFault fault = run.judged().fault.value();
  using Lines = std::vector<std::string>;
  CHECK((fault.stage == Stage::load && fault.operand == 2));
  CHECK(fault.lines == Lines{"k.cu:3", "k.cu:4", "k.cu:6", "k.cu:7"});
  CHECK_THAT(fault.evidence.back(), ContainsSubstring("V came there by k.cu:3, k.cu:4, k.cu:6"));
  // Where none of them is known, what came by most.
  run.all.meetings.at(0).roads[1].clear();
  CHECK(run.judged().fault.value().lines.front() == "k.cu:2");
  // Of a head: where its address is made.
  for (auto& [weight, value] : run.all.meetings.at(0).samples) value.row += 64;
  run.all.addresses[2] = {"k.cu:1"};
  fault = run.judged().fault.value();
  CHECK((fault.cause == Cause::wrong_head && fault.lines.front() == "k.cu:1"));
  // Where others are rescaled, who made what is not; masks; stages.
  run = met(Conflict::sum_of_other_unit, [](Row row) {
    return Pair{part("sum", row, {{0, 15}}, 1), part("sum", row, {{16, 31}}, 17)};
  });
  run.all.rescales[0] = {"k.cu:5"};
  run.all.roads = {{1, {"k.cu:3", "k.cu:4"}}};
  run.all.meetings.at(0).roads[1] = {{1, 64}};
  CHECK(run.judged().fault.value().lines == Lines{"k.cu:7", "k.cu:5", "k.cu:3"});
  run = done(true, [](Followed& own, Row row) { own.put(row, row, own.seen(row, 1)); });
  run.all.masks = {"k.cu:8"};
  CHECK(run.judged().fault.value().lines == Lines{"k.cu:8"});
  CHECK(run.judged().lines.at(Stage::qk) == Lines{"k.cu:8"});
  // What comes of another fault is none.
  run = met(Conflict::value_of_other_key, shifted);
  run.all.meetings.at(0).fresh = 0;
  CHECK_FALSE(run.judged().fault.has_value());
}

TEST_CASE("judge terms: what one of O and the log-sum-exp lacks, columns, orders", "[terms]") {
  // Scores were made of all: l has fewer, or P·V.
  const Keys fewer{{0, 15}, {17, 63}};
  const auto sums = [&](Followed& own, Row row) { own.all.lse[row][0].term.a.keys = fewer; };
  CHECK(done(false, sums).is(Cause::incomplete_reduction, Stage::epilogue));
  const auto products = [&](Followed& own, Row row) { own.all.o[row][0].term.set = fewer; };
  CHECK(done(false, products).is(Cause::contribution_missing, Stage::pv));
  // Limits that differ by row are no mask that is off by one.
  const auto limits = [](Followed& own, Row row) {
    own.put(row, row, own.seen(row, -1 - row % 2));
  };
  CHECK(done(true, limits).is(Cause::mask_misaligned, Stage::qk));
  // Columns in the wrong places; those of V that others have, too.
  const auto columns = [](Followed& own, Row row) { own.all.o[row][0].own_column = false; };
  Followed run = done(false, columns);
  CHECK(run.is(Cause::permuted, Stage::epilogue));
  for (const Row row : run.wrong) run.all.repeats_columns.insert(row);
  CHECK(run.is(Cause::wrong_source, Stage::pv));
  // Which of two orders goes on by one.
  const auto paired = [](Row row) { return Pair{weight(row, 80 + row % 16, 64), term("v", 81)}; };
  run = met(Conflict::value_of_other_key, paired);
  Provenance::Meeting& meeting = run.all.meetings.at(0);
  meeting.ordered[0] = meeting.disordered[1] = 9;
  CHECK(run.is(Cause::permuted, Stage::pv));
  CHECK(run.judged().fault.value().operand == 2);
  std::swap(meeting.ordered, meeting.disordered);
  CHECK(run.is(Cause::permuted, Stage::pv));
  CHECK_FALSE(run.judged().fault.value().operand.has_value());
  run.all.keys_out_of_order = 1;
  CHECK(run.is(Cause::permuted, Stage::qk));
  // Every third key alone was there of a head.
  run = met(Conflict::other_head, [](Row row) { return Pair{term("q", row), term("k", 0)}; });
  for (Row row = 64; row < 128; ++row)
    run.all.scored[row] = {{{64, 64}, {67, 67}, {70, 70}, {73, 73}}};
  CHECK(run.is(Cause::wrong_stride, Stage::load));
  // Parts that are divided by their l.
  run = met(Conflict::factor_of_other_unit, [](Row row) {
    Pair pair{weight(row, 64, 90), part("output", row, {{64, 79}}, 0)};
    pair.second.b = {Unit::Kind::log_sum, row, -1, {{64, 79}}};
    return pair;
  });
  CHECK(run.is(Cause::wrong_formula, Stage::pv));
}

}  // namespace lanescope
