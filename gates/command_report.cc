#include <spdlog/spdlog.h>

#include <algorithm>
#include <fstream>

#include "debug/page/page.h"
#include "gates/commands.h"

namespace lanescope {
namespace {

std::optional<Range> range_of(const std::string& text, const char* option) {
  return text.empty() ? std::nullopt : std::optional(parse_range(text, option));
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text << std::flush;
  if (!file) throw UsageError(path + " cannot be written");
}

}  // namespace

ExitCode report_command(const ReportOptions& options, const Output&) {
  if (options.dumps.size() > 2) throw UsageError("report: give one dump, or two to compare");
  std::vector<Dump> dumps;
  for (const std::string& path : options.dumps) {
    dumps.push_back(read_dump(path));
    if (!options.stale_ok) check_fresh(dumps.back(), path);
  }
  const PageContent content =
      page_content(dumps[0], {range_of(options.block, "--block"), range_of(options.tile, "--tile")},
                   options.threads);
  const NamedDump a{dumps[0], options.dumps[0]};
  const bool two = dumps.size() == 2;
  const NamedDump b{dumps.back(), options.dumps.back()};
  const std::string html = page_html(a, content, two ? &b : nullptr);
  write_file(options.output, html);
  spdlog::info("{}: {} of {} blocks judged, {}", options.output, content.blocks.size(),
               dumps[0].info.block_count(), content.report.match ? "match" : "diverged");
  return ExitCode::ok;
}

}  // namespace lanescope
