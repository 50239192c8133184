#include "gates/run_memory.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>

#include "debug/error.h"

namespace lanescope {
namespace {

std::string megabytes(std::int64_t bytes) { return std::to_string((bytes >> 20) + 1) + " MiB"; }

/// Bytes that programs can still have, as the kernel estimates it.
std::int64_t available_memory() {
  std::ifstream in("/proc/meminfo");
  for (std::string name; in >> name;) {
    std::int64_t kilobytes = 0;
    if (name == "MemAvailable:" && in >> kilobytes) return kilobytes << 10;
    in.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::numeric_limits<std::int64_t>::max();
}

}  // namespace

Buffer buffer_of(const Tensor& tensor) {
  Buffer buffer(static_cast<std::int64_t>(tensor.bytes.size()));
  std::copy(tensor.bytes.begin(), tensor.bytes.end(), buffer.data());
  return buffer;
}

void copy_rows(const Tensor& tensor, int width, std::byte* to) {
  const auto row = static_cast<std::size_t>(tensor.dims.back() * size_of(tensor.type));
  const auto stride = static_cast<std::size_t>(width * size_of(tensor.type));
  for (std::size_t from = 0; from < tensor.bytes.size(); from += row, to += stride) {
    std::memcpy(to, tensor.bytes.data() + from, row);
    std::memset(to + row, 0, stride - row);
  }
}

Tensor take_rows(ElementType type, std::vector<std::int64_t> dims, int width,
                 const std::byte* from) {
  Tensor tensor(type, std::move(dims));
  const auto row = static_cast<std::size_t>(tensor.dims.back() * size_of(type));
  const auto stride = static_cast<std::size_t>(width * size_of(type));
  for (std::size_t to = 0; to < tensor.bytes.size(); to += row, from += stride) {
    std::memcpy(tensor.bytes.data() + to, from, row);
  }
  return tensor;
}

void check_memory(std::int64_t bytes) {
  const std::int64_t available = available_memory();
  if (bytes <= available) return;
  throw EnvironmentError("the run needs " + megabytes(bytes) + " and " + megabytes(available) +
                         " are free: narrow it with --where block=0..N,tile=A..B, or take a "
                         "smaller --shape");
}

}  // namespace lanescope
