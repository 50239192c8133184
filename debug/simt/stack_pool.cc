#include "debug/simt/stack_pool.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <utility>

namespace lanescope::simt {
namespace {

constexpr std::size_t stacks_of_slab = 32;  // a warp's

std::size_t guard_page() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

std::size_t slab_bytes() { return stacks_of_slab * (guard_page() + StackPool::stack_bytes); }

}  // namespace

StackPool::~StackPool() {
  for (void* slab : slabs_) munmap(slab, slab_bytes());
}

boost::context::stack_context StackPool::take() {
  if (free_.empty()) map_more();
  const auto stack = free_.back();
  free_.pop_back();
  auto* const end = static_cast<std::uint32_t*>(stack.sp);
  std::fill(end - poisoned_bytes / sizeof(std::uint32_t), end, poison32);
  return stack;
}

void StackPool::map_more() {
  void* const slab = mmap(nullptr, slab_bytes(), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (slab == MAP_FAILED) throw std::bad_alloc();
  slabs_.push_back(slab);
  auto* guard = static_cast<std::byte*>(slab);
  for (std::size_t i = 0; i < stacks_of_slab; ++i, guard += guard_page() + stack_bytes) {
    if (mprotect(guard, guard_page(), PROT_NONE) != 0) throw std::bad_alloc();
    boost::context::stack_context stack;
    stack.size = stack_bytes;
    stack.sp = guard + guard_page() + stack_bytes;
    free_.push_back(stack);
    // At once instead of page by page; where the kernel cannot, page by page.
    madvise(static_cast<std::byte*>(stack.sp) - poisoned_bytes, poisoned_bytes,
            MADV_POPULATE_WRITE);
  }
}

std::unique_ptr<StackPool> StackPools::take() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) return std::make_unique<StackPool>();
  auto pool = std::move(free_.back());
  free_.pop_back();
  return pool;
}

void StackPools::give(std::unique_ptr<StackPool> pool) {
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(pool));
}

}  // namespace lanescope::simt
