#pragma once

#include <map>
#include <string>

#include "gates/build/module_file.h"
#include "gates/sweep/result.h"

namespace lanescope {

/// Runs cells one after the other, in a process that may come to harm by that; the modules that it
/// has opened stay open.
class CellRunner {
 public:
  explicit CellRunner(double timeout_seconds) : timeout_seconds_(timeout_seconds) {}

  /// Runs and judges a cell in this thread; the kernel in a child, as `diff` and `check` do.
  /// `sweep`, `index` and `build` are left to the caller. Throws EnvironmentError where the machine
  /// lacks something, MismatchError where the module is of other sources than those at hand.
  CellResult run(const Cell& cell);

 private:
  const ModuleFile& module(const Cell& cell);
  void compare(const Cell& cell, CellResult& result);
  void check(const Cell& cell, CellResult& result);

  double timeout_seconds_;
  std::map<std::string, ModuleFile> modules_;
};

}  // namespace lanescope
