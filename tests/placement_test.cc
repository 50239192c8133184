// How tiles lie in memory, and who is wrong where they are taken in another way.

#include "gates/run/placement.h"

#include <functional>

#include "tests/support/catch.h"
#include "tests/support/followed_rows.h"

namespace lanescope {
namespace {

using namespace testing;
using Catch::Matchers::ContainsSubstring;
using At = std::function<Row(Row row, Row column)>;

constexpr Row rows = 16, columns = 32;

/// Elements of two bytes, from row 64 on.
Provenance::Placed placed(const At& at, Row room = 0, Row first = 64) {
  Provenance::Placed tile;
  tile.room = 2 * room;
  for (Row row = 0; row < rows; ++row) {
    for (Row column = 0; column < columns; ++column) {
      tile.at[{first + row, column}] = 2 * (100 + at(row, column));
    }
  }
  return tile;
}
At at_steps(Row row_step, Row column_step = 1) {
  return [=](Row row, Row column) { return row * row_step + column * column_step; };
}
/// Groups of eight elements change places by the row.
At swizzled(Row row_step) {
  return [=](Row row, Row column) { return row * row_step + (column ^ (row & 3) * 8); };
}

/// A run in which Q and K meet: K lies as `lies`, and is taken as if it lay as `taken`. Queries
/// have the columns that they should.
Followed k_meets_q(const At& lies, const At& taken, Row room) {
  std::map<Row, std::pair<Row, Row>> there;
  for (Row row = 0; row < rows; ++row) {
    for (Row column = 0; column < columns; ++column) there[lies(row, column)] = {row, column};
  }
  Followed run;
  run.problem.d = columns;
  run.all.placed[1] = placed(lies, room);
  std::vector<Pair> pairs;
  for (Row row = 0; row < rows; ++row) {
    for (Row column = 0; column < columns; ++column) {
      const auto found = there.find(taken(row, column));
      if (found == there.end() || found->second.second == column) continue;
      Said q = term("q", 64), k = term("k", 64 + found->second.first);
      q.column = column;
      k.column = found->second.second;
      pairs.emplace_back(q, k);
    }
  }
  REQUIRE(pairs.size() >= 64);
  run.meet(Conflict::column_of_other, 64, 128,
           [&](Row row) { return pairs[(row - 64) * pairs.size() / 64]; });
  run.are_wrong(64, 128);
  return run;
}

std::string said(const Followed& run) {
  const TermFault fault = run.judged().fault.value();
  CHECK(fault.operand == 1);
  return std::string(name_of(fault.stage)) + " " + name_of(fault.cause);
}

}  // namespace

TEST_CASE("placement: rows, columns and swizzles are seen", "[terms]") {
  const Placement padded(placed(at_steps(40), rows * 40));
  CHECK((padded.is_known() && padded.is_regular() && !padded.is_swizzled() && !padded.is_plain()));
  CHECK((padded.steps().row_step == 40 && padded.steps().column_step == 1));
  CHECK((padded.rows() == rows && padded.columns() == columns && padded.room() == rows * 40));
  CHECK(padded.lies_as(ElementLayout{40}));
  CHECK_FALSE(padded.lies_as(ElementLayout{32}));
  CHECK(padded.at(padded.in_tile(64 + rows + 3, 5)) == 3 * 40 + 5);
  CHECK(Placement(placed(at_steps(32))).is_plain());
  const Placement turned(placed(at_steps(1, 17)));
  CHECK((turned.is_regular() && !turned.steps().by_rows() && !turned.is_plain()));
  CHECK(turned.steps().text() == "columns 17 elements apart");
  const Placement mixed(placed(swizzled(32)));
  CHECK((mixed.is_regular() && mixed.is_swizzled() && !mixed.is_plain()));
  CHECK(mixed.lies_as(ElementLayout{32, 1, 8, 0, 3}));
  CHECK(mixed.lies_as(Placement(placed(swizzled(32), 0, 0))));
  CHECK_FALSE(mixed.lies_as(Placement(placed(at_steps(32)))));
  // Rows, or columns, that change places are no layout.
  const auto by_pairs = [](Row row, Row column) { return (row ^ 1) * 32 + column; };
  const auto by_groups = [](Row row, Row column) { return row * 32 + (column ^ 8); };
  CHECK_FALSE(Placement(placed(by_pairs)).is_regular());
  CHECK_FALSE(Placement(placed(by_groups)).is_regular());
  // Two buffers need not lie side by side.
  const auto in_two = [](Row row, Row column) { return row * 32 + column + (row < 8 ? 0 : 999); };
  CHECK(Placement(placed(in_two)).is_regular());
  CHECK_FALSE(Placement(Provenance::Placed{}).is_known());
  // A number of each row, as its maximum, is no tile.
  Provenance::Placed maxima;
  for (Row row = 0; row < rows; ++row) maxima.at[{row, 5 * row % 16}] = 4 * row;
  CHECK_FALSE(Placement(maxima).is_known());
}

TEST_CASE("placement: which tiles are all there", "[terms]") {
  Provenance::Placed tile = placed(at_steps(32));
  CHECK(tile.is_whole(rows, 3 * rows, columns, 2));
  CHECK_FALSE(tile.is_whole(2 * rows, 4 * rows, columns, 2));
  // What lies behind the end of a tile may be left out.
  CHECK_FALSE(tile.is_whole(2 * rows, rows, columns, 2));
  CHECK_FALSE(tile.is_whole(rows, rows + 4, columns, 2));
  CHECK_FALSE(tile.lacks_columns(columns));
  CHECK(tile.lacks_columns(columns + 8));
  // Two tiles, of which fewer rows of the last may be kept; within the bytes of one each.
  CHECK(tile.is_whole(rows / 2, 2 * rows, columns, 2));
  CHECK(tile.is_whole(10, 100, columns, 2));
  CHECK_FALSE(placed(at_steps(40)).is_whole(rows, 3 * rows, columns, 2));
  tile.at.erase({64 + 3, 7});
  CHECK_FALSE(tile.is_whole(rows, 3 * rows, columns, 2));
}

TEST_CASE("placement: the side that forgot the padding is wrong", "[terms]") {
  const At plain = at_steps(32), padded = at_steps(40);
  CHECK(said(k_meets_q(plain, padded, 0)) == "load wrong_stride");
  CHECK(said(k_meets_q(padded, plain, 0)) == "qk wrong_stride");
  // Its room says what the tile is meant to be.
  CHECK(said(k_meets_q(at_steps(36), padded, rows * 40)) == "load wrong_stride");
  CHECK(said(k_meets_q(at_steps(36), padded, rows * 36)) == "qk wrong_stride");
  CHECK(said(k_meets_q(at_steps(1, 17), padded, rows * 40)) == "load transposed");
  const TermFault fault = k_meets_q(plain, padded, 0).judged().fault.value();
  CHECK_THAT(fault.evidence.at(0), ContainsSubstring("K is stored with rows 32 elements apart, and "
                                                     "taken as if it lay with rows 40"));
}

TEST_CASE("placement: of swizzles, others tell which is meant", "[terms]") {
  CHECK(said(k_meets_q(at_steps(32), swizzled(32), 0)) == "load permuted");
  CHECK(said(k_meets_q(swizzled(32), at_steps(32), 0)) == "qk permuted");
  const At other = [](Row row, Row column) { return row * 32 + (column ^ (row >> 1 & 3) * 8); };
  Followed run = k_meets_q(other, swizzled(32), 0);
  run.all.placed[0] = placed(swizzled(32), 0, 0);
  run.all.placed[2] = placed(swizzled(32));
  CHECK(said(run) == "load permuted");
  run = k_meets_q(swizzled(32), other, 0);
  run.all.placed[2] = placed(swizzled(32));
  CHECK(said(run) == "qk permuted");
  // What two tiles have, and their reader has not, is no mistake of both.
  run = k_meets_q(at_steps(32), swizzled(32), 0);
  run.all.placed[0] = placed(swizzled(32), 0, 0);
  CHECK(said(run) == "load permuted");
  run.all.placed[2] = placed(at_steps(32));
  CHECK(said(run) == "qk permuted");
  // Rows that change places as they are put there: no other tile has that.
  const auto mixed = [](Row row, Row column) { return (row ^ 1) * 32 + (column ^ 8); };
  run = k_meets_q(mixed, at_steps(32), 0);
  CHECK(run.judged().fault.value().stage == Stage::load);
  run.all.placed[2] = placed(mixed);
  CHECK(run.judged().fault.value().stage == Stage::qk);
}

TEST_CASE("placement: scores that are stored at another distance are their writer's", "[terms]") {
  // A row of scores is taken where parts of two lie.
  const auto scores = [](Row stored, Row taken) {
    Followed run;
    run.all.placed[3] = placed(at_steps(stored));
    const auto score = [&](Row offset) {
      Said said = term("score", 64 + offset / stored);
      said.key = offset % stored;
      return said;
    };
    run.meet(Conflict::maximum_of_other_row, 64, 128, [&](Row row) {
      const Row own = 1 + (row - 64) % (rows - 3);
      const Row first = own * taken, split = (first + stored) / stored * stored;
      return Pair{score(split - 1), score(split)};
    });
    run.are_wrong(64, 128);
    const TermFault fault = run.judged().fault.value();
    return std::string(name_of(fault.stage)) + " " + name_of(fault.cause);
  };
  CHECK(scores(32, 40) == "qk wrong_stride");
}

TEST_CASE("placement: weights of rows that overlap as they are taken, of several heads",
          "[terms]") {
  // Arrays of 32 queries by 64 keys, one a head: rows are taken 24 apart, of 64.
  constexpr Row apart = 24;
  const auto run_of = [&](bool one_head) {
    Followed run;
    Provenance::Placed& weights = run.all.placed[4];
    weights.room = 4 * 128 * 64;
    for (Row row = 0; row < (one_head ? 32 : 128); ++row) {
      for (Row key = 0; key < 64; ++key) {
        weights.at[{row, row / 64 * 64 + key}] = 4 * (row * 64 + key);
      }
    }
    run.meet(Conflict::value_of_other_key, 0, 32, [&](Row row) {
      const Row key = row * 7 % 64, at = row * apart + key;
      Said v = term("v", key);
      v.column = 3;
      return Pair{weight(at / 64, at % 64, 0), v};
    });
    run.are_wrong(0, 32);
    return run;
  };
  for (const bool one_head : {true, false}) {
    const TermFault fault = run_of(one_head).judged().fault.value();
    CHECK((fault.stage == Stage::pv && fault.cause == Cause::wrong_stride && fault.of_place));
  }
}

TEST_CASE("placement: sums of whole rows say nothing of where weights lie", "[terms]") {
  const auto run_of = [](const Keys& keys) {
    Followed run;
    run.all.placed[4] = placed(at_steps(33));
    run.meet(Conflict::sum_of_other_row, 64, 128, [&](Row row) {
      const Row a = (row - 64) % 16, b = a ^ 1;
      const auto sum = [&](Row own, Row first) {
        Keys set = keys;
        for (auto& [from, to] : set) from += first, to += first;
        return part("sum", 64 + own, set, 70);
      };
      return Pair{sum(a, b), sum(b, a)};
    });
    run.are_wrong(64, 128);
    return run.judged().fault.value();
  };
  CHECK(run_of({{0, 0}}).of_place);
  const TermFault whole = run_of({{0, 15}});
  CHECK((!whole.of_place && whole.cause == Cause::reduction_too_wide));
}

TEST_CASE("shared memory: who fills an array that somebody left holes in", "[terms]") {
  const Provenance::SharedMemory memory{
      {{0, 64}, {64, 128}},
      {{{0, 64}, Stage::load}, {{64, 80}, Stage::softmax}, {{96, 128}, Stage::softmax}}};
  CHECK(memory.stage_around(88) == Stage::softmax);
  CHECK(memory.stage_around(8) == Stage::load);
  const Provenance::SharedMemory open{{}, {{{0, 64}, Stage::load}, {{72, 80}, Stage::softmax}}};
  CHECK_FALSE(open.stage_around(68).has_value());
  CHECK_FALSE(open.stage_around(200).has_value());
}

}  // namespace lanescope
