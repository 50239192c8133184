// No false alarm: clean kernels are clean, in values and under the memory checker, on shapes that
// nobody chose. A few of them always, 200 of them with `lanescope test '[shapes]'`; on a GPU with
// '[shapes-cuda]'.

#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "debug/judge/diff.h"
#include "gates/build/module_build.h"
#include "gates/run/check.h"
#include "reference/inputs.h"
#include "tests/support/catch.h"
#include "tests/support/kernels.h"

using namespace lanescope;

namespace {

/// A problem and how it is run; sides that make a run take a fraction of a second.
struct Choice {
  std::string shape, input;
  std::size_t tile;  ///< which of the kernel's, modulo their number
  std::uint64_t seed;
};

std::vector<Choice> choices(int count) {
  std::mt19937_64 random(20240817);  // its sequence is the same everywhere, unlike distributions
  const auto below = [&](std::uint64_t end) { return random() % end; };
  const auto side = [&](const char* name, std::uint64_t value) {
    return std::string(name) + "=" + std::to_string(value);
  };
  std::vector<Choice> all;
  for (int i = 0; i < count; ++i) {
    const std::uint64_t heads_kv = 1 + below(2), group = 1 + below(2);
    const std::uint64_t len_q = 1 + below(140);
    const std::uint64_t len_kv = below(3) == 0 ? len_q : 1 + below(200);
    const std::uint64_t d = below(2) == 0 ? 64 : 5 + below(60);
    all.push_back({side("b", 1 + below(2)) + "," + side("h", heads_kv * group) + "," +
                       side("hkv", heads_kv) + "," + side("s", len_q) + "," + side("skv", len_kv) +
                       "," + side("d", d),
                   input_kinds()[below(input_kinds().size())], below(8), below(1000)});
  }
  return all;
}

/// The tiles that a kernel is built for in `type` at the head dimension of all choices, its first
/// one first.
std::vector<std::string> tiles_of(const std::string& kernel, ElementType type) {
  std::vector<std::string> tiles;
  for (const ModuleName& m : declared_modules()) {
    if (m.kernel != kernel || m.dtype != type || m.head_dim != 64) continue;
    const std::string tile = tile_text(m.br, m.bc);
    if (std::find(tiles.begin(), tiles.end(), tile) == tiles.end()) tiles.push_back(tile);
  }
  return tiles;
}

RunOptions options_for(const Choice& choice, const std::string& kernel, const std::string& dtype,
                       bool causal, const std::string& backend) {
  RunOptions options;
  options.kernel = kernel;
  options.gate = name_of(Gate::fused);
  options.backend = backend;
  options.shape = choice.shape;
  options.input = choice.input;
  options.seed = choice.seed;
  options.dtype = dtype;
  options.causal = causal;
  if (testing::combines(kernel)) options.splits = 1 + choice.seed % 5;
  return options;
}

/// Every kernel, type and mask on `count` shapes: its values, and on sim its memory.
void run_shapes(int count, const std::string& backend) {
  int runs = 0;
  double worst = 0;
  for (const Choice& choice : choices(count)) {
    for (const std::string& kernel : declared_kernels()) {
      for (const std::string& dtype : declared_dtypes(kernel)) {
        const std::vector<std::string> tiles = tiles_of(kernel, parse_dtype(dtype));
        for (const bool causal : {false, true}) {
          RunOptions options = options_for(choice, kernel, dtype, causal, backend);
          if (backend == "sim") {
            options.schedule = choice.seed % 4;
            const CheckReport report = check_kernel(options);
            INFO(check_text(report, {}));
            CHECK(report.clean());
          }
          options.tile_shape = tiles[choice.tile % tiles.size()];
          INFO(kernel << " fused --shape " << choice.shape << " --input " << choice.input
                      << " --seed " << choice.seed << " --dtype " << dtype << " --tile-shape "
                      << options.tile_shape << (causal ? " --causal" : ""));
          const PreparedRun run = prepare(options);
          const DiffReport report =
              diff_against_reference(launch(*run.module, run.module_name, run.request));
          CHECK(report.match);
          for (const SiteReport& site : report.sites) {
            worst = std::max(worst, site.max_error_over_bound);
          }
          ++runs;
        }
      }
    }
  }
  std::printf("%d shapes: %d runs on %s, largest error/bound %.3f\n", count, runs, backend.c_str(),
              worst);
}

}  // namespace

TEST_CASE("random shapes: clean kernels are clean", "[quick]") { run_shapes(4, "sim"); }

TEST_CASE("random shapes: clean kernels are clean on 200 shapes", "[.][shapes]") {
  run_shapes(200, "sim");
}

TEST_CASE("random shapes: clean kernels are clean on a GPU", "[.][shapes-cuda]") {
  testing::on_backend("cuda", [] { run_shapes(200, "cuda"); });
}
