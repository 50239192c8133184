#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "debug/ptx/program.h"

namespace lanescope::ptx {

/// Where a kernel computes the addresses, or coordinates, of what it loads or copies.
class AddressLines {
 public:
  explicit AddressLines(const Program& program);

  /// Lines behind which the operands of an instruction are made, other than its own: those of the
  /// last steps first.
  std::vector<std::string> of(std::uint32_t instruction) const;

 private:
  const Program& program_;
  std::multimap<Place, std::uint32_t> makers_;  ///< by a register: instructions that set it
};

}  // namespace lanescope::ptx
