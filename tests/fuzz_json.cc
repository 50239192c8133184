// A target of libFuzzer over everything that reads JSON. Run on a copy of tests/data/fuzz/json:
// fuzz_json -dict=tests/data/fuzz/json.dict CORPUS. tests/meson.build says how it is built.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tests/support/read_anything.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  lanescope::testing::read_any_json({reinterpret_cast<const char*>(data), size});
  return 0;
}
