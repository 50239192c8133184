// wgmma as a lane calls it: the lanes of a warp meet, and each brings its registers.

#include <string>

#include "debug/simt/async_block.h"
#include "debug/simt/block.h"
#include "debug/simt/hopper.h"

namespace lanescope::simt {
namespace {

struct ProductSlot {
  const Product* what;
  float* d;
  const std::uint32_t* a;
  const Caller* caller;
};

std::string do_issue(void* const (&slots)[32], std::uint32_t) {
  BlockRunner& runner = *BlockRunner::current();
  const auto slot = [&](int lane) -> ProductSlot& {
    return *static_cast<ProductSlot*>(slots[lane]);
  };
  const Product& what = *slot(0).what;
  RegisterArray d{{}, what.n / 2, true}, a{{}, 4, true};
  for (int lane = 0; lane < 32; ++lane) {
    if (what != *slot(lane).what) {
      return "lane " + std::to_string(lane) + " gives another shape or descriptor than lane 0";
    }
    d.first.push_back(reinterpret_cast<std::uint32_t*>(slot(lane).d));
    if (what.a_in_registers) a.first.push_back(const_cast<std::uint32_t*>(slot(lane).a));
  }
  return runner.async().issue(runner.thread_index() / 32, what, d, a, *slot(0).caller);
}

struct WaitSlot {
  int pending;
  const Caller* caller;
  bool done = false;
};

std::string do_wait(void* const (&slots)[32], std::uint32_t) {
  BlockRunner& runner = *BlockRunner::current();
  const int warp = runner.thread_index() / 32;
  const auto& first = *static_cast<WaitSlot*>(slots[0]);
  const bool done = runner.async().wait_for_products(warp, first.pending, *first.caller);
  for (void* slot : slots) static_cast<WaitSlot*>(slot)->done = done;
  return {};
}

std::string do_commit(void* const (&)[32], std::uint32_t) {
  BlockRunner& runner = *BlockRunner::current();
  runner.async().commit_products(runner.thread_index() / 32);
  return {};
}

std::string do_fence(void* const (&)[32], std::uint32_t) {
  BlockRunner& runner = *BlockRunner::current();
  runner.async().fence_registers(runner.thread_index() / 32);
  return {};
}

}  // namespace

void wgmma(const Product& product, float* d, const std::uint32_t* a, Here here) {
  constexpr const char* name = "wgmma";
  BlockRunner& runner = *BlockRunner::current();
  if (product.n < 8 || product.n > 256 || product.n % 8 != 0) {
    runner.fail(name, here, "there is no n of " + std::to_string(product.n));
  }
  const Caller caller{runner.thread_index(), name, here, __builtin_return_address(0)};
  if (runner.checker()) {
    runner.async().take_registers(d, static_cast<std::size_t>(product.n) * 2, product.accumulates,
                                  caller);
    if (a) runner.async().take_registers(a, 16, true, caller);
  }
  ProductSlot slot{&product, d, a, &caller};
  runner.meet_warp(name, do_issue, ~0u, &slot, here);
}

void wgmma_fence(Here here) {
  BlockRunner::current()->meet_warp("wgmma_fence", do_fence, ~0u, nullptr, here);
}

void wgmma_commit(Here here) {
  BlockRunner::current()->meet_warp("wgmma_commit", do_commit, ~0u, nullptr, here);
}

void wgmma_wait(int pending, Here here) {
  constexpr const char* name = "wgmma_wait";
  BlockRunner& runner = *BlockRunner::current();
  const int thread = runner.thread_index();
  const Caller caller{thread, name, here, __builtin_return_address(0)};
  WaitSlot slot{pending, &caller};
  while (true) {
    runner.meet_warp(name, do_wait, ~0u, &slot, here);
    if (slot.done) return;
    // Lane 0 waits for the other warps, the others of its warp for lane 0.
    if (thread % 32 == 0) runner.park(name, here, &runner.async().calls(thread / 32));
  }
}

}  // namespace lanescope::simt
