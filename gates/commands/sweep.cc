#include "gates/sweep/sweep.h"

#include <signal.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <span>

#include "debug/dump/file.h"
#include "debug/report/suggested_command.h"
#include "gates/build/this_build.h"
#include "gates/commands/command.h"
#include "gates/commands/log.h"
#include "gates/commands/shared_options.h"
#include "gates/run/run_options.h"
#include "gates/sweep/page.h"

namespace lanescope {
namespace {

struct SweepCommand {
  SweepOptions sweep;
  std::vector<std::string> what;     ///< KERNEL [GATE...]
  std::vector<std::string> results;  ///< files, instead of a sweep
  std::string baseline;
  bool bits = false;
  std::string batch, build;  ///< of engines
  bool plan = false;
  std::string dask;  ///< a scheduler's address
};

/// Of cells, or failures: of none it would say that none fails.
std::string check_count(const std::string& text) {
  std::int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && count > 0 ? "" : "'" + text + "' is no whole number from 1 to 2^63 - 1";
}

std::string check_results_path(const std::string& text) {
  if (!text.ends_with(".jsonl") && !text.ends_with(".html")) {
    return "'" + text + "' does not end in .jsonl, or with --report in .html";
  }
  const std::filesystem::path folder = std::filesystem::path(text).parent_path();
  std::error_code error;
  if (folder.empty() || std::filesystem::is_directory(folder, error)) return {};
  return "there is no folder " + folder.string();
}

/// "3,5..9" as its numbers.
std::vector<std::int64_t> parse_indices(const std::string& text) {
  std::vector<std::int64_t> indices;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const Range range = parse_range(text.substr(begin, end - begin), "--batch");
    for (std::int64_t i = range.begin; i < range.end; ++i) indices.push_back(i);
    begin = end + 1;
  }
  return indices;
}

ExitCode say(SweepReport report, const SweepCommand& command, const Output& output) {
  if (!command.baseline.empty()) {
    compare_with(read_results({command.baseline}), command.bits, report);
  }
  const std::string text =
      output.json ? sweep_json(report) + "\n" : sweep_text(report, output.style);
  std::fputs(text.c_str(), stdout);
  return report.holds() ? ExitCode::ok : ExitCode::diverged;
}

ExitCode report_on(const SweepCommand& command, const Output& output) {
  SweepReport report;
  report.results = read_results(command.results);
  if (report.results.empty()) throw UsageError("sweep --report: there are no results in the files");
  summarise(report);
  if (!command.sweep.output.empty()) {
    if (!command.sweep.output.ends_with(".html")) {
      throw UsageError("sweep --report: -o names a page, x.html; results are put together by cat");
    }
    const std::string html = sweep_page(report);
    NewFile page(command.sweep.output);
    page.write(std::as_bytes(std::span(html)));
    page.complete();
    log::info(command.sweep.output + ": " + std::to_string(report.results.size()) + " cells");
  }
  return say(std::move(report), command, output);
}

/// What an engine has to know.
ExitCode say_plan(const SweepOptions& options, const SweepPlan& plan) {
  std::vector<Cell> cells;
  for (const std::int64_t index : plan.indices) {
    cells.push_back(draw_cell(plan.draw, static_cast<std::uint64_t>(index)));
  }
  build_modules_of(cells);
  const Json json = {
      {"sweep", plan.id}, {"build", plan.build}, {"runs", options.runs}, {"indices", plan.indices}};
  std::puts(document_text(json).c_str());
  return ExitCode::ok;
}

/// Becomes the engine that has the workers of a Dask scheduler run the cells, and then this program
/// again, with `arguments` but for --dask.
[[noreturn]] void become_dask(const SweepCommand& command,
                              const std::vector<std::string>& arguments) {
  if (command.sweep.output.empty()) {
    throw UsageError("sweep: --dask needs -o: the results go to a file");
  }
  const char* moved = std::getenv("LANESCOPE_SOURCES");
  const std::string script =
      (moved && *moved ? moved : this_build::source_root()) + "/gates/sweep/dask_sweep.py";
  if (!std::filesystem::exists(script)) {
    throw EnvironmentError("sweep: --dask needs " + script +
                           ", of the sources: LANESCOPE_SOURCES "
                           "names where they are");
  }
  std::vector<std::string> words = {
      "python3", script, command.dask, program_file(), command.sweep.output, "--"};
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--dask") {
      ++i;
    } else if (!arguments[i].starts_with("--dask=")) {
      words.push_back(arguments[i]);
    }
  }
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  throw EnvironmentError("sweep: --dask needs python3: it cannot be started");
}

ExitCode run_sweep(const SweepCommand& command, const std::vector<std::string>& arguments,
                   const Output& output) {
  if (command.bits && command.baseline.empty()) {
    throw UsageError("sweep: --bits compares with the results that --baseline names");
  }
  if (!command.results.empty()) {
    if (!command.what.empty()) {
      throw UsageError("sweep --report: it reads results, and runs no " + command.what.front());
    }
    return report_on(command, output);
  }
  if (command.what.empty()) {
    throw UsageError(
        "sweep: which kernel? A name, `all`, or a module (.so), then gates; or "
        "--report with results");
  }
  if (command.sweep.output.ends_with(".html")) {
    throw UsageError(
        "sweep: -o names the results, x.jsonl; --report x.jsonl -o x.html makes a page");
  }
  // Before the cells, which may run for hours.
  if (!command.baseline.empty()) read_results({command.baseline});
  SweepOptions options = command.sweep;
  options.kernel = command.what.front();
  options.gates.assign(command.what.begin() + 1, command.what.end());
  if (!command.dask.empty()) become_dask(command, arguments);
  const SweepPlan plan = plan_sweep(options);
  if (!command.build.empty() && command.build != plan.build) {
    throw MismatchError("this program and its kernels are another build: " + plan.build +
                        ", wanted " + command.build);
  }
  if (command.plan) return say_plan(options, plan);
  if (!command.batch.empty()) {
    run_batch(options, plan, parse_indices(command.batch));
    return ExitCode::ok;
  }
  SweepReport report = sweep(options, plan);
  const bool interrupted = report.interrupted;
  const ExitCode code = say(std::move(report), command, output);
  if (interrupted) {
    std::fflush(stdout);
    signal(SIGINT, SIG_DFL);
    raise(SIGINT);  // so that what called it knows
  }
  return code;
}

}  // namespace

Action sweep_command(Options& options) {
  const auto command = std::make_shared<SweepCommand>();
  SweepOptions& sweep = command->sweep;
  std::vector<std::string> words = declared_kernels();
  words.emplace_back("all");
  for (const std::string& gate : gate_names()) words.push_back(gate);
  options.add("what", command->what, "KERNEL, `all` or a module (.so); then gates [fused]")
      .suggest(words, ".so");
  options.add("--over", sweep.over,
              "what cells are drawn from: s=1..300,skv=s..2000,causal,dtype=*,tile=* (also b, h, "
              "hkv, d, splits, input) [all of that]");
  options.add("--runs", sweep.runs, "how many cells [500]").check(check_count);
  options.add("--seed", sweep.seed, "of the cells that are drawn [0]");
  options.add("--backend", sweep.backend, "auto (cuda where a device answers), sim, cuda or both")
      .suggest({"auto", "sim", "cuda", "both"});
  options.add("--specimen", sweep.specimen, "plant a known bug: see `lanescope list`");
  options.add("--check", sweep.checked_percent, "percent of the cells on sim under the checker [5]")
      .between(0, 100);
  options
      .add("-o,--output", sweep.output,
           "a line of JSON per cell: x.jsonl; there it goes on (--report: a page, x.html)")
      .check(check_results_path)
      .suggest({}, ".jsonl");
  options.add("--minutes", sweep.minutes, "end after so many").between(0.001, 1e6);
  options.add("--failures", sweep.failures, "end after so many failing cells").check(check_count);
  options.add("--shard", sweep.shard, "the part of one of several machines: 1/8, 2/8, ...");
  options
      .add("--timeout", sweep.timeout_seconds, "seconds that a kernel may take to end a block [10]")
      .between(0.1, 1e6);
  options.add("--workers", sweep.workers, "processes [one per core]").between(0, 1024);
  options.add("--report", command->results, "say what these results hold together, run nothing")
      .suggest({}, ".jsonl");
  options.add("--baseline", command->baseline, "fail only where these results did not")
      .suggest({}, ".jsonl");
  options.add_flag("--bits", command->bits,
                   "fail where outputs are not those of --baseline either");
  options.add_flag("--plan", command->plan, "for engines: build, and say which cells as JSON");
  options.add("--batch", command->batch, "for engines: run cells 3,5..9, results to stdout");
  options.add("--build", command->build, "for engines: refuse to be another build than this");
  options.add("--dask", command->dask,
              "a Dask scheduler, tcp://HOST:8786, whose workers run the cells");
  return [command, &options](const Output& output) {
    return run_sweep(*command, options.arguments(), output);
  };
}

}  // namespace lanescope
