#include "gates/run/locate_memory.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "debug/dump/dump.h"
#include "debug/report/suggested_command.h"
#include "gates/run/check.h"
#include "gates/run/lane_order.h"
#include "gates/run/launch.h"
#include "gates/run/memory_beside_values.h"
#include "gates/run/options_text.h"
#include "reference/error.h"

namespace lanescope {
namespace {

void say_once(std::vector<std::string>& said, const std::string& line) {
  if (std::find(said.begin(), said.end(), line) == said.end()) said.push_back(line);
}

/// What the memory checker says of the probe; nothing where it cannot be asked, which is said of a
/// kernel of the user's.
std::optional<CheckReport> ask_checker(const Probe& probe, Location& location) {
  RunOptions options = probe.options;
  options.backend = "sim";
  try {
    return check_kernel(options);
  } catch (const UsageError& error) {
    const bool taken = std::ranges::any_of(
        location.runs, [&](const LocateRun& run) { return run.about == probe.about; });
    if (is_module_path(location.kernel) && !taken) return std::nullopt;  // it refuses the problem
    if (is_module_path(location.kernel)) {
      const std::string line = std::string("the memory checker was not asked: ") + error.what() +
                               "; what nvcc compiles it runs, other kernels with -Dextra_kernels=";
      if (location.diagnosis) say_once(location.diagnosis->evidence, line);
      return std::nullopt;
    }
    if (probe.about == as_given) throw;
    return std::nullopt;  // the kernel is not built for such a problem
  } catch (const EnvironmentError& error) {
    if (location.runs.empty()) throw;
    location.not_tried.push_back(probe.about + ", memory checker: " + error.what());
    return std::nullopt;
  }
}

/// The memory checker on the problem of `report` with as many queries as fill its last block;
/// nothing where they do, or the kernel takes no such problem.
std::optional<CheckReport> ask_with_whole_blocks(const Probe& probe, const CheckReport& report,
                                                 Location& location) {
  RunOptions options = probe.options;
  options.backend = "sim";
  if (options.input.ends_with(".safetensors")) return std::nullopt;
  try {
    const int br = prepare(options).module->br;
    Problem problem = report.problem;
    if (problem.len_q % br == 0) return std::nullopt;
    problem.len_q += br - problem.len_q % br;
    options.preset.clear();
    options.shape = shape_option(problem);
    const CheckReport whole = check_kernel(options);
    location.runs.push_back({options_text(options, whole.problem),
                             "all rows of the last block, memory checker", whole.clean(), true});
    return whole;
  } catch (const UsageError&) {
    return std::nullopt;
  }
}

/// What is wrong first where the SIMT machine runs the probe: on a GPU, what nobody wrote may be
/// any number.
Diagnosis values_on_machine(RunOptions options) {
  options.backend = "sim";
  const PreparedRun run = prepare(options);
  Diagnosis values;
  values.first =
      diff_against_reference(launch(*run.module, run.module_name, run.request), options.threads)
          .first;
  return values;
}

/// An access that a GPU does not let pass.
bool is_of_access(Cause cause) {
  return cause == Cause::out_of_bounds || cause == Cause::misaligned;
}

/// Whether the SIMT machine computes the same with it and without: a fence, or the end of a copy
/// that nobody waits for.
bool is_order_alone(Cause cause) {
  return cause == Cause::missing_proxy_fence || cause == Cause::missing_register_fence ||
         cause == Cause::unfenced_barrier || cause == Cause::unfinished_copy;
}

/// Where values are wrong on the SIMT machine, that is a fault besides.
bool is_besides(const Probe& probe, const Diagnosis& memory, Location& location) {
  const Diagnosis& values = *location.diagnosis;
  if (!is_order_alone(memory.cause) || values.by_end) return false;
  const bool on_machine = location.backend == "sim";
  if (on_machine ? !values.first : !values_on_machine(probe.options).first) return false;
  const bool known = std::ranges::any_of(
      location.others, [&](const Diagnosis& other) { return other.cause == memory.cause; });
  if (!known) location.others.push_back(memory);
  return true;
}

/// Whether the run came to its end and read nothing from memory that nobody wrote.
bool reads_what_is_there(const CheckReport& report) {
  return report.fault.empty() &&
         std::ranges::none_of(report.items, [](const CheckReport::Item& item) {
           const simt::Kind kind = item.finding.kind;
           return kind == simt::Kind::uninitialised_read || kind == simt::Kind::out_of_bounds;
         });
}

void note(const Probe& probe, const std::string& text, bool clean, Location& location) {
  location.runs.push_back({text, probe.about + ", memory checker", clean, true});
}

}  // namespace

void note_clean(const Probe& probe, Location& location) {
  note(probe, options_text(probe.options), true, location);
}

bool check_memory(const Probe& probe, Location& location) {
  std::optional<CheckReport> report = ask_checker(probe, location);
  if (!report) return false;
  if (!location.diagnosis) {
    std::erase_if(report->items,
                  [](const CheckReport::Item& item) { return is_of_layout(item.finding.kind); });
  }
  const std::string text = options_text(probe.options, report->problem);
  note(probe, text, report->clean(), location);
  // What is no number where all is right is nothing's cause.
  if (location.diagnosis && location.first_nan.empty()) {
    location.first_nan = report->notes;
    location.nan = report->nan;
  }
  if (!location.unfenced_read) location.unfenced_read = report->unfenced_read;
  if (report->clean()) {
    if (location.diagnosis) refute_unwritten_reads(*location.diagnosis);
    return false;
  }
  std::optional<SiteId> wrong;
  if (location.diagnosis && location.diagnosis->first) {
    wrong = location.diagnosis->first->site;
  }
  Diagnosis memory = diagnose(*report, wrong);
  if (location.diagnosis && reads_what_is_there(*report)) {
    refute_unwritten_reads(*location.diagnosis);
  }
  if (may_be_unfilled(memory)) {
    const std::optional<CheckReport> whole = ask_with_whole_blocks(probe, *report, location);
    settle_unfilled(whole ? &*whole : nullptr, memory);
  }
  if (location.diagnosis) {
    Diagnosis& values = *location.diagnosis;
    blame_reader(location, memory);
    blame_descriptor(location, memory);
    if (location.backend == "sim") {
      doubt_unwritten_read(values, memory);
    } else {
      doubt_unwritten_read(values_on_machine(probe.options), memory);
    }
    take_as_unwritten(values, memory);
    take_as_left_out(values, memory);
    // A GPU says no more than that it was a crash, or a hang.
    const bool on_gpu = location.backend == "cuda";
    // Of a kernel with gates, they tell which stage strays; a misaligned access crashes where it
    // is.
    const bool is_fault = values.cause == Cause::crash && is_of_access(memory.cause) &&
                          (is_module_path(location.kernel) || memory.cause == Cause::misaligned);
    if (values.by_end && (memory.cause == values.cause || on_gpu || is_fault)) {
      // How the run ended shows that it happened, the checker who did it where.
      for (const std::string& line : values.evidence) say_once(memory.evidence, line);
      if (!memory.first && !on_gpu) {
        memory.first = values.first;
        const bool has_stage = !memory.memory.empty() && memory.memory.front().stage;
        if (memory.first && has_stage) memory.first->stage = *memory.memory.front().stage;
      }
      if (memory.first && memory.end_stage) memory.first->stage = *memory.end_stage;
      memory.by_end = true;
      if (memory.hidden_by_step) memory.certain = false;  // it may be another fault that ends it
      values = std::move(memory);
      return true;
    }
    if (values.cause == Cause::crash) {
      values.evidence.push_back(std::string("under the memory checker: ") + name_of(memory.cause));
      for (const std::string& line : memory.evidence) values.evidence.push_back("  " + line);
      return false;
    }
    if (is_besides(probe, memory, location)) return false;
    const auto by_order = [&] { return depends_on_order(probe.options); };
    if (adds_nothing(values, memory, *report, by_order)) {
      values.evidence.push_back(std::string("the memory checker finds ") + name_of(memory.cause) +
                                ": " + memory.evidence.front());
      if (memory.cause == Cause::uninitialised_read) location.unwritten_read = std::move(memory);
      return false;
    }
    tell_where_values_differ(values, *report, memory);
    if (memory.hidden_by_step) {
      if (!location.hidden_race) location.hidden_race = std::move(memory);
      return false;
    }
  }
  location.diagnosis = std::move(memory);
  location.options = text;
  return true;
}

void tell_unwritten_read(Location& location) {
  std::optional<Diagnosis>& read = location.unwritten_read;
  if (read && confirm_unwritten(*location.diagnosis, *read)) location.diagnosis = std::move(read);
}

void tell_hidden_race(Location& location) {
  if (!location.hidden_race || !location.diagnosis->memory.empty()) return;
  Diagnosis& values = *location.diagnosis;
  Diagnosis& race = *location.hidden_race;
  const bool says_nothing =
      values.cause == Cause::unexplained || row_of(values.cause).may_be_memory;
  if (values.certain || !says_nothing) {
    values.evidence.push_back(
        "the memory checker finds races within a warp, which do not explain it: " +
        race.evidence.front());
    return;
  }
  race.certain = false;
  race.evidence.insert(race.evidence.begin() + 1,
                       "yet they ran in step here, and values are wrong: it is not the "
                       "__syncwarp() alone. Where the two lines mean two arrays, these overlap");
  values = std::move(race);
}

void tell_gpu_alone(const RunOptions& failed, Location& location) {
  Diagnosis& values = *location.diagnosis;
  const bool of_values = values.memory.empty() && !values.by_end;
  if (location.backend != "cuda" || !of_values) return;
  try {
    if (values_on_machine(failed).first) return;
  } catch (const Error&) {
    return;  // a kernel that the machine does not take
  }
  values.evidence.emplace_back(
      "the SIMT machine is right here: the GPU alone is wrong, by what runs at once there or by "
      "the "
      "machine code that ptxas makes (cuobjdump -sass)");
  if (values.sure() || !location.unfenced_read) return;
  const CheckReport::Item& read = *location.unfenced_read;
  values.cause = Cause::missing_proxy_fence;
  values.certain = false;
  if (values.first) values.first->stage = Stage::load;
  values.memory = {read};
  values.evidence.insert(
      values.evidence.begin(),
      {"the SIMT machine lets a copy come behind all reads before it",
       std::string(explanation_of(read.finding)),
       "the copy is at " + read.access_line + ", the read at " + read.earlier_line});
}

}  // namespace lanescope
