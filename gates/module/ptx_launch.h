#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "debug/ptx/syntax.h"
#include "gates/module/launch_description.h"
#include "gates/module/plain_kernel.h"

namespace lanescope {

/// Kernels given as PTX, and how they are launched on a problem, one after the other
/// (gates/module/launch_description.h).
class PtxLaunch {
 public:
  using Sides = std::array<std::uint32_t, 3>;
  /// What a launch takes: the bits of each argument.
  struct Values {
    Sides grid, block;
    std::size_t shared = 0;  ///< bytes of dynamic shared memory
    std::vector<std::uint64_t> arguments;
  };
  /// Memory of the device, which the kernels may use in this run, with what lies at `from`, if that
  /// is given; nullptr: there is none.
  using Allocate = std::function<void*(std::size_t bytes, const void* from)>;
  /// A launch of its own.
  struct Part {
    ptx::Module module;
    LaunchDescription::Launch how;
    Sides threads{};  ///< that the PTX asks for
    std::vector<ptx::Variable> parameters;
  };

  /// Reads the files. Throws UsageError with what is wrong with them.
  explicit PtxLaunch(const std::string& path);

  const std::string& path() const { return path_; }
  const LaunchDescription& description() const { return description_; }
  const char* name() const { return name_.c_str(); }
  const std::vector<Part>& parts() const { return parts_; }
  std::vector<Part>& parts() { return parts_; }
  /// Of each part. Throws UsageError where the kernels do not take such a problem.
  std::vector<Values> values(const PlainRun& r, const Allocate& allocate) const;

 private:
  std::string path_;
  LaunchDescription description_;
  std::vector<Part> parts_;
  std::string name_;  ///< of the kernels, for people
};

}  // namespace lanescope
