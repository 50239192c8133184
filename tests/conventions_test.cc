// P of a tile is relative to the maximum so far and is not normalised: it is no slice of the
// softmax of the whole row. The lab never takes one for the other.

#include <cmath>
#include <string>

#include "debug/dump/site_slots.h"
#include "debug/judge/diff.h"
#include "gates/build/module_catalogue.h"
#include "gates/run/run_options.h"
#include "reference/online.h"
#include "tests/support/catch.h"
#include "tests/support/kernels.h"

using namespace lanescope;

namespace {

reference::Array held(const Dump& dump, SiteId id, std::int64_t tile, std::int64_t rows) {
  return SiteSlots(dump, *dump.find_site(name_of(id))).elements(0, tile, rows);
}

}  // namespace

TEST_CASE(
    "conventions: P of a clean kernel is right in every tile, and no slice of the row's softmax") {
  for (const std::string& kernel : declared_kernels()) {
    for (const char* input : {"rising", "random"}) {
      RunOptions options;
      options.kernel = kernel;
      options.gate = name_of(Gate::softmax_only);
      options.backend = "sim";
      options.shape = "s=192,skv=384,d=64";
      options.input = input;
      if (testing::combines(kernel)) options.splits = 1;
      const PreparedRun run = prepare(options);
      const Dump dump = launch(*run.module, run.module_name, run.request);
      INFO(kernel << " " << input);
      CHECK(diff_against_reference(dump).match);

      const double factor = dump.info.scores == ScoreUnit::raw
                                ? reference::softmax_scale(dump.info.problem) / std::log(2.0)
                                : 1.0;
      const std::int64_t tiles = dump.info.kv_tiles(), rows = dump.info.br;
      REQUIRE(tiles >= 3);
      const reference::Array m = held(dump, SiteId::m, tiles - 1, rows),
                             l = held(dump, SiteId::l, tiles - 1, rows);
      for (std::int64_t tile = 0; tile < tiles; ++tile) {
        const reference::Array s = held(dump, SiteId::s, tile, rows) * factor;
        const reference::Array whole_row = (s - m).map([](double x) { return std::exp2(x); }) / l;
        const reference::Array p = held(dump, SiteId::p, tile, rows);
        INFO("tile " << tile << ": P differs from the slice by "
                     << (p - whole_row).abs().largest());
        CHECK((p - whole_row).abs().largest() > 0.5);
      }
    }
  }
}
