// A target of libFuzzer over everything that reads a file. Build with clang (tests/meson.build),
// run on a copy of tests/data/fuzz: fuzz_dump -max_len=65536 CORPUS. What it finds goes to
// tests/data/fuzz, whose files are read again by fuzz_corpus_test.cc.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tests/read_anything.h"

extern "C" {

std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

/// Three times of four changes the header alone, and keeps the length before it right: else nearly
/// every change that makes it longer or shorter would be refused for that.
std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most,
                                    unsigned seed) {
  constexpr std::size_t prefix = sizeof(std::uint64_t);
  std::uint64_t length = 0;
  std::memcpy(&length, data, std::min(size, prefix));
  if (size < prefix || length > size - prefix || seed % 4 == 0) {
    return LLVMFuzzerMutate(data, size, most);
  }
  const std::vector<std::uint8_t> values(data + prefix + length, data + size);
  length = LLVMFuzzerMutate(data + prefix, length, most - prefix - values.size());
  std::memcpy(data, &length, prefix);
  std::copy(values.begin(), values.end(), data + prefix + length);
  return prefix + length + values.size();
}

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const int file = memfd_create("fuzz", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  if (ftruncate(file, 0) != 0 || pwrite(file, data, size, 0) != static_cast<ssize_t>(size)) {
    return -1;
  }
  lanescope::testing::read_anything(path);
  return 0;
}
}
