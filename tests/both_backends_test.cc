// The two backends leave the same bits at every site, and tracing changes no output.

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "debug/dump/dump.h"
#include "debug/judge/diff.h"
#include "gates/run/run_options.h"
#include "tests/support/catch.h"
#include "tests/support/kernels.h"

using namespace lanescope;
using lanescope::testing::all_kernels;
using lanescope::testing::combines;
using lanescope::testing::gates_of;

namespace {

struct Run {
  std::string shape, input = "random";
  bool causal = false;
  std::optional<std::int64_t> splits = {};
};

/// Ragged tails, rows that see no key, grouped heads, one query; then inputs whose maximum rises in
/// every tile, by steps, and passes what exponentials take; items enough that persistent blocks
/// take several.
std::vector<Run> runs_of(const ModuleName& module) {
  std::vector<Run> runs;
  for (const bool causal : {false, true}) {
    runs.push_back({"s=1,skv=300", "random", causal});
    runs.push_back({"h=2,s=300,skv=130", "random", causal});
    runs.push_back({"b=2,h=4,hkv=2,s=200,skv=300", "random", causal});
    for (const char* input : {"rising", "steep", "large", "equal"}) {
      runs.push_back({"h=2,s=260,skv=420", input, causal});
    }
  }
  if (combines(module.kernel)) {
    for (Run& run : runs) run.splits = 3;
    runs.push_back({"s=65,skv=70", "random", true, 20});
  }
  if (module.gate == Gate::fused) runs.push_back({"b=2,h=70,hkv=10,s=130,skv=200", "random", true});
  return runs;
}

RunOptions options_of(const ModuleName& module, const Run& run) {
  RunOptions options;
  options.kernel = module.kernel;
  options.gate = name_of(module.gate);
  options.dtype = name_of(module.dtype);
  options.tile_shape = tile_text(module.br, module.bc);
  options.shape = run.shape + ",d=" + std::to_string(module.head_dim);
  options.input = run.input;
  options.causal = run.causal;
  options.splits = run.splits;
  return options;
}

Dump dump_of(RunOptions options, const std::string& backend, bool untraced = false) {
  options.backend = backend;
  options.untraced = untraced;
  const PreparedRun run = prepare(options);
  return launch(*run.module, run.module_name, run.request);
}

/// The outputs of a run without tracing have the bits of one with.
void check_outputs(const Dump& traced, const Dump& untraced) {
  REQUIRE_FALSE(untraced.info.sites.empty());
  for (const DumpSite& entry : untraced.info.sites) {
    const char* name = name_of(entry.site.id);
    INFO(name);
    REQUIRE(traced.find(name) != nullptr);
    CHECK(traced.find(name)->bytes == untraced.find(name)->bytes);
  }
}

/// Every module of the kernel, on sim and on the GPU, there untraced too.
void compare_backends(const std::string& kernel) {
  for (const ModuleName& module : declared_modules()) {
    if (module.kernel != kernel || module.backend != "cuda") continue;
    std::int64_t compared = 0, differing = 0;
    const std::vector<Run> runs = runs_of(module);
    for (const Run& run : runs) {
      const RunOptions options = options_of(module, run);
      INFO(kernel << " " << options.gate << " --dtype " << options.dtype << " --tile-shape "
                  << options.tile_shape << " --shape " << options.shape << " --input "
                  << options.input << (options.causal ? " --causal" : ""));
      const Dump sim = dump_of(options, "sim"), cuda = dump_of(options, "cuda");
      for (const BitReport& report : diff_dumps(sim, cuda)) {
        INFO("site " << report.name);
        CHECK(report.differing == 0);
        compared += report.compared;
        differing += report.differing;
      }
      check_outputs(cuda, dump_of(options, "cuda", true));
    }
    REQUIRE(compared > 0);
    std::printf("%-45s %2zu runs, sim against cuda: %lld of %lld values differ\n",
                module.text().c_str(), runs.size(), static_cast<long long>(differing),
                static_cast<long long>(compared));
  }
}

void trace_and_compare(const std::string& backend) {
  for (const std::string& kernel : all_kernels) {
    for (const Gate gate : gates_of(kernel)) {
      RunOptions options;
      options.kernel = kernel;
      options.gate = name_of(gate);
      options.shape = "s=130,d=64,h=2";
      INFO(kernel << " " << options.gate);
      const Dump traced = dump_of(options, backend), untraced = dump_of(options, backend, true);
      CHECK((traced.info.sites.size() > untraced.info.sites.size()) ==
            (gate != Gate::combine_only));
      check_outputs(traced, untraced);
    }
  }
}

}  // namespace

#define TEST_KERNEL(KERNEL)                                              \
  TEST_CASE(KERNEL ": sim and cuda leave the same bits at every site") { \
    testing::on_backend("cuda", [] { compare_backends(KERNEL); });       \
  }

LANESCOPE_EACH_KERNEL(TEST_KERNEL)

TEST_CASE("tracing changes no output bit on sim") { trace_and_compare("sim"); }
TEST_CASE("tracing changes no output bit on cuda") {
  testing::on_backend("cuda", [] { trace_and_compare("cuda"); });
}
