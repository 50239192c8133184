#include "debug/judge/diff.h"

#include <cstdio>
#include <memory>

#include "debug/report/report.h"
#include "debug/report/suggested_command.h"
#include "debug/text/json.h"
#include "gates/commands/command.h"
#include "gates/commands/fresh_dump.h"
#include "gates/commands/log.h"
#include "gates/commands/shared_options.h"
#include "gates/run/slice.h"
#include "reference/arithmetic.h"

namespace lanescope {
namespace {

struct DiffOptions {
  std::vector<std::string> what;  ///< KERNEL GATE, one dump, or two dumps
  RunOptions run;
  std::string output;  ///< where to keep the dump, empty: nowhere
  bool slice = false;
};

bool is_dump(const std::string& text) { return text.ends_with(".safetensors"); }

/// `run`: to follow the first wrong output back by; nullptr: it is not wanted.
ExitCode judge(const Dump& dump, const std::string& path, bool from_file, const RunOptions& options,
               const Output& output, PreparedRun* run = nullptr) {
  DiffReport report = diff_against_reference(dump, options.threads);
  if (options.strict) report.recurrence.reset();
  if (from_file) report.unchecked = unchecked_claims(dump.info);
  std::string text =
      output.json ? diff_json(dump.info, report) : diff_text(dump, report, output.style, path);
  if (run && !report.holds()) {
    const OutputSlice slice = slice_output(*run, dump, report);
    if (output.json) {
      Json whole = *Json::parse(text);
      whole["slice"] = slice_json(slice);
      text = whole.dump();
    } else {
      text = slice_text(slice, output.style) + "\n" + text;  // the verdict is the last line
    }
  }
  std::fputs(text.c_str(), stdout);
  if (output.json) std::fputc('\n', stdout);
  return report.holds() ? ExitCode::ok : ExitCode::diverged;
}

/// Dumps of devices that round in different ways differ where nothing is wrong.
void warn_of_other_rules(const DumpInfo& a, const DumpInfo& b) {
  if (a.products == Products::fp32_fma || b.products == Products::fp32_fma) return;
  using reference::Accumulation;
  if (Accumulation::tensor_core(a.arch) == Accumulation::tensor_core(b.arch)) return;
  log::warn("the dumps follow different rounding rules of matrix products: a " + a.device + " (" +
            a.arch + "), b " + b.device + " (" + b.arch +
            "); bits may differ where both are right. sim rounds like either with --arch "
            "(`calibrate` says which)");
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

/// The first option of `given` that says how to run a kernel, which a dump has been through; empty
/// where there is none.
std::string option_for_runs(const std::vector<std::string>& given) {
  for (const std::string& name : given) {
    if (name != "what" && name != "--stale-ok" && name != "--strict" && name != "--threads")
      return name;
  }
  return {};
}

ExitCode diff_run(const DiffOptions& options, const Output& output) {
  RunOptions run_options = options.run;
  run_options.kernel = options.what[0];
  run_options.gate = options.what[1];
  PreparedRun run = prepare(run_options);
  run.request.printed_to = nullptr;  // the verdict would drown in it
  if (!run.trace_note.empty()) log::warn(run.trace_note);
  for (const std::string& warning : run.warnings) log::warn(warning);
  log::debug(run.module_name + ": " + shape_option(run.request.problem) + ", input " +
             run.request.input);
  const Dump dump = launch(*run.module, run.module_name, run.request);
  if (!options.output.empty()) write_dump(dump, options.output);
  const ExitCode code =
      judge(dump, options.output, false, options.run, output, options.slice ? &run : nullptr);
  if (code == ExitCode::ok) say_what_shows(dump.info.kernel);
  return code;
}

/// `given`: the names of the options that were given.
ExitCode run_diff(const DiffOptions& options, const std::vector<std::string>& given,
                  const Output& output) {
  const std::vector<std::string>& what = options.what;
  if (const std::string option = option_for_runs(given); is_dump(what[0]) && !option.empty()) {
    throw UsageError("diff: " + option +
                     " says how to run a kernel, and a dump has been run: leave it out, or give "
                     "KERNEL GATE");
  }
  if (what.size() == 1 && is_dump(what[0])) {
    return judge(read_fresh_dump(what[0], options.run.stale_ok), what[0], true, options.run,
                 output);
  }
  if (what.size() == 2 && is_dump(what[0]) && is_dump(what[1])) {
    return diff_two(what[0], what[1], output);
  }
  if (what.size() != 2 || is_dump(what[0]) || is_dump(what[1])) {
    throw UsageError("diff: give KERNEL GATE, one dump, or two dumps (.safetensors)");
  }
  return diff_run(options, output);
}

}  // namespace

Action diff_command(Options& options) {
  const auto diff = std::make_shared<DiffOptions>();
  std::vector<std::string> kernels_and_gates = declared_kernels();
  for (const std::string& gate : gate_names()) kernels_and_gates.push_back(gate);
  options.add("what", diff->what, "KERNEL GATE, or one dump, or two")
      .required()
      .suggest(kernels_and_gates, ".safetensors");
  options.add("-o,--output", diff->output, "keep the dump: x.safetensors")
      .check(check_dump_path)
      .suggest({}, ".safetensors");
  options.add_flag("--strict", diff->run.strict,
                   "another recurrence than the reference's diverges, though outputs are right");
  options.add_flag("--slice", diff->slice,
                   "follow the first wrong output back: lines, lanes, marked values (PTX on sim)");
  options.add_flag("--stale-ok", diff->run.stale_ok,
                   "judge a dump or a module (.so) although the sources have changed since");
  add_run_options(options, diff->run);
  return
      [diff, &options](const Output& output) { return run_diff(*diff, options.given(), output); };
}

}  // namespace lanescope
