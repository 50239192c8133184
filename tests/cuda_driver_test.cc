// What the lab gives CUDA's driver.

#include "gates/process/cuda_driver.h"

#include "tests/support/catch.h"

namespace lanescope {

TEST_CASE("driver: PTX of a version that it does not know is given to it as one that it does",
          "[quick]") {
  const std::string said =
      "ptxas application ptx input, line 5; fatal   : Unsupported .version 9.4; current version is "
      "'9.0'";
  const std::string text = "//\n// Generated\n\n.version 9.4\n.target sm_90a\n";
  CHECK(CudaDriver::with_version_in(said, text) ==
        "//\n// Generated\n\n.version 9.0\n.target sm_90a\n");
  CHECK(CudaDriver::with_version_in("ptxas fatal : no such target", text).empty());
  CHECK(CudaDriver::with_version_in(said, ".target sm_90\n").empty());
}

}  // namespace lanescope
