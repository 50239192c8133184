// What the fuzzers (tests/fuzz_dump.cc, tests/fuzz_json.cc, tests/fuzz_ptx.cc) found or grew from,
// read again. What the one of command lines found, hostile_test.py gives to the program.

#include <filesystem>

#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/read_any_ptx.h"
#include "tests/support/read_anything.h"

namespace lanescope {
namespace {

template <class Read>
void read_all(const char* folder, const Read& read) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(testing::data_file(folder))) {
    INFO(entry.path());
    CHECK_NOTHROW(read(entry.path()));
    ++files;
  }
  CHECK(files >= 3);
}

}  // namespace

TEST_CASE("fuzz corpus: no file does more than being refused") {
  read_all("fuzz/dumps", testing::read_anything);
}

TEST_CASE("fuzz corpus: no JSON does more than being refused") {
  read_all("fuzz/json", [](const std::filesystem::path& path) {
    testing::read_any_json(testing::read_bytes(path));
  });
}

TEST_CASE("fuzz corpus: no PTX does more than being refused", "[ptx]") {
  read_all("fuzz/ptx", [](const std::filesystem::path& path) {
    testing::read_any_ptx(testing::read_bytes(path));
  });
}

}  // namespace lanescope
