// What diagnose makes of kernels that trace little, and of several findings of the memory checker.
#include "debug/causes/diagnose.h"

#include <cmath>
#include <limits>

#include "reference/elementary.h"
#include "tests/support/catch.h"
#include "tests/support/diagnosed.h"

namespace lanescope {
namespace {

using testing::Setup;
using testing::synthetic_dump;

/// `dump` of a kernel whose table lacks `id`.
Dump without(const Dump& dump, SiteId id) {
  Dump less = dump;
  std::erase_if(less.info.sites, [&](const DumpSite& entry) { return entry.site.id == id; });
  std::erase_if(less.tensors, [&](const Dump::Entry& entry) { return entry.name == name_of(id); });
  return less;
}

Site site_in(Stage stage, SiteId id) {
  Site site;
  site.id = id;
  site.stage = stage;
  return site;
}

TEST_CASE("a site that a kernel does not trace is assumed nowhere") {
  const Setup setup{.problem = Problem{1, 1, 1, 40, 70, 16, true}};
  const Dump right = synthetic_dump(setup);
  REQUIRE(diff_against_reference(right).match);
  int diagnosed = 0;
  for (const DumpSite& broken : right.info.sites) {
    for (const double value : {std::numeric_limits<double>::quiet_NaN(), 0.0, 17.25}) {
      Dump wrong = right;
      Tensor& tensor = testing::tensor_of(wrong, broken.site.id);
      for (std::int64_t i = 0; i < tensor.size(); i += 3) tensor.set(i, value);
      for (const DumpSite& left_out : right.info.sites) {
        if (left_out.site.id == broken.site.id) continue;
        const Dump less = without(wrong, left_out.site.id);
        INFO(name_of(broken.site.id)
             << " holds " << value << ", " << name_of(left_out.site.id) << " is not traced");
        const DiffReport report = diff_against_reference(less);
        if (report.match) continue;  // of a loaded tile that is 0 already
        const Diagnosis diagnosis = diagnose(less, report);
        CHECK(diagnosis.first.has_value());
        ++diagnosed;
      }
    }
  }
  CHECK(diagnosed > 100);
}

// The inputs stand for them.
TEST_CASE("a product of a Q or K that is not traced is solved for its operand") {
  const Problem problem{1, 1, 1, 64, 64, 32, false};
  Dump dump = synthetic_dump({.problem = problem});
  for (std::int64_t block = 0; block < 2; ++block) {
    const auto q = testing::held(dump, SiteId::q_smem, block, 0, 32);
    for (std::int64_t tile = 0; tile < 2; ++tile) {
      const auto k = testing::held(dump, SiteId::k_smem, block, tile, 32);
      testing::change(dump, SiteId::s, block, tile, [&](int row, int col) -> double {
        double dot = 0;
        for (int i = 0; i < 32; ++i) dot += q(row, i) * k(col, i ^ 4);
        return static_cast<float>(reference::log2_e / std::sqrt(32.0) * dot);
      });
    }
  }
  const Dump no_q = without(dump, SiteId::q_smem), no_k = without(dump, SiteId::k_smem);
  for (const Dump& less : {dump, no_q, no_k, without(no_q, SiteId::k_smem)}) {
    const Diagnosis diagnosis = testing::diagnosis_of(less);
    INFO(testing::joined(diagnosis.evidence));
    CHECK(testing::named(diagnosis) == "qk s permuted");
    REQUIRE_FALSE(diagnosis.evidence.empty());
    CHECK(diagnosis.evidence[0].find("columns of d are paired wrongly") != std::string::npos);
  }
}

CheckReport::Item item_of(simt::Kind kind, std::optional<SiteId> site) {
  CheckReport::Item item;
  item.finding.kind = kind;
  item.site = site;
  item.element = site ? name_of(*site) : "shared memory + 8 bytes";
  return item;
}

TEST_CASE("of several findings the nearest before the first wrong value is the cause") {
  CheckReport report;
  report.items = {item_of(simt::Kind::race, SiteId::k_smem),
                  item_of(simt::Kind::out_of_bounds, SiteId::o_final),
                  item_of(simt::Kind::uninitialised_read, SiteId::p),
                  item_of(simt::Kind::race, std::nullopt)};
  CHECK(diagnose(report, SiteId::o).evidence[0].starts_with("p: "));
  CHECK(diagnose(report, SiteId::s).evidence[0].starts_with("k_smem: "));
  CHECK(diagnose(report, SiteId::o_final).evidence[0].starts_with("o_final: "));
  CHECK(diagnose(report).evidence[0].starts_with("o_final: "));
}

TEST_CASE("the fence that registers lack is the product's that reads them") {
  CheckReport report;
  report.items = {item_of(simt::Kind::missing_register_fence, SiteId::p)};
  report.items[0].row = 0;
  report.sites = {site_in(Stage::softmax, SiteId::p)};
  REQUIRE(diagnose(report).stage());
  CHECK(*diagnose(report).stage() == Stage::pv);
  report.items[0].finding.kind = simt::Kind::register_in_flight;
  CHECK(*diagnose(report).stage() == Stage::softmax);
}

TEST_CASE(
    "the fence.proxy.async that is missing is the writer's: one that comes to no site loads") {
  CheckReport report;
  report.knows_progress = true;
  Site v = site_in(Stage::load, SiteId::v_smem), s = site_in(Stage::qk, SiteId::s);
  v.per_tile = s.per_tile = true;
  report.sites = {v, s};
  report.items = {item_of(simt::Kind::missing_proxy_fence, std::nullopt)};
  report.items[0].row = 0;
  simt::Finding& finding = report.items[0].finding;
  finding.access.place = finding.earlier.place = 1;
  finding.passed = {SiteId::v_smem, 2};
  CHECK(diagnose(report).stage() == Stage::load);
  finding.earlier_passed = {SiteId::v_smem, 1};
  CHECK(diagnose(report).stage() == Stage::qk);
  finding.earlier_passed = {};
  finding.kind = simt::Kind::race;
  CHECK(diagnose(report).stage() == Stage::qk);
}

TEST_CASE("what both lanes do behind an output is the epilogue's, whatever lay there before") {
  CheckReport report;
  report.knows_progress = true;
  report.sites = {site_in(Stage::load, SiteId::q_smem), site_in(Stage::epilogue, SiteId::lse)};
  report.items = {item_of(simt::Kind::race, SiteId::q_smem)};
  report.items[0].row = 0;
  simt::Finding& finding = report.items[0].finding;
  finding.access.place = finding.earlier.place = 1;
  finding.passed = finding.earlier_passed = {SiteId::lse, 0};
  CHECK(diagnose(report).stage() == Stage::epilogue);
  // A block that goes on loads the next item.
  finding.passed.item = finding.earlier_passed.item = 3;
  CHECK(diagnose(report).stage() == Stage::load);
  finding.passed.item = finding.earlier_passed.item = -1;
  finding.earlier_passed = {SiteId::q_smem, 0};
  CHECK(diagnose(report).stage() == Stage::load);
}

TEST_CASE("an access whose line says no stage has that of one of its kind in the same memory") {
  CheckReport report;
  for (const std::optional<Stage> stage :
       {std::optional<Stage>(), std::optional(Stage::epilogue)}) {
    CheckReport::Item& item = report.items.emplace_back();
    item.finding.kind = simt::Kind::out_of_bounds;
    item.finding.region = simt::shared_region;
    item.finding.access.place = 1;
    item.stage = stage;
  }
  const Diagnosis diagnosis = diagnose(report);
  CHECK(diagnosis.stage() == Stage::epilogue);
  CHECK_FALSE(diagnosis.stage_certain);
  report.items.back().finding.region = 0;
  CHECK_FALSE(diagnose(report).stage());
  report.items.front().used_line = "k.cu:137 in epilogue";
  CHECK(diagnose(report).stage() == Stage::epilogue);
}

TEST_CASE("stores of two blocks to one place: indices that collide, or a sum without an atomic") {
  CheckReport report;
  report.items = {item_of(simt::Kind::race, SiteId::o_final)};
  report.items[0].region = "o";
  simt::Finding& found = report.items[0].finding;
  found.access = {true, 5, 6, 0};
  found.earlier = {true, 5, 3, 0};
  CHECK(diagnose(report).cause == Cause::written_twice);
  CheckReport unrolled = report;
  unrolled.items[0].finding.earlier.place = 7;
  CHECK(diagnose(unrolled).cause == Cause::written_twice);
  CHECK(diagnose(unrolled).evidence[0].find("two blocks store to one place") != std::string::npos);
  CheckReport within = report;
  within.items[0].finding.earlier.block = 6;
  CHECK(diagnose(within).cause == Cause::race);
  CheckReport sums = report;  // it reads what the other block may have written
  sums.items.push_back(sums.items[0]);
  sums.items[1].finding.access = {false, 4, 6, 0};
  CHECK(diagnose(sums).cause == Cause::race);
}

TEST_CASE("the stage of a race is that of who writes; the reader's alone is not certain") {
  CheckReport report;
  report.items = {item_of(simt::Kind::race, std::nullopt)};
  CheckReport::Item& item = report.items[0];
  item.finding.access = {false, 5, 0, 12};
  item.finding.earlier = {true, 6, 0, 96};
  item.access_line = "k.cu:75 in qk";
  item.earlier_line = "k.cu:111";
  item.stage = Stage::qk;
  const Diagnosis of_reader = diagnose(report);
  CHECK(of_reader.certain);
  CHECK_FALSE(of_reader.stage_certain);
  item.earlier_line = "k.cu:111 in load";
  item.stage = Stage::load;
  CHECK(diagnose(report).stage_certain);
  item.earlier_line = "k.cu:111";
  item.stage = Stage::qk;
  item.site = SiteId::k_smem;  // the kernel says what lies there
  CHECK(diagnose(report).stage_certain);
}

TEST_CASE("two lanes of a block store to one place, and a place is left out: indices collide") {
  CheckReport report;
  report.items = {item_of(simt::Kind::race, std::nullopt),
                  item_of(simt::Kind::uninitialised_read, std::nullopt)};
  report.items[0].region = report.items[1].region = "shared memory";
  simt::Finding& found = report.items[0].finding;
  found.access = {true, 5, 0, 64};
  found.earlier = {true, 5, 0, 16};
  CHECK(diagnose(report).cause == Cause::written_twice);
  CheckReport alone = report;
  alone.items.pop_back();
  CHECK(diagnose(alone).cause == Cause::race);
  found.earlier.place = 6;
  CHECK(diagnose(report).cause == Cause::race);
}

TEST_CASE("a row of a part that its block cannot have is taken for one that there is") {
  CheckReport report;
  report.problem = {1, 4, 2, 3, 200, 64, false};
  report.items = {item_of(simt::Kind::uninitialised_read, SiteId::m_partial)};
  report.items[0].row = 6;  // of two heads with three queries each
  CHECK(diagnose(report).cause == Cause::operand_of_other_row);
  report.items[0].row = 5;
  CHECK(diagnose(report).cause == Cause::uninitialised_read);
  report.items[0].row = 6;
  report.items[0].site = SiteId::k_smem;
  CHECK(diagnose(report).cause == Cause::uninitialised_read);
}

TEST_CASE("few bytes that nobody wrote between others: a row's padding") {
  CheckReport report;
  report.items = {item_of(simt::Kind::uninitialised_read, std::nullopt)};
  simt::Finding& found = report.items[0].finding;
  found.region = simt::shared_region;
  found.unwritten = {16, 64};
  CHECK(diagnose(report).cause == Cause::wrong_stride);
  CHECK_FALSE(diagnose(report).certain);
  found.unwritten = {16, 4};  // a value of each warp
  CHECK(diagnose(report).cause == Cause::uninitialised_read);
  found.unwritten = {64, 64};
  CHECK(diagnose(report).cause == Cause::uninitialised_read);
  found.unwritten = {16, 64};
  report.items[0].site = SiteId::k_smem;  // the kernel says what lies there
  CHECK(diagnose(report).cause == Cause::uninitialised_read);
}

TEST_CASE("who reads scales beside their buffer is whom they are of") {
  CheckReport report;
  report.problem = {1, 1, 1, 16, 32, 64, false};
  report.sites = {
      {SiteId::k_smem, Stage::load}, {SiteId::s, Stage::qk}, {SiteId::o_final, Stage::epilogue}};
  report.items = {item_of(simt::Kind::out_of_bounds, std::nullopt)};
  report.items[0].finding.access = {false, 7, 0, 40};
  report.items[0].region = "v_scale";
  CHECK(diagnose(report).stage() == Stage::epilogue);
  report.items[0].region = "k_scale";
  CHECK(diagnose(report).stage() == Stage::qk);
}

TEST_CASE("a copy that its own lane does not wait for races with the others, too") {
  CheckReport report;
  report.problem = {1, 1, 1, 16, 32, 64, false};
  report.items = {item_of(simt::Kind::race, std::nullopt),
                  item_of(simt::Kind::missing_wait, std::nullopt)};
  for (CheckReport::Item& item : report.items) {
    item.finding.access.place = 7;
    item.finding.earlier = {true, 3, 0, 40};
  }
  CHECK(diagnose(report).cause == Cause::missing_wait);
  report.items[1].finding.earlier.place = 4;  // of another copy
  CHECK(diagnose(report).cause == Cause::race);
  // Or of the same one, in a loop that is unrolled.
  for (CheckReport::Item& item : report.items) item.earlier_line = "k.cu:9, called at k.cu:30";
  CHECK(diagnose(report).cause == Cause::missing_wait);
  // Not where another copy writes there: their tiles may overlap, or waits are missing twice.
  CHECK(diagnose(report).certain);
  report.items.push_back(report.items[1]);
  report.items[2].finding.access.write = true;
  CHECK_FALSE(diagnose(report).certain);
  for (CheckReport::Item& item : report.items) {
    if (item.finding.kind == simt::Kind::missing_wait) item.finding.kind = simt::Kind::wrong_phase;
  }
  CHECK(diagnose(report).cause == Cause::wrong_phase);
}

TEST_CASE("who takes what a copy brings says more of its wait than who writes over it") {
  CheckReport report;
  for (const bool write : {true, false}) {
    CheckReport::Item& item = report.items.emplace_back();
    item.finding.kind = simt::Kind::missing_wait;
    item.finding.region = simt::shared_region;
    item.finding.access = {write, 1, 0, 64};
    item.finding.earlier = {true, 2, 0, 0};
    item.region = "shared memory";
    item.stage = write ? Stage::epilogue : Stage::qk;
    item.access_line = write ? "k.cu:148 in epilogue" : "k.cu:77 in qk";
    item.earlier_line = "k.cu:39 in load";
  }
  CHECK(diagnose(report).stage() == Stage::qk);
  report.items.pop_back();
  CHECK(diagnose(report).stage() == Stage::epilogue);
}

TEST_CASE("who reads a copy too early gives its place back too early") {
  CheckReport report;
  report.problem = {1, 1, 1, 16, 32, 64, false};
  report.items = {item_of(simt::Kind::operand_overwritten, std::nullopt),
                  item_of(simt::Kind::wrong_phase, std::nullopt)};
  report.items[0].finding.access = {true, 3, 0, 40};
  report.items[0].finding.earlier.place = 7;
  report.items[1].finding.access.place = 7;
  CHECK(diagnose(report).cause == Cause::operand_overwritten);
  report.items[1].finding.earlier = report.items[0].finding.access;
  CHECK(diagnose(report).cause == Cause::wrong_phase);
  report.items[1].finding.access.place = 8;
  CHECK(diagnose(report).cause == Cause::operand_overwritten);
}

TEST_CASE("a product that takes another layout reads what nobody wrote, too") {
  CheckReport report;
  report.items = {item_of(simt::Kind::uninitialised_read, SiteId::k_smem),
                  item_of(simt::Kind::layout_disagrees, SiteId::q_smem)};
  const auto cause = [&] { return diagnose(report, SiteId::s).cause; };
  CHECK(cause() == Cause::uninitialised_read);
  for (CheckReport::Item& item : report.items) item.access_line = "k.cu:9, called at k.cu:30";
  CHECK(cause() == Cause::layout_disagrees);
  report.items[1].access_line = "k.cu:8";
  CHECK(cause() == Cause::uninitialised_read);
  report.items[1].access_line = report.items[0].access_line;
  // Or what a copy brings that it has no reason to wait for.
  report.items[0].finding.kind = simt::Kind::missing_wait;
  CHECK(cause() == Cause::layout_disagrees);
  report.items[0].finding.access.write = true;
  CHECK(cause() == Cause::missing_wait);
  report.items[0].finding.kind = simt::Kind::race;
  CHECK(cause() == Cause::race);
}

TEST_CASE("a write of a race that says no stage is of that of the write beside it") {
  CheckReport report;
  report.problem = {1, 1, 1, 16, 32, 64, false};
  report.items = {item_of(simt::Kind::race, std::nullopt), item_of(simt::Kind::race, std::nullopt)};
  for (CheckReport::Item& item : report.items) {
    item.finding.access.place = 7;
    item.finding.access.block = 0;
    item.finding.earlier = {true, 3, 0, 40};
    item.access_line = "k.cu:78 in qk";
    item.stage = Stage::qk;
  }
  report.items[0].earlier_line = "k.cu:123";
  const auto stage_beside = [&](const std::string& line) {
    report.items[1].earlier_line = line;
    const Diagnosis diagnosis = diagnose(report);
    CHECK_FALSE(diagnosis.stage_certain);
    return diagnosis.stage();
  };
  CHECK(stage_beside("k.cu:122 in pv") == Stage::pv);
  CHECK(stage_beside("k.cu:126 in epilogue") == Stage::epilogue);
  CHECK(stage_beside("k.cu:127 in pv") == Stage::qk);
  CHECK(stage_beside("other.cu:122 in pv") == Stage::qk);
  CHECK(stage_beside("k.cu:122") == Stage::qk);
  report.items[1].finding.kind = simt::Kind::uninitialised_read;
  CHECK(stage_beside("k.cu:122 in pv") == Stage::qk);
}

TEST_CASE("a read of a race that takes bytes which nobody wrote is what strays") {
  CheckReport report;
  report.problem = {1, 1, 1, 16, 32, 64, false};
  report.items = {item_of(simt::Kind::race, std::nullopt),
                  item_of(simt::Kind::uninitialised_read, std::nullopt)};
  CheckReport::Item &race = report.items[0], &unwritten = report.items[1];
  race.finding.access = {false, 7, 0, 64};
  race.finding.earlier = {true, 3, 0, 40};
  race.access_line = "k.cu:112 in pv";
  race.earlier_line = "k.cu:96 in softmax";
  race.stage = Stage::softmax;
  race.region = unwritten.region = "shared memory";
  unwritten.finding.access = {false, 8, 0, 64};
  unwritten.access_line = race.access_line;
  CHECK(diagnose(report).stage() == Stage::pv);
  unwritten.access_line = "k.cu:96 in softmax";
  CHECK(diagnose(report).stage() == Stage::softmax);
  unwritten.access_line = race.access_line;
  unwritten.region = "k";
  CHECK(diagnose(report).stage() == Stage::softmax);
}

TEST_CASE("what a block keeps in memory of its own for P V is no result of it") {
  CheckReport report;
  report.problem = {1, 1, 1, 16, 32, 64, false};
  report.items = {item_of(simt::Kind::race, std::nullopt), item_of(simt::Kind::race, std::nullopt)};
  for (CheckReport::Item& item : report.items) {
    item.finding.access = {true, 7, 1, 0};
    item.finding.earlier = {true, 7, 0, 40};
    item.access_line = item.earlier_line = "k.cu:53 in epilogue";
    item.stage = Stage::epilogue;
    item.region = "allocation 1";
    item.region_bytes = 512;
  }
  CHECK(diagnose(report).stage() == Stage::epilogue);
  CheckReport::Item& read = report.items[1];
  read.finding.access.write = false;
  read.access_line = "k.cu:56 in pv";
  CHECK(diagnose(report).stage() == Stage::pv);
  CHECK_FALSE(diagnose(report).stage_certain);
  read.access_line = "k.cu:56 in combine";
  CHECK(diagnose(report).stage() == Stage::epilogue);
  read.access_line = "k.cu:56 in pv";
  read.earlier_line = "k.cu:99 in epilogue";
  CHECK(diagnose(report).stage() == Stage::epilogue);
}

TEST_CASE("a copy is under way where lanes stopped, and copies overlap before waits are missing") {
  CheckReport report;
  report.problem = {1, 1, 1, 16, 32, 64, false};
  report.items = {item_of(simt::Kind::unfinished_copy, std::nullopt)};
  CHECK(diagnose(report).cause == Cause::unfinished_copy);
  report.stop = Stop::Kind::rule;
  report.fault =
      "deadlock: v_empty[0]: 0 of 2 arrivals have come; nobody waited for its last 4 "
      "phases: more arrive than it counts";
  CHECK(diagnose(report).cause == Cause::operand_overwritten);
  CHECK((diagnose(report).memory.empty() && diagnose(report).by_end));
  report.items = {item_of(simt::Kind::missing_wait, std::nullopt),
                  item_of(simt::Kind::copies_overlap, std::nullopt)};
  CHECK(diagnose(report).cause == Cause::race);
}

TEST_CASE("who passes a wait by a phase that is over has overwritten nothing") {
  CheckReport report;
  report.problem = {1, 1, 1, 16, 32, 64, false};
  report.items = {item_of(simt::Kind::operand_overwritten, std::nullopt),
                  item_of(simt::Kind::wrong_phase, std::nullopt)};
  report.items[0].finding.access = {true, 7, 0, 0};
  report.items[0].finding.earlier = {false, 8, 0, 1};
  report.items[1].finding.earlier = {true, 9, 0, 2};
  report.items[1].finding.access = {true, 7, 0, 1};
  CHECK(diagnose(report).cause == Cause::wrong_phase);
  report.items[1].finding.access.place = 6;
  CHECK(diagnose(report).cause == Cause::operand_overwritten);
}

TEST_CASE("what weighs what an earlier kernel left: scores, or results of splits") {
  CheckReport report;
  report.problem = {1, 1, 1, 16, 32, 64, false};
  report.items = {item_of(simt::Kind::out_of_bounds, std::nullopt)};
  CheckReport::Item& item = report.items[0];
  item.access_line = "k.cu:7 in softmax or combine";
  item.region = "allocation 5";
  item.region_bytes = 64;
  CHECK(diagnose(report).certain);
  CHECK(diagnose(report).stage() == Stage::combine);
  item.region_bytes = 1024;
  CHECK_FALSE(diagnose(report).certain);
  CHECK(diagnose(report).stage() == Stage::softmax);
  // Of its own shared memory, and of an input, the numbers say enough.
  item.region_bytes = 0;
  CHECK(diagnose(report).certain);
  item.region_bytes = 64;
  item.site = SiteId::lse;
  CHECK(diagnose(report).stage() == Stage::softmax);
  // A kernel that multiplies Q and K keeps its own maxima there.
  item.site.reset();
  item.stage = Stage::softmax;
  item.access_line = "k.cu:7 in softmax";
  CHECK(diagnose(report).stage() == Stage::softmax);
  // Too few bytes for a row of 64 elements per query are no tile.
  item.stage = Stage::load;
  item.access_line = "k.cu:7 in load";
  CHECK(diagnose(report).stage() == Stage::combine);
  // A tensor map is no number of splits.
  item.finding.kind = simt::Kind::missing_map_fence;
  CHECK(diagnose(report).stage() == Stage::load);
  item.finding.kind = simt::Kind::out_of_bounds;
  item.region_bytes = 2 * 16 * 64;
  CHECK(diagnose(report).stage() == Stage::load);
}

TEST_CASE("maxima that a softmax keeps in global memory are no results of splits") {
  CheckReport report;
  report.problem = {1, 1, 1, 64, 64, 64, false};
  CheckReport::Item& item = report.items.emplace_back();
  item.finding.kind = simt::Kind::race;
  item.finding.region = 3;
  item.region = "allocation 5";
  item.region_bytes = 256;
  item.access_line = "k.cu:74 in softmax or combine";
  item.finding.access.place = item.finding.earlier.place = 1;
  item.finding.earlier.write = true;
  item.earlier_line = "k.cu:81 in epilogue";
  CHECK(diagnose(report).stage() == Stage::combine);
  item.earlier_line = "k.cu:81 in softmax";
  CHECK(diagnose(report).stage() == Stage::softmax);
  // Whatever the lines make of it, what another block stored is merged.
  item.finding.access.block = 2;
  item.finding.earlier.block = 1;
  CHECK(diagnose(report).stage() == Stage::combine);
}

TEST_CASE("major-ness and start address of an operand do not go together: which is wrong") {
  using simt::Kind;
  const auto named = [](Kind kind, std::optional<SiteId> site, std::optional<Stage> stage) {
    CheckReport report;
    report.items = {item_of(kind, site)};
    report.items[0].stage = stage;
    return diagnose(report);
  };
  CHECK(named(Kind::fits_k_major, SiteId::v_smem, {}).cause == Cause::wrong_source);
  CHECK(named(Kind::fits_mn_major, SiteId::v_smem, {}).cause == Cause::transposed);
  CHECK(named(Kind::fits_k_major, SiteId::k_smem, {}).cause == Cause::transposed);
  CHECK(named(Kind::fits_mn_major, SiteId::q_smem, {}).cause == Cause::wrong_source);
  // Without the name of the tile, the product's stage tells.
  CHECK(named(Kind::fits_k_major, {}, Stage::pv).cause == Cause::wrong_source);
  CHECK(named(Kind::fits_k_major, {}, Stage::qk).cause == Cause::transposed);
  CHECK(named(Kind::fits_k_major, {}, Stage::qk).certain);
  CHECK_FALSE(named(Kind::fits_k_major, {}, {}).certain);
}

TEST_CASE("of flaws that give the outputs alike, the one in the stage that is known is named") {
  const auto flaw = [](Cause cause, Stage stage) {
    Finding finding{cause, 1};
    finding.flaw = name_of(cause);
    finding.stage = stage;
    return finding;
  };
  Diagnosis diagnosis;
  diagnosis.first.emplace();
  diagnosis.first->stage = Stage::qk;
  diagnosis.cause = Cause::tile_skipped;
  diagnosis.rivals = {flaw(Cause::mask_misaligned, Stage::qk),
                      flaw(Cause::accumulator_lost, Stage::softmax)};
  diagnosis.suspects = {flaw(Cause::written_zero, Stage::load)};
  Diagnosis other = diagnosis;
  name_flaw_in(other, Stage::softmax);
  CHECK(other.cause == Cause::accumulator_lost);
  CHECK(other.first->stage == Stage::softmax);
  CHECK_FALSE(other.certain);
  other = diagnosis;
  name_flaw_in(other, Stage::load);
  CHECK(other.cause == Cause::written_zero);
  other = diagnosis;
  name_flaw_in(other, Stage::pv);  // none is
  CHECK(other.cause == Cause::tile_skipped);
  other.certain = true;
  name_flaw_in(other, Stage::softmax);
  CHECK(other.cause == Cause::tile_skipped);
}

TEST_CASE("a race in other memory comes before what is stored at the place of others") {
  CheckReport report;
  report.items = {item_of(simt::Kind::written_twice, SiteId::o_final),
                  item_of(simt::Kind::race, std::nullopt)};
  report.items[0].region = "o";
  report.items[1].region = "shared memory";
  CHECK(diagnose(report, SiteId::o_final).cause == Cause::race);
  report.items[1].region = "o";
  CHECK(diagnose(report, SiteId::o_final).cause == Cause::written_twice);
  // Two blocks store, for a flag in shared memory was read too early.
  report.items[1].region = "shared memory";
  simt::Finding& stores = report.items[0].finding;
  stores.kind = simt::Kind::race;
  stores.access = {true, 1, 1, 0};
  stores.earlier = {true, 1, 0, 0};
  report.items[0].region = "o";
  CHECK(diagnose(report, SiteId::o_final).cause == Cause::race);
  report.items[1].region = "lse";  // another output
  report.items[1].finding = stores;
  CHECK(diagnose(report, SiteId::o_final).evidence.front().starts_with("o_final"));
  // What nobody wrote there, since it was written elsewhere; in shared memory, the flag.
  report.items[1] = item_of(simt::Kind::uninitialised_read, std::nullopt);
  report.items[1].region = "m_partial";
  report.items[1].finding.region = 3;
  CHECK(diagnose(report, SiteId::o_final).evidence.front().starts_with("o_final"));
  report.items[1].finding.region = simt::shared_region;
  CHECK(diagnose(report, SiteId::o_final).cause == Cause::uninitialised_read);
  report.items[1] = item_of(simt::Kind::race, std::nullopt);
  std::swap(report.items[0], report.items[1]);
  report.items.pop_back();
  CHECK(diagnose(report, SiteId::o_final).evidence.front().starts_with("shared memory"));
}

}  // namespace
}  // namespace lanescope
