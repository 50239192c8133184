#include <spdlog/spdlog.h>

#include <cstdio>

#include "debug/commands.h"
#include "debug/last_sites.h"
#include "gates/commands.h"

namespace lanescope {

ExitCode run_command(const RunOptions& options, const std::string& path, const Output&) {
  const PreparedRun run = prepare(options);
  for (const std::string& warning : run.warnings) spdlog::warn("{}", warning);
  const bool prints = std::string_view(run.module->trace) == "printf";
  if (path.empty() && !prints) {
    throw UsageError("run: where to? -o x.safetensors names the dump");
  }
  spdlog::debug("{}: {}, input {}", run.module_name, shape_option(run.request.problem),
                run.request.input);
  const Dump dump = launch(*run.module, run.module_name, run.request);
  if (!path.empty()) {
    write_dump(dump, path);
    spdlog::info("{}: {} blocks, {} tiles, {} sites", path, dump.info.blocks.count(),
                 dump.info.tiles.count(), dump.info.sites.size());
  }
  if (dump.info.incomplete.empty()) return ExitCode::ok;
  spdlog::error("{}: {}", run.module_name, dump.info.incomplete);
  spdlog::info("last site reached:");
  for (const std::string& line : last_site_lines(last_sites(dump))) spdlog::info("  {}", line);
  return ExitCode::diverged;
}

}  // namespace lanescope
