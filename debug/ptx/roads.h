#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "debug/ptx/program.h"

namespace lanescope::ptx {

/// Names of ways that numbers came; 0 is that of what lies where the host put it.
using RoadId = std::uint32_t;

/// The instructions by which numbers came to where they are: the one that made it, or none of what
/// the host put there, and those that stored and loaded it since.
class Roads {
 public:
  struct Stop {
    const Program* program;
    std::uint32_t instruction;
    RoadId before;
    int length;
  };

  /// `before`, and on by an instruction.
  RoadId on(RoadId before, const Program* program, std::uint32_t instruction) {
    const Origin origin{before, program, instruction};
    if (origin == last_) return last_road_;
    // What goes round and round needs no more stops.
    constexpr int longest = 6;
    const int length = stops_[before].length;
    if (length == longest) return before;
    const auto [at, is_new] = known_.try_emplace(origin, static_cast<RoadId>(stops_.size()));
    if (is_new) stops_.push_back({program, instruction, before, length + 1});
    last_ = origin;
    return last_road_ = at->second;
  }

  /// The last stop of one that has some.
  const Stop& last(RoadId road) const { return stops_[road]; }
  /// The first stop first.
  std::vector<Stop> stops(RoadId road) const {
    std::vector<Stop> all;
    for (; road != 0; road = stops_[road].before) all.insert(all.begin(), stops_[road]);
    return all;
  }

 private:
  using Origin = std::tuple<RoadId, const Program*, std::uint32_t>;
  std::map<Origin, RoadId> known_;
  Origin last_{};
  RoadId last_road_ = 0;
  std::vector<Stop> stops_{Stop{nullptr, 0, 0, 0}};
};

}  // namespace lanescope::ptx
