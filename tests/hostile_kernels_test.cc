// Right kernels match on inputs on which bounds have little to stand on.

#include "debug/judge/diff.h"
#include "gates/run/run_options.h"
#include "tests/support/catch.h"
#include "tests/support/hostile_inputs.h"

namespace lanescope {
namespace {

using testing::all;
using testing::changed;
using testing::hostile;
using testing::same;

void run_clean(const std::string& kernel) {
  for (const std::string& dtype : {std::string("f16"), std::string("bf16")}) {
    const Problem shape{1, 2, 1, 70, 140, 64, false};
    const bool bf16 = dtype == "bf16";
    std::map<std::string, Inputs> inputs =
        hostile(shape, bf16 ? ElementType::bf16 : ElementType::f16);
    if (bf16) inputs["+inf"] = changed(shape, ElementType::bf16, all(3e38), same);  // O is NaN
    for (const auto& [name, given] : inputs) {
      for (const bool causal : {false, true}) {
        RunOptions options;
        options.kernel = kernel;
        options.gate = "fused";
        options.backend = "sim";
        options.dtype = dtype;
        options.shape = "b=1,h=2,hkv=1,s=70,skv=140,d=64";
        options.causal = causal;
        PreparedRun run = prepare(options);
        run.request.inputs = given;
        run.request.input = "given";
        const Dump dump = launch(*run.module, run.module_name, run.request);
        const DiffReport report = diff_against_reference(dump);
        INFO(kernel << " " << dtype << " " << name << (causal ? " causal" : ""));
        // A softmax that multiplies the scores itself has their rounding in its exponents: P then
        // passes the range of its type, or may.
        if (dump.info.scores == ScoreUnit::raw && (name == "x 10000" || name == "65504")) {
          CHECK_FALSE(report.match);
          continue;
        }
        for (const SiteReport& site : report.sites) {
          INFO(name_of(site.site) << " " << site.failed << " failed, error/bound "
                                  << site.max_error_over_bound);
          CHECK(site.failed == 0);
        }
        CHECK(report.match);
      }
    }
  }
}

TEST_CASE("hostile kernels: scalar matches") { run_clean("scalar"); }
TEST_CASE("hostile kernels: mma matches") { run_clean("mma"); }

}  // namespace
}  // namespace lanescope
