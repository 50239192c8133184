// A target of libFuzzer over what reads PTX. Run on a copy of tests/data/fuzz/ptx:
// fuzz_ptx -dict=tests/data/fuzz/ptx.dict -timeout=10 CORPUS. tests/meson.build says how it is
// built.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tests/support/read_any_ptx.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  lanescope::testing::read_any_ptx({reinterpret_cast<const char*>(data), size});
  return 0;
}
