// Products of warpgroups, wgmma.mma_async: each warp computes its 16 of the 64 rows, in the wait
// that covers the product. Until then its accumulators hold a pattern.

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "debug/simt/async_block.h"
#include "debug/simt/describe.h"
#include "debug/simt/hopper.h"
#include "debug/simt/matrix_descriptor.h"
#include "debug/simt/wgmma_arithmetic.h"

namespace lanescope::simt {

/// Under the memory checker the last of the four warps brings what all of them know.
std::string AsyncBlock::check_alike(int warp, const Product& what, const AsyncWork& work,
                                    Here here) {
  WarpgroupCalls& group = calls(warp);
  const std::uint64_t index = products(warp).issued++ - group.first;
  if (index == group.products.size()) {
    group.products.push_back({what, here, 0, {}});
  } else if (group.products[index].what != what) {
    return "the warps of the warpgroup give different shapes or descriptors: another warp is at " +
           describe(group.products[index].here);
  }
  WarpgroupCalls::Call& call = group.products[index];
  const int first = warp / 4 * 4, end = std::min(first + 4, static_cast<int>(products_.size()));
  ++call.issued;
  if (BlockChecker* checker = host_.checker()) {
    for (int thread = warp * 32; thread < warp * 32 + 32; ++thread) {
      checker->clocks().give(call.known, thread);
    }
    AsyncWork of_all = work;
    of_all.known = &call.known;
    if (call.issued == end - first) check_operands(what, warp, of_all);
  }
  std::uint64_t least = products(warp).issued;
  for (int w = first; w < end; ++w) least = std::min(least, products(w).issued);
  for (; group.first < least; ++group.first) group.products.pop_front();
  return {};
}

/// Those of a product under way, else new ones.
std::shared_ptr<Accumulators> AsyncBlock::accumulators_of(int warp, const RegisterArray& d,
                                                          const Product& what) {
  const auto in_flight = accumulators_in_flight(warp);
  for (const auto& other : in_flight) {
    if (other->registers == d && other->copies.empty()) return other;
  }
  auto own = std::make_shared<Accumulators>();
  own->n = what.n;
  own->sums = what.sums;
  own->x = std::make_unique<float[][16]>(static_cast<std::size_t>(what.n));
  own->beginning = take_over(in_flight, d);
  own->registers = d;
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < d.count; ++i) {
      own->set_bits(lane, i, *d.at(lane, i));
      *d.at(lane, i) = in_flight_pattern;
    }
  }
  return own;
}

std::string AsyncBlock::issue(int warp, const Product& what, const RegisterArray& d,
                              const RegisterArray& a, const Caller& caller) {
  if (std::string error = operand_error(what, warp); !error.empty()) return error;
  WarpProducts& own = products(warp);
  if (own.groups.empty()) own.groups.emplace_back();
  BlockChecker* checker = host_.checker();
  int& agent = calls(warp).agent;
  if (checker && agent == 0) agent = checker->add_agent(warp * 32);
  const std::uint32_t place = place_of(caller);
  const AsyncWork work{agent, own.committed() + 1, place, warp * 32};
  if (std::string error = check_alike(warp, what, work, caller.here); !error.empty()) return error;
  own.groups.back().push_back({what, accumulators_of(warp, d, what), a, place});
  return {};
}

void AsyncBlock::gather(std::uint64_t descriptor, bool transposed, int first_row, int rows,
                        std::uint16_t* to) const {
  for_each_chunk(descriptor, transposed, first_row, rows, [&](std::size_t at, int row, int k) {
    std::uint16_t chunk[8];
    std::memcpy(chunk, host_.shared_memory() + at - host_.shared_address(), sizeof chunk);
    for (int i = 0; i < 8; ++i) {
      const int r = row - first_row + (transposed ? i : 0);
      to[r * 16 + k + (transposed ? 0 : i)] = chunk[i];
    }
  });
}

void AsyncBlock::carry_out(int warp, const IssuedProduct& issued) {
  const Product& what = issued.what;
  issued.d->begin();
  std::uint16_t a[16][16], rows_of_b[256][16];
  if (what.a_in_registers) {
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < 4; ++i) {
        const int row = lane / 4 + i % 2 * 8, k = lane % 4 * 2 + i / 2 * 8;
        std::memcpy(&a[row][k], issued.a.at(lane, i), 4);
      }
    }
  } else {
    gather(what.a, what.a_is_transposed, warp % 4 * 16, 16, a[0]);
  }
  gather(what.b, what.b_is_transposed, 0, what.n, rows_of_b[0]);
  multiply(what, host_.tensor_core(), a, rows_of_b, issued.d->x.get());
}

namespace {

void put_back(const Accumulators& d) {
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < d.registers.count; ++i) *d.registers.at(lane, i) = d.bits(lane, i);
  }
  for (const HalfTo& copy : d.copies) {
    for (std::uint32_t left = copy.lanes; left != 0; left &= left - 1) {
      const int lane = std::countr_zero(left);
      if (!is_in_flight(copy.to.at(lane))) continue;  // it was overwritten
      const auto half = static_cast<std::uint16_t>(d.bits(lane, copy.reg) >> 16 * copy.half);
      std::memcpy(copy.to.at(lane), &half, sizeof half);
    }
  }
}

}  // namespace

void AsyncBlock::compute_until(int warp, std::uint32_t groups) {
  WarpProducts& own = products(warp);
  for (; own.groups_computed < groups; ++own.groups_computed) {
    for (const IssuedProduct& issued : own.groups[own.groups_computed - own.groups_done]) {
      carry_out(warp, issued);
    }
  }
}

std::vector<IssuedProduct> AsyncBlock::ending_products(int warp, int pending) {
  const WarpProducts& own = products(warp);
  std::vector<IssuedProduct> ending;
  for (std::uint32_t i = own.groups_computed; i < own.done_but(pending); ++i) {
    const std::vector<IssuedProduct>& group = own.groups[i - own.groups_done];
    ending.insert(ending.end(), group.begin(), group.end());
  }
  return ending;
}

bool AsyncBlock::wait_for_products(int warp, int pending, const Caller& caller) {
  WarpProducts& own = products(warp);
  const std::uint32_t target = own.done_but(pending);
  const int first = warp / 4 * 4;
  for (int w = first; target > own.groups_done && w < first + 4; ++w) {
    if (w < static_cast<int>(products_.size()) && products(w).committed() >= target) continue;
    calls(warp).waiting.push_back(caller.thread);
    return false;
  }
  if (target > own.groups_done) {
    for (int w = first; w < first + 4; ++w) compute_until(w, target);
  }
  while (own.groups_done < target) {
    const std::vector<IssuedProduct> group = std::move(own.groups.front());
    own.groups.pop_front();
    ++own.groups_done;
    for (const IssuedProduct& issued : group) {
      const auto is_used = [&](const std::vector<IssuedProduct>& other) {
        return std::any_of(other.begin(), other.end(),
                           [&](const IssuedProduct& later) { return later.d == issued.d; });
      };
      if (std::none_of(own.groups.begin(), own.groups.end(), is_used)) put_back(*issued.d);
    }
  }
  if (BlockChecker* checker = host_.checker(); checker && calls(warp).agent != 0) {
    for (int thread = warp * 32; thread < warp * 32 + 32; ++thread) {
      checker->clocks().learn(thread, calls(warp).agent, own.groups_done);
    }
  }
  return true;
}

std::string WarpgroupCalls::story() const {
  return "a product that not all four warps of the warpgroup have issued and committed";
}

void AsyncBlock::commit_products(int warp) {
  auto& groups = products(warp).groups;
  if (groups.empty()) groups.emplace_back();
  groups.emplace_back();
  for (const int thread : std::exchange(calls(warp).waiting, {})) host_.wake(thread);
}

void AsyncBlock::fence_registers(int warp) {
  products(warp).fenced = true;
  for (int thread = warp * 32; thread < warp * 32 + 32; ++thread) {
    for (OperandRange& range : operands(thread)) range.touched = 0;
  }
}

}  // namespace lanescope::simt
