#pragma once

#include <cstdio>
#include <string>

namespace lanescope {

/// Takes what a kernel's process prints, to give it out in the order of its labels: block, tile,
/// site, warp, lane, register or row and column.
class PrintedTrace {
 public:
  /// Throws EnvironmentError where no temporary file can be had.
  PrintedTrace();
  ~PrintedTrace();
  PrintedTrace(const PrintedTrace&) = delete;
  PrintedTrace& operator=(const PrintedTrace&) = delete;

  /// Where the process writes.
  std::FILE* file() const { return file_; }
  /// Prints the sorted lines to `out`.
  void finish(std::FILE* out);

 private:
  std::FILE* file_;
};

}  // namespace lanescope
