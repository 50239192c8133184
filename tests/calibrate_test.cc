// Each rule set of the SIMT machine is recognised by the probes, and told from the others; and the
// reference's bounds hold for what it gives.

#include "gates/measure/calibrate.h"

#include <algorithm>
#include <string>

#include "debug/judge/diff.h"
#include "debug/report/report.h"
#include "gates/build/module_build.h"
#include "gates/run/launch.h"
#include "gates/run/run_options.h"
#include "tests/support/catch.h"
#include "tests/support/kernels.h"

using namespace lanescope;

TEST_CASE("calibrate: sim follows the rules that it is asked for, and no others") {
  for (const simt::RuleSet& rules : simt::rule_sets) {
    INFO(rules.name);
    const Calibration calibration = calibrate("sim", rules);
    CHECK(calibration.rules() == &rules);
    CHECK(calibration.arch == rules.arch);
    REQUIRE(calibration.fits.size() == std::size(simt::rule_sets));
    for (const RuleFit& fit : calibration.fits) {
      CHECK(fit.compared > 50000);
      CHECK((fit.differing == 0) == (fit.rules == &rules));
      if (fit.rules == &rules) continue;
      REQUIRE(fit.first);
      CHECK(fit.first->probe == "f16: 25 bits: 1 + 4·2^-25");
      CHECK(fit.first->got != fit.first->want);
    }
  }
}

TEST_CASE("calibrate: a device that rounds in another way fits no rule set") {
  // One bit fewer, half the elements at once, one bit more.
  for (const simt::TensorCoreRule rule :
       {simt::TensorCoreRule{16, 24}, simt::TensorCoreRule{8, 25}, simt::TensorCoreRule{16, 23},
        simt::TensorCoreRule{4, 24}}) {
    const simt::RuleSet other{"other", "Other", "sm_90", rule};
    INFO(rule.k_block << " " << rule.fraction_bits);
    const Calibration calibration = calibrate("sim", other);
    CHECK(calibration.rules() == nullptr);
    for (const RuleFit& fit : calibration.fits) CHECK(fit.first);
  }
}

TEST_CASE("calibrate: the GPU at hand follows a rule set") {
  testing::on_backend("cuda", [] {
    const Calibration calibration = calibrate("cuda", simt::hopper);
    INFO(calibration_text(calibration));
    CHECK(calibration.rules() != nullptr);
  });
}

TEST_CASE("calibrate: kernels that round like Ampere stay within the bounds for it") {
  for (const std::string& kernel : declared_kernels()) {
    for (const std::string gate : {"qk_only", "pv_only", "fused"}) {
      for (const std::string input : {"random", "large", "counting"}) {
        RunOptions options;
        options.kernel = kernel;
        options.gate = gate;
        options.backend = "sim";
        options.arch = "ampere";
        options.shape = "b=1,h=1,s=70,skv=130,d=64";
        options.input = input;
        const PreparedRun run = prepare(options);
        const Dump dump = launch(*run.module, run.module_name, run.request);
        CHECK(dump.info.arch == "sm_80");
        INFO(kernel << " " << gate << " " << input);
        CHECK(diff_against_reference(dump).match);
        RunOptions as_hopper = options;
        as_hopper.arch = "";
        const PreparedRun other = prepare(as_hopper);
        const bool same =
            same_bits(diff_dumps(dump, launch(*other.module, other.module_name, other.request)));
        CHECK((same || dump.info.products == Products::tensor_core));
        if (dump.info.products == Products::tensor_core && input == "random") CHECK_FALSE(same);
      }
    }
  }
}
