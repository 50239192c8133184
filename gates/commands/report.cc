#include "debug/report/report.h"

#include <cstdio>
#include <memory>
#include <optional>
#include <span>

#include "debug/dump/file.h"
#include "debug/judge/by_value.h"
#include "debug/page/page.h"
#include "debug/text/json.h"
#include "gates/commands/command.h"
#include "gates/commands/fresh_dump.h"
#include "gates/commands/log.h"
#include "gates/commands/shared_options.h"

namespace lanescope {
namespace {

struct ReportOptions {
  std::vector<std::string> dumps;  ///< one, or two to compare
  std::string output;              ///< the page
  std::string block, tile;         ///< "3" or "0..3"; empty: as many as may be
  int threads = 0;
  bool stale_ok = false;
};

std::optional<Range> range_of(const std::string& text, const char* option) {
  return text.empty() ? std::nullopt : std::optional(parse_range(text, option));
}

ExitCode run_report(const ReportOptions& options, const Output& output) {
  if (options.dumps.size() > 2) throw UsageError("report: give one dump, or two to compare");
  std::vector<Dump> dumps;
  for (const std::string& path : options.dumps) {
    dumps.push_back(read_fresh_dump(path, options.stale_ok));
  }
  if (dumps.size() == 2) demand_same_run(dumps[0].info, dumps[1].info);
  PageContent content =
      page_content(dumps[0], {range_of(options.block, "--block"), range_of(options.tile, "--tile")},
                   options.threads);
  content.report.unchecked = unchecked_claims(dumps[0].info);
  const NamedDump a{dumps[0], options.dumps[0]};
  std::optional<OtherDump> b;
  if (dumps.size() == 2) {
    b.emplace(OtherDump{{dumps[1], options.dumps[1]}, diff_dumps(dumps[0], dumps[1])});
  }
  const std::string html = page_html(a, content, b ? &*b : nullptr);
  NewFile page(options.output);
  page.write(std::as_bytes(std::span(html)));
  page.complete();
  const std::string verdict = verdict_of(content.report);
  const char* bits = !b ? nullptr : same_bits(b->bits) ? "match" : "diverged";
  log::info(options.output + ": " + std::to_string(content.blocks.size()) + " of " +
            std::to_string(dumps[0].info.block_count()) + " blocks judged, " +
            (!b ? verdict
                : options.dumps[0] + " against the reference: " + verdict +
                      "; the two dumps: " + (same_bits(b->bits) ? "the same bits" : "different")));
  if (output.json) {
    const Json json = {{"page", options.output},
                       {"blocks", dumps[0].info.block_count()},
                       {"blocks_judged", content.blocks.size()},
                       {"verdict", verdict},
                       {"bits", bits ? Json(bits) : Json()}};
    std::puts(document_text(json).c_str());
  }
  return ExitCode::ok;
}

}  // namespace

Action report_command(Options& options) {
  const auto given = std::make_shared<ReportOptions>();
  options.add("dumps", given->dumps, "x.safetensors, or two to compare")
      .required()
      .suggest({}, ".safetensors");
  options.add("-o,--output", given->output, "the page: x.html")
      .required()
      .check(check_page_path)
      .suggest({}, ".html");
  options.add("--block", given->block, "judge only these: 3 or 0..3, ends included");
  options.add("--tile", given->tile, "keep only these");
  add_threads(options, given->threads);
  options.add_flag("--stale-ok", given->stale_ok,
                   "judge a dump although the sources have changed since");
  return [given](const Output& output) { return run_report(*given, output); };
}

}  // namespace lanescope
