// Where a block's lanes are, and what they wait for, in words.

#include <algorithm>
#include <string>
#include <vector>

#include "debug/ptx/block.h"
#include "debug/ptx/warp.h"
#include "debug/simt/describe.h"

namespace lanescope::ptx {

/// Of a warp that has exited without coming to a barrier that waits for so many threads: where it
/// came to such a one last.
std::string Block::describe_absent(const Barrier& barrier) const {
  for (const auto& warp : warps_) {
    const auto index = static_cast<std::size_t>(warp->index());
    const bool came = std::ranges::any_of(barrier.arrivals, [&](const Barrier::Arrival& arrival) {
      return arrival.warp == warp->index();
    });
    if (barrier.expected == 0 || warp->alive() != 0 || came || !last_arrivals_[index]) continue;
    return "; warp " + std::to_string(index) + " has exited, which came before by " +
           program_.describe(*last_arrivals_[index]);
  }
  return {};
}

/// What the lanes of a split do, and of what they wait for how far it has come.
std::string Block::describe_split(const Split& split) const {
  const bool runs = split.state == Split::State::ready;
  std::string text = " lanes " + simt::describe_lanes(split.mask) +
                     (runs ? " run in " : " wait in ") + program_.describe(split.pc);
  // A loop's branch, or a count of it, is of the stage that stands before.
  std::uint32_t at = split.pc;
  while (runs && at > 0 && program_.stage_of(at).empty()) --at;
  if (at != split.pc) text += program_.stage_of(at);
  if (split.state == Split::State::polls && split.waits_for) {
    text += " for " + split.waits_for->story();
  }
  if (split.state == Split::State::at_barrier) {
    const Barrier& barrier = barriers_[static_cast<std::size_t>(split.barrier)];
    text += " for barrier " + std::to_string(split.barrier) + ": " +
            std::to_string(barrier.arrived) + " of " +
            std::to_string(barrier.expected != 0 ? barrier.expected : alive()) +
            " threads have come" + describe_absent(barrier);
  }
  return text;
}

/// One line per place where lanes are; warps in a row that are at one are told together.
std::string Block::describe_places() const {
  struct Line {
    int first, last;
    std::string text;
  };
  std::vector<Line> lines;
  for (const auto& warp : warps_) {
    for (const Split& split : warp->splits()) {
      const std::string text = describe_split(split);
      const int index = warp->index();
      if (!lines.empty() && lines.back().text == text && lines.back().last == index - 1) {
        lines.back().last = index;
      } else {
        lines.push_back({index, index, text});
      }
    }
  }
  constexpr std::size_t most = 16;
  std::string all;
  for (std::size_t i = 0; i < std::min(lines.size(), most); ++i) {
    const auto& [first, last, text] = lines[i];
    all += first == last ? "\n  warp " + std::to_string(first)
                         : "\n  warps " + std::to_string(first) + "-" + std::to_string(last);
    all += text;
  }
  return lines.size() > most ? all + "\n  ..." : all;
}

}  // namespace lanescope::ptx
