// What is said of wrong terms by the rows, keys and columns that meet in them.

#include <functional>
#include <string>

#include "gates/run/judge_terms.h"
#include "tests/support/catch.h"
#include "tests/support/followed_rows.h"

namespace lanescope {
namespace {

using namespace testing;
using Catch::Matchers::ContainsSubstring;

Said element(const std::string& array, Row row, Row column) {
  Said element = term(array, row);
  element.column = column;
  return element;
}
Said score(Row row, Row key) {
  Said score = term("score", row);
  score.key = key;
  return score;
}

}  // namespace

TEST_CASE("judge terms: rows of K stand in the place of its columns", "[terms]") {
  Followed run = met(Conflict::column_of_other, [](Row row) {
    return Pair{element("q", row, row % 8), element("k", 64 + row % 8, row / 8 % 8)};
  });
  CHECK(run.is(Cause::transposed, Stage::qk));
  CHECK(run.judged().fault.value().operand == 1);
  // Few may be so by chance.
  run.all.meetings.at(0).samples.resize(7);
  CHECK_FALSE(run.is(Cause::transposed, Stage::qk));
  // Columns that are eight apart are those of rows as well.
  Followed apart = met(Conflict::column_of_other, [](Row row) {
    return Pair{element("q", row, row % 16), element("k", 64 + row % 8, row % 16 ^ 8)};
  });
  apart.problem.d = 64;
  CHECK(apart.is(Cause::permuted, Stage::qk));
}

TEST_CASE("judge terms: rows of V stand in the place of its columns, or at another distance",
          "[terms]") {
  // Element `at` of a tile of V of 64 columns meets the weight of `key`.
  const auto taken = [](const std::function<Row(Row, Row)>& at) {
    Followed run = met(Conflict::value_of_other_key, [&](Row row) {
      const Row key = 2 + row % 14, element_at = at(key, row % 2 * 63);
      return Pair{weight(row, 64 + key, 64), element("v", 64 + element_at / 64, element_at % 64)};
    });
    run.problem.d = 64;
    return run;
  };
  const Followed turned = taken([](Row key, Row column) { return column % 8 * 64 + key; });
  CHECK(turned.is(Cause::transposed, Stage::pv));
  CHECK(turned.judged().fault.value().operand == 2);
  for (const Row stride : {32, 48}) {
    const TermFault fault =
        taken([=](Row key, Row column) { return key * stride + column; }).judged().fault.value();
    CHECK((fault.cause == Cause::wrong_stride && fault.stage == Stage::pv));
    CHECK((fault.stage_is_told && !fault.or_stage && fault.operand == 2));
    CHECK_THAT(fault.evidence.at(0), ContainsSubstring(std::to_string(stride) + " elements apart"));
  }
  // Rows that change places lie at no distance.
  const Followed exchanged = taken([](Row key, Row column) { return (key ^ 1) * 64 + column; });
  CHECK(exchanged.is(Cause::permuted, Stage::pv));
  // Those of another tile are taken from there.
  const Followed next = taken([](Row key, Row column) { return (key + 16) * 64 + column; });
  CHECK(next.is(Cause::stale_operand, Stage::pv));
  // Rows that are all one off lie where they should.
  const Followed shifted = met(Conflict::value_of_other_key, [](Row row) {
    const Row key = 2 + row % 12;
    return Pair{weight(row, 64 + key, 64), element("v", 65 + key, 0)};
  });
  CHECK_FALSE(shifted.is(Cause::wrong_stride, Stage::pv));
  Followed few = taken([](Row key, Row column) { return key * 32 + column; });
  few.all.meetings.at(0).samples.resize(7);
  CHECK_FALSE(few.is(Cause::wrong_stride, Stage::pv));
}

TEST_CASE("judge terms: the second head of V begins behind as many rows as Q has", "[terms]") {
  // Of a problem of 64 keys: key 64 + i of head 1 meets row `first` + i of V.
  const auto head_at = [](Row first, Row queries) {
    Followed run = met(Conflict::value_of_other_key, [=](Row row) {
      const Row key = row % 20;
      return Pair{weight(row, 64 + key, 64), element("v", first + key, row % 3)};
    });
    run.problem.len_kv = 64;
    run.problem.len_q = queries;
    run.problem.heads = run.problem.heads_kv = 2;
    return run;
  };
  CHECK(head_at(41, 41).is(Cause::wrong_stride, Stage::load));
  CHECK_FALSE(head_at(41, 50).is(Cause::wrong_stride, Stage::load));
}

TEST_CASE("judge terms: rows of Q and maxima that are another's, by which these are", "[terms]") {
  // A score meets a maximum so many rows and keys behind it.
  const auto meets = [](Row row, Row key) {
    return met(Conflict::maximum_of_other_row, [=](Row of) {
      const Row first = of / 32 * 32 + of % 8;
      return Pair{score(first + 8, 80), score(first + 8 + row, 80 + key)};
    });
  };
  const Followed by_tile = meets(-8, -16);
  CHECK(by_tile.is(Cause::operand_of_other_row, Stage::load));
  CHECK(by_tile.judged().fault.value().operand == 0);
  CHECK(meets(8, 16).is(Cause::operand_of_other_row, Stage::load));
  CHECK(meets(8, -16).is(Cause::operand_of_other_row, Stage::softmax));
  CHECK(meets(-8, -1).is(Cause::operand_of_other_row, Stage::load));  // the last of the tile before
  CHECK(meets(8, 1).is(Cause::operand_of_other_row, Stage::softmax));  // of one tile
  CHECK(meets(-4, -16).is(Cause::operand_of_other_row, Stage::softmax));
  // A maximum of rows that are no warpgroup's, or of another head, was not cleared.
  Followed far = meets(64, -1);
  far.problem.len_q = 1024;
  CHECK(far.is(Cause::accumulator_not_cleared, Stage::softmax));
  for (const int row : {-32, 32}) {
    CHECK(meets(row, -16).is(Cause::accumulator_not_cleared, Stage::softmax));
  }
}

TEST_CASE("judge terms: a maximum of keys behind and before was left by another row", "[terms]") {
  // Of the row 4 before: it has been through all keys, or through those that the row has been
  // through.
  const auto meets = [](Row first_key, Row key, Row back) {
    return met(Conflict::maximum_of_other_row, [=](Row of) {
      const Row row = of / 32 * 32 + 16 + of % 8, odd = of % 2;
      return Pair{score(row - (of < 72 ? back : 0), odd ? first_key : 120),
                  score(row - 4, odd ? key : 64)};
    });
  };
  CHECK(meets(64, 100, 0).is(Cause::accumulator_not_cleared, Stage::softmax));
  CHECK(meets(100, 64, 0).is(Cause::operand_of_other_row, Stage::softmax));
  // Rows whose maxima theirs are have these in turn.
  Followed mutual = meets(64, 100, 0);
  auto& samples = mutual.all.meetings.at(0).samples;
  const Pair first = samples.front();
  samples.push_back({first.second, first.first});
  CHECK(mutual.is(Cause::reduction_too_wide, Stage::softmax));
}

TEST_CASE(
    "judge terms: a maximum of another row of the warp's, whose weights are summed up as well",
    "[terms]") {
  Followed run = met(Conflict::maximum_of_other_row, [](Row of) {
    const Row row = of / 32 * 32 + of % 8;
    return Pair{score(row + 24, 80), score(row, 81)};
  });
  CHECK(run.is(Cause::operand_of_other_row, Stage::softmax));
  run.meet(Conflict::sum_of_other_row, 64, 128, [](Row row) {
    return Pair{part("sum", row, {{64, 79}}, 70), part("sum", row - 24, {{64, 79}}, 70)};
  });
  run.all.meetings.at(1).fresh = 0;  // it comes of the maximum
  CHECK(run.is(Cause::accumulator_not_cleared, Stage::softmax));
}

TEST_CASE("judge terms: what a right row left in a wrong one tells as well", "[terms]") {
  Followed run;
  run.meet(Conflict::maximum_of_other_row, 128 - 16, 128, [](Row row) {
    return Pair{score(row - 96, 20), score(row, 81)};
  });
  run.are_wrong(128 - 16, 128);
  CHECK(run.is(Cause::accumulator_not_cleared, Stage::softmax));
  CHECK_THAT(run.judged().fault.value().evidence.at(0), ContainsSubstring("for example"));
  // Where wrong rows meet what right ones left, that these meet them, too, makes it no exchange.
  run.meet(Conflict::maximum_of_other_row, 128 - 16, 128, [](Row row) {
    return Pair{score(row, 81), score(row - 96, 20)};
  });
  CHECK(run.is(Cause::accumulator_not_cleared, Stage::softmax));
}

TEST_CASE("judge terms: sums that go back and forth between rows were reduced too widely",
          "[terms]") {
  const auto sums = [](const std::function<Row(Row)>& other) {
    return met(Conflict::sum_of_other_row, [&](Row row) {
      return Pair{part("sum", row, {{64, 79}}, 70), part("sum", other(row), {{64, 79}}, 70)};
    });
  };
  CHECK(sums([](Row row) { return row ^ 16; }).is(Cause::reduction_too_wide, Stage::softmax));
  CHECK(sums([](Row row) { return row + 32; }).is(Cause::accumulator_not_cleared, Stage::softmax));
}

TEST_CASE("judge terms: P·V of another column, of the same keys or others", "[terms]") {
  const auto columns = [](const Keys& keys) {
    return met(Conflict::output_of_other_column, [&](Row row) {
      Pair pair{part("output", row, {{64, 79}}, 70), part("output", row, keys, 70)};
      pair.second.column = 1;
      return pair;
    });
  };
  CHECK(columns({{64, 79}}).is(Cause::accumulator_not_cleared, Stage::pv));
  CHECK(columns({{80, 95}}).is(Cause::permuted, Stage::pv));
}

TEST_CASE("judge terms: a maximum is subtracted from l, or from single weights", "[terms]") {
  const auto from = [](const std::string& kind, const Keys& keys) {
    return met(Conflict::weight_as_score, [&](Row row) {
      return Pair{part(kind, row, keys, 70), score(row, 70)};
    });
  };
  CHECK(from("sum", {{64, 79}}).is(Cause::wrong_formula, Stage::softmax));
  CHECK(from("sum", {{64, 64}}).is(Cause::stale_value, Stage::softmax));
  CHECK(from("weight", {}).is(Cause::stale_value, Stage::softmax));
}

TEST_CASE("judge terms: a row is divided by another's l, which its log-sum-exp has or not",
          "[terms]") {
  Followed run = met(Conflict::inverse_of_other_row, [](Row row) {
    return Pair{part("output", row, {{64, 127}}, 70), part("inverse", row + 1, {{64, 127}}, 70)};
  });
  CHECK(run.is(Cause::operand_of_other_row, Stage::epilogue));
  for (const Row row : run.wrong) run.all.lse[row][0].term.row = row + 1;
  CHECK(run.is(Cause::operand_of_other_row, Stage::softmax));
  run.all.lse.clear();  // none is stored
  CHECK(run.is(Cause::operand_of_other_row, Stage::epilogue));
}

}  // namespace lanescope
