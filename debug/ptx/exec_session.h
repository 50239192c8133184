#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <set>
#include <string>

#include "debug/ptx/exec_wish.h"
#include "debug/ptx/machine.h"
#include "debug/ptx/runtime_entry.h"

namespace lanescope::ptx {

/// "attention<64>" of the mangled name of a kernel; any other as it is.
std::string readable_name(const std::string& name);

/// A program that runs under `lanescope exec`: every launch is checked, and what is found is told.
class ExecSession {
 public:
  /// Nothing where this process is no such program.
  static std::optional<ExecSession> open();

  RunSettings settings() const;
  /// The PTX beside the program, x.ptx beside x, whose markers say what stages its code is of;
  /// empty where there is none, or it has no markers.
  static std::string marked_ptx();
  bool tallies_accesses() const { return wish_.accesses; }
  bool follows_back() const { return wish_.slice_of != 0; }
  /// What is to be followed back, where it is allocated. Throws UsageError where it is smaller.
  std::optional<SliceWish> slice_in(GlobalMemory& memory) const;
  void note_module() { write(ExecEvent::module, {}); }
  /// What all launches so far have cost.
  void note_work(const Work& work);
  /// A launch has ended, or has not begun. `fault`: why not, where it did not; `program`: of a
  /// kernel that was decoded.
  void note_launch(const std::string& kernel, const Grid& grid, const simt::Checker& checker,
                   const Program* program, const std::string& fault, bool refused);

 private:
  explicit ExecSession(ExecWish wish) : wish_(std::move(wish)) {}
  void write(ExecEvent event, const std::string& text);

  ExecWish wish_;
  std::int64_t launches_ = 0;
  std::set<std::string> told_;
};

}  // namespace lanescope::ptx
