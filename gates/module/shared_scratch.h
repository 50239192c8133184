#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "gates/module/launch_words.h"
#include "gates/module/ptx_launch.h"

namespace lanescope {

/// A word that stands for a whole number of a magnitude up to `most`; else an error.
double whole_number(const std::string& text, const LaunchWords& words, double most);

/// The memory of a run's launches, which they may share by a name.
class SharedScratch {
 public:
  explicit SharedScratch(const PtxLaunch::Allocate& allocate) : allocate_(allocate) {}

  /// With what lies at `from`, if that is given. Throws UsageError where there is no memory.
  std::uint64_t of_bytes(double bytes, const void* from = nullptr);
  /// "bytes", or "name, bytes".
  std::uint64_t of_words(std::string_view inside, const LaunchWords& words);

 private:
  struct Named {
    std::uint64_t at;
    double bytes;
  };
  const PtxLaunch::Allocate& allocate_;
  std::map<std::string, Named> named_;
};

}  // namespace lanescope
