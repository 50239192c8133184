#include "debug/judge/stopped_lanes.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <sstream>

namespace lanescope {

bool StoppedLanes::in_warp() const {
  constexpr std::array names = {"shfl.", "vote.", "match.", "redux.", "bar.warp."};
  const bool has_mask = call.find(", mask ") != call.npos;  // of who has to come
  const bool is_named =
      std::ranges::any_of(names, [&](const char* name) { return call.starts_with(name); });
  return !runs && (has_mask || is_named);
}

double StoppedLanes::share_come() const {
  int come = 0, all = 0;
  const std::size_t at = call.find(" for barrier ");
  const bool is_known =
      at != call.npos &&
      std::sscanf(call.c_str() + at, " for barrier %*d: %d of %d threads", &come, &all) == 2;
  return is_known && all > 0 ? static_cast<double>(come) / all : 1;
}

std::optional<StoppedLanes> stopped_lanes_of(const std::string& line) {
  StoppedLanes lanes;
  if (std::sscanf(line.c_str(), " warps %d-%d", &lanes.first_warp, &lanes.last_warp) < 2) {
    if (std::sscanf(line.c_str(), " warp %d", &lanes.first_warp) < 1) return std::nullopt;
    lanes.last_warp = lanes.first_warp;
  }
  for (const std::string words : {" wait in ", " run in "}) {
    const std::size_t at = line.find(words);
    if (at == line.npos) continue;
    lanes.runs = words == " run in ";
    lanes.call = line.substr(at + words.size());
    return lanes;
  }
  return std::nullopt;
}

std::vector<StoppedLanes> stopped_lanes(const std::string& story) {
  std::vector<StoppedLanes> all;
  std::istringstream lines(story);
  for (std::string line; std::getline(lines, line);) {
    if (const auto lanes = stopped_lanes_of(line)) all.push_back(*lanes);
  }
  return all;
}

std::int64_t block_of_deadlock(const std::string& story) {
  std::istringstream lines(story);
  for (std::string line; std::getline(lines, line);) {
    long long block = -1;
    const bool names = line.find(": deadlock") != line.npos &&
                       std::sscanf(line.c_str(), "block %lld", &block) == 1;
    if (names) return block;
  }
  return -1;
}

}  // namespace lanescope
