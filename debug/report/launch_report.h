#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "debug/causes/memory_findings.h"

namespace lanescope {

/// One launch of a kernel in a program of someone else, and what was found in it: its kernel, its
/// findings, and where it did not end, or begin, why.
struct LaunchReport {
  std::int64_t number = 0;  ///< from 1 on, in the order of the program
  std::array<std::uint32_t, 3> blocks{}, threads{};
  std::size_t dynamic_shared = 0;  ///< bytes
  CheckReport found;
  /// Where a NaN was made: the first, and the first infinity, "sub.f32 at x.cu:31 of inf and inf".
  std::vector<std::string> notes;

  bool clean() const { return found.clean(); }
};

/// "launch 3: attention<<<(4, 2, 1), (128, 1, 1), 4096>>>" and a paragraph per finding; those whose
/// lines are in `told` already are counted alone. Empty where there is nothing new to tell.
std::string launch_text(const LaunchReport& report, std::set<std::string>& told);
/// The same on one line.
std::string launch_json(const LaunchReport& report);

}  // namespace lanescope
