#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "gates/module_catalogue.h"

namespace lanescope::testing {

/// The kernels of the lab.
inline const std::vector<std::string> all_kernels = {"scalar", "mma", "wmma", "wmma_registers",
                                                     "splitk"};

/// The gates that this build declares modules of for a kernel, a specimen's included.
inline std::vector<Gate> gates_of(const std::string& kernel) {
  std::vector<Gate> gates;
  for (const ModuleName& m : declared_modules()) {
    const bool known = std::find(gates.begin(), gates.end(), m.gate) != gates.end();
    if (m.kernel == kernel && !known) gates.push_back(m.gate);
  }
  return gates;
}

}  // namespace lanescope::testing
