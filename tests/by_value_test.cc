// Dumps of other kernels, types and tiles side by side.

#include "debug/judge/by_value.h"

#include <cmath>
#include <map>

#include "reference/error.h"
#include "tests/support/catch.h"
#include "tests/support/synthetic_dump.h"
#include "tests/support/verdict.h"

namespace lanescope {
namespace {

using Catch::Matchers::ContainsSubstring;
using testing::Fault;
using testing::ragged;
using testing::Setup;
using testing::synthetic_dump;

Dump of(const Setup& setup, const std::string& kernel) {
  Dump dump = synthetic_dump(setup);
  dump.info.kernel = kernel;
  return dump;
}

std::map<std::string, BitReport> compared(const Dump& a, const Dump& b) {
  std::map<std::string, BitReport> by_name;
  for (const BitReport& report : diff_dumps(a, b)) by_name[report.name] = report;
  return by_name;
}

TEST_CASE("by value: another arithmetic, type or tile of the same problem agrees") {
  const Dump mma = of({.problem = ragged}, "mma");
  const Dump scalar = of({.problem = ragged, .products = Products::fp32_fma}, "scalar");
  const Dump bf16 = of({.problem = ragged, .dtype = ElementType::bf16}, "mma");
  const Dump small = of({.problem = ragged, .bc = 16}, "mma");
  const Dump* others[] = {&scalar, &bf16, &small};
  for (const Dump* other : others) {
    for (const auto& [name, report] : compared(mma, *other)) {
      INFO(name << " against " << other->info.kernel << " " << name_of(other->info.dtype) << " bc "
                << other->info.bc);
      CHECK(report.differing == 0);
      const bool output = name == "o_final" || name == "lse";
      CHECK((report.compared > 0) == (output || other != &small));
    }
  }
}

TEST_CASE("by value: a specimen beside its kernel differs from the planted site on") {
  const Dump good = of({.problem = ragged}, "mma");
  const Dump bad = of({.problem = ragged, .fault = Fault::missing_rescale}, "mma+not_rescaled");
  const auto reports = compared(good, bad);
  for (const char* name : {"s", "m", "alpha", "p", "l", "lse"}) {
    INFO(name);
    CHECK(reports.at(name).differing == 0);
  }
  REQUIRE(reports.at("o").first);
  const Divergence& first = *reports.at("o").first;
  CHECK(first.tile == 1);
  CHECK(std::abs(first.got - first.want) > first.bound);
  CHECK(reports.at("o_final").differing > 0);
}

TEST_CASE("by value: other problems and other inputs do not belong together") {
  const Dump mma = of({.problem = ragged}, "mma");
  const Dump causal = of({.problem = testing::causal}, "scalar");
  const Dump rising = of({.problem = ragged, .input = "rising"}, "scalar");
  const auto why = [&](const Dump& other) -> std::string {
    try {
      diff_dumps(mma, other);
    } catch (const MismatchError& error) {
      return error.what();
    }
    return "";
  };
  CHECK_THAT(why(causal), ContainsSubstring("shape"));
  CHECK_THAT(why(rising), ContainsSubstring("inputs"));
}

}  // namespace
}  // namespace lanescope
