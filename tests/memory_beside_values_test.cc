// What the memory checker found beside what values show: which of the two is the cause.
#include "gates/run/memory_beside_values.h"

#include "tests/support/catch.h"

namespace lanescope {
namespace {

Divergence at(Stage stage, SiteId site) {
  Divergence place;
  place.stage = stage;
  place.site = site;
  return place;
}

Diagnosis found(Cause cause, const Divergence& first) {
  Diagnosis diagnosis;
  diagnosis.cause = cause;
  diagnosis.certain = true;
  diagnosis.first = first;
  return diagnosis;
}

TEST_CASE(
    "a descriptor that disagrees with a tile is blamed on who reads it, where the tile shows") {
  const Divergence stored = at(Stage::load, SiteId::v_smem), o = at(Stage::pv, SiteId::o);
  Location location;
  location.diagnosis = found(Cause::unexplained, o);
  location.shown = {SiteId::v_smem, SiteId::o};
  const auto blamed = [&](simt::Kind kind) {
    Diagnosis memory = found(Cause::layout_disagrees, stored);
    memory.memory.emplace_back().finding.kind = kind;
    blame_descriptor(location, memory);
    return memory.first->stage;
  };
  CHECK(blamed(simt::Kind::layout_disagrees) == Stage::pv);
  CHECK(blamed(simt::Kind::fits_k_major) == Stage::pv);
  CHECK(blamed(simt::Kind::wrong_start) == Stage::pv);
  CHECK(blamed(simt::Kind::race) == Stage::load);  // only where it is about layouts

  // A tile that is not shown may be stored wrongly.
  location.shown = {SiteId::o};
  CHECK(blamed(simt::Kind::layout_disagrees) == Stage::load);

  // It is, where it is wrong itself.
  location.shown = {SiteId::v_smem, SiteId::o};
  location.diagnosis->first = stored;
  CHECK(blamed(simt::Kind::layout_disagrees) == Stage::load);
  location.diagnosis->first.reset();
  CHECK(blamed(simt::Kind::layout_disagrees) == Stage::load);
}

TEST_CASE("a tile that nobody wrote is blamed on who reads it, wherever values differ first") {
  Location location;
  location.shown = {SiteId::s, SiteId::m, SiteId::o};
  std::int64_t reads = 512;
  const auto blamed = [&](SiteId tile, const Divergence& wrong) {
    location.diagnosis = found(Cause::unexplained, wrong);
    Diagnosis memory = found(Cause::uninitialised_read, at(Stage::load, tile));
    memory.memory.emplace_back();
    memory.memory[0].finding.count = reads;
    memory.memory[0].finding.bytes = 16;
    blame_reader(location, memory);
    CHECK(memory.cause == (reads > 128 ? Cause::stale_operand : Cause::wrong_source));
    CHECK_FALSE(memory.certain);
    return std::pair(memory.first->stage, memory.first->site);
  };
  const Divergence s = at(Stage::qk, SiteId::s), m = at(Stage::softmax, SiteId::m),
                   o = at(Stage::pv, SiteId::o);
  CHECK(blamed(SiteId::k_smem, s) == std::pair(Stage::qk, SiteId::s));
  CHECK(blamed(SiteId::k_smem, m) == std::pair(Stage::qk, SiteId::s));
  CHECK(blamed(SiteId::v_smem, o) == std::pair(Stage::pv, SiteId::o));
  reads = 24;  // behind the tile's end
  CHECK(blamed(SiteId::v_smem, o) == std::pair(Stage::pv, SiteId::o));
  // A kernel that shows no scores.
  location.shown = {SiteId::m, SiteId::o};
  CHECK(blamed(SiteId::k_smem, m) == std::pair(Stage::softmax, SiteId::m));
}

TEST_CASE("heads beyond the last are out of bounds: by values the head is wrong") {
  const Divergence k = at(Stage::load, SiteId::k_smem);
  Diagnosis values = found(Cause::wrong_head, k), memory = found(Cause::out_of_bounds, k);
  memory.memory.emplace_back();
  const CheckReport report;
  const auto never = [] { return false; };
  CHECK(adds_nothing(values, memory, report, never));
  memory.memory.front().finding.access.write = true;
  CHECK_FALSE(adds_nothing(values, memory, report, never));
  memory.memory.front().finding.access.write = false;
  values.certain = false;
  CHECK_FALSE(adds_nothing(values, memory, report, never));
  values = found(Cause::unexplained, k);
  CHECK_FALSE(adds_nothing(values, memory, report, never));
}

TEST_CASE("rows with too short a distance overlap: some bytes are written twice") {
  const Divergence s = at(Stage::qk, SiteId::s);
  Diagnosis values = found(Cause::wrong_stride, s), memory = found(Cause::written_twice, s);
  memory.memory.emplace_back();
  const auto never = [] { return false; };
  CHECK(adds_nothing(values, memory, {}, never));
  values.certain = false;
  CHECK_FALSE(adds_nothing(values, memory, {}, never));
  CHECK_FALSE(adds_nothing(found(Cause::unexplained, s), memory, {}, never));
  CHECK_FALSE(
      adds_nothing(found(Cause::wrong_stride, at(Stage::pv, SiteId::o)), memory, {}, never));
}

TEST_CASE("a race says more than what values do not settle, wherever it shows") {
  const Divergence k = at(Stage::load, SiteId::k_smem), s = at(Stage::qk, SiteId::s);
  Diagnosis values = found(Cause::wrong_source, k);
  Diagnosis race = found(Cause::race, s);
  race.memory.emplace_back();
  const auto never = [] { return false; };
  CHECK(adds_nothing(values, race, {}, never));
  values.certain = false;
  CHECK_FALSE(adds_nothing(values, race, {}, never));
  race.cause = Cause::out_of_bounds;
  CHECK(adds_nothing(values, race, {}, never));
}

TEST_CASE("NaN was in the registers that nothing was assigned to, wherever these are asked for") {
  const Divergence s = at(Stage::qk, SiteId::s), m = at(Stage::softmax, SiteId::m);
  Diagnosis values = found(Cause::non_finite, s);
  Diagnosis memory = found(Cause::uninitialised_register, m);
  memory.memory.emplace_back();
  const auto never = [] { return false; };
  CHECK_FALSE(adds_nothing(values, memory, {}, never));
  tell_where_values_differ(values, {}, memory);
  CHECK((memory.stage() == Stage::qk && memory.first->site == SiteId::s));
  // Numbers are wrong before for another reason.
  memory.first = m;
  CHECK(adds_nothing(found(Cause::unexplained, s), memory, {}, never));
}

TEST_CASE("zeros in the place of what nobody wrote are what nobody wrote") {
  const Divergence at_end = at(Stage::load, SiteId::o_final);
  Diagnosis memory = found(Cause::uninitialised_read, at_end);
  memory.memory.emplace_back();
  Diagnosis zeros = found(Cause::written_zero, at_end);
  memory.certain = false;
  memory.evidence = {"o: nobody wrote these bytes", "not certain: who reads may be wrong"};
  zeros.evidence = {"rows of K are zeros"};
  Diagnosis same = memory;
  REQUIRE(confirm_unwritten(zeros, same));
  CHECK(same.certain);
  CHECK(same.evidence ==
        std::vector<std::string>{"o: nobody wrote these bytes", "rows of K are zeros"});
  zeros.first->stage = Stage::epilogue;
  CHECK_FALSE(confirm_unwritten(zeros, memory));
  CHECK_FALSE(confirm_unwritten(found(Cause::wrong_head, at_end), memory));
  CHECK((!memory.certain && memory.evidence.size() == 2));
  const auto never = [] { return false; };
  zeros.predicts = true;
  CHECK_FALSE(adds_nothing(zeros, memory, {}, never));
  // An alpha that nobody wrote is 0, too.
  zeros.cause = Cause::accumulator_lost;
  CHECK_FALSE(adds_nothing(zeros, memory, {}, never));
  zeros.cause = Cause::wrong_stride;
  CHECK(adds_nothing(zeros, memory, {}, never));
  // Not of another operand's rows, where the sum itself was never set.
  memory.memory.front().site = zeros.first->site;
  CHECK(adds_nothing(zeros, memory, {}, never));
  zeros.certain = false;
  CHECK_FALSE(adds_nothing(zeros, memory, {}, never));
  zeros.certain = true;
  memory.memory.front().site.reset();
  // What a kernel before should have left is not read because of a mask.
  zeros.cause = Cause::mask_off_by_one;
  CHECK(adds_nothing(zeros, memory, {}, never));
  memory.memory.front().region_bytes = 1024;
  CHECK_FALSE(adds_nothing(zeros, memory, {}, never));
  zeros.cause = Cause::misplaced;
  CHECK(adds_nothing(zeros, memory, {}, never));
}

TEST_CASE("a stage that takes another buffer does so in any order; else it races") {
  Diagnosis values = found(Cause::stale_operand, at(Stage::pv, SiteId::o));
  values.predicts = true;
  Diagnosis memory = found(Cause::race, at(Stage::load, SiteId::v_smem));
  memory.memory.emplace_back();
  const CheckReport report;
  CHECK(adds_nothing(values, memory, report, [] { return false; }));
  CHECK_FALSE(adds_nothing(values, memory, report, [] { return true; }));
}

TEST_CASE(
    "what a product reads that nobody wrote is left out of the tile that is wrong before it") {
  const auto stage_of = [](Stage reader, Stage wrong, bool sure) {
    Diagnosis memory = found(Cause::uninitialised_read, at(reader, SiteId::o));
    memory.memory.emplace_back();
    Diagnosis values = found(Cause::unexplained, at(wrong, SiteId::v_smem));
    values.certain = sure;
    take_as_left_out(values, memory);
    return memory.first->stage;
  };
  CHECK(stage_of(Stage::pv, Stage::load, false) == Stage::load);
  CHECK(stage_of(Stage::pv, Stage::load, true) == Stage::pv);
  CHECK(stage_of(Stage::pv, Stage::softmax, false) == Stage::pv);
  CHECK(stage_of(Stage::epilogue, Stage::load, false) == Stage::epilogue);
}

TEST_CASE("a loaded tile that looks unfinished was traced early, or filled with no values") {
  const auto judged = [](Cause cause, Stage stage, bool outputs_right, bool clean,
                         bool lanes_skip = false) {
    Diagnosis values = found(cause, at(stage, SiteId::v_smem));
    judge_unfinished_tile({outputs_right, lanes_skip, clean}, values);
    return values;
  };
  const Diagnosis early = judged(Cause::never_written, Stage::load, true, true);
  CHECK((early.cause == Cause::never_written && !early.certain && early.evidence.size() == 1));
  CHECK_FALSE(judged(Cause::stale_value, Stage::load, true, true).certain);
  // The checker saw these bytes written.
  const Diagnosis filled = judged(Cause::never_written, Stage::load, false, true);
  CHECK((filled.cause == Cause::uninitialised_register && filled.certain));
  CHECK(judged(Cause::never_written, Stage::load, false, false).cause == Cause::never_written);
  // Who fills it skips it.
  const Diagnosis skipped = judged(Cause::never_written, Stage::load, false, true, true);
  CHECK((skipped.cause == Cause::tile_skipped && !skipped.certain));
  CHECK(judged(Cause::stale_value, Stage::load, false, true).cause == Cause::stale_value);
  CHECK(judged(Cause::never_written, Stage::pv, false, true).cause == Cause::never_written);
}

}  // namespace
}  // namespace lanescope
