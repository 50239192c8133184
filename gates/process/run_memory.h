#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "reference/site.h"
#include "reference/tensor.h"

namespace lanescope {

/// The buffers of a run, in memory that is shared with the process that runs it: what a kernel
/// writes outlives that process. Each is aligned to 16 bytes, and it and guards of
/// simt::guard_bytes around it are filled with the poison pattern.
class RunMemory {
 public:
  /// `head_bytes` of zeroes, then buffers of `sizes` bytes. Throws EnvironmentError where there is
  /// no such memory.
  /// Fill::guards: the buffers themselves are zeros, which take no memory until they are touched.
  enum class Fill : std::uint8_t { all, guards };
  RunMemory(std::size_t head_bytes, const std::vector<std::int64_t>& sizes, Fill fill = Fill::all);
  ~RunMemory();
  RunMemory(const RunMemory&) = delete;
  RunMemory& operator=(const RunMemory&) = delete;

  void* head() const { return memory_; }
  std::byte* buffer(std::size_t index) const { return memory_ + begins_[index]; }
  /// What another process maps to have the same memory.
  int file() const { return file_; }
  std::size_t bytes() const { return bytes_; }

 private:
  int file_ = -1;
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
  std::vector<std::size_t> begins_;  ///< of the buffers
};

/// `tensor` [..., d] with its rows widened to `width` columns, zeros behind d.
void copy_rows(const Tensor& tensor, int width, std::byte* to);

/// The inverse of copy_rows: the first d columns of every row.
Tensor take_rows(ElementType type, std::vector<std::int64_t> dims, int width,
                 const std::byte* from);

/// Bytes that programs can still have, as the operating system estimates it.
std::int64_t available_memory();

/// Throws EnvironmentError, which says how to narrow the run, where the machine has not got so many
/// bytes.
void check_memory(std::int64_t bytes);

}  // namespace lanescope
