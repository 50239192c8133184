#include "debug/causes/flaw_contest.h"

#include "debug/judge/diff.h"
#include "tests/support/catch.h"
#include "tests/support/stranger_kernel.h"
#include "tests/support/synthetic_dump.h"

namespace lanescope::testing {
namespace {

constexpr Problem full{1, 2, 1, 48, 96, 32, false}, masked{1, 2, 1, 48, 96, 32, true};

Dump dump_of(const Problem& problem, const char* bug) {
  return stranger_dump(problem, ElementType::f16, "random", 5, 32, 32, bug);
}

/// As `find_known_flaw` tells it.
Finding finding_of(const char* flaw) {
  Finding finding;
  finding.flaw = flaw;
  return finding;
}

const Finding unscaled = finding_of("whose scores are not scaled"),
              squared = finding_of("whose scores are scaled by 1/d: 1/sqrt(d) twice"),
              late = finding_of("whose causal mask lets 1 key more");

}  // namespace

TEST_CASE("flaw contest: a flaw explains the outputs that it makes, and no others", "[causes]") {
  const Dump dump = dump_of(full, "scale_missing");
  const DiffReport report = diff_against_reference(dump);
  REQUIRE(report.first);
  FlawContest contest(dump);
  CHECK(contest.explains(unscaled, *report.first));
  CHECK_FALSE(contest.explains(squared, *report.first));
  CHECK_FALSE(contest.explains(late, *report.first));
}

TEST_CASE("flaw contest: a flaw of other numbers in another problem is the same", "[causes]") {
  const char* const text =
      "in which 5 splits have len_kv / 5 keys each, rounded down: the last 1 key in none";
  const Dump dump = dump_of({1, 2, 1, 48, 97, 32, false}, "last_two_keys_dropped");
  const DiffReport report = diff_against_reference(dump);
  REQUIRE(report.first);
  CHECK(FlawContest(dump).explains(finding_of(text), *report.first));
  // Splits of whole tiles go without the number of their keys.
  const Dump whole = dump_of(full, "splits_l_unscaled");
  const DiffReport wrong = diff_against_reference(whole);
  REQUIRE(wrong.first);
  CHECK(FlawContest(whole).explains(
      finding_of("in which of 2 splits of the keys (21 keys each) the l are added up, each at its "
                 "own maximum"),
      *wrong.first));
  // How many splits there are, a kernel may make of the problem.
  CHECK(FlawContest(whole).explains(
      finding_of("in which of 4 splits of the keys the l are added up, each at its own maximum"),
      *wrong.first));
  CHECK_FALSE(FlawContest(whole).explains(
      finding_of("in which of 4 splits of the keys the O are added up, each at its own maximum"),
      *wrong.first));
}

TEST_CASE("flaw contest: another number of splits is another flaw", "[causes]") {
  const Finding rest_of_three = finding_of(
      "in which 3 splits have len_kv / 3 keys each, rounded down: the last 2 keys in none");
  const Dump whole = dump_of(full, ""), ragged = dump_of({1, 2, 1, 48, 97, 32, false}, "");
  CHECK(FlawContest(ragged).shows(rest_of_three));
  CHECK_FALSE(FlawContest(whole).shows(rest_of_three));  // five splits would leave one over
  // Nor are splits of whole tiles those of fewer keys, of which a single tile has some.
  const Dump tile = dump_of({1, 2, 1, 48, 32, 32, false}, "");
  CHECK_FALSE(FlawContest(tile).shows(
      finding_of("in which of 3 splits of the keys the l are added up, each at its own maximum")));
}

TEST_CASE("flaw contest: of few keys a kernel makes one split", "[causes]") {
  const Dump one = dump_of({1, 2, 1, 48, 32, 32, false}, "split_twice");
  const DiffReport wrong = diff_against_reference(one);
  REQUIRE(wrong.first);
  CHECK(FlawContest(one).explains(
      finding_of("in which split 0 of 3 splits of the keys counts twice"), *wrong.first));
}

TEST_CASE("flaw contest: of one tile, the order of tiles is none", "[causes]") {
  const Finding backwards =
      finding_of("in which O is not rescaled by alpha (tiles from the last to the first)");
  const Dump one = dump_of({1, 2, 1, 48, 32, 32, false}, ""), several = dump_of(full, "");
  CHECK(FlawContest(one).can_have(backwards));
  CHECK_FALSE(FlawContest(one).shows(backwards));
  CHECK(FlawContest(several).shows(backwards));
}

TEST_CASE("flaw contest: a right run refutes what would show in it", "[causes]") {
  const Dump without_mask = dump_of(full, ""), with_mask = dump_of(masked, "");
  FlawContest in_full(without_mask), in_causal(with_mask);
  CHECK(in_full.shows(unscaled));
  CHECK(in_causal.shows(late));
  CHECK_FALSE(in_full.shows(late));
  // In a part of the outputs alone: which part it would be here is not known.
  Finding in_part = unscaled;
  in_part.in_part = true;
  CHECK_FALSE(in_full.shows(in_part));
}

TEST_CASE("flaw contest: flaws that come to the same outputs do not differ", "[causes]") {
  const Dump dump = dump_of(full, "");
  FlawContest contest(dump);
  CHECK(contest.differ(unscaled, squared));
  CHECK_FALSE(contest.differ(unscaled, unscaled));
}

TEST_CASE("flaw contest: what explains all by itself is no second bug", "[causes]") {
  const Dump dump = dump_of(full, "splits_to_base_e + by_turns");
  const DiffReport report = diff_against_reference(dump);
  REQUIRE(report.first);
  FlawContest contest(dump);
  const Finding of_ranges = finding_of(
      "in which of 2 splits of the keys the maxima are in base 2, their weights powers of e");
  CHECK_FALSE(contest.explains(of_ranges, *report.first));
  CHECK_FALSE(contest.beside(of_ranges, *report.first));
}

TEST_CASE("flaw contest: the bug that a kernel has besides a known one", "[causes]") {
  struct Case {
    const char *bugs, *flaw;
    Cause other;
  };
  for (const Case& one :
       {Case{"scale_squared + causal_late", "whose scores are scaled by 1/d: 1/sqrt(d) twice",
             Cause::mask_off_by_one},
        Case{"scale_squared + causal_late_in_tiles",
             "whose scores are scaled by 1/d: 1/sqrt(d) twice", Cause::mask_off_by_one},
        Case{"l_not_rescaled + causal_early", "in which l is not rescaled by alpha",
             Cause::mask_off_by_one}}) {
    const Dump dump = dump_of(masked, one.bugs);
    const DiffReport report = diff_against_reference(dump);
    REQUIRE(report.first);
    FlawContest contest(dump);
    INFO(one.bugs);
    CHECK_FALSE(contest.explains(finding_of(one.flaw), *report.first));
    const std::optional<Finding> other = contest.beside(finding_of(one.flaw), *report.first);
    REQUIRE(other);
    CHECK(other->cause == one.other);
    CHECK(other->certain());
  }
}

TEST_CASE("flaw contest: zeros say of no bug that it is there besides a known one", "[causes]") {
  Dump dump = dump_of(full, "scale_squared");
  for (std::int64_t i = 0; i < full.d; ++i) tensor_of(dump, SiteId::o_final).set(i, 0);
  const DiffReport report = diff_against_reference(dump);
  REQUIRE(report.first);
  FlawContest contest(dump);
  CHECK_FALSE(contest.explains(squared, *report.first));
  CHECK_FALSE(contest.beside(squared, *report.first));
}

}  // namespace lanescope::testing
