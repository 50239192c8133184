// Negative controls: a bug planted in one stage fails the gate of that stage, and no other gate but
// fused, which names the stage and the site.

#include "tests/specimens.h"

#include <algorithm>
#include <set>
#include <string>

#include "debug/judge/diff.h"
#include "gates/run/check.h"
#include "gates/run/run_options.h"
#include "tests/support/catch.h"
#include "tests/support/kernels.h"

using namespace lanescope;
using lanescope::testing::Specimen;
using lanescope::testing::specimens;

namespace {

DiffReport diff(const Specimen& specimen, const std::string& kernel, Gate gate) {
  RunOptions options;
  options.kernel = kernel;
  options.gate = name_of(gate);
  options.backend = "sim";
  options.shape = specimen.shape;
  options.causal = specimen.causal;
  options.dtype = specimen.dtype;
  if (!specimen.input.empty()) options.input = specimen.input;
  const PreparedRun run = prepare(options);
  return diff_against_reference(launch(*run.module, run.module_name, run.request));
}

/// Whether gate `gate` alone holds a stage of this name.
bool is_gate_of(Gate gate, const std::string& stage) {
  return (gate == Gate::qk_only && stage == "qk") ||
         (gate == Gate::softmax_only && stage == "softmax") ||
         (gate == Gate::pv_only && stage == "pv") ||
         (gate == Gate::combine_only && stage == "combine");
}

}  // namespace

TEST_CASE("specimens: a planted bug fails its own gate and fused, and no other") {
  REQUIRE(specimens().size() >= 10);
  for (const Specimen& specimen : specimens()) {
    const std::string kernel = specimen.kernel + "+" + specimen.name;
    for (const Gate gate : testing::gates_of(kernel)) {
      INFO(kernel << " " << name_of(gate) << ": " << specimen.stage << " / " << specimen.site);
      const DiffReport report = diff(specimen, kernel, gate);
      const bool loads =
          specimen.stage == "load" && (gate == Gate::qk_only || gate == Gate::pv_only);
      // Where the gate loads other tiles than the one that is named, they may be wrong as well.
      const bool elsewhere =
          loads && std::ranges::none_of(report.sites, [&](const SiteReport& site) {
            return name_of(site.site) == specimen.site;
          });
      const bool affected = gate == Gate::fused || is_gate_of(gate, specimen.stage) || loads;
      if (!elsewhere) CHECK(report.match == !affected);
      if (report.first) {
        UNSCOPED_INFO("first: " << name_of(report.first->stage) << " / "
                                << name_of(report.first->site));
      }
      if (!affected || (elsewhere && report.match)) continue;
      REQUIRE(report.first);
      CHECK(name_of(report.first->stage) == specimen.stage);
      if (gate == Gate::fused) CHECK(name_of(report.first->site) == specimen.site);
    }
  }
}

TEST_CASE("specimens: what only looks like a bug is clean in every gate") {
  REQUIRE_FALSE(testing::controls().empty());
  for (const Specimen& specimen : testing::controls()) {
    const std::string kernel = specimen.kernel + "+" + specimen.name;
    for (const Gate gate : testing::gates_of(kernel)) {
      INFO(kernel << " " << name_of(gate));
      CHECK(diff(specimen, kernel, gate).match);
    }
    RunOptions options;
    options.kernel = kernel;
    options.gate = "fused";
    options.shape = specimen.shape;
    options.causal = specimen.causal;
    CHECK(check_kernel(options).clean());
  }
}

TEST_CASE("specimens: the clean kernels match at the shapes that show the bugs") {
  std::set<std::string> run;
  for (const Specimen& specimen : specimens()) {
    const auto problem = specimen.kernel + " " + specimen.shape + " " + specimen.dtype + " " +
                         specimen.input + (specimen.causal ? " causal" : "");
    INFO(problem);
    if (run.insert(problem).second) CHECK(diff(specimen, specimen.kernel, Gate::fused).match);
  }
}
