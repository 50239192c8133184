// A target of libFuzzer over everything that reads a file. Build with clang (tests/meson.build),
// run on a copy of tests/data/fuzz:  fuzz_dump -max_len=65536 CORPUS

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/read_anything.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const int file = memfd_create("fuzz", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  if (ftruncate(file, 0) != 0 || pwrite(file, data, size, 0) != static_cast<ssize_t>(size)) {
    return -1;
  }
  lanescope::testing::read_anything(path);
  return 0;
}
