// Which of the flaws of a family is named, of a kernel that is not traced.

#include <algorithm>
#include <string>
#include <utility>

#include "debug/causes/known_flaws.h"
#include "tests/support/catch.h"
#include "tests/support/diagnosed.h"
#include "tests/support/stranger_kernel.h"

namespace lanescope::testing {

using Catch::Matchers::ContainsSubstring;

TEST_CASE("known flaws: a mask that ends a key early is that, in tiles of one key, too",
          "[causes]") {
  const Problem problem{1, 1, 1, 128, 128, 32, true};
  for (const auto& [bug, keys] : {std::pair("causal_early", "lets 1 key fewer"),
                                  std::pair("causal_late", "lets 1 key more")}) {
    for (const int bc : {1, 32}) {
      const Dump dump = stranger_dump(problem, ElementType::f16, "random", 5, 128, bc, bug);
      const Diagnosis diagnosis = diagnosis_of(dump);
      INFO(bug << ", tiles of " << bc << " keys: " << joined(diagnosis.evidence));
      CHECK(diagnosis.certain);
      CHECK(diagnosis.cause == Cause::mask_off_by_one);
      REQUIRE(diagnosis.first);
      CHECK(diagnosis.first->stage == Stage::qk);
      CHECK_THAT(diagnosis.evidence.at(0), ContainsSubstring(keys));
      // It is one flaw, not that of a mask that is a tile early as well.
      const std::string text = std::string("whose causal mask ") + keys;
      CHECK(std::ranges::count(known_flaws(dump.info), text, &Flaw::text) == 1);
    }
  }
}

TEST_CASE("known flaws: a cap of scores is named with its number and base", "[causes]") {
  for (const ElementType dtype : {ElementType::f16, ElementType::f32}) {
    for (const char* const bug : {"soft_cap", "soft_cap_base_two"}) {
      const Dump dump =
          stranger_dump({1, 1, 1, 64, 96, 64, false}, dtype, "random", 5, 32, 32, bug);
      const Diagnosis diagnosis = diagnosis_of(dump);
      INFO(bug << ", " << name_of(dtype) << ": " << joined(diagnosis.evidence));
      CHECK(diagnosis.certain);
      CHECK(diagnosis.cause == Cause::clamped);
      const std::string base = bug == std::string("soft_cap") ? "" : " in base 2";
      CHECK_THAT(diagnosis.evidence.at(0),
                 ContainsSubstring("scores s" + base + " are capped: c tanh(s / c) with c = 20"));
    }
  }
}

}  // namespace lanescope::testing
