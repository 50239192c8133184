// What the wrong runs of a kernel that shows its outputs alone say together.
#include "gates/run/failed_runs.h"

#include "tests/support/catch.h"

namespace lanescope {
namespace {

Diagnosis diagnosis(Cause cause, bool certain, const std::vector<Cause>& rivals = {}) {
  Diagnosis made;
  made.first.emplace();
  made.cause = cause;
  made.certain = certain;
  for (const Cause rival : rivals) made.rivals.push_back({.cause = rival, .explained = 1});
  return made;
}

FailedRuns runs(const std::vector<Diagnosis>& diagnoses) {
  FailedRuns all;
  for (const Diagnosis& one : diagnoses) all.add({"mine fused", {}, one});
  return all;
}

TEST_CASE("failed runs: the cause that explains most of them is named") {
  // One row alone: not divided by l, or by a constant.
  const std::vector<Diagnosis> all = {diagnosis(Cause::wrong_scale, true),
                                      diagnosis(Cause::not_normalised, true),
                                      diagnosis(Cause::not_normalised, true)};
  Diagnosis named = all[0];
  const FailedRuns failed = runs(all);
  CHECK(failed.suffice());
  REQUIRE(failed.take_what_explains_most(named));
  CHECK(named.cause == Cause::not_normalised);
  failed.doubt(named);
  CHECK_FALSE(named.certain);  // it does not explain the first
}

TEST_CASE("failed runs: a rival that explains all of them is named, and is certain") {
  const std::vector<Diagnosis> all = {
      diagnosis(Cause::tile_skipped, true, {Cause::mask_misaligned, Cause::wrong_head}),
      diagnosis(Cause::mask_misaligned, true)};
  Diagnosis named = all[0];
  const FailedRuns failed = runs(all);
  CHECK_FALSE(failed.suffice());
  REQUIRE(failed.take_what_explains_most(named));
  CHECK(named.cause == Cause::mask_misaligned);
  CHECK(named.rivals.empty());
  failed.doubt(named);
  CHECK(named.certain);
}

TEST_CASE("failed runs: a bug that would explain one of many that are rough is none") {
  std::vector<Diagnosis> all(8, diagnosis(Cause::unexplained, false));
  for (const std::size_t i : {1, 4, 6}) all[i] = diagnosis(Cause::precision_lost, false);
  all[7] = diagnosis(Cause::transposed, true);
  Diagnosis named = all[7];
  REQUIRE(runs(all).take_what_explains_most(named));
  CHECK((named.cause == Cause::precision_lost && !named.certain));
  all[4] = diagnosis(Cause::unexplained, false);
  named = all[7];
  CHECK_FALSE(runs(all).take_what_explains_most(named));
  CHECK(named.cause == Cause::transposed);
}

TEST_CASE("failed runs: what explains as many as any other stays") {
  const std::vector<Diagnosis> all = {diagnosis(Cause::wrong_head, true),
                                      diagnosis(Cause::unexplained, false)};
  Diagnosis named = all[0];
  const FailedRuns failed = runs(all);
  CHECK_FALSE(failed.take_what_explains_most(named));
  CHECK(named.cause == Cause::wrong_head);
  // Nor does anything change of a kernel that is traced.
  Diagnosis traced = all[0];
  CHECK_FALSE(FailedRuns().take_what_explains_most(traced));
  FailedRuns().doubt(traced);
  CHECK(traced.certain);
}

}  // namespace
}  // namespace lanescope
