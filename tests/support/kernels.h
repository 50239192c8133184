#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "gates/build/module_build.h"
#include "gates/build/module_catalogue.h"
#include "tests/kernels_built.h"
#include "tests/support/catch.h"
#include "tests/support/skip.h"

namespace lanescope::testing {

/// The kernels that this build declares modules of, specimens and those outside the tree apart.
inline const std::vector<std::string> all_kernels = {LANESCOPE_KERNEL_NAMES};

/// The gates that this build declares modules of for a kernel, a specimen's included.
inline std::vector<Gate> gates_of(const std::string& kernel) {
  std::vector<Gate> gates;
  for (const ModuleName& m : declared_modules()) {
    const bool known = std::find(gates.begin(), gates.end(), m.gate) != gates.end();
    if (m.kernel == kernel && !known) gates.push_back(m.gate);
  }
  return gates;
}

/// Whether a kernel has a second pass that combines splits.
inline bool combines(const std::string& kernel) {
  const std::vector<Gate> gates = gates_of(kernel);
  return std::find(gates.begin(), gates.end(), Gate::combine_only) != gates.end();
}

/// Runs `body` where the backend is there, else says that the case is skipped.
template <class Body>
void on_backend(const std::string& backend, Body&& body) {
  const auto built = declared_backends();
  const std::string name = Catch::getResultCapture().getCurrentTestName();
  if (std::find(built.begin(), built.end(), backend) == built.end()) {
    skipped(name, "this build has no " + backend + " modules");
  } else if (backend == "cuda" && !cuda_device_answers()) {
    skipped(name, "no CUDA device answers");
  } else {
    body();
  }
}

}  // namespace lanescope::testing
