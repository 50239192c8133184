#include "gates/run/lane_order.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "gates/run/launch.h"

namespace lanescope {
namespace {

/// Values that differ by more than what sums in another order are off by.
std::int64_t far_apart(const Tensor& a, const Tensor& b) {
  double largest = 0;
  for (std::int64_t i = 0; i < a.size(); ++i) largest = std::fmax(largest, std::abs(a.at(i)));
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < a.size(); ++i) {
    count += a.bits(i) != b.bits(i) && !(std::abs(a.at(i) - b.at(i)) <= 0x1p-6 * largest);
  }
  return count;
}

/// O as the SIMT machine leaves it where the lanes come in another order than that of `options` by
/// so much; nothing where the run breaks off.
std::optional<Tensor> outputs_in_order(RunOptions options, std::uint64_t more) {
  options.backend = "sim";
  options.schedule += more;
  const PreparedRun run = prepare(options);
  const Dump dump = launch(*run.module, run.module_name, run.request);
  return dump.info.broke_off() ? std::nullopt : std::optional(*dump.find("o_final"));
}

}  // namespace

bool depends_on_order(const RunOptions& options) {
  const std::optional<Tensor> usual = outputs_in_order(options, 0);
  for (std::uint64_t more = 1; more < 3; ++more) {
    const std::optional<Tensor> other = outputs_in_order(options, more);
    if (!usual || !other || far_apart(*usual, *other) > 0) return true;
  }
  return false;
}

void check_order(const RunOptions& failed, Location& location) {
  const bool checked = std::any_of(location.runs.begin(), location.runs.end(),
                                   [](const LocateRun& run) { return run.checked; });
  if (checked || location.backend != "sim") return;
  const std::optional<Tensor> usual = outputs_in_order(failed, 0);
  for (std::uint64_t more = 1; usual && more < 4; ++more) {
    const std::optional<Tensor> other = outputs_in_order(failed, more);
    const std::int64_t count = other ? far_apart(*usual, *other) : 0;
    if (count == 0) continue;
    Diagnosis& diagnosis = *location.diagnosis;
    diagnosis.suspects.clear();
    diagnosis.rivals.clear();
    diagnosis.cause = Cause::race;
    diagnosis.certain = true;
    const bool shows_outputs_alone = std::ranges::all_of(location.shown, is_output);
    if (diagnosis.first && shows_outputs_alone) diagnosis.stage_certain = false;
    diagnosis.evidence.insert(diagnosis.evidence.begin(),
                              {std::to_string(count) + " values of O are others with --schedule " +
                                   std::to_string(failed.schedule + more) +
                                   ": they depend on the order in which lanes come to memory",
                               "a barrier is missing, or two lanes write to one place"});
    if (shows_outputs_alone) {
      diagnosis.evidence.push_back("of which stage that is, outputs alone do not say");
    }
    return;
  }
}

}  // namespace lanescope
