// Verdicts on inputs that leave little to stand on: scores beyond what fp32 resolves, sums that
// overflow, subnormal numbers, ties.

#include "tests/support/hostile_inputs.h"

#include <cmath>
#include <map>

#include "reference/possible.h"
#include "tests/support/catch.h"
#include "tests/support/synthetic_dump.h"
#include "tests/support/verdict.h"

namespace lanescope {
namespace {

using testing::all;
using testing::changed;
using testing::hostile;
using testing::report_of;
using testing::same;
using testing::Setup;
using testing::synthetic_dump;
using testing::tensor_of;
using testing::times;

const Problem problem{1, 1, 1, 40, 70, 32, false};

TEST_CASE("hostile inputs: no bound is NaN or infinite") {
  std::map<std::string, Inputs> inputs = hostile(problem, ElementType::bf16);
  inputs["overflow"] = changed(problem, ElementType::bf16, times(1e25), same);
  inputs["largest"] = changed(problem, ElementType::bf16, all(3e38), all(3e38));
  for (const auto& [name, given] : inputs) {
    for (const bool unscaled : {false, true}) {
      const reference::Walk walk{.br = 32,
                                 .bc = 32,
                                 .width = 32,
                                 .arithmetic = {reference::Accumulation::tensor_core("sm_90"),
                                                ElementType::bf16, ElementType::bf16},
                                 .scores = unscaled ? ScoreUnit::raw : ScoreUnit::base_2};
      reference::OnlineBlock block(given, problem, walk, 0, 0, 0);
      INFO(name << (unscaled ? " unscaled" : ""));
      const auto check = [](const char* site, const reference::Bounded& x) {
        INFO(site);
        CHECK((x.error >= 0 && x.error <= reference::anything).all());
      };
      for (std::int64_t tile = 0; tile < block.needed_tiles(); ++tile) {
        const reference::TileState state = block.step(tile);
        check("s", state.s);
        check("m", state.m);
        check("alpha", state.alpha);
        check("p", state.p);
        check("l", state.l);
        check("o", state.o);
      }
      check("o_final", block.finish().o_final);
      check("lse", block.finish().lse);
    }
  }
}

TEST_CASE("hostile inputs: a right kernel matches, zeroes and another row's O do not") {
  for (const Products products : {Products::tensor_core, Products::fp32_fma}) {
    for (const auto& [name, given] : hostile(problem, ElementType::f16)) {
      for (const bool traced : {false, true}) {
        INFO(name << (traced ? " traced" : ""));
        const Dump good = synthetic_dump(
            {.problem = problem, .products = products, .traced = traced, .inputs = given});
        const DiffReport report = diff_against_reference(good);
        for (const SiteReport& site : report.sites) {
          INFO(name_of(site.site) << " " << site.failed << " failed, error/bound "
                                  << site.max_error_over_bound);
          CHECK(site.failed == 0);
        }
        CHECK(report.match);

        Dump dump = good;
        Tensor& o = tensor_of(dump, SiteId::o_final);
        const Tensor& right = *good.find("o_final");
        bool zero = true, alike = true;  // but for the rounding
        for (std::int64_t i = 0; i < o.size(); ++i) {
          const double here = right.at(i), there = right.at(i % problem.d);
          zero &= std::abs(here) <= 0x1p-24;  // nothing smaller is told from it
          alike &= std::abs(here - there) <= 0x1p-9 * std::abs(there) + 0x1p-23;
          o.set(i, 0);
        }
        if (!zero) CHECK_FALSE(diff_against_reference(dump).match);
        for (std::int64_t i = 0; i < o.size(); ++i) {
          o.set(i, right.at((i + problem.d) % o.size()));
        }
        if (!alike) CHECK_FALSE(diff_against_reference(dump).match);
      }
    }
  }
}

/// Every query sees two keys whose scores are the same but for the order of their sums.
Inputs tied() {
  Inputs inputs = changed({1, 1, 1, 4, 2, 32, false}, ElementType::f16, times(1000), same);
  for (std::int64_t i = 0; i < 32; ++i) {
    inputs.k.set(32 + i, inputs.k.at(31 - i));
    for (std::int64_t row = 0; row < 4; ++row) {
      if (i < 16) inputs.q.set(row * 32 + i, inputs.q.at(row * 32 + 31 - i));
    }
    inputs.v.set(i, 1);
    inputs.v.set(32 + i, 2);
  }
  return inputs;
}

TEST_CASE("hostile inputs: where the bound leaves O open, nothing is called a match") {
  const Dump good =
      synthetic_dump({.problem = {1, 1, 1, 4, 2, 32, false}, .traced = false, .inputs = tied()});
  DiffReport report = diff_against_reference(good);
  CHECK_FALSE(report.match);
  CHECK(report.unsettled);
  REQUIRE(report.untold.size() == 1);
  CHECK(report.untold[0].site == SiteId::o_final);
  CHECK(report.untold[0].values == 4 * 32);
  CHECK(report_of(report, SiteId::o_final, Judgement::chain)->vacuous == 4 * 32);

  // Outside of the rows of V that come into question, 1 to 2, it is wrong all the same.
  for (const double outside : {0.0, 0.99, 2.01, -1.5}) {
    Dump dump = good;
    tensor_of(dump, SiteId::o_final).set(40, outside);
    report = diff_against_reference(dump);
    CHECK_FALSE(report.unsettled);
    CHECK(report_of(report, SiteId::o_final, Judgement::chain)->failed == 1);
  }
  // Traced, every step is known from what it received.
  CHECK(testing::verdict(
            synthetic_dump({.problem = {1, 1, 1, 4, 2, 32, false}, .inputs = tied()})) == "match");
}

}  // namespace
}  // namespace lanescope
