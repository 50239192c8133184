#include "gates/run/locate_memory.h"

#include <algorithm>
#include <string>
#include <utility>

#include "gates/run/check.h"
#include "reference/error.h"

namespace lanescope {
namespace {

/// Nobody wrote what is read of a tile; yet the tile was whole where the stage got it: it reads
/// another one.
void blame_reader(const Location& location, Diagnosis& memory) {
  const std::optional<Divergence>& wrong = location.diagnosis->first;
  if (memory.cause != Cause::uninitialised_read || !memory.first || !wrong) return;
  if (memory.first->stage != Stage::load || wrong->stage == Stage::load) return;
  memory.first = wrong;
  memory.cause = Cause::stale_operand;
  memory.certain = false;
  memory.evidence.insert(memory.evidence.begin(),
                         std::string(name_of(wrong->stage)) +
                             " got its tiles whole, yet it reads one that nobody wrote: it "
                             "takes another buffer than the one that was filled");
}

/// Whether what is read at a place has rows that a wrong stride could miss: a value per row has
/// not.
bool has_stride(const CheckReport& report, const std::optional<Divergence>& at) {
  return !at || std::none_of(report.sites.begin(), report.sites.end(), [&](const Site& site) {
    return site.id == at->site && site.cols == 1;
  });
}

/// The tile was whole where the stage got it, and by its values the stage takes another one: that
/// it races with who fills that one follows.
bool takes_other_buffer(const Diagnosis& memory, const Diagnosis& values) {
  const bool of_operand = memory.first && values.first && memory.first->stage == Stage::load &&
                          values.first->stage != Stage::load;
  return of_operand && values.cause == Cause::stale_operand && values.predicts && values.sure() &&
         (memory.cause == Cause::race || memory.cause == Cause::missing_wait);
}

}  // namespace

bool check_memory(const Probe& probe, Location& location) {
  RunOptions options = probe.options;
  options.backend = "sim";
  CheckReport report;
  try {
    report = check_kernel(options);
  } catch (const UsageError& error) {
    if (is_module_path(location.kernel)) {
      if (location.diagnosis) {
        location.diagnosis->evidence.push_back(
            std::string("the memory checker was not asked: ") + error.what() +
            "; what nvcc compiles it runs, other kernels with -Dextra_kernels=");
      }
      return false;
    }
    if (probe.about == as_given) throw;
    return false;  // the kernel is not built for such a problem
  }
  const std::string text = options_text(probe.options, report.problem);
  location.runs.push_back({text, probe.about + ", memory checker", report.clean(), true});
  if (report.clean()) {
    if (location.diagnosis) refute_unwritten_reads(*location.diagnosis);
    return false;
  }
  std::optional<SiteId> wrong;
  if (location.diagnosis && location.diagnosis->first) {
    wrong = location.diagnosis->first->site;
  }
  Diagnosis memory = diagnose(report, wrong);
  if (!location.diagnosis) {
    location.diagnosis = std::move(memory);
    location.options = text;
    return true;
  }
  Diagnosis& values = *location.diagnosis;
  blame_reader(location, memory);
  if (values.by_end && memory.cause == values.cause) {
    // How the run ended shows that it happened, the checker who did it where.
    memory.evidence.insert(memory.evidence.end(), values.evidence.begin(), values.evidence.end());
    values = std::move(memory);
    return true;
  }
  if (values.cause == Cause::crash) {
    values.evidence.push_back(std::string("under the memory checker: ") + name_of(memory.cause));
    for (const std::string& line : memory.evidence) values.evidence.push_back("  " + line);
    return false;
  }
  const bool upstream =
      !memory.first || !values.first || feeds(memory.first->site, values.first->site);
  // What is read in the wrong place may be what nobody wrote: that follows from it.
  const bool follows = memory.cause == Cause::uninitialised_read &&
                       ((values.predicts && values.sure()) ||
                        (values.cause == Cause::wrong_stride && has_stride(report, memory.first)));
  if (memory.cause == values.cause || !upstream || follows || takes_other_buffer(memory, values)) {
    values.evidence.push_back(std::string("the memory checker finds ") + name_of(memory.cause) +
                              ": " + memory.evidence.front());
    return false;
  }
  if (values.first) {
    const Divergence& at = *values.first;
    memory.evidence.push_back(std::string("so values differ from ") + name_of(at.stage) + " / " +
                              name_of(at.site) +
                              (at.tile < 0 ? "" : ", tile " + std::to_string(at.tile)) +
                              ", on; by values alone: " + name_of(values.cause) +
                              (values.sure() ? "" : " (not certain)"));
  }
  location.diagnosis = std::move(memory);
  location.options = text;
  return true;
}

void doubt_trace(bool outputs_right, Diagnosis& values) {
  const bool unfinished =
      values.cause == Cause::never_written || values.cause == Cause::stale_value;
  if (!unfinished || !values.first || values.first->stage != Stage::load || !outputs_right) {
    return;
  }
  values.certain = false;
  values.evidence.push_back(std::string("the outputs are right and the memory checker finds ") +
                            "nothing: the trace point of " + name_of(values.first->site) +
                            " may come before the barrier that completes the tile");
}

}  // namespace lanescope
