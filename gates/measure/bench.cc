#include "gates/measure/bench.h"

#include <algorithm>

#include "debug/dump/dump.h"
#include "debug/judge/diff.h"
#include "debug/report/suggested_command.h"
#include "gates/build/module_build.h"
#include "reference/error.h"

namespace lanescope {
namespace {

constexpr std::int64_t row_tiles_judged = 8;

bool is_file(const std::string& input) { return input.ends_with(".safetensors"); }

void demand_cuda_modules(const std::string& backend) {
  if (backend != "auto" && backend != "cuda") {
    throw UsageError("bench times a GPU: there is no --backend " + backend + " to time");
  }
  const std::vector<std::string> built = declared_backends();
  if (std::find(built.begin(), built.end(), "cuda") == built.end()) choose_backend("cuda");
}

void demand_device() {
  if (cuda_device_answers()) return;
  throw EnvironmentError(
      "bench times a GPU, and no CUDA device answers (driver missing or no GPU)");
}

/// The modules that the options ask for, of inputs in `dtype` with `d` columns.
std::vector<ModuleName> modules_of(const RunOptions& options, std::optional<ElementType> dtype,
                                   std::int64_t d) {
  return choose_tiles({options.kernel, parse_gate(options.gate), dtype, d,
                       parse_tile(options.tile_shape), "cuda", true, false});
}

std::vector<ModuleName> modules_of(const RunOptions& options) {
  if (is_file(options.input)) {
    const PreparedRun run = prepare(options);
    return modules_of(options, run.module->dtype, run.request.problem.d);
  }
  std::optional<ElementType> dtype;
  if (!options.dtype.empty()) dtype = parse_dtype(options.dtype);
  return modules_of(options, dtype, parse_shape(options.preset, options.shape, options.causal).d);
}

/// Every preset, or `mission`, with every shape put over it.
std::vector<RunOptions> problems_of(const BenchOptions& options) {
  std::vector<std::string> presets = options.presets, shapes = options.shapes;
  const bool chosen = !shapes.empty() || is_file(options.run.input);
  if (presets.empty()) presets.push_back(chosen ? "" : "mission");
  if (shapes.empty()) shapes.emplace_back();
  std::vector<RunOptions> problems;
  for (const std::string& preset : presets) {
    for (const std::string& shape : shapes) {
      problems.push_back(options.run);
      problems.back().preset = preset;
      problems.back().shape = shape;
      problems.back().backend = "cuda";
      problems.back().untraced = true;
    }
  }
  return problems;
}

/// The options of the runs on one problem: one for each tile; their modules are built.
std::vector<RunOptions> runs_of(const RunOptions& problem) {
  if (is_module_path(problem.kernel)) return {problem};
  std::vector<RunOptions> runs;
  std::vector<std::string> modules;
  for (const ModuleName& name : modules_of(problem)) {
    runs.push_back(problem);
    runs.back().tile_shape = tile_text(name.br, name.bc);
    modules.push_back(name.text());
  }
  build_modules(modules);
  return runs;
}

/// "o_final of batch 0, head 1, query 2, column 3 is 4, should be 5 ± 0.1".
std::string value_text(const Divergence& at) {
  std::string text = name_of(at.site);
  const char* separator = " of ";
  const auto add = [&](const char* name, std::int64_t value) {
    if (value < 0) return;
    text += separator + std::string(name) + " " + std::to_string(value);
    separator = ", ";
  };
  add("batch", at.batch);
  add("head", at.head);
  add("query", at.query);
  add("key", at.key);
  if (at.site == SiteId::o_final) add("column", at.col);
  return text + (at.unwritten ? " was never written" : " is " + number_text(at.got, 7)) +
         ", should be " + number_text(at.want, 7) + " ± " + number_text(at.bound, 2);
}

/// Why what a run left is not right; empty: it is.
std::string fault_of(const Dump& dump, int threads, BenchResult& result) {
  if (!dump.info.incomplete.empty()) return dump.info.incomplete;
  const std::vector<std::int64_t> row_tiles = spread(dump.info.row_tiles(), row_tiles_judged);
  const DiffReport diff = diff_row_tiles(dump, row_tiles, threads);
  result.row_tiles_judged = std::ssize(row_tiles);
  result.row_tiles = dump.info.row_tiles();
  if (diff.match) return "";
  if (diff.unsettled) return "of some values no bound says anything: judge it on smaller inputs";
  return "it diverges from the reference" + (diff.first ? ": " + value_text(*diff.first) : "");
}

std::string diff_command(const RunOptions& options, const Problem& problem) {
  std::string text = program_name() + " diff " + options.kernel + " " + options.gate;
  if (!is_file(options.input)) text += " --shape " + shape_option(problem);
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) text += std::string(" --") + name + " " + value;
  };
  add("dtype", options.dtype);
  add("tile-shape", options.tile_shape);
  add("input", options.input == "random" ? "" : options.input);
  add("seed", options.seed == 0 ? "" : std::to_string(options.seed));
  add("splits", options.splits ? std::to_string(*options.splits) : "");
  return text + (problem.causal ? " --causal" : "") + " --backend cuda --untraced";
}

}  // namespace

TimeSummary summarise(std::span<const float> samples) {
  std::vector<float> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  const std::size_t n = sorted.size();
  return {(sorted[(n - 1) / 2] + sorted[n / 2]) / 2, sorted[0], sorted[(9 * n + 9) / 10 - 1]};
}

std::vector<std::int64_t> spread(std::int64_t count, std::int64_t most) {
  std::vector<std::int64_t> chosen;
  const std::int64_t wanted = std::min(count, most);
  for (std::int64_t i = 0; i < wanted; ++i) {
    chosen.push_back(wanted == 1 ? 0 : i * (count - 1) / (wanted - 1));
  }
  return chosen;
}

bool left_same_bits(const Dump& a, const Dump& b) {
  return std::equal(a.tensors.begin(), a.tensors.end(), b.tensors.begin(), b.tensors.end(),
                    [](const Dump::Entry& x, const Dump::Entry& y) {
                      return x.name == y.name && x.tensor.bytes == y.tensor.bytes;
                    });
}

bool BenchReport::all_right() const {
  return std::all_of(results.begin(), results.end(),
                     [](const BenchResult& result) { return result.is_right(); });
}

BenchResult bench_one(const RunOptions& options, int repeats, Inputs& inputs,
                      std::vector<std::string>& warnings) {
  PreparedRun run = prepare(options);
  if (inputs.q.dims.empty()) {
    warnings.insert(warnings.end(), run.warnings.begin(), run.warnings.end());
  }
  RunRequest& request = run.request;
  if (!inputs.q.dims.empty()) request.inputs = std::move(inputs);
  const Dump first = launch(*run.module, run.module_name, request);
  request.inputs = inputs_of(first);

  const DumpInfo& info = first.info;
  BenchResult result;
  result.module = run.module_name;
  result.tile = tile_text(info.br, info.bc);
  result.problem = info.problem;
  result.dtype = info.dtype;
  result.input = info.input;
  result.seed = info.seed;
  result.products = info.products;
  result.splits = info.splits;
  result.device = info.device;
  result.arch = info.arch;
  if (run.module->gate == Gate::fused) result.work = work_of(info.problem, info.dtype);
  result.diff_command = diff_command(options, info.problem);
  result.fault = fault_of(first, options.threads, result);
  if (result.is_right()) {
    ModuleTiming timing{};
    timing.samples = repeats;
    request.timing = &timing;
    request.timeout_seconds *= repeats + 2;  // as long for each sample as for a run
    const Dump last = launch(*run.module, run.module_name, request);
    if (!last.info.incomplete.empty()) {
      result.fault = last.info.incomplete;
    } else if (!left_same_bits(first, last)) {
      result.fault = "it does not leave the same bits launched again and again";
    } else {
      result.launches = timing.launches;
      result.samples = timing.samples;
      result.time = summarise({timing.microseconds, static_cast<std::size_t>(timing.samples)});
      result.l2_bytes = timing.device.l2_bytes;
      result.rates = rates_of(timing.device, info.arch, info.products);
    }
  }
  inputs = std::move(request.inputs);
  return result;
}

BenchReport bench(const BenchOptions& options) {
  BenchReport report;
  report.kernel = options.run.kernel;
  report.gate = options.run.gate;
  const std::vector<RunOptions> problems = problems_of(options);
  // Mistakes are told before what the machine lacks.
  demand_cuda_modules(options.run.backend);
  for (const RunOptions& problem : problems) {
    if (!is_module_path(problem.kernel) && !is_file(problem.input)) modules_of(problem);
  }
  demand_device();
  for (const RunOptions& problem : problems) {
    Inputs inputs;
    for (const RunOptions& run : runs_of(problem)) {
      report.results.push_back(bench_one(run, options.repeats, inputs, report.warnings));
    }
  }
  return report;
}

}  // namespace lanescope
