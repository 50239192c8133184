#include <spdlog/spdlog.h>

#include <cstdio>

#include "debug/commands.h"
#include "debug/diff.h"
#include "debug/report.h"
#include "gates/commands.h"
#include "reference/arithmetic.h"

namespace lanescope {
namespace {

bool is_dump(const std::string& text) { return text.ends_with(".safetensors"); }

ExitCode judge(const Dump& dump, const std::string& path, int threads, const Output& output) {
  const DiffReport report = diff_against_reference(dump, threads);
  const std::string text =
      output.json ? diff_json(dump.info, report) : diff_text(dump, report, output.style, path);
  std::fputs(text.c_str(), stdout);
  if (output.json) std::fputc('\n', stdout);
  return report.match ? ExitCode::ok : ExitCode::diverged;
}

/// Dumps of devices that round in different ways differ where nothing is wrong.
void warn_of_other_rules(const DumpInfo& a, const DumpInfo& b) {
  if (a.products != Products::tensor_core || b.products != Products::tensor_core) return;
  using reference::Accumulation;
  if (Accumulation::tensor_core(a.arch) == Accumulation::tensor_core(b.arch)) return;
  spdlog::warn(
      "the dumps follow different rounding rules of matrix products: a {} ({}), b {} ({}); bits "
      "may "
      "differ where both are right. sim rounds like either with --arch (`calibrate` says which)",
      a.device, a.arch, b.device, b.arch);
}

ExitCode diff_two(const std::string& a_path, const std::string& b_path, const Output& output) {
  const Dump a = read_dump(a_path), b = read_dump(b_path);
  warn_of_other_rules(a.info, b.info);
  const std::vector<BitReport> reports = diff_dumps(a, b);
  const std::string text = output.json ? bits_json(a.info, b.info, reports) + "\n"
                                       : bits_text(a, b, reports, output.style);
  std::fputs(text.c_str(), stdout);
  return same_bits(reports) ? ExitCode::ok : ExitCode::diverged;
}

}  // namespace

void check_fresh(const Dump& dump, const std::string& path) {
  demand_fresh("what made " + path, dump.info.kernel, dump.info.source_hash,
               "Run it again, or judge it all the same with --stale-ok");
}

ExitCode diff_command(DiffOptions options, const Output& output) {
  const std::vector<std::string>& what = options.what;
  if (is_dump(what[0]) && !options.for_runs.empty()) {
    throw UsageError("diff: " + options.for_runs[0] +
                     " says how to run a kernel, and a dump has been run: leave it out, or give "
                     "KERNEL GATE");
  }
  if (what.size() == 1 && is_dump(what[0])) {
    const Dump dump = read_dump(what[0]);
    if (!options.run.stale_ok) check_fresh(dump, what[0]);
    return judge(dump, what[0], options.run.threads, output);
  }
  if (what.size() == 2 && is_dump(what[0]) && is_dump(what[1])) {
    return diff_two(what[0], what[1], output);
  }
  if (what.size() != 2 || is_dump(what[0]) || is_dump(what[1])) {
    throw UsageError("diff: give KERNEL GATE, one dump, or two dumps (.safetensors)");
  }
  options.run.kernel = what[0];
  options.run.gate = what[1];
  PreparedRun run = prepare(options.run);
  if (output.json) run.request.printed_to = stderr;  // stdout is one JSON object
  for (const std::string& warning : run.warnings) spdlog::warn("{}", warning);
  spdlog::debug("{}: {}, input {}", run.module_name, shape_option(run.request.problem),
                run.request.input);
  const Dump dump = launch(*run.module, run.module_name, run.request);
  if (!options.output.empty()) write_dump(dump, options.output);
  return judge(dump, options.output, options.run.threads, output);
}

}  // namespace lanescope
