// Reads of what nobody wrote: whose fault they are, and what they do not explain.

#include <limits>
#include <string>

#include "debug/causes/diagnose.h"
#include "tests/support/catch.h"
#include "tests/support/diagnosed.h"

namespace lanescope {
namespace {

/// A stage reads bytes of shared memory that nobody wrote.
CheckReport unwritten_in(Stage stage, const char* line) {
  CheckReport report;
  report.items.emplace_back();
  report.items[0].finding.kind = simt::Kind::uninitialised_read;
  report.items[0].finding.region = simt::shared_region;
  report.items[0].region = "shared memory";
  report.items[0].element = "shared memory + 8 bytes";
  report.items[0].stage = stage;
  report.items[0].access_line = line;
  return report;
}

TEST_CASE("what nobody wrote in shared memory: who fills the tile, or who reads it") {
  const CheckReport report = unwritten_in(Stage::qk, "k.cu:50 in qk");
  Diagnosis alone = diagnose(report);
  REQUIRE(may_be_unfilled(alone));
  settle_unfilled(nullptr, alone);
  CHECK_FALSE(alone.certain);
  CHECK(alone.stage() == Stage::load);

  Diagnosis same = diagnose(report);
  settle_unfilled(&report, same);
  CHECK_FALSE(same.certain);

  Diagnosis rows = diagnose(report);
  const CheckReport other = unwritten_in(Stage::qk, "k.cu:51 in qk");
  settle_unfilled(&other, rows);
  CHECK(rows.certain);
  CHECK(rows.stage() == Stage::load);

  CHECK_FALSE(may_be_unfilled(diagnose(unwritten_in(Stage::load, "k.cu:50 in load"))));
  CheckReport named = report;  // the kernel says what lies there
  named.items[0].site = SiteId::k_smem;
  CHECK_FALSE(may_be_unfilled(diagnose(named)));
}

TEST_CASE("rows of a tile that nobody wrote, while others are read by nobody, are others") {
  CheckReport report = unwritten_in(Stage::qk, "k.cu:50 in qk");
  CheckReport::Item& item = report.items[0];
  item.finding.region = 3;
  item.region = "allocation 1";
  item.region_bytes = 1 << 16;
  item.finding.unread = 0;
  CHECK(diagnose(report).cause == Cause::uninitialised_read);
  item.finding.unread = 2048;
  CHECK((diagnose(report).cause == Cause::wrong_source && !diagnose(report).certain));
  // A few of them are the padding of rows.
  item.finding.count = 8320;
  item.finding.bytes = 4;
  CHECK(diagnose(report).cause == Cause::wrong_source);
  item.finding.unread = 12;
  CHECK((diagnose(report).cause == Cause::uninitialised_read && is_left_out(item)));
  item.finding.unread = 2048;
  CHECK_FALSE(is_left_out(item));
  // A merge of splits takes all of them.
  item.stage = Stage::combine;
  CHECK(diagnose(report).cause == Cause::uninitialised_read);
}

TEST_CASE("what splits left unwritten is the merge's fault where it leaves out what they wrote") {
  CheckReport report = unwritten_in(Stage::epilogue, "k.cu:50");
  Site partial;
  partial.id = SiteId::m_partial;
  partial.stage = Stage::epilogue;
  partial.rows = 16;
  partial.cols = 1;
  report.sites = {partial};
  report.problem = {1, 2, 1, 12, 64, 64, false};  // 24 rows: the second tile has 8
  CheckReport::Item& item = report.items[0];
  item.site = SiteId::m_partial;
  item.stage.reset();
  item.finding.region = 5;
  item.region_bytes = 2 * 3 * 16 * 4;  // of 3 splits
  item.finding.access.place = 1;
  const auto stage_of_row = [&](std::int64_t block, std::int64_t row, std::int64_t unread) {
    item.finding.offset = (block * 16 + row) * 4;
    item.row = row;
    item.finding.unread = unread;
    return diagnose(report).stage();
  };
  CHECK(stage_of_row(1, 9, 0) == Stage::epilogue);
  CHECK(stage_of_row(1, 9, 64) == Stage::combine);
  CHECK(stage_of_row(4, 9, 0) == Stage::combine);  // there is no such row
  CHECK(stage_of_row(4, 7, 0) == Stage::epilogue);
  item.finding.kind = simt::Kind::out_of_bounds;
  CHECK(stage_of_row(1, 9, -1) == Stage::combine);
  item.finding.access.write = true;
  CHECK(stage_of_row(1, 9, -1) == Stage::epilogue);
}

TEST_CASE("what nobody wrote is NaN: numbers that are wrong have another reason, too") {
  const CheckReport report = unwritten_in(Stage::softmax, "k.cu:50 in softmax");
  Diagnosis values, memory = diagnose(report);
  values.first.emplace();
  values.first->got = std::numeric_limits<double>::quiet_NaN();
  doubt_unwritten_read(values, memory);
  CHECK(memory.certain);
  values.first->got = 0.25;
  doubt_unwritten_read(values, memory);
  CHECK_FALSE(memory.certain);

  Diagnosis race = diagnose(report);
  race.cause = Cause::race;
  doubt_unwritten_read(values, race);
  CHECK(race.certain);
}

TEST_CASE("what nobody wrote in shared memory: threads that left leave out their part") {
  CheckReport report = unwritten_in(Stage::qk, "k.cu:50 in qk");
  report.items[0].finding.left_early = 16;
  Diagnosis early = diagnose(report);
  REQUIRE(may_be_unfilled(early));
  settle_unfilled(nullptr, early);
  CHECK(early.certain);
  CHECK(early.stage() == Stage::load);
  CHECK(early.evidence.back().starts_with("16 threads of the block had exited before its first"));
  // What they leave out holds zeros where it is not NaN: that values are finite is no doubt.
  Diagnosis values;
  values.first.emplace();
  values.first->got = 0.25;
  doubt_unwritten_read(values, early);
  CHECK(early.certain);
  // Where none need leave it is so as well: that is not why.
  Diagnosis whole = diagnose(report);
  settle_unfilled(&report, whole);
  CHECK_FALSE(whole.certain);
  report.items[0].finding.left_early = 0;
  Diagnosis none = diagnose(report);
  settle_unfilled(nullptr, none);
  CHECK_FALSE(none.certain);
  CHECK(none.stage() == Stage::load);
}

TEST_CASE("what is read unwritten and stored anew was never set, whatever the values are") {
  CheckReport report = unwritten_in(Stage::pv, "k.cu:50 in pv");
  const auto doubted = [&] {
    Diagnosis values, memory = diagnose(report);
    values.first.emplace();
    values.first->got = 0.25;
    doubt_unwritten_read(values, memory);
    return !memory.certain;
  };
  CHECK(may_be_unfilled(diagnose(report)));
  CHECK(doubted());
  report.items[0].finding.updates = true;
  const Diagnosis memory = diagnose(report);
  CHECK(updates_unwritten(memory));
  CHECK(testing::joined(memory.evidence).find("was never set") != std::string::npos);
  CHECK_FALSE(may_be_unfilled(memory));
  CHECK_FALSE(doubted());
  Diagnosis race = memory;
  race.cause = Cause::race;
  CHECK_FALSE(updates_unwritten(race));
}

}  // namespace
}  // namespace lanescope
