// What terms say against what was found before: which of the two is the cause, and where.

#include "gates/run/weigh_terms.h"

#include <string>

#include "tests/support/catch.h"

namespace lanescope {
namespace {

/// A location whose cause the memory checker found, at an access of `stage`.
Location by_access(Cause cause, simt::Kind kind, Stage stage) {
  Location location;
  Diagnosis& diagnosis = location.diagnosis.emplace();
  diagnosis.cause = cause;
  diagnosis.certain = true;
  CheckReport::Item& item = diagnosis.memory.emplace_back();
  item.finding.kind = kind;
  item.stage = stage;
  item.access_line = "k.cu:10";
  return location;
}

/// One whose cause a known flaw gives.
Location by_flaw(Cause cause, Stage stage) {
  Location location;
  Diagnosis& diagnosis = location.diagnosis.emplace();
  diagnosis.cause = cause;
  diagnosis.certain = true;
  diagnosis.first.emplace();
  diagnosis.first->site = SiteId::o_final;
  diagnosis.first->stage = stage;
  diagnosis.flaws.push_back(Finding{cause, 1});
  return location;
}

TermJudgement fault(Cause cause, Stage stage, bool is_whole = false) {
  TermJudgement judged;
  judged.is_whole = is_whole;
  judged.fault.emplace();
  judged.fault->cause = cause;
  judged.fault->stage = stage;
  judged.fault->share = 1;
  judged.fault->lines = {"k.cu:20"};
  return judged;
}

/// "stage cause", with "?" where it is not certain.
std::string weighed(Location location, const TermJudgement& judged, const SeenWays& seen = {}) {
  weigh_terms(judged, seen,
              {[] { return Provenance::Outline{}; }, [](const TermFault&) { return false; }},
              location);
  const Diagnosis& diagnosis = *location.diagnosis;
  return std::string(name_of(diagnosis.stage().value())) + " " + name_of(diagnosis.cause) +
         (diagnosis.certain ? "" : "?");
}

}  // namespace

TEST_CASE("weigh terms: an access that strays comes of rows that are taken for others") {
  const Location strays = by_access(Cause::out_of_bounds, simt::Kind::out_of_bounds, Stage::load);
  CHECK(weighed(strays, fault(Cause::wrong_head, Stage::load)) == "load wrong_head?");
  CHECK(weighed(strays, fault(Cause::causal_mask_missing, Stage::qk)) == "qk causal_mask_missing?");
  // What it brought is nothing: that is lacking, which does not make it stray.
  for (const Cause cause :
       {Cause::tile_skipped, Cause::contribution_missing, Cause::never_updated}) {
    CHECK(weighed(strays, fault(cause, Stage::qk)) == "load out_of_bounds");
  }
  // Nor does what is done to outputs later.
  CHECK(weighed(strays, fault(Cause::misplaced, Stage::epilogue)) == "load out_of_bounds");
  const Location late = by_access(Cause::out_of_bounds, simt::Kind::out_of_bounds, Stage::epilogue);
  CHECK(weighed(late, fault(Cause::misplaced, Stage::epilogue)) == "epilogue misplaced?");
}

TEST_CASE("weigh terms: what no kernel left is lacking, and not the other way round") {
  Location reads = by_access(Cause::uninitialised_read, simt::Kind::uninitialised_read, Stage::qk);
  reads.diagnosis->memory.front().finding.region = 2;
  CHECK(weighed(reads, fault(Cause::tile_skipped, Stage::qk)) == "qk uninitialised_read");
  CHECK(weighed(reads, fault(Cause::wrong_head, Stage::load)) == "load wrong_head?");
  reads.diagnosis->memory.front().finding.region = simt::shared_region;
  CHECK(weighed(reads, fault(Cause::tile_skipped, Stage::qk)) == "qk tile_skipped?");
}

TEST_CASE("weigh terms: a row without a score may have those of others") {
  Location empty = by_flaw(Cause::masked_row_unguarded, Stage::softmax);
  const TermJudgement of_others = fault(Cause::permuted, Stage::load);
  CHECK(weighed(empty, of_others) == "softmax masked_row_unguarded");
  empty.diagnosis->certain = false;
  CHECK(weighed(empty, of_others) == "load permuted?");
  CHECK(weighed(empty, fault(Cause::mask_off_by_one, Stage::qk)) ==
        "softmax masked_row_unguarded?");
  CHECK(weighed(empty, fault(Cause::permuted, Stage::pv)) == "softmax masked_row_unguarded?");
}

TEST_CASE("weigh terms: numbers that are wrong before the stage of a flaw refute it") {
  Location flaw = by_flaw(Cause::wrong_formula, Stage::epilogue);
  const TermJudgement scores = fault(Cause::precision_lost, Stage::qk, true);
  CHECK(weighed(flaw, scores) == "epilogue wrong_formula");  // which is sure
  flaw.diagnosis->certain = false;
  CHECK(weighed(flaw, scores) == "qk precision_lost?");
  CHECK(weighed(flaw, fault(Cause::unexplained, Stage::qk, true)) == "qk unexplained?");
  // What the outputs say by themselves is no more than that, and its rivals are none.
  Diagnosis& diagnosis = *flaw.diagnosis;
  diagnosis.flaws.front().evidence = {"the outputs are such", "7 of 7 follow"};
  diagnosis.flaws.push_back(Finding{Cause::wrong_scale, 1});
  diagnosis.flaws.back().flaw = "of another kind";
  diagnosis.evidence = {"the outputs are such", "7 of 7 follow", "as well those of another kind"};
  weigh_terms(scores, {},
              {[] { return Provenance::Outline{}; }, [](const TermFault&) { return false; }}, flaw);
  CHECK(diagnosis.evidence.front() == "taken by themselves, the outputs are such");
  for (const std::string& line : diagnosis.evidence) {
    CHECK(line.find("follow") == line.npos);
    CHECK(line.find("another kind") == line.npos);
  }
}

TEST_CASE("weigh terms: keys that two parts have are not the merge's, a one too much is") {
  TermJudgement twice = fault(Cause::contribution_repeated, Stage::softmax);
  const Location open = [] {
    Location location = by_flaw(Cause::unexplained, Stage::epilogue);
    location.diagnosis->certain = false;
    return location;
  }();
  CHECK(weighed(open, twice) == "softmax contribution_repeated?");
  twice.outline.merges.lines = {"k.cu:20"};
  CHECK(weighed(open, twice) == "qk contribution_repeated?");
  twice.fault->of_nothing = true;
  CHECK(weighed(open, twice) == "combine contribution_repeated?");
  twice.outline.merges.lines.clear();
  CHECK(weighed(open, twice) == "softmax wrong_formula?");
}

TEST_CASE("weigh terms: lines between those of a merge are its own") {
  const auto stage = [](const std::string& line) {
    Location location = by_flaw(Cause::masked_row_unguarded, Stage::epilogue);
    location.nan.line = line;
    TermJudgement judged;
    judged.outline.merges.around = {"k.cu:90", "k.cu:100"};
    judged.outline.merges.lines = {"k.cu:108"};
    return weighed(location, judged);
  };
  for (const char* const line : {"k.cu:90", "k.cu:100", "k.cu:105", "k.cu:108"}) {
    CHECK(stage(line) == "combine masked_row_unguarded");
  }
  for (const char* const line : {"k.cu:80", "k.cu:109", "other.cu:105", ""}) {
    CHECK(stage(line) == "epilogue masked_row_unguarded");
  }
}

TEST_CASE("weigh terms: splits that nothing puts together are the keys of lanes") {
  TermJudgement judged;
  judged.outline.reads = {{"k.cu:10", Stage::qk}};
  CHECK(weighed(by_flaw(Cause::incomplete_reduction, Stage::combine), judged) ==
        "softmax incomplete_reduction");
  judged.outline.merges.lines = {"k.cu:30"};
  CHECK(weighed(by_flaw(Cause::incomplete_reduction, Stage::combine), judged) ==
        "combine incomplete_reduction");
}

TEST_CASE("weigh terms: weights that vanish as parts are put together are the merge's") {
  Location low;
  Diagnosis& diagnosis = low.diagnosis.emplace();
  diagnosis.cause = Cause::wrong_formula;
  diagnosis.first.emplace();
  diagnosis.first->site = SiteId::o_final;
  diagnosis.first->stage = Stage::softmax;
  TermJudgement judged;
  judged.outline.merges.lines = {"k.cu:30"};
  CHECK(weighed(low, judged) == "softmax wrong_formula?");
  judged.weighs = true;
  CHECK(weighed(low, judged) == "combine wrong_formula?");
  judged.outline.merges.lines.clear();
  CHECK(weighed(low, judged) == "softmax wrong_formula?");
}

TEST_CASE("weigh terms: what was never written was not lost behind its reader") {
  const Location reads =
      by_access(Cause::uninitialised_read, simt::Kind::uninitialised_read, Stage::pv);
  CHECK(weighed(reads, fault(Cause::permuted, Stage::epilogue)) == "pv uninitialised_read");
  CHECK(weighed(reads, fault(Cause::permuted, Stage::pv)) == "pv permuted?");
}

TEST_CASE("weigh terms: a part whose weights were made is lost where parts are put together") {
  TermJudgement loses = fault(Cause::contribution_missing, Stage::softmax);
  loses.fault->loses_weights = true;
  CHECK(weighed(by_flaw(Cause::contribution_missing, Stage::combine), loses) ==
        "combine contribution_missing");
  loses.fault->loses_weights = false;
  CHECK(weighed(by_flaw(Cause::contribution_missing, Stage::combine), loses) ==
        "softmax contribution_missing");
}

TEST_CASE("weigh terms: weights that no block puts together were lost where parts meet") {
  TermJudgement lost = fault(Cause::contribution_missing, Stage::softmax);
  lost.fault->loses_weights = true;
  Location flaw = by_flaw(Cause::wrong_source, Stage::combine);
  flaw.diagnosis->certain = false;
  CHECK(weighed(flaw, lost) == "softmax contribution_missing?");
  CHECK(weighed(flaw, lost, {.combines = true}) == "combine contribution_missing?");
}

TEST_CASE("weigh terms: a merge that reads what nobody left makes no scores of it") {
  Location reads =
      by_access(Cause::uninitialised_read, simt::Kind::uninitialised_read, Stage::combine);
  reads.diagnosis->memory.front().finding.region = 1;
  // A sum has in it what nobody wrote; who takes another row's comes to it by that.
  const TermJudgement sums = fault(Cause::accumulator_not_cleared, Stage::qk),
                      others = fault(Cause::operand_of_other_row, Stage::qk);
  CHECK(weighed(reads, sums) == "combine uninitialised_read");
  CHECK(weighed(reads, others) == "qk operand_of_other_row?");
  reads.diagnosis->memory.front().used_line = "k.cu:20 in combine";
  CHECK(weighed(reads, others) == "combine uninitialised_read");
}

TEST_CASE("weigh terms: columns that stand twice were read twice, whatever values say of a place") {
  Location location = by_flaw(Cause::permuted, Stage::epilogue);
  location.diagnosis->flaws.clear();
  TermJudgement twice = fault(Cause::wrong_source, Stage::pv);
  CHECK(weighed(location, twice) == "epilogue permuted");
  twice.fault->of_outputs = true;
  CHECK(weighed(location, twice) == "pv wrong_source?");
}

TEST_CASE("weigh terms: another scale is one of scores, wherever it shows") {
  const TermJudgement of_weights = fault(Cause::wrong_scale, Stage::softmax, true);
  CHECK(weighed(by_flaw(Cause::wrong_scale, Stage::qk), of_weights) == "qk wrong_scale");
  CHECK(weighed(by_flaw(Cause::wrong_scale, Stage::epilogue), of_weights) == "softmax wrong_scale");
  CHECK(weighed(by_flaw(Cause::wrong_base, Stage::qk),
                fault(Cause::wrong_base, Stage::softmax, true)) == "softmax wrong_base");
}

TEST_CASE("weigh terms: a row sum is the softmax's wherever its parts are added up") {
  const TermJudgement late = fault(Cause::incomplete_reduction, Stage::epilogue);
  CHECK(weighed(by_flaw(Cause::incomplete_reduction, Stage::softmax), late) ==
        "softmax incomplete_reduction");
  CHECK(weighed(by_flaw(Cause::incomplete_reduction, Stage::pv), late) ==
        "epilogue incomplete_reduction");
  // So is a maximum that is not the row's, where outputs are sure to follow from that.
  Location maximum = by_flaw(Cause::stale_operand, Stage::softmax);
  const TermJudgement in_logarithm = fault(Cause::stale_operand, Stage::epilogue);
  CHECK(weighed(maximum, in_logarithm) == "softmax stale_operand");
  maximum.diagnosis->certain = false;
  CHECK(weighed(maximum, in_logarithm) == "epilogue stale_operand?");
}

TEST_CASE("weigh terms: a reduction that leaves out what a merge has is the merge's") {
  const Location sum = by_flaw(Cause::incomplete_reduction, Stage::softmax);
  const Cause lacking = Cause::contribution_missing;
  CHECK(weighed(sum, fault(lacking, Stage::combine)) == "combine incomplete_reduction");
  CHECK(weighed(sum, fault(lacking, Stage::epilogue)) == "softmax incomplete_reduction");
  CHECK(weighed(sum, fault(Cause::wrong_scale, Stage::combine)) == "softmax incomplete_reduction");
}

TEST_CASE("weigh terms: what is sure keeps its cause, what is not takes that of the terms") {
  const TermJudgement other = fault(Cause::wrong_head, Stage::load);
  CHECK(weighed(by_flaw(Cause::not_rescaled, Stage::pv), other) == "pv not_rescaled");
  Location open = by_flaw(Cause::not_rescaled, Stage::pv);
  open.diagnosis->certain = false;
  CHECK(weighed(open, other) == "load wrong_head?");
  // Of few of the wrong rows.
  TermJudgement few = other;
  few.fault->share = 0.4;
  CHECK(weighed(open, few) == "pv not_rescaled?");
  // Of what values alone say no more of than by how much they are off.
  open.diagnosis->flaws.clear();
  CHECK(weighed(open, few) == "pv not_rescaled?");
  open.diagnosis->cause = Cause::wrong_scale;
  CHECK(weighed(open, few) == "load wrong_head?");
}

TEST_CASE("weigh terms: who reads a number, and who left one out, the numbers tell") {
  Location reads =
      by_access(Cause::uninitialised_read, simt::Kind::uninitialised_read, Stage::load);
  reads.diagnosis->memory.front().finding.region = simt::shared_region;
  reads.diagnosis->memory.front().finding.offset = 72;
  TermJudgement judged;
  judged.outline.reads = {{"k.cu:10", Stage::pv}};
  judged.outline.shared.stored = {{{64, 72}, Stage::softmax}, {{76, 96}, Stage::softmax}};
  CHECK(weighed(reads, judged) == "softmax uninitialised_read");
  judged.outline.shared.stored[0].second = Stage::load;
  CHECK(weighed(reads, judged) == "load uninitialised_read");
  // Of an access whose stage the code does not say.
  Location open = by_access(Cause::out_of_bounds, simt::Kind::out_of_bounds, Stage::load);
  open.diagnosis->memory.front().stage.reset();
  CHECK(weighed(open, judged) == "pv out_of_bounds");
}

TEST_CASE("weigh terms: what a merge takes was rounded where it came from") {
  TermJudgement merged = fault(Cause::precision_lost, Stage::pv);
  merged.outline.merges.lines = {"k.cu:20"};
  Location open = by_flaw(Cause::precision_lost, Stage::epilogue);
  CHECK(weighed(open, merged) == "combine precision_lost");
  merged.outline.roundings = {"k.cu:12"};
  CHECK(weighed(open, merged) == "pv precision_lost");
}

TEST_CASE("weigh terms: a factor that nobody wrote rescales nothing") {
  const Location reads =
      by_access(Cause::uninitialised_read, simt::Kind::uninitialised_read, Stage::softmax);
  CHECK(weighed(reads, fault(Cause::not_rescaled, Stage::pv)) == "softmax uninitialised_read");
}

TEST_CASE("weigh terms: a tile that is taken as another lies is why what lies between is read") {
  Location reads =
      by_access(Cause::uninitialised_read, simt::Kind::uninitialised_read, Stage::softmax);
  reads.diagnosis->memory.front().finding.updates = true;
  TermJudgement placed = fault(Cause::wrong_stride, Stage::qk);
  CHECK(weighed(reads, placed) == "softmax uninitialised_read");
  placed.fault->of_place = true;
  CHECK(weighed(reads, placed) == "qk wrong_stride?");
  reads.diagnosis->cause = Cause::wrong_stride;
  CHECK(weighed(reads, placed) == "qk wrong_stride");
  reads.diagnosis->cause = Cause::wrong_source;
  CHECK(weighed(reads, placed) == "qk wrong_stride?");
}

TEST_CASE("weigh terms: 2^x overflows where the maximum of another row is subtracted") {
  Location open = by_flaw(Cause::overflow, Stage::softmax);
  const TermJudgement of_others = fault(Cause::operand_of_other_row, Stage::softmax);
  CHECK(weighed(open, of_others) == "softmax overflow");
  open.diagnosis->certain = false;
  CHECK(weighed(open, of_others) == "softmax operand_of_other_row?");
  CHECK(weighed(open, fault(Cause::wrong_head, Stage::load)) == "softmax overflow?");
}

TEST_CASE("weigh terms: where few keys are no parts, problems of more tell whether it is a merge") {
  Location location = by_flaw(Cause::unexplained, Stage::qk);
  location.diagnosis->certain = false;
  location.diagnosis->flaws.clear();
  Provenance::Outline other;
  other.merges.lines = {"k.cu:20"};
  const auto stage_of = [&](Cause cause) {
    Location own = location;
    weigh_terms(fault(cause, Stage::pv), {},
                {[&] { return other; }, [](const TermFault&) { return false; }}, own);
    return own.diagnosis->stage();
  };
  CHECK(stage_of(Cause::operand_of_other_row) == Stage::combine);
  CHECK(stage_of(Cause::wrong_source) == Stage::pv);
  // Parts at maxima of their own: the outputs say that they were added up without their factors.
  Location parts = by_flaw(Cause::not_rescaled, Stage::combine);
  parts.diagnosis->certain = false;
  CHECK(weighed(parts, fault(Cause::incomplete_reduction, Stage::softmax)) ==
        "combine not_rescaled?");
  // A maximum is a score, and where it is rounded, scores seem to be off.
  const TermJudgement rough = fault(Cause::precision_lost, Stage::qk);
  CHECK(weighed(by_flaw(Cause::precision_lost, Stage::softmax), rough) == "softmax precision_lost");
  Location open = by_flaw(Cause::precision_lost, Stage::softmax);
  open.diagnosis->certain = false;
  CHECK(weighed(open, rough) == "qk precision_lost?");
}

TEST_CASE("weigh terms: numbers that are right up to a merge refute what comes before it") {
  const TermJudgement of_merge = fault(Cause::unexplained, Stage::combine, true);
  CHECK(weighed(by_flaw(Cause::wrong_base, Stage::softmax), of_merge) == "combine wrong_base?");
  CHECK(weighed(by_flaw(Cause::wrong_base, Stage::epilogue), of_merge) == "epilogue wrong_base");
  TermJudgement rows = fault(Cause::reduction_too_wide, Stage::softmax);
  rows.outline.merges.lines = {"k.cu:20"};
  const Location open = [] {
    Location location = by_flaw(Cause::unexplained, Stage::softmax);
    location.diagnosis->certain = false;
    location.diagnosis->flaws.clear();
    return location;
  }();
  CHECK(weighed(open, rows) == "combine operand_of_other_row?");
  rows.fault->cause = Cause::accumulator_not_cleared;
  CHECK(weighed(open, rows) == "combine operand_of_other_row?");
  rows.outline.merges.lines = {"k.cu:21"};
  CHECK(weighed(open, rows) == "softmax accumulator_not_cleared?");
  rows.fault->cause = Cause::reduction_too_wide;
  CHECK(weighed(open, rows) == "softmax reduction_too_wide?");
  // Keys that are in no sum are lost where sums are put together.
  TermJudgement lost = fault(Cause::contribution_missing, Stage::softmax);
  lost.fault->loses_weights = true;
  CHECK(weighed(open, lost) == "softmax contribution_missing?");
  lost.outline.merges.around = {"k.cu:30"};
  CHECK(weighed(open, lost) == "combine contribution_missing?");
}

TEST_CASE("weigh terms: rows of V that no weight meets are left out, not zeros") {
  TermJudgement lacks = fault(Cause::contribution_missing, Stage::pv);
  lacks.fault->of_outputs = true;
  const Location zeros = by_flaw(Cause::written_zero, Stage::load);
  CHECK(weighed(zeros, lacks) == "pv contribution_missing?");
  lacks.fault->meets_zeros = true;
  CHECK(weighed(zeros, lacks) == "load written_zero");
}

TEST_CASE("weigh terms: a flaw of what is done with all keys needs their scores") {
  const auto of_flaw = [](Cause cause, Stage stage, const char* text = "") {
    Location location = by_flaw(cause, stage);
    location.diagnosis->flaws.front().stage = stage;
    location.diagnosis->flaws.front().flaw = text;
    return location;
  };
  TermJudgement lacks = fault(Cause::tile_skipped, Stage::qk);
  CHECK(weighed(of_flaw(Cause::wrong_source, Stage::combine), lacks) == "combine wrong_source");
  lacks.fault->lacks_scores = true;
  CHECK(weighed(of_flaw(Cause::wrong_source, Stage::combine), lacks) == "qk tile_skipped?");
  CHECK(weighed(of_flaw(Cause::wrong_source, Stage::load), lacks) == "load wrong_source");
  CHECK(weighed(of_flaw(Cause::contribution_missing, Stage::pv), lacks) ==
        "pv contribution_missing");
  // A merge does not leave out what was never made.
  CHECK(weighed(of_flaw(Cause::contribution_missing, Stage::combine), lacks) ==
        "qk contribution_missing");
  // Scores that were not made are not those that rows of V would meet.
  const TermJudgement others = fault(Cause::stale_operand, Stage::load);
  const Location of_v = of_flaw(Cause::wrong_source, Stage::load, "tiles of V are others");
  CHECK(weighed(of_v, others) == "load wrong_source");
  CHECK(weighed(of_v, others, {.lacks_scores = true}) == "load stale_operand?");
  const Location of_k = of_flaw(Cause::wrong_source, Stage::load, "tiles of K are others");
  CHECK(weighed(of_k, others, {.lacks_scores = true}) == "load wrong_source");
}

TEST_CASE("weigh terms: who reads where another tensor lies meets those who write it") {
  Location race = by_access(Cause::race, simt::Kind::race, Stage::load);
  race.diagnosis->memory.front().finding.access.write = true;
  race.diagnosis->memory.front().finding.earlier.place = 1;
  TermJudgement judged = fault(Cause::wrong_source, Stage::load);
  CHECK(weighed(race, judged) == "load race");
  judged.fault->of_tensors = true;
  CHECK(weighed(race, judged) == "load race?");
}

TEST_CASE("weigh terms: what values say of rows and places is kept") {
  Location other_row = by_flaw(Cause::operand_of_other_row, Stage::epilogue);
  other_row.diagnosis->certain = false;
  other_row.diagnosis->flaws.clear();
  CHECK(weighed(other_row, fault(Cause::stale_operand, Stage::epilogue)) ==
        "epilogue operand_of_other_row?");
  CHECK(weighed(other_row, fault(Cause::stale_operand, Stage::softmax)) ==
        "softmax stale_operand?");
  Location unwritten = by_flaw(Cause::never_written, Stage::epilogue);
  unwritten.diagnosis->certain = false;
  unwritten.diagnosis->flaws.clear();
  CHECK(weighed(unwritten, fault(Cause::permuted, Stage::epilogue)) == "epilogue misplaced?");
}

TEST_CASE("weigh terms: who is at fault where a product reads what nobody wrote") {
  Location reads =
      by_access(Cause::uninitialised_read, simt::Kind::uninitialised_read, Stage::load);
  CheckReport::Item& item = reads.diagnosis->memory.front();
  item.finding.region = simt::shared_region;
  item.access_line = "k.cu:10 in qk";
  TermJudgement judged;
  judged.outline.shared.stored = {{{0, 64}, Stage::load}};
  CHECK(weighed(reads, judged) == "load uninitialised_read");
  judged.outline.shared.is_whole = {true, true, false};
  CHECK(weighed(reads, judged) == "qk wrong_source");
  // Of another problem: where lanes have no rows they leave out their part of the same tile.
  reads.diagnosis->left_out_by_lanes = true;
  CHECK(weighed(reads, judged) == "load uninitialised_read");
  reads.diagnosis->left_out_by_lanes = false;
  judged.outline.shared.is_whole = {true, false, true};
  CHECK(weighed(reads, judged) == "load uninitialised_read");
  item.stage = Stage::qk;
  CHECK(weighed(reads, judged) == "qk uninitialised_read");
  judged.outline.shared.lacks_columns = {false, true, false};
  CHECK(weighed(reads, judged) == "load uninitialised_read");
  // Of what splits left, where all of it is read: who stores it leaves some out.
  item.stage = Stage::softmax;
  item.access_line = "k.cu:9";
  item.finding.region = 3;
  item.region_bytes = 64;
  judged.outline.merges.lines = {"k.cu:9"};
  CHECK(weighed(reads, judged) == "combine uninitialised_read");
  item.finding.unread = 0;
  CHECK(weighed(reads, judged) == "epilogue uninitialised_read");
}

}  // namespace lanescope
