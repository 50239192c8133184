// mbarriers, named barriers, fences and registers, as a lane calls them.

#include "debug/simt/async_block.h"
#include "debug/simt/block.h"
#include "debug/simt/hopper.h"

namespace lanescope::simt {
namespace {

AsyncBlock& async() { return BlockRunner::current()->async(); }

std::uint32_t place_of(const void* pc) {
  BlockChecker* checker = BlockRunner::current()->checker();
  return checker ? checker->place_of(pc) : 0;
}

}  // namespace

void mbarrier_init(Mbarrier& barrier, int count, Here here) {
  async().init(barrier, count, here, place_of(__builtin_return_address(0)));
}

void mbarrier_fence_init() { async().fence_init(); }

void mbarrier_arrive(Mbarrier& barrier, Here here) {
  const std::uint32_t place = place_of(__builtin_return_address(0));
  async().arrive(async().barrier(barrier, "mbarrier_arrive", here), "mbarrier_arrive", here, place);
}

void mbarrier_expect_tx(Mbarrier& barrier, int bytes, Here here) {
  async().expect(async().barrier(barrier, "mbarrier_expect_tx", here), bytes, "mbarrier_expect_tx",
                 here);
}

void mbarrier_wait(Mbarrier& barrier, int parity, Here here) {
  async().wait(async().barrier(barrier, "mbarrier_wait", here), parity, here);
}

void fence_proxy_async() {
  BlockRunner& runner = *BlockRunner::current();
  if (BlockChecker* checker = runner.checker()) checker->clocks().fence(runner.thread_index());
  async().fence_init();
}

void named_barrier_sync(int id, int threads, Here here) { async().arrive(id, threads, true, here); }

void named_barrier_arrive(int id, int threads, Here here) {
  async().arrive(id, threads, false, here);
}

void change_registers(int registers, bool more, Here here) {
  BlockRunner& runner = *BlockRunner::current();
  runner.async().change_registers(runner.thread_index(), registers, more, here);
}

bool elect_one(Here here) {
  const auto meet = [](void* const(&)[32], std::uint32_t) { return std::string(); };
  BlockRunner::current()->meet_warp("elect_one", meet, ~0u, nullptr, here);
  return thread_index() % 32 == 0;
}

}  // namespace lanescope::simt
