#pragma once

#include <algorithm>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "reference/site.h"

namespace lanescope::simt {

/// Fiber stacks, each below a guard page, used again from block to block.
class StackPool {
 public:
  /// Room for a lane's registers at no optimisation; pages are taken only when touched.
  static constexpr std::size_t stack_bytes = 256 * 1024;
  /// What the lanes of the kernels at hand use of it.
  static constexpr std::size_t poisoned_bytes = 16 * 1024;

  StackPool() = default;
  ~StackPool() {
    for (auto& stack : free_) allocator_.deallocate(stack);
  }
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;

  /// Its upper end is full of poison: what a kernel keeps there and never assigns is NaN in any
  /// type, whatever a block before left.
  boost::context::stack_context take() {
    if (free_.empty()) free_.push_back(allocator_.allocate());
    const auto stack = free_.back();
    free_.pop_back();
    auto* const end = static_cast<std::uint32_t*>(stack.sp);
    std::fill(end - poisoned_bytes / sizeof(std::uint32_t), end, poison32);
    return stack;
  }
  void give(boost::context::stack_context stack) { free_.push_back(stack); }

  /// Boost.Context's StackAllocator over a pool; says where the stack ends (it grows down).
  struct Allocator {
    StackPool* pool;
    const void** end;
    boost::context::stack_context allocate() {
      const auto stack = pool->take();
      *end = stack.sp;
      return stack;
    }
    void deallocate(boost::context::stack_context& stack) { pool->give(stack); }
  };

 private:
  boost::context::protected_fixedsize_stack allocator_{stack_bytes};
  std::vector<boost::context::stack_context> free_;
};

}  // namespace lanescope::simt
