// Kernels that show their outputs alone and round elsewhere than the reference, which is no fault,
// or in another way, which is one.

#include "debug/causes/output_variants.h"

#include "debug/causes/diagnose.h"
#include "debug/causes/truncation.h"
#include "tests/support/catch.h"
#include "tests/support/stranger_kernel.h"

namespace lanescope::testing {
namespace {

// A scale that is no power of two: rounding Q times it shows.
constexpr Problem problems[] = {
    {1, 2, 1, 70, 133, 40, false},
    {1, 1, 1, 96, 64, 40, true},
};

constexpr Problem many_values{1, 1, 1, 96, 128, 64, false};

std::optional<Finding> found(ElementType dtype, const char* bug, std::uint64_t seed = 3) {
  const Dump dump = stranger_dump(many_values, dtype, "random", seed, 32, 32, bug);
  INFO(bug);
  REQUIRE(diff_against_reference(dump).match);
  return find_truncation(dump);
}

}  // namespace

TEST_CASE("output variants: a factor that should be 1 rounds in every tile, and lse shows it") {
  // 256 tiles of four keys.
  const Problem many_tiles{1, 1, 1, 8, 1024, 32, false};
  const auto matches = [&](double tiles) {
    Dump dump = stranger_dump(many_tiles, ElementType::f16, "large", 5, 8, 4, "");
    Tensor& lse = const_cast<Tensor&>(*dump.find("lse"));
    for (std::int64_t i = 0; i < lse.size(); ++i) {
      lse.set(i, lse.at(i) * (1 - tiles * 0x1p-24));
    }
    return diff_against_reference(dump).match;
  };
  CHECK(matches(0));
  CHECK(matches(0.9 * 256));
  CHECK_FALSE(matches(2 * 256));
}

TEST_CASE("output variants: what rounds elsewhere is told from a fault", "[causes]") {
  for (const ElementType dtype : {ElementType::f16, ElementType::bf16}) {
    for (const char* const style :
         {"sum_of_rounded", "q_rounded", "q_rounded + sum_of_rounded",
          "sum_of_rounded + tiles_backwards", "splits + sum_of_rounded"}) {
      const bool by_query = std::string_view(style).starts_with("q_");
      bool shown = false;
      for (const Problem& problem : problems) {
        for (const char* const input : {"random", "large", "rising"}) {
          const Dump dump = stranger_dump(problem, dtype, input, 11, 32, 32, style);
          const DiffReport report = diff_against_reference(dump);
          if (report.match) continue;
          INFO(style << ", " << name_of(dtype) << ", " << input);
          const auto variant = find_output_variant(dump, report);
          REQUIRE(variant);
          shown = true;
          CHECK((variant->query == Recurrence::Query::rounded_base_2) == by_query);
        }
      }
      CHECK(shown);
    }
  }
}

TEST_CASE("output variants: a bug of a kernel that rounds elsewhere is named", "[causes]") {
  struct Row {
    const char* bugs;
    Cause cause;
    Stage stage;
  };
  for (const Row& row :
       {Row{"q_rounded + lse_maximum_base_two", Cause::wrong_base, Stage::epilogue},
        Row{"q_rounded + o_not_rescaled", Cause::not_rescaled, Stage::pv},
        Row{"q_rounded + o_not_rescaled_in_odd_tiles", Cause::not_rescaled, Stage::pv}}) {
    const Dump dump = stranger_dump(problems[0], ElementType::bf16, "random", 3, 32, 32, row.bugs);
    const DiffReport report = diff_against_reference(dump);
    const Diagnosis diagnosis = diagnose(dump, report);
    INFO(row.bugs << ": " << name_of(diagnosis.cause));
    CHECK(diagnosis.certain);
    CHECK(diagnosis.cause == row.cause);
    REQUIRE(diagnosis.first);
    CHECK(diagnosis.first->stage == row.stage);
  }
}

TEST_CASE("output variants: no bug is one", "[causes]") {
  std::uint64_t seed = 0;
  for (const StrangerBug& bug : stranger_bugs()) {
    for (const Problem& problem : problems) {
      const ElementType dtype = ++seed % 2 == 0 ? ElementType::f16 : ElementType::bf16;
      const Dump dump = stranger_dump(problem, dtype, "random", seed, 32, 32, bug.name);
      const DiffReport report = diff_against_reference(dump);
      INFO(bug.name << ", " << name_of(dtype));
      CHECK_FALSE(find_output_variant(dump, report));
    }
  }
}

TEST_CASE("a number next to another towards zero") {
  CHECK(truncated(ElementType::bf16, 1.0) == 1.0);
  CHECK(truncated(ElementType::bf16, 1.0 + 0x1p-8 + 0x1p-20) == 1.0);
  CHECK(truncated(ElementType::bf16, -1.0 - 0x1p-7 - 0x1p-8 - 0x1p-20) == -1.0 - 0x1p-7);
  CHECK(truncated(ElementType::f16, 0.0) == 0.0);
  CHECK(truncated(ElementType::f16, 0x1p-25 * 1.5) == 0.0);
}

TEST_CASE("P truncated leaves O within its bounds, and is found", "[causes]") {
  for (const ElementType dtype : {ElementType::f16, ElementType::bf16}) {
    INFO(name_of(dtype));
    const auto of_p = found(dtype, "p_truncated");
    REQUIRE(of_p);
    CHECK(of_p->cause == Cause::precision_lost);
    CHECK(of_p->stage == Stage::softmax);
    CHECK_FALSE(found(dtype, "o_truncated"));
  }
}

TEST_CASE("what is rounded is not taken for truncated", "[causes]") {
  for (const ElementType dtype : {ElementType::f16, ElementType::bf16}) {
    for (const std::uint64_t seed : {3, 4}) {
      CHECK_FALSE(found(dtype, "", seed));
    }
  }
}

}  // namespace lanescope::testing
