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

/// A kernel given as PTX, and how it is launched on a problem (gates/module/launch_description.h).
class PtxLaunch {
 public:
  using Sides = std::array<std::uint32_t, 3>;
  /// What a launch takes: the bits of each argument.
  struct Values {
    Sides grid, block;
    std::size_t shared = 0;  ///< bytes of dynamic shared memory
    std::vector<std::uint64_t> arguments;
  };
  /// Memory of the device, which the kernel may use in this launch; nullptr: there is none.
  using Allocate = std::function<void*(std::size_t bytes)>;

  /// Reads the files. Throws UsageError with what is wrong with them.
  explicit PtxLaunch(const std::string& path);

  const std::string& path() const { return path_; }
  const LaunchDescription& description() const { return description_; }
  const char* name() const { return name_.c_str(); }
  const ptx::Module& module() const { return module_; }
  /// The module, once.
  ptx::Module take_module() { return std::move(module_); }
  /// Throws UsageError where the kernel does not take such a problem.
  Values values(const PlainRun& r, const Allocate& scratch) const;

 private:
  std::string path_;
  ptx::Module module_;
  LaunchDescription description_;
  std::string name_;  ///< of the kernel, for people
  Sides threads_{};   ///< that the PTX asks for
  std::vector<ptx::Variable> parameters_;
};

}  // namespace lanescope
