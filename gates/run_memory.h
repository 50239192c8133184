#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "debug/simt/checker.h"
#include "debug/site.h"
#include "reference/tensor.h"

namespace lanescope {

/// Memory aligned as kernels want it, filled with the poison pattern, as are its guards.
class Buffer {
 public:
  explicit Buffer(std::int64_t bytes)
      : bytes_(static_cast<std::size_t>(bytes)), words_((bytes_ + 15) / 16 + 2 * guard) {
    std::fill_n(reinterpret_cast<std::uint32_t*>(words_.data()), words_.size() * 4, poison32);
  }
  std::byte* data() { return reinterpret_cast<std::byte*>(words_.data() + guard); }
  simt::Region region(const char* name, simt::Region::Use use, int element = 4) {
    return {name, data(), bytes_, use, static_cast<std::size_t>(element)};
  }

 private:
  struct alignas(16) Word {
    std::uint32_t x[4];
  };
  static constexpr std::size_t guard = simt::guard_bytes / sizeof(Word);
  std::size_t bytes_;
  std::vector<Word> words_;
};

/// The elements of `tensor`.
Buffer buffer_of(const Tensor& tensor);

/// `tensor` [..., d] with its rows widened to `width` columns, zeros behind d.
void copy_rows(const Tensor& tensor, int width, std::byte* to);

/// The inverse of copy_rows: the first d columns of every row.
Tensor take_rows(ElementType type, std::vector<std::int64_t> dims, int width,
                 const std::byte* from);

/// Throws EnvironmentError, which says how to narrow the run, where the machine has not got so many
/// bytes.
void check_memory(std::int64_t bytes);

}  // namespace lanescope
