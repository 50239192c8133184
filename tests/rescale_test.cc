// Kernels whose row maxima do not follow every score: they follow where they have to, stay where
// they need not, and match the reference either way, whatever the inputs are.

#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "debug/dump/site_slots.h"
#include "debug/judge/diff.h"
#include "gates/run/run_options.h"
#include "tests/support/catch.h"
#include "tests/support/kernels.h"

using namespace lanescope;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

/// Row maxima behind the first tile that has a key.
struct Maxima {
  int stayed = 0, followed = 0;
};

Maxima count_maxima(const Dump& dump) {
  Maxima maxima;
  for (const DumpSite& entry : dump.info.sites) {
    if (entry.site.id != SiteId::m) continue;
    const SiteSlots m(dump, entry);
    for (std::int64_t block = dump.info.blocks.begin; block < dump.info.blocks.end; ++block) {
      for (std::int64_t tile = 1; tile < dump.info.kv_tiles(); ++tile) {
        if (m.untouched(block, tile)) continue;
        const std::int64_t first = dump.info.place(block).q_tile * dump.info.br;
        const std::int64_t rows =
            std::min<std::int64_t>(dump.info.br, dump.info.problem.len_q - first);
        const auto before = m.elements(block, tile - 1, rows), now = m.elements(block, tile, rows);
        for (reference::Index row = 0; row < now.rows(); ++row) {
          if (before(row) == -infinity) continue;
          ++(now(row) == before(row) ? maxima.stayed : maxima.followed);
        }
      }
    }
  }
  return maxima;
}

/// Changes element `col` of row `row` of a tensor [heads · rows, d].
using Edit = std::function<double(std::int64_t row, std::int64_t col, double x)>;

double same(std::int64_t, std::int64_t, double x) { return x; }

struct Case {
  std::string name, shape;
  Edit q, k, v;
  bool follows;  ///< the maximum of some row
  bool causal = false;
};

void apply(const Edit& edit, std::int64_t d, Tensor& tensor) {
  for (std::int64_t i = 0; i < tensor.size(); ++i) tensor.set(i, edit(i / d, i % d, tensor.at(i)));
}

Edit from_key(std::int64_t first, double factor) {
  return [=](std::int64_t row, std::int64_t, double x) { return row < first ? x : factor * x; };
}
Edit element(std::int64_t at_row, double value) {
  return [=](std::int64_t row, std::int64_t col, double x) {
    return row == at_row && col == 3 ? value : x;
  };
}
Edit rows_from(std::int64_t first, std::int64_t end, double value) {
  return [=](std::int64_t row, std::int64_t, double x) {
    return row >= first && row < end ? value : x;
  };
}
Edit times(double factor) {
  return [=](std::int64_t, std::int64_t, double x) { return factor * x; };
}
Edit all(double value) {
  return [=](std::int64_t, std::int64_t, double) { return value; };
}

const std::vector<Case> cases = {
    {"scores of one size", "s=500,d=64", same, same, same, false},
    {"later keys are larger", "s=500,d=64", same, from_key(200, 6), same, true},
    {"the last key is larger", "s=500,d=64", same, from_key(499, 12), same, true},
    {"later keys are much larger", "s=500,d=64", times(30), from_key(300, 100), same, true},
    {"each tile is larger", "s=700,d=64", same,
     [](std::int64_t row, std::int64_t, double x) { return static_cast<double>(row / 64) * x; },
     same, true},
    {"sums near the limit", "s=500,d=64", all(1),
     [](std::int64_t row, std::int64_t, double) {
       return row < 128 ? 0 : 0.125 * (7 + 0.001 * static_cast<double>(row - 128)) * 0.693147;
     },
     same, true},
    {"a NaN in Q", "s=300,d=64", element(70, nan_value), same, same, false},
    {"a NaN in K", "s=300,d=64", same, element(200, nan_value), same, true},
    {"+inf in K", "s=300,d=64", all(1), element(200, infinity), same, true},
    {"-inf in K", "s=300,d=64", all(1), element(200, -infinity), same, false},
    {"no score but -inf in the first tiles", "s=400,d=64", all(1), rows_from(0, 200, -infinity),
     same, false},
    {"rows without keys", "s=300,skv=170,d=64", same, from_key(100, 8), same, true, true},
    {"some rows see later keys", "s=400,d=64", same, from_key(130, 8), same, true, true},
};

void try_case(const Case& c, const std::string& gate, const std::string& tile,
              const std::string& dtype, const std::string& backend) {
  INFO(c.name << ": " << gate << " " << dtype << " " << tile << " on " << backend);
  RunOptions options;
  options.kernel = "wgmma";
  options.gate = gate;
  options.backend = backend;
  options.shape = c.shape;
  options.tile_shape = tile;
  options.dtype = dtype;
  options.causal = c.causal;
  PreparedRun run = prepare(options);
  const Problem& problem = run.request.problem;
  Inputs inputs = generate_inputs(problem, parse_dtype(dtype), "random", 0);
  apply(c.q, problem.d, inputs.q);
  apply(c.k, problem.d, inputs.k);
  apply(c.v, problem.d, inputs.v);
  run.request.inputs = inputs;
  run.request.input = "edited.safetensors";
  const Dump dump = launch(*run.module, run.module_name, run.request);
  CHECK(dump.info.incomplete == "");
  const DiffReport report = diff_against_reference(dump);
  if (report.first) {
    UNSCOPED_INFO("first divergence: " << name_of(report.first->site) << " tile "
                                       << report.first->tile << " row " << report.first->row
                                       << " got " << report.first->got << " want "
                                       << report.first->want);
  }
  CHECK(report.match);
  const Maxima maxima = count_maxima(dump);
  CHECK((maxima.followed > 0) == c.follows);
  if (c.name == "scores of one size") CHECK(maxima.stayed > 0);
}

}  // namespace

TEST_CASE("rescale: wgmma is right where maxima stay and where they follow") {
  for (const std::string backend : {"sim", "cuda"}) {
    testing::on_backend(backend, [&] {
      for (const Case& c : cases) {
        for (const char* gate : {"softmax_only", "fused"}) {
          try_case(c, gate, "128x128", "f16", backend);
        }
        try_case(c, "fused", "64x128", "f16", backend);
        try_case(c, "fused", "192x128", "bf16", backend);
      }
    });
  }
}
