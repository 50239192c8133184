// Every kernel and gate over types, tiles and shapes: clean kernels match the reference.

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "debug/judge/diff.h"
#include "gates/run/run_options.h"
#include "tests/support/catch.h"
#include "tests/support/kernels.h"

using namespace lanescope;
using lanescope::testing::all_kernels;

namespace {

struct Shape {
  std::string preset, shape;
  std::optional<std::int64_t> splits = {};
};

const std::vector<Shape> common_shapes = {
    {"fa1-4", ""},
    {"fa1-64", ""},
    {"fa1-65", ""},
    {"fa1-128", ""},
    {"fa1-192", ""},
    {"fa1-256", ""},
    {"fa1-512", ""},
    {"small", ""},
    {"debug", ""},
    {"", "s=1"},
    {"", "s=63,d=64"},
    {"", "s=65"},
    {"", "s=127,d=64"},
    {"", "s=1,skv=300,d=64"},
    {"", "h=4,hkv=2,s=96,d=64"},
};

/// What other tiles than a kernel's first are run on.
const std::vector<Shape> common_few_shapes = {{"fa1-4", ""},
                                              {"fa1-65", ""},
                                              {"", "s=127"},
                                              {"", "s=1,skv=300"},
                                              {"", "h=4,hkv=2,s=96,skv=160,d=64"}};

/// Kernels that split the keys: no split, a ragged last one, more than there are tiles; splits that
/// rows do not see (causal); queries of several heads in a tile, and none; many queries.
const std::vector<Shape> split_shapes = {
    {"", "s=96,skv=300,d=64", 1},
    {"", "s=96,skv=300,d=64", 2},
    {"", "s=96,skv=300,d=64", 7},
    {"", "s=96,skv=104,d=64", 3},
    {"", "s=65,skv=70,d=64", 20},
    {"", "s=1,skv=300,h=4,hkv=2,d=64", 3},
    {"", "b=2,s=1,skv=300,h=8,hkv=1,d=64", 7},
    {"", "s=5,skv=300,h=8,hkv=2,d=64", 3},
    {"", "s=17,skv=33,h=6,hkv=2,d=48", 2},
    {"", "s=300,h=2,d=64", 3},
};

/// All splits of the kernel's first type, three of the others: what depends on the shape does not
/// depend on the type.
std::vector<Shape> with_splits(std::vector<Shape> shapes, const std::string& kernel,
                               const std::string& dtype) {
  if (!testing::combines(kernel)) return shapes;
  for (std::size_t i = 0; i < split_shapes.size(); ++i) {
    const bool is_first_type = dtype == declared_dtypes(kernel).front();
    if (is_first_type || i % 3 == 2) shapes.push_back(split_shapes[i]);
  }
  return shapes;
}
std::vector<Shape> few_shapes_for(const std::string& kernel, const std::string& dtype) {
  return with_splits(common_few_shapes, kernel, dtype);
}
/// All shapes for the kernel's first type.
std::vector<Shape> shapes_for(const std::string& kernel, const std::string& dtype) {
  if (dtype != declared_dtypes(kernel).front()) return few_shapes_for(kernel, dtype);
  std::vector<Shape> shapes = with_splits(common_shapes, kernel, dtype);
  shapes.push_back({"mission", ""});
  return shapes;
}

struct Tally {
  int runs = 0, matches = 0;
  double worst = 0;
};

RunOptions options_for(const std::string& kernel, Gate gate, const std::string& backend) {
  RunOptions options;
  options.kernel = kernel;
  options.gate = name_of(gate);
  options.backend = backend;
  return options;
}

void take(const Shape& shape, RunOptions& options) {
  options.preset = shape.preset;
  options.shape = shape.shape;
  options.splits = shape.splits;
}

void judge(const RunOptions& options, Tally& tally) {
  INFO(options.kernel << " " << options.gate << " --backend " << options.backend << " --preset '"
                      << options.preset << "' --shape '" << options.shape << "' --dtype "
                      << options.dtype << " --tile-shape '" << options.tile_shape << "' --input "
                      << options.input << (options.causal ? " --causal" : "")
                      << (options.splits ? " --splits " + std::to_string(*options.splits) : ""));
  const PreparedRun run = prepare(options);
  const Dump dump = launch(*run.module, run.module_name, run.request);
  CHECK(dump.info.incomplete == "");
  const DiffReport report = diff_against_reference(dump);
  if (report.first) {
    UNSCOPED_INFO("first divergence: " << name_of(report.first->site) << " tile "
                                       << report.first->tile << " got " << report.first->got
                                       << " want " << report.first->want);
  }
  CHECK(report.match);
  ++tally.runs;
  tally.matches += report.match;
  for (const SiteReport& site : report.sites) {
    tally.worst = std::max(tally.worst, site.max_error_over_bound);
  }
}

/// The shapes of its type with the kernel's first tile, a few with the others and with the other
/// inputs.
void run_gate(const std::string& kernel, Gate gate, const std::string& backend) {
  for (const std::string& dtype : declared_dtypes(kernel)) {
    Tally tally;
    for (const bool causal : {false, true}) {
      RunOptions options = options_for(kernel, gate, backend);
      options.dtype = dtype;
      options.causal = causal;
      for (const Shape& shape : shapes_for(kernel, dtype)) {
        take(shape, options);
        judge(options, tally);
      }
      bool is_first = true;
      for (const ModuleName& m : declared_modules()) {
        if (m.kernel != kernel || m.gate != gate || m.backend != backend || m.head_dim != 64 ||
            m.dtype != parse_dtype(dtype) || std::exchange(is_first, false)) {
          continue;
        }
        options.tile_shape = tile_text(m.br, m.bc);
        for (const Shape& shape : few_shapes_for(kernel, dtype)) {
          take(shape, options);
          // A tile may be there for D = 64 alone.
          if (shape.shape.find("d=") == std::string::npos) {
            options.shape += options.shape.empty() ? "d=64" : ",d=64";
          }
          judge(options, tally);
        }
      }
      options.tile_shape.clear();
      take({"", "s=130,d=64,h=2"}, options);
      for (const char* input : {"counting", "large", "equal", "rising"}) {
        options.input = input;
        judge(options, tally);
      }
    }
    std::printf("%-14s %-13s %-4s %-5s %3d of %3d runs match, largest error/bound %.3f\n",
                kernel.c_str(), name_of(gate), backend.c_str(), dtype.c_str(), tally.matches,
                tally.runs, tally.worst);
  }
}

}  // namespace

// A case per kernel, gate and backend, so that each can be run, and skipped, alone.
#define TEST_GATE(KERNEL, GATE)                                                  \
  TEST_CASE(KERNEL " " #GATE " on sim") { run_gate(KERNEL, Gate::GATE, "sim"); } \
  TEST_CASE(KERNEL " " #GATE " on cuda") {                                       \
    testing::on_backend("cuda", [] { run_gate(KERNEL, Gate::GATE, "cuda"); });   \
  }
#define TEST_KERNEL(KERNEL)       \
  TEST_GATE(KERNEL, qk_only)      \
  TEST_GATE(KERNEL, softmax_only) \
  TEST_GATE(KERNEL, pv_only)      \
  TEST_GATE(KERNEL, fused)
#define TEST_COMBINE(KERNEL) TEST_GATE(KERNEL, combine_only)

LANESCOPE_EACH_KERNEL(TEST_KERNEL)
LANESCOPE_EACH_COMBINING_KERNEL(TEST_COMBINE)
