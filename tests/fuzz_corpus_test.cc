// What the fuzzer (tests/fuzz_dump.cc) found or grew from, read again: every file of
// tests/data/fuzz.

#include <filesystem>

#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/read_anything.h"

namespace lanescope {

TEST_CASE("fuzz corpus: no file does more than being refused") {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(testing::data_file("fuzz"))) {
    INFO(entry.path());
    CHECK_NOTHROW(testing::read_anything(entry.path()));
    ++files;
  }
  CHECK(files >= 3);
}

}  // namespace lanescope
