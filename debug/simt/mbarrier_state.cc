// What an mbarrier tells of its phases (PTX ISA, "mbarrier").

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "debug/simt/async_block.h"
#include "debug/simt/describe.h"

namespace lanescope::simt {
namespace {

/// "thread 256 at kernels/wgmma.h:80"
std::string who_came(const std::vector<Arrival>& arrivals) {
  return (arrivals.size() > 1 ? "threads " : "thread ") + threads_text(arrivals) + " at " +
         describe(arrivals.back().here);
}

/// Those of `before` who are not in `now`.
std::vector<Arrival> missing(const std::vector<Arrival>& before, const std::vector<Arrival>& now) {
  std::vector<Arrival> rest;
  for (const Arrival& b : before) {
    const auto same = [&](const Arrival& a) { return a.thread == b.thread; };
    if (std::none_of(now.begin(), now.end(), same)) rest.push_back(b);
  }
  return rest;
}

}  // namespace

std::string threads_text(const std::vector<Arrival>& arrivals) {
  std::set<int> threads;
  for (const Arrival& a : arrivals) threads.insert(a.thread);
  std::string text;
  for (auto t = threads.begin(); t != threads.end();) {
    const int first = *t;
    int last = first;
    while (++t != threads.end() && *t == last + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(first) +
            (last > first ? "-" + std::to_string(last) : "");
  }
  return text;
}

bool MbarrierState::has_arrival_of(const Caller& caller) const {
  const auto is_same = [&](const Arrival& a) {
    return a.thread == caller.thread && describe(a.here) == describe(caller.here);
  };
  return std::any_of(arrived.begin(), arrived.end(), is_same) ||
         std::any_of(arrived_before.begin(), arrived_before.end(), is_same);
}

std::uint32_t MbarrierState::phases_known(const Clocks& clocks, int thread) const {
  const Past past = clocks.past(thread);
  std::uint32_t known = phase;
  for (auto each = phases.rbegin(); each != phases.rend(); ++each, --known) {
    if (past.holds(epoch_of(agent, known))) return known;
    const bool came = std::all_of(each->arrivals.begin(), each->arrivals.end(),
                                  [&](Epoch e) { return past.holds(e); });
    if (came && !each->arrivals.empty()) return known;
  }
  return known;
}

std::optional<std::pair<int, MbarrierState::Heed>> MbarrierState::overtaken(
    const std::vector<WarpProducts>& issued) const {
  if (has_outsiders || !senders.empty()) return std::nullopt;
  const auto is_known = [&](int thread, const Heed& heed) {
    const auto index = static_cast<std::size_t>(thread);
    return index < current.seen.size() && clock_of(heed.epoch) <= current.seen[index];
  };
  for (const auto& entry : heeded) {
    const int thread = entry.first;
    const Heed& heed = entry.second;
    if (heed.phases + 1 != phase) continue;
    const bool multiplied = issued[static_cast<std::size_t>(thread / 32)].issued > heed.products;
    const int together = multiplied ? 128 : 32;
    const auto first = heeded.lower_bound(thread / together * together);
    const auto last = heeded.lower_bound((thread / together + 1) * together);
    const bool goes_on = std::any_of(first, last, [&](const auto& other) {
      return other.second.phases == heed.phases && is_known(other.first, other.second);
    });
    if (!goes_on) return std::pair(thread, heed);
  }
  return std::nullopt;
}

std::string MbarrierState::story_of_unheeded() const {
  const std::string text = "; nobody waited for its last " + std::to_string(unheeded()) + " phases";
  if (std::ranges::any_of(arrived_before, &Arrival::in_vain)) {
    return text + ": the last wait of who arrives passed by a phase that is over";
  }
  // Of more than are counted, some complete one phase, and others the next one.
  if (threads_text(arrived_before) == threads_text(arrived_earlier)) {
    return text + ", in which the same threads arrive: they come too early, or more than once";
  }
  return text + ": more arrive than it counts";
}

std::string MbarrierState::story() const {
  std::string text = name + ": of its phase " + std::to_string(phase) + " (parity " +
                     std::to_string(phase & 1) + ") " + std::to_string(count - pending) + " of " +
                     std::to_string(count) + " arrivals";
  if (expected != 0 || bytes != 0) {
    text += " and " + std::to_string(expected - bytes) + " of " + std::to_string(expected) +
            " expected bytes";
  }
  text += " have come";
  if (!arrived.empty()) text += ": " + who_came(arrived);
  if (const auto rest = missing(arrived_before, arrived); !rest.empty() && pending > 0) {
    text += "; in the phase before also " + who_came(rest);
  }
  // Who waits sees each phase complete before the next one can.
  if (unheeded() > 1) {
    text += story_of_unheeded();
  } else if (unheeded() == 1 && !waiting.empty() && pending == count) {
    text += "; nobody waited for its phase " + std::to_string(phase - 1) + ", which is over";
  }
  return text;
}

}  // namespace lanescope::simt
