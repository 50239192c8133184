#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "debug/simt/numerics.h"

namespace lanescope::ptx {

/// The name of the environment variable by which `lanescope exec` tells the machine's runtime, in a
/// program that knows of neither, how it is to run and where to write what it finds.
inline constexpr const char* exec_variable = "LANESCOPE_EXEC";

/// What that variable says: numbers and a path, with spaces between.
struct ExecWish {
  int workers = 0;
  std::uint64_t schedule = 0;
  double timeout_seconds = 30;  ///< that a block may take
  const simt::RuleSet* rules = &simt::hopper;
  bool speaks = true;     ///< of findings on stderr, when they are found
  bool accesses = false;  ///< tells what accesses to memory cost
  /// Bytes of the n-th allocation, counted from 1, whose way is told (ptx/slice.h); 0: none.
  std::int64_t slice_of = 0;
  std::uint64_t slice_offset = 0, slice_bytes = 0;
  std::string file;  ///< takes a line per event

  std::string text() const {
    return std::to_string(workers) + " " + std::to_string(schedule) + " " +
           std::to_string(timeout_seconds) + " " + rules->name + " " + (speaks ? "1" : "0") + " " +
           (accesses ? "1" : "0") + " " + std::to_string(slice_of) + " " +
           std::to_string(slice_offset) + " " + std::to_string(slice_bytes) + " " + file;
  }
  /// Nothing where `text` is no such text.
  static std::optional<ExecWish> parse(const std::string& text);
};

/// The events that a line of the file begins with.
enum class ExecEvent : char {
  module = 'm',    ///< a module was loaded
  clean = 'c',     ///< a launch in which nothing was found
  infinite = 'i',  ///< the same, but it made a NaN or stored an infinity
  finding = 'f',   ///< one in which something was; behind it the launch as JSON
  work = 'w',      ///< behind it what launches have cost so far: instructions, CPU seconds
  refused = 'r',   ///< the same where the machine does not execute the kernel
};

}  // namespace lanescope::ptx
