#include "gates/process/run_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>

#include "debug/simt/checker.h"
#include "gates/module/module.h"
#include "reference/error.h"

namespace lanescope {
namespace {

std::string megabytes(std::int64_t bytes) { return std::to_string((bytes >> 20) + 1) + " MiB"; }

std::size_t rounded_up(std::size_t bytes) {
  constexpr std::size_t page = 1 << 12;
  return (bytes + page - 1) / page * page;
}

}  // namespace

static_assert(guard_bytes == simt::guard_bytes, "the memory checker needs as much");

RunMemory::RunMemory(std::size_t head_bytes, const std::vector<std::int64_t>& sizes, Fill fill) {
  std::size_t end = rounded_up(head_bytes);
  for (const std::int64_t size : sizes) {
    const auto bytes = static_cast<std::size_t>(size);
    begins_.push_back(end + simt::guard_bytes);
    end += rounded_up(bytes) + 2 * simt::guard_bytes;
  }
  bytes_ = end;
  file_ = memfd_create("lanescope", MFD_CLOEXEC);
  void* memory = MAP_FAILED;
  if (file_ >= 0 && ftruncate(file_, static_cast<off_t>(bytes_)) == 0) {
    memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  }
  if (memory == MAP_FAILED) {
    const std::string reason =
        std::strerror(errno) +
        std::string(errno == EFBIG ? ": ulimit -f limits this memory as it does files" : "");
    if (file_ >= 0) close(file_);
    throw EnvironmentError("cannot share " + megabytes(static_cast<std::int64_t>(bytes_)) +
                           " with the process that runs the kernel: " + reason);
  }
  memory_ = static_cast<std::byte*>(memory);
  const auto poison = [](std::byte* begin, std::byte* end) {
    std::memcpy(begin, &poison32, sizeof poison32);
    for (auto* at = begin + sizeof poison32; at != end;) {  // all that is there, once more
      const auto bytes = std::min(at - begin, end - at);
      std::memcpy(at, begin, static_cast<std::size_t>(bytes));
      at += bytes;
    }
  };
  if (fill == Fill::all) poison(memory_ + rounded_up(head_bytes), memory_ + bytes_);
  for (std::size_t i = 0; fill == Fill::guards && i < sizes.size(); ++i) {
    std::byte* const end = buffer(i) + rounded_up(static_cast<std::size_t>(sizes[i]));
    poison(buffer(i) - guard_bytes, buffer(i));
    poison(end, end + guard_bytes);
  }
}

RunMemory::~RunMemory() {
  munmap(memory_, bytes_);
  close(file_);
}

std::int64_t available_memory() {
  std::ifstream in("/proc/meminfo");
  for (std::string name; in >> name;) {
    std::int64_t kilobytes = 0;
    if (name == "MemAvailable:" && in >> kilobytes) return kilobytes << 10;
    in.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::numeric_limits<std::int64_t>::max();
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
