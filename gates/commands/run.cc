#include <cstdio>
#include <memory>

#include "debug/judge/last_sites.h"
#include "debug/report/suggested_command.h"
#include "debug/text/json.h"
#include "gates/commands/command.h"
#include "gates/commands/log.h"
#include "gates/commands/shared_options.h"

namespace lanescope {
namespace {

struct DumpedRun {
  RunOptions run;
  std::string path;  ///< of the dump, empty: none
};

/// What a run left, for programs.
Json run_json(const DumpInfo& info, const std::string& path) {
  return {{"kernel", info.kernel},
          {"gate", info.gate},
          {"backend", info.backend},
          {"device", info.device},
          {"module", info.module},
          {"shape", shape_json(info.problem)},
          {"dump", path.empty() ? Json() : Json(path)},
          {"blocks", info.blocks.count()},
          {"tiles", info.tiles.count()},
          {"sites", info.sites.size()},
          {"incomplete", info.incomplete},
          {"stop", name_of(info.stop.kind)}};
}

ExitCode run_and_dump(const RunOptions& options, const std::string& path, const Output& output) {
  PreparedRun run = prepare(options);
  if (output.json) run.request.printed_to = stderr;  // stdout is one JSON object
  for (const std::string& warning : run.warnings) log::warn(warning);
  const bool prints = std::string_view(run.module->trace) == "printf";
  if (!run.trace_note.empty() && !path.empty()) log::warn(run.trace_note);
  if (path.empty() && !prints) {
    throw UsageError("run: where to? -o x.safetensors names the dump");
  }
  log::debug(run.module_name + ": " + shape_option(run.request.problem) + ", input " +
             run.request.input);
  const Dump dump = launch(*run.module, run.module_name, run.request);
  if (!path.empty()) {
    write_dump(dump, path);
    log::info(path + ": " + std::to_string(dump.info.blocks.count()) + " blocks, " +
              std::to_string(dump.info.tiles.count()) + " tiles, " +
              std::to_string(dump.info.sites.size()) + " sites");
  }
  if (output.json) std::puts(document_text(run_json(dump.info, path)).c_str());
  if (dump.info.incomplete.empty()) return ExitCode::ok;
  log::error(run.module_name + ": " + dump.info.incomplete);
  if (!dump.info.broke_off()) return ExitCode::diverged;
  log::info("last site reached:");
  for (const std::string& line : last_site_lines(last_sites(dump))) log::info("  " + line);
  return ExitCode::diverged;
}

}  // namespace

Action run_command(Options& options) {
  const auto given = std::make_shared<DumpedRun>();
  add_kernel(options, given->run.kernel);
  add_gate(options, given->run.gate).required();
  options.add("-o,--output", given->path, "the dump: x.safetensors")
      .check(check_dump_path)
      .suggest({}, ".safetensors");
  add_run_options(options, given->run);
  return [given](const Output& output) { return run_and_dump(given->run, given->path, output); };
}

}  // namespace lanescope
