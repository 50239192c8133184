// What is said of a run whose numbers were followed, right and wrong.

#include "gates/run/judge_terms.h"

#include <functional>

#include "tests/support/catch.h"
#include "tests/support/followed_rows.h"

namespace lanescope {
namespace {

using namespace testing;
using Catch::Matchers::ContainsSubstring;

}  // namespace

TEST_CASE("judge terms: rows whose terms are all there are whole", "[terms]") {
  for (const bool causal : {false, true}) {
    Followed run(causal);
    run.all.outline.merges.lines = {"combine.cu:3"};
    run.are_wrong(5, 80);
    const TermJudgement judgement = run.judged();
    CHECK_FALSE(judgement.fault.has_value());
    CHECK((judgement.is_whole && judgement.outline.merges.lines == run.all.outline.merges.lines));
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
  // Results of splits that have keys in common are no part that is added to itself.
  const auto splits = [](Row row) {
    Pair pair{term("weight", row), term("weight", row)};
    pair.first.a = {Unit::Kind::log_sum, row, -1, {{64, 95}}};
    pair.second.a = {Unit::Kind::log_sum, row, -1, {{80, 127}}};
    return pair;
  };
  CHECK(met(Conflict::key_twice, splits).is(Cause::contribution_repeated, Stage::softmax));
  // A one that is added again is no key's.
  const auto one = [](Row row) {
    Said maximum = weight(row, 70, 70);
    maximum.a = maximum.b;
    return Pair{maximum, part("sum", row, {{64, 79}}, 70)};
  };
  CHECK_FALSE(run.judged().fault.value().of_nothing);
  CHECK(met(Conflict::key_twice, one).judged().fault.value().of_nothing);
}

TEST_CASE("judge terms: scores that begin with weights are wrong, however little that is",
          "[terms]") {
  const auto run_with = [](const std::string& kind) {
    Followed run;
    run.meet(Conflict::partial_of_other, 0, 128, [&](Row row) {
      Said score = part("score", row, {{0, 7}}, 1);
      score.key = 70;
      Said before = kind == "weight" ? weight(row, 6, 1) : part(kind, row, {{0, 7}}, 1);
      return Pair{score, before};
    });
    run.are_wrong(0, 48);
    return run;
  };
  CHECK(run_with("weight").is(Cause::accumulator_not_cleared, Stage::qk));
  // What right rows have as well is none else.
  CHECK_FALSE(run_with("score").judged().fault.has_value());
}

TEST_CASE("judge terms: keys that a mask takes others for", "[terms]") {
  const auto more = [](Followed& run, Row row) { run.put(row, row, run.seen(row, 1)); };
  CHECK(done(true, more).judged().sees_others);
  const auto own = [](Followed& run, Row row) { run.put(row, row, run.seen(row)); };
  CHECK_FALSE(done(true, own).judged().sees_others);
  CHECK_FALSE(done(false, more).judged().sees_others);
}

TEST_CASE("judge terms: what half of the wrong rows have comes before what more meet later",
          "[terms]") {
  const auto other_row = [](Row row) { return Pair{weight(row, 1, 1), weight(row + 1, 2, 2)}; };
  const auto unscaled = [](Row row) {
    return Pair{part("output", row, {{0, 15}}, 1), part("output", row, {{16, 31}}, 2)};
  };
  for (const Row half : {16, 8}) {
    Followed run;
    run.meet(Conflict::maximum_of_other_row, 0, half, other_row);
    run.meet(Conflict::output_of_other_unit, 0, 32, unscaled);
    run.are_wrong(0, 32);
    INFO(half << " of 32 rows");
    CHECK((run.judged().fault.value().cause == Cause::not_rescaled) == (half < 16));
  }
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
  // Weights of which some are divided by l.
  const Followed divided = met(Conflict::output_of_other_unit, [](Row row) {
    Pair pair{part("output", row, {{64, 79}}, 70), part("output", row, {{80, 95}}, 70)};
    pair.second.b = {Unit::Kind::log_sum, row, -1, {{64, 127}}};
    return pair;
  });
  CHECK(divided.is(Cause::not_normalised, Stage::softmax));
  // Keys side by side: maxima of lanes that did not come together.
  const Followed lanes = met(Conflict::output_of_other_unit, parts("output", 80));
  CHECK(lanes.is(Cause::incomplete_reduction, Stage::softmax));
  // So of two keys of a tile; those of two tiles wait for the new maximum.
  const auto keys = [](Row other) {
    return [=](Row row) { return Pair{weight(row, 65, 70), weight(row, other, 76)}; };
  };
  const Followed in_tile = met(Conflict::output_of_other_unit, keys(77));
  CHECK(in_tile.is(Cause::incomplete_reduction, Stage::softmax));
  const Followed in_two = met(Conflict::output_of_other_unit, keys(82));
  CHECK(in_two.is(Cause::not_rescaled, Stage::softmax));
  const auto factor_of = [](Row maximum) {
    return [=](Row row) {
      return Pair{weight(row, 70, 100), part("output", row, {{64, 95}}, maximum)};
    };
  };
  const Followed again = met(Conflict::factor_of_other_unit, factor_of(100));
  CHECK(again.is(Cause::rescaled_twice, Stage::pv));
  const Followed other = met(Conflict::factor_of_other_unit, factor_of(90));
  CHECK(other.is(Cause::not_rescaled, Stage::pv));
  // Parts that have their l, and log-sum-exps that have it, too.
  const auto by_log_sums = [](Row row) {
    Said factor = weight(row, 70, 70);
    factor.a = {Unit::Kind::log_sum, row, -1, {{64, 79}}};
    return Pair{factor, part("output", row, {{64, 79}}, 70)};
  };
  Followed undivided = met(Conflict::factor_of_other_unit, by_log_sums);
  CHECK(undivided.is(Cause::wrong_formula, Stage::softmax));
  undivided.all.outline.merges.lines = {"combine.cu:3"};
  CHECK(undivided.is(Cause::weighted_by_sum, Stage::combine));
  // Parts that are divided by their l, and then by a sum of the weights of maxima.
  const auto by_maxima = [](Row row) {
    Said divided = part("output", row, {{64, 79}}, 70);
    divided.b = {Unit::Kind::log_sum, row, -1, {{64, 79}}};
    return Pair{divided, part("inverse", row, {{70, 70}}, 70)};
  };
  CHECK(met(Conflict::inverse_of_other_unit, by_maxima).is(Cause::wrong_formula, Stage::combine));
  // Or that are not, and then by the sum of weights that have it.
  const auto undivided_parts = [](Row row) {
    Said inverse = part("inverse", row, {{64, 79}}, 70);
    inverse.b = {Unit::Kind::log_sum, row, -1, {{64, 79}}};
    return Pair{part("output", row, {{64, 79}}, 70), inverse};
  };
  CHECK(met(Conflict::inverse_of_other_unit, undivided_parts)
            .is(Cause::not_normalised, Stage::epilogue));
  // Or their sums themselves.
  const auto by_sums = [](Row row) {
    return Pair{part("sum", row, {{64, 79}}, 100), part("output", row, {{64, 79}}, 70)};
  };
  CHECK(met(Conflict::factor_of_other_unit, by_sums).is(Cause::weighted_by_sum, Stage::combine));
  const auto inputs = [](Row row) { return Pair{term("q", row), term("k", 0)}; };
  CHECK(met(Conflict::other_head, inputs).is(Cause::wrong_head, Stage::load));
  // Behind the last key of its own: rows 64 and up have the keys 64 to 127.
  const auto behind = [](Row row) { return Pair{term("q", row), term("k", 128 + row % 4)}; };
  CHECK(met(Conflict::other_head, behind).is(Cause::wrong_head, Stage::load));
  const auto next = [](Row row) { return Pair{term("q", row), term("k", 128)}; };
  Followed over = met(Conflict::other_head, next);
  CHECK(over.is(Cause::out_of_bounds, Stage::load));
  for (auto& [row, scored] : over.all.scored) scored = {{{70, 127}}};
  CHECK(over.is(Cause::wrong_head, Stage::load));
  // The same head of another batch: K's, or that of Q, where the row is stored as another's.
  const auto batches = [](Row row) { return Pair{term("q", row - 64), term("k", row)}; };
  Followed run = met(Conflict::other_head, batches);
  run.problem.batch = 2;
  run.problem.heads = 2;
  run.problem.heads_kv = 1;
  CHECK(run.is(Cause::wrong_head, Stage::load));
  CHECK(run.judged().fault.value().operand == 1);
  for (Row row = 64; row < 128; ++row) run.all.o[row][0].term.row = row - 64;
  CHECK(run.judged().fault.value().operand == 0);
}

TEST_CASE("judge terms: what right rows have as well is no fault, but for a few", "[terms]") {
  const auto sums = [](Row row) {
    return Pair{part("sum", row, {{64, 79}}, 70), part("sum", row + 1, {{80, 95}}, 70)};
  };
  Followed run;
  run.meet(Conflict::sum_of_other_row, 0, 128, sums);
  run.are_wrong(2, 128);
  CHECK(run.is(Cause::reduction_too_wide, Stage::softmax));
  run.are_wrong(64, 128);
  CHECK_FALSE(run.judged().fault.has_value());
  // Factors of other rows that are 1, unless maxima are other rows', too.
  run = Followed();
  run.meet(Conflict::factor_of_other_row, 0, 128, [](Row row) {
    return Pair{weight(row + 1, 70, 80), part("output", row, {{64, 79}}, 70)};
  });
  run.are_wrong(64, 128);
  CHECK(run.is(Cause::operand_of_other_row, Stage::pv));
  run.meet(Conflict::maximum_of_other_row, 0, 128, sums);
  CHECK_FALSE(run.judged().fault.has_value());
}

TEST_CASE("judge terms: P V that begins anew is added to what was not cleared", "[terms]") {
  const auto columns = [](const Keys& before, const Keys& own) {
    return met(Conflict::output_of_other_column, [=](Row row) {
      Pair pair{part("output", row, before, 70), part("output", row, own, 70)};
      pair.second.column = 5;
      return pair;
    });
  };
  CHECK(columns({{64, 95}}, {{64, 95}}).is(Cause::accumulator_not_cleared, Stage::pv));
  CHECK(columns({{64, 95}}, {{64, 79}}).is(Cause::accumulator_not_cleared, Stage::pv));
  CHECK(columns({{64, 79}}, {{80, 95}}).is(Cause::permuted, Stage::pv));
}

TEST_CASE("judge terms: maxima that a row had before are those of another", "[terms]") {
  const auto score = [](Row row, Row key) {
    Said score = term("score", row);
    score.key = key;
    return score;
  };
  Followed run = met(Conflict::maximum_of_other_row, [&](Row row) {
    return Pair{score(row, 70), score(row - 64, 3)};
  });
  CHECK(run.is(Cause::accumulator_not_cleared, Stage::softmax));
  // It was that of the row before: it is subtracted from the new one.
  run.meet(Conflict::maximum_of_other_row, 64, 128, [&](Row row) {
    return Pair{score(row - 64, 3), score(row, 71)};
  });
  CHECK(run.is(Cause::accumulator_not_cleared, Stage::softmax));
  // A merge has nothing but maxima.
  Followed merge = met(Conflict::maximum_of_other_row, [&](Row row) {
    const Pair pair{score(row, 70), score(row ^ 32, 71)};
    return row % 2 == 0 ? pair : Pair{score(row ^ 32, 71), score(row, 70)};
  });
  CHECK_FALSE(merge.is(Cause::accumulator_not_cleared, Stage::softmax));
  // Each of two rows has that of the other.
  run.meet(Conflict::maximum_of_other_row, 64, 128, [&](Row row) {
    return Pair{score(row - 64, 9), score(row, 71)};
  });
  run.are_wrong(0, 128);
  CHECK_FALSE(run.is(Cause::accumulator_not_cleared, Stage::softmax));
}

TEST_CASE("judge terms: columns that stand twice, rows that are mixed", "[terms]") {
  const auto columns = [](const std::function<Row(Row)>& of) {
    return met(Conflict::column_of_other, [=](Row row) {
      Said q = term("q", row), k = term("k", 3);
      q.column = row % 2 == 0 ? 1 : 3;
      k.column = of(q.column);
      return Pair{q, k};
    });
  };
  CHECK(columns([](Row col) { return col - 1; }).is(Cause::wrong_source, Stage::qk));
  CHECK(columns([](Row col) { return 4 - col; }).is(Cause::permuted, Stage::qk));
  // Where they are off by as much in each row, otherwise in each, rows lie at another distance.
  const Followed strided = met(Conflict::column_of_other, [](Row row) {
    Said q = term("q", row), k = term("k", row % 2);
    q.column = 1;
    k.column = 3 + row % 2;
    return Pair{q, k};
  });
  CHECK(strided.is(Cause::wrong_stride, Stage::qk));
  // Half of the columns are another row's, divided by this one's l.
  const auto divided = [](Row row) {
    return Pair{part("output", row + 1, {{64, 127}}, 70), part("inverse", row, {{64, 127}}, 70)};
  };
  Followed run = met(Conflict::inverse_of_other_row, divided);
  CHECK(run.is(Cause::operand_of_other_row, Stage::epilogue));
  for (const Row row : run.wrong) {
    Provenance::Output other = run.all.o[row][0];
    other.term.row = row + 1;
    run.all.o[row].push_back(other);
  }
  CHECK(run.is(Cause::permuted, Stage::epilogue));
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
  CHECK(paired(right, right, {16, -16}).is(Cause::stale_operand, Stage::pv));
  CHECK(paired(right, less, {16}).is(Cause::stale_operand, Stage::load));
  CHECK(paired(right, less, {1}).is(Cause::operand_of_other_row, Stage::pv));
  CHECK(paired(less, right, {16}).is(Cause::stale_operand, Stage::load));
  CHECK(paired(less, right, {1}).is(Cause::operand_of_other_row, Stage::qk));
  CHECK(paired(right, right, {-64}).is(Cause::wrong_head, Stage::load));
  // Within a tile, by however many.
  Followed wide = paired(right, less, {-16});
  wide.tile = 64;
  CHECK(wide.is(Cause::operand_of_other_row, Stage::pv));
}

TEST_CASE("judge terms: rows that are stored elsewhere, or not done", "[terms]") {
  const auto next = [](Followed& run, Row row) { run.put(row, row + 1, run.seen(row + 1)); };
  CHECK(done(false, next).is(Cause::misplaced, Stage::epilogue));
  CHECK(done(true, next).is(Cause::misplaced, Stage::epilogue));
  const auto other_q = [](Followed& run, Row row) { run.put(row, row + 1, run.seen(row)); };
  CHECK(done(true, other_q).is(Cause::operand_of_other_row, Stage::qk));
  const auto turned = [](Followed& run, Row row) { run.all.o[row][0].own_column = false; };
  CHECK(done(false, turned).is(Cause::permuted, Stage::epilogue));
  // Columns of V that come in another order than those of O.
  Followed columns = done(false, turned);
  columns.all.columns_in_order = 8;
  columns.all.columns_out_of_order = 1;
  CHECK(columns.is(Cause::permuted, Stage::epilogue));
  columns.all.columns_out_of_order = 8;
  CHECK(columns.is(Cause::permuted, Stage::pv));
  columns.all.columns_by_row = true;  // each row in another one
  CHECK(columns.is(Cause::permuted, Stage::epilogue));
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
  for (const Row less : {1, 2, 3}) {
    run = sees(-less);
    for (auto& [row, scored] : run.all.scored) {
      scored = {{{0, run.problem.visible_keys(row % 32) - 1 - less}}};
    }
    CHECK(run.is(less < 3 ? Cause::mask_off_by_one : Cause::tile_skipped, Stage::qk));
  }
  // A last key that is a tile by itself.
  run = done(false, [](Followed& own, Row row) {
    own.put(row, row, {{0, 62}});
    own.all.scored[row] = {{{0, 62}}};
  });
  CHECK(run.is(Cause::mask_off_by_one, Stage::qk));
  run.tile = 63;
  CHECK(run.is(Cause::tile_skipped, Stage::qk));
  const auto late = [](Followed& own, Row row) { own.put(row, row, {{20, 63}}); };
  CHECK(done(false, late).is(Cause::sliding_window, Stage::qk));
  const auto whole_tile = [](Followed& own, Row row) { own.put(row, row, {{16, 63}}); };
  run = done(false, whole_tile);
  CHECK(run.is(Cause::contribution_missing, Stage::softmax));
  run.all.outline.merges.lines = {"k.cu:9"};
  CHECK(run.is(Cause::contribution_missing, Stage::combine));
  run.put(40, 40, {{32, 63}});  // of one row more tiles
  CHECK(run.is(Cause::sliding_window, Stage::qk));
  const auto unscored = [](Followed& own, Row row) {
    own.all.o[row][0].term = own.all.lse[row][0].term = term("-", 0);
    own.all.scored.erase(row);
  };
  // Of O's first tile the last key alone is left.
  const auto lose = [](Row next) {
    return [=](Followed& own, Row row) {
      own.all.o[row][0].term.set = own.all.o[row][0].values = {{next, 63}};
    };
  };
  CHECK(done(false, lose(31)).is(Cause::rescaled_twice, Stage::pv));
  CHECK(done(false, lose(32)).is(Cause::contribution_missing, Stage::pv));
  // The log-sum-exp alone lacks some, or l does, of which both are made.
  const auto lack = [](bool l_too) {
    return [=](Followed& own, Row row) {
      own.all.lse[row][0].term.a.keys = {{0, 31}};
      if (l_too) own.all.o[row][0].term.b.keys = {{0, 31}};
    };
  };
  CHECK(done(false, lack(false)).is(Cause::incomplete_reduction, Stage::epilogue));
  CHECK(done(false, lack(true)).is(Cause::incomplete_reduction, Stage::softmax));
  run = done(true, unscored);
  CHECK(run.is(Cause::tile_skipped, Stage::qk));
  run.all.scored.clear();  // nothing is known of any row
  CHECK_FALSE(run.judged().fault.has_value());
  const auto last_tile = [](Followed& own, Row row) { own.put(row, row, {{48, 63}}); };
  CHECK(done(false, last_tile).is(Cause::accumulator_lost, Stage::softmax));
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

}  // namespace lanescope
