#include "gates/sweep/run_cell.h"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <ctime>

#include "debug/judge/diff.h"
#include "gates/build/module_build.h"
#include "gates/build/this_build.h"
#include "gates/run/check.h"
#include "gates/run/launch.h"
#include "reference/error.h"

namespace lanescope {
namespace {

constexpr std::size_t longest_detail = 400;  // bytes

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

/// "2024-05-01T12:00:00Z".
std::string time_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

/// Of this process and of those that it started and that have ended.
double cpu_seconds() {
  double seconds = 0;
  for (const auto who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    getrusage(who, &usage);
    for (const timeval& time : {usage.ru_utime, usage.ru_stime}) {
      seconds += static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    }
  }
  return seconds;
}

Outcome outcome_of(Stop::Kind stop) {
  return stop == Stop::Kind::crash   ? Outcome::crash
         : stop == Stop::Kind::hang  ? Outcome::hang
         : stop == Stop::Kind::stray ? Outcome::stray
                                     : Outcome::rule;
}

/// Of what the gate leaves. Source: Fowler, Noll, Vo; draft-eastlake-fnv, 64 bits, eight bytes at a
/// time.
std::string bits_of(const Dump& dump) {
  const Gate gate = parse_gate(dump.info.gate);
  std::uint64_t hash = 0xcbf29ce484222325;
  for (int i = 0; i < site_id_count; ++i) {
    const auto id = static_cast<SiteId>(i);
    const Tensor* tensor = dump.find(name_of(id));
    if (!tensor || !(leaves(gate, id) || (stores_outputs(gate) && is_output(id)))) continue;
    const auto* bytes = reinterpret_cast<const unsigned char*>(tensor->bytes.data());
    for (std::size_t at = 0; at < tensor->bytes.size(); ++at) {
      hash = (hash ^ bytes[at]) * 0x100000001b3;
    }
  }
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

std::string place_text(const Divergence& at) {
  std::string text = "got " + (at.unwritten ? "nothing" : number_text(at.got, 6)) + ", want " +
                     number_text(at.want, 6) + " +- " + number_text(at.bound, 2);
  const auto add = [&](const char* name, std::int64_t value) {
    if (value >= 0) text += std::string(", ") + name + " " + std::to_string(value);
  };
  add("block", at.block);
  add("tile", at.tile);
  add("row", at.row);
  add("column", at.col);
  return text;
}

std::string first_line(const std::string& text) {
  return without_controls(text.substr(0, text.find('\n'))).substr(0, longest_detail);
}

}  // namespace

const ModuleFile& CellRunner::module(const Cell& cell) {
  const std::string name = cell.is_module_path() ? cell.kernel : module_of(cell).text();
  const auto known = modules_.find(name);
  if (known != modules_.end()) return known->second;
  ModuleFile file = cell.is_module_path()
                        ? open_module_at(cell.kernel, false, cell.backend == "sim")
                        : open_built_module(module_of(cell));
  return modules_.emplace(name, std::move(file)).first->second;
}

void CellRunner::compare(const Cell& cell, CellResult& result) {
  const ModuleFile& file = module(cell);
  RunRequest request;
  request.problem = cell.problem;
  request.input = cell.input;
  request.seed = cell.seed;
  if (cell.splits > 0) request.splits = cell.splits;
  request.threads = 1;
  request.timeout_seconds = timeout_seconds_;
  request.printed_to = nullptr;
  const std::string name = cell.is_module_path() ? cell.kernel : module_of(cell).text();
  const Dump dump = launch(*file, name, request);
  result.source_hash = dump.info.source_hash;
  result.compile_flags = dump.info.compile_flags;
  result.device = dump.info.device;
  const DiffReport report = diff_against_reference(dump, 1);
  for (const SiteReport& site : report.sites) {
    double& error = result.errors[name_of(site.site)];
    // A NaN stays.
    if (!(site.max_error_over_bound <= error)) error = site.max_error_over_bound;
  }
  result.outcome = report.holds()     ? Outcome::match
                   : report.unsettled ? Outcome::unsettled
                                      : Outcome::diverged;
  if (report.first) {
    result.stage = name_of(report.first->stage);
    result.site = name_of(report.first->site);
    result.tile_index = report.first->tile;
    result.detail = place_text(*report.first);
  }
  if (dump.info.incomplete.empty()) {
    result.bits = bits_of(dump);
    return;
  }
  result.outcome = outcome_of(dump.info.stop.kind);
  result.detail = first_line(dump.info.incomplete);
}

void CellRunner::check(const Cell& cell, CellResult& result) {
  RunOptions options = options_of(cell);
  options.threads = 1;
  options.timeout_seconds = timeout_seconds_;
  const CheckReport report = check_kernel(options);
  result.source_hash = module(cell)->source_hash;
  result.compile_flags = module(cell)->compile_flags;
  result.device = "sim, memory checker";
  if (report.clean()) return;
  if (!report.fault.empty()) {
    result.outcome = outcome_of(report.stop);
    result.detail = first_line(report.fault);
    return;
  }
  const CheckReport::Item& item = report.items.front();
  result.outcome = Outcome::finding;
  result.site = name_of(item.finding.kind);
  result.detail = first_line(item.region + " " + item.element + " " + item.access_line);
}

CellResult CellRunner::run(const Cell& cell) {
  CellResult result;
  result.cell = cell;
  result.version = this_build::version();
  result.host = host_name();
  result.time = time_text();
  const double cpu_begin = cpu_seconds();
  const auto begin = std::chrono::steady_clock::now();
  try {
    cell.checked ? check(cell, result) : compare(cell, result);
  } catch (const UsageError& error) {
    result.outcome = Outcome::refused;
    result.detail = first_line(error.what());
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  result.cpu_seconds = cpu_seconds() - cpu_begin;
  return result;
}

}  // namespace lanescope
