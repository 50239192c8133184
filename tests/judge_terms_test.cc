// What is said of a run whose numbers were followed, right and wrong.

#include "gates/run/judge_terms.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gates/run/provenance.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"

namespace lanescope {
namespace {

using Catch::Matchers::ContainsSubstring;
using ptx::Conflict;
using Said = Provenance::Term;
using Unit = Provenance::Unit;
using Keys = Provenance::Set;
using Pair = std::pair<Said, Said>;
using Row = std::int64_t;  // or key

Said term(const std::string& kind, Row row) {
  Said term;
  term.kind = kind;
  term.row = row;
  return term;
}
/// Of a row, over keys, in units of the score of a key.
Said part(const std::string& kind, Row row, Keys keys, Row maximum) {
  Said part = term(kind, row);
  part.set = std::move(keys);
  part.b = {Unit::Kind::score, row, maximum, {}};
  return part;
}
Said weight(Row row, Row key, Row maximum) {
  Said weight = part("weight", row, {}, maximum);
  weight.key = key;
  return weight;
}

/// Four heads of 32 queries; of K and V two of 64 keys. Right, until something is done to it.
struct Followed {
  Problem problem{.heads = 4, .heads_kv = 2, .len_q = 32, .len_kv = 64, .d = 8};
  Provenance all = {};
  std::vector<Row> wrong = {};

  explicit Followed(bool causal = false) {
    problem.causal = causal;
    for (Row row = 0; row < problem.queries(); ++row) put(row, row, seen(row));
  }
  /// The keys that it sees, and so many more.
  Keys seen(Row row, Row more = 0) const {
    const Row first = row / 64 * 64;
    return {{first, first + problem.visible_keys(row % problem.len_q) - 1 + more}};
  }
  /// `row` of the outputs is that of `from`, over `keys`.
  void put(Row row, Row from, const Keys& keys) {
    Provenance::Output o, lse;
    o.term = part("output", from, keys, 0);
    lse.term = term("log_sum", from);
    o.term.b = lse.term.a = {Unit::Kind::log_sum, from, -1, keys};
    o.values = keys;
    o.line = "store o";
    all.o[row] = {o};
    all.lse[row] = {lse};
    all.scored[row] = {{{row / 64 * 64, row / 64 * 64 + 63}}};
  }
  /// Terms meet in rows from `from` on, and what they are of each.
  template <class F>
  void meet(Conflict conflict, Row from, Row to, F&& terms_of) {
    const auto number = std::ssize(all.meetings);
    Provenance::Meeting& meeting = all.meetings[number];
    meeting = {conflict, 5, 5, 6, 7, 8, "k.cu:7", {}, {}, {}, {}};
    for (Row row = from; row < to; ++row) {
      meeting.samples.push_back(terms_of(row));
      all.o[row][0].meetings.push_back(number);
    }
  }
  void are_wrong(Row from, Row to) {
    wrong.clear();
    for (Row row = from; row < to; ++row) wrong.push_back(row);
  }
  TermJudgement judged() const { return judge_terms(all, problem, wrong); }
  /// The cause, where nothing else is wrong.
  bool is(Cause cause, Stage stage) const {
    const TermJudgement judgement = judged();
    return judgement.fault && judgement.fault->cause == cause && judgement.fault->stage == stage &&
           !judgement.is_whole;
  }
};

/// Wrong rows in which terms meet.
template <class F>
Followed met(Conflict conflict, F&& terms_of) {
  Followed run;
  run.meet(conflict, 64, 128, terms_of);
  run.are_wrong(64, 128);
  return run;
}

/// Wrong rows of one head to which something is done.
template <class F>
Followed done(bool causal, F&& change) {
  Followed run(causal);
  for (Row row = 32; row < 62; ++row) change(run, row);
  run.are_wrong(32, 62);
  return run;
}

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
  CHECK(all.merges == std::vector<std::string>{"k.cu:9"});
  REQUIRE((all.made.size() == 1 && all.made[0].values.size() == 2));
  const auto& [line, values] = all.made[0];
  CHECK((line == "k.cu:10 ex2" && values[1].second.b.keys == Keys{{0, 31}}));
  CHECK((values[0].first == -1.5 && values[0].second.key == 17));
  CHECK(all.scored.at(3) == std::vector<Keys>{{{0, 31}}, {{4, 7}}});
  CHECK(read_provenance((folder / "none").string()).o.empty());
}

TEST_CASE("judge terms: rows whose terms are all there are whole", "[terms]") {
  for (const bool causal : {false, true}) {
    Followed run(causal);
    run.all.merges = {"combine.cu:3"};
    run.are_wrong(5, 80);
    const TermJudgement judgement = run.judged();
    CHECK_FALSE(judgement.fault.has_value());
    CHECK((judgement.is_whole && judgement.merges == run.all.merges));
    // A row of V is left out; a row is nothing that is known; there is none.
    Followed other = run;
    other.all.o[70][0].values.front().second -= 1;
    CHECK_FALSE(other.judged().is_whole);
    other = run;
    other.all.o[70][0].term = term("unknown", 0);
    CHECK_FALSE(other.judged().is_whole);
    other = run;
    other.are_wrong(5, run.problem.queries() + 1);
    CHECK_FALSE(other.judged().is_whole);
  }
}

TEST_CASE("judge terms: what wrong rows alone have is the fault", "[terms]") {
  Followed run;
  const auto twice = [](Row row) {
    return Pair{part("sum", row, {{0, 15}}, 1), part("sum", row, {{8, 23}}, 1)};
  };
  run.meet(Conflict::key_twice, 0, 32, twice);
  run.are_wrong(0, 32);
  CHECK(run.is(Cause::contribution_repeated, Stage::softmax));
  const TermFault fault = run.judged().fault.value();
  CHECK((fault.share == 1 && fault.lines == std::vector<std::string>{"k.cu:7"}));
  CHECK_THAT(fault.evidence.at(0),
             ContainsSubstring("k.cu:7: ") &&
                 ContainsSubstring("l of query 0 of head 0, batch 0 over keys 0 to 15") &&
                 ContainsSubstring("5 times, first in block 6, warp 7, lane 8"));
  run.are_wrong(16, 48);
  CHECK(run.judged().fault.value().share == 0.5);
  // Rows that are right have it, too.
  run.meet(Conflict::key_twice, 48, 128, twice);
  CHECK_FALSE((run.judged().fault.has_value() || run.judged().is_whole));
  // A sum that is added to itself, as where lanes exchange nothing.
  const auto itself = [](Row row) {
    return Pair{part("sum", row, {{64, 79}}, 70), part("sum", row, {{64, 79}}, 70)};
  };
  run = met(Conflict::key_twice, itself);
  CHECK(run.is(Cause::incomplete_reduction, Stage::softmax));
  for (auto& [row, scored] : run.all.scored) scored = {{{64, 79}}, {{64, 79}}};
  CHECK(run.is(Cause::stale_operand, Stage::load));
}

TEST_CASE("judge terms: what is not rescaled, and keys of another head", "[terms]") {
  const auto parts = [](const std::string& kind, Row other) {
    return [=](Row row) {
      return Pair{part(kind, row, {{64, 95}}, 70), part(kind, row, {{other, other + 15}}, 100)};
    };
  };
  const Followed sums = met(Conflict::sum_of_other_unit, parts("sum", 96));
  CHECK(sums.is(Cause::not_rescaled, Stage::softmax));
  const Followed outputs = met(Conflict::output_of_other_unit, parts("output", 96));
  CHECK(outputs.is(Cause::not_rescaled, Stage::pv));
  // Keys side by side: maxima of lanes that did not come together.
  const Followed lanes = met(Conflict::output_of_other_unit, parts("output", 80));
  CHECK(lanes.is(Cause::incomplete_reduction, Stage::softmax));
  const auto factor_of = [](Row maximum) {
    return [=](Row row) {
      return Pair{weight(row, 70, 100), part("output", row, {{64, 95}}, maximum)};
    };
  };
  const Followed again = met(Conflict::factor_of_other_unit, factor_of(100));
  CHECK(again.is(Cause::rescaled_twice, Stage::pv));
  const Followed other = met(Conflict::factor_of_other_unit, factor_of(90));
  CHECK(other.is(Cause::not_rescaled, Stage::pv));
  const auto inputs = [](Row row) { return Pair{term("q", row), term("k", 0)}; };
  CHECK(met(Conflict::other_head, inputs).is(Cause::wrong_head, Stage::load));
  // The same head of another batch: K's, or that of Q, where the row is stored as another's.
  const auto batches = [](Row row) { return Pair{term("q", row - 64), term("k", row)}; };
  Followed run = met(Conflict::other_head, batches);
  run.problem.batch = 2;
  run.problem.heads = 2;
  run.problem.heads_kv = 1;
  CHECK(run.is(Cause::wrong_source, Stage::load));
  CHECK(run.judged().fault.value().operand == 1);
  for (Row row = 64; row < 128; ++row) run.all.o[row][0].term.row = row - 64;
  CHECK(run.judged().fault.value().operand == 0);
}

TEST_CASE("judge terms: weights and rows of V that are of other keys", "[terms]") {
  const auto paired = [](const Keys& keys, const Keys& values, std::vector<Row> shifts) {
    Followed run = met(Conflict::value_of_other_key, [&](Row row) {
      const Row key = 80 + row % 16;
      return Pair{weight(row, key, 64), term("v", key + shifts[row % std::ssize(shifts)])};
    });
    for (const Row row : run.wrong) {
      Provenance::Output& o = run.all.o[row][0];
      o.term.set = o.term.b.keys = keys;
      o.values = values;
    }
    return run;
  };
  const Keys right{{64, 127}}, less{{64, 111}};
  CHECK(paired(right, right, {1, -1}).is(Cause::permuted, Stage::pv));
  CHECK(paired(right, less, {16}).is(Cause::stale_operand, Stage::load));
  CHECK(paired(right, less, {1}).is(Cause::operand_of_other_row, Stage::pv));
  CHECK(paired(less, right, {16}).is(Cause::stale_operand, Stage::load));
  CHECK(paired(less, right, {1}).is(Cause::operand_of_other_row, Stage::qk));
  CHECK(paired(right, right, {-64}).is(Cause::wrong_head, Stage::load));
}

TEST_CASE("judge terms: rows that are stored elsewhere, or not done", "[terms]") {
  const auto next = [](Followed& run, Row row) { run.put(row, row + 1, run.seen(row + 1)); };
  CHECK(done(false, next).is(Cause::misplaced, Stage::epilogue));
  CHECK(done(true, next).is(Cause::misplaced, Stage::epilogue));
  const auto other_q = [](Followed& run, Row row) { run.put(row, row + 1, run.seen(row)); };
  CHECK(done(true, other_q).is(Cause::operand_of_other_row, Stage::qk));
  const auto turned = [](Followed& run, Row row) { run.all.o[row][0].own_column = false; };
  CHECK(done(false, turned).is(Cause::misplaced, Stage::epilogue));
  const auto undivided = [](Followed& run, Row row) { run.all.o[row][0].term.b = {}; };
  CHECK(done(false, undivided).is(Cause::not_normalised, Stage::epilogue));
  const auto maximum = [](Followed& run, Row row) { run.all.lse[row][0].term.kind = "score"; };
  CHECK(done(false, maximum).is(Cause::lse_without_sum, Stage::epilogue));
}

TEST_CASE("judge terms: rows that see other keys than they should", "[terms]") {
  const auto sees = [](Row more) {
    return done(true, [=](Followed& run, Row row) { run.put(row, row, run.seen(row, more)); });
  };
  CHECK(sees(1).is(Cause::mask_off_by_one, Stage::qk));
  CHECK(sees(-1).is(Cause::mask_off_by_one, Stage::qk));
  CHECK(sees(-16).is(Cause::mask_misaligned, Stage::qk));
  Followed run = sees(-16);
  for (auto& [row, scored] : run.all.scored) scored = {{{0, 1}}};
  CHECK(run.is(Cause::tile_skipped, Stage::qk));
  const auto late = [](Followed& own, Row row) { own.put(row, row, {{16, 63}}); };
  CHECK(done(false, late).is(Cause::sliding_window, Stage::qk));
  Followed all(true);
  for (Row row = 0; row < 128; ++row) all.put(row, row, {{row / 64 * 64, row / 64 * 64 + 63}});
  all.are_wrong(0, 20);
  CHECK(all.is(Cause::causal_mask_missing, Stage::qk));
  // Tiles of 16 keys on the diagonal without a mask.
  Followed tiles(true);
  for (Row row = 0; row < 64; ++row) tiles.put(row, row, {{0, (row % 32 + 32) / 16 * 16 + 15}});
  tiles.are_wrong(0, 64);
  CHECK(tiles.is(Cause::causal_mask_missing, Stage::qk));
  // Rows before the first that sees a key.
  Followed none(true);
  none.problem.len_kv = 16;
  none.put(0, 0, {{0, 0}});
  none.wrong = {0};
  CHECK(none.is(Cause::mask_off_by_one, Stage::qk));
  // What is odd is the fault where nothing else is.
  const auto odd = [](Row row) { return Pair{term("q", row), term("-", -1)}; };
  run = sees(1);
  run.meet(Conflict::odd, 32, 62, odd);
  CHECK(run.is(Cause::mask_off_by_one, Stage::qk));
  CHECK(met(Conflict::odd, odd).judged().fault.value().share == 0);
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

}  // namespace lanescope
