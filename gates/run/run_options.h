#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "gates/build/module_catalogue.h"
#include "gates/run/launch.h"

namespace lanescope {

/// What the command line says about one run, as it was given.
struct RunOptions {
  std::string kernel;  ///< a name, or the path of a module (.so, .ptx)
  std::string gate;
  std::string specimen;  ///< a bug to plant into the kernel, empty: none
  std::string backend = "auto";
  std::string preset;
  std::string shape;       ///< "b=1,h=8,hkv=2,s=512,skv=1024,d=64"
  std::string tile_shape;  ///< "64x32"
  std::string dtype;
  std::string input = "random";
  std::string layout = "bhsd";
  std::string where;  ///< "block=0,tile=0..3,warp=1,lane=4..7", ends included
  std::uint64_t seed = 0;
  std::optional<std::int64_t> splits;
  bool causal = false;
  bool untraced = false;
  bool checked = false;        ///< for the memory checker
  bool strict = false;         ///< another recurrence is a fault, though its outputs are right
  bool stale_ok = false;       ///< also a module or dump of other sources than those at hand
  std::uint64_t schedule = 0;  ///< sim: 0, or the seed of another order of the lanes
  std::string arch;            ///< sim: whose rounding rules, empty: Hopper's
  int threads = 0;
  std::optional<double> timeout_seconds;  ///< not given: what suits the command
};

/// `preset` (default: debug) with the sides that `shape` gives put over it. Throws UsageError that
/// names what it does not understand.
Problem parse_shape(const std::string& preset, const std::string& shape, bool causal);

/// "3" or "0..3", the end included. Throws UsageError that begins with `what`.
Range parse_range(const std::string& text, const std::string& what);

/// "64x32" as Br and Bc; nothing where it is empty. Throws UsageError where it is no tile.
std::optional<std::pair<int, int>> parse_tile(const std::string& text);

/// The rule set of that name. Throws UsageError, listing them, where there is none.
const simt::RuleSet& parse_rules(const std::string& name);

/// A run that can be launched: its module, opened, and its request.
struct PreparedRun {
  std::string module_name;
  ModuleFile module;
  RunRequest request;
  std::vector<std::string> warnings;  ///< of reading the input file
  /// What the build is set to and how that is undone, where its traced modules keep no values;
  /// empty: they do, or the module was given by its path.
  std::string trace_note;
};

/// Reads or generates the inputs, chooses the module and opens it (building it where the launcher
/// runs the program). Throws Error.
PreparedRun prepare(const RunOptions& options);

}  // namespace lanescope
