#pragma once

#include <cstdio>
#include <string>

namespace lanescope {

/// Takes what is printed to stdout while it lives (device printf goes there too), to give it out in
/// the order of its labels: block, tile, site, warp, lane, register or row and column.
class PrintedTrace {
 public:
  /// Throws EnvironmentError where no temporary file can be had.
  PrintedTrace();
  ~PrintedTrace();
  PrintedTrace(const PrintedTrace&) = delete;
  PrintedTrace& operator=(const PrintedTrace&) = delete;

  /// Gives stdout back and prints the sorted lines to `out`.
  void finish(std::FILE* out);

 private:
  void give_back();

  std::FILE* file_ = nullptr;
  int stdout_ = -1;
};

}  // namespace lanescope
