// mbarriers, named barriers, fences and registers, as a lane calls them.

#include "debug/simt/async_block.h"
#include "debug/simt/block.h"
#include "debug/simt/hopper.h"

namespace lanescope::simt {
namespace {

AsyncBlock& async() { return BlockRunner::current()->async(); }

Caller caller(const char* name, Here here, const void* pc) {
  return {BlockRunner::current()->thread_index(), name, here, pc};
}

std::size_t offset_of(const Mbarrier& barrier) {
  return static_cast<std::size_t>(reinterpret_cast<const std::byte*>(&barrier) -
                                  BlockRunner::current()->shared_memory());
}

}  // namespace

void mbarrier_init(Mbarrier& barrier, int count, Here here) {
  async().init(offset_of(barrier), count,
               caller("mbarrier_init", here, __builtin_return_address(0)));
}

void mbarrier_fence_init() { async().fence_init(BlockRunner::current()->thread_index()); }

void mbarrier_arrive(Mbarrier& barrier, Here here) {
  const Caller me = caller("mbarrier_arrive", here, __builtin_return_address(0));
  async().arrive(async().barrier(offset_of(barrier), me), me);
}

void mbarrier_expect_tx(Mbarrier& barrier, int bytes, Here here) {
  const Caller me = caller("mbarrier_expect_tx", here, __builtin_return_address(0));
  async().expect(async().barrier(offset_of(barrier), me), bytes, me);
}

void mbarrier_wait(Mbarrier& barrier, int parity, Here here) {
  const Caller me = caller("mbarrier_wait", here, __builtin_return_address(0));
  MbarrierState& state = async().barrier(offset_of(barrier), me);
  while (!async().try_wait(state, parity, me)) {
    BlockRunner::current()->park(me.name, here, &state);
  }
}

void fence_proxy_async() { async().fence_proxy(BlockRunner::current()->thread_index()); }

void named_barrier_sync(int id, int threads, Here here) {
  const Caller me = caller("barrier_sync", here, __builtin_return_address(0));
  if (!async().arrive(id, threads, true, me)) {
    BlockRunner::current()->park(me.name, here, &async().named(id));
  }
}

void named_barrier_arrive(int id, int threads, Here here) {
  async().arrive(id, threads, false, caller("barrier_arrive", here, __builtin_return_address(0)));
}

void change_registers(int registers, bool more, Here here) {
  const Caller me =
      caller(more ? "increase_registers" : "decrease_registers", here, __builtin_return_address(0));
  while (!async().change_registers(registers, more, me)) {
    BlockRunner::current()->park(me.name, here, &async().register_pool());
  }
}

bool elect_one(Here here) {
  const auto meet = [](void* const(&)[32], std::uint32_t) { return std::string(); };
  BlockRunner::current()->meet_warp("elect_one", meet, ~0u, nullptr, here);
  return thread_index() % 32 == 0;
}

}  // namespace lanescope::simt
