#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "debug/dump/dump.h"
#include "debug/simt/numerics.h"
#include "gates/build/module_file.h"

namespace lanescope {

namespace ptx {
struct Lookout;
}

inline constexpr double default_timeout_seconds = 30;

/// An element of the output whose way is wanted, and a file that takes it (gates/run/slice.h).
struct SliceRequest {
  std::int64_t element;
  int file;
};

/// What to run a module on.
struct RunRequest {
  Problem problem;
  Inputs inputs;                 ///< empty: generated, once the run is known to fit
  std::string input = "random";  ///< the kind, or the path of the file, that the inputs come from
  std::uint64_t seed = 0;
  std::optional<std::int64_t> splits;  ///< of the keys; chosen where not given
  /// What to trace; all where not given.
  std::optional<Range> blocks, tiles, warps, lanes;
  int threads = 0;                   ///< of this machine, 0: one per core
  std::uint64_t schedule = 0;        ///< sim: 0, or the seed of another order of the lanes
  simt::Checker* checker = nullptr;  ///< sim: told of the buffers, gathers what it finds
  const simt::RuleSet* rules = &simt::hopper;  ///< sim: what it rounds like
  ModuleTiming* timing = nullptr;              ///< cuda: the run is repeated, and this filled
  /// How long the kernel may take to end a block (sim) or to end (cuda).
  double timeout_seconds = default_timeout_seconds;
  std::optional<SliceRequest> slice;  ///< of a kernel that runs as PTX
  ptx::Lookout* lookout = nullptr;    ///< likewise; where its rows lie is filled in
  /// The text of a module built with -Dtrace=printf; nullptr: nowhere.
  std::FILE* printed_to = stdout;
};

/// Runs the module's kernel once, in a process of its own, and collects what it leaves and what was
/// traced. Text of a module built with -Dtrace=printf comes sorted. A kernel that breaks a rule of
/// its backend, crashes or does not end gives a dump of what it wrote until then, which says so in
/// `incomplete` and `stop`. Throws UsageError where the request does not fit the
/// module, EnvironmentError where the machine lacks a device or memory.
Dump launch(const Module& module, const std::string& module_name, const RunRequest& request);

}  // namespace lanescope
