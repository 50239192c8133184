// Products of warpgroups, wgmma.mma_async: each warp computes its 16 of the 64 rows, in the wait
// that covers the product. Until then its accumulators hold a pattern.

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "debug/simt/async_block.h"
#include "debug/simt/block.h"
#include "debug/simt/describe.h"
#include "debug/simt/hopper.h"
#include "debug/simt/matrix_descriptor.h"
#include "debug/simt/numerics.h"

namespace lanescope::simt {
namespace {

constexpr const char* name = "wgmma";

struct ProductSlot {
  const Product* what;
  float* d;
  const std::uint32_t* a;
  std::uint32_t place;
  Here here;
};

bool same(const Product& a, const Product& b) {
  return a.type == b.type && a.n == b.n && a.accumulates == b.accumulates &&
         a.a_in_registers == b.a_in_registers && a.a_is_transposed == b.a_is_transposed &&
         a.b_is_transposed == b.b_is_transposed && a.b == b.b && (a.a_in_registers || a.a == b.a);
}

/// What is wrong with a product that `warp` issues, compared with the other warps of its group.
std::string check_alike(BlockRunner& runner, int warp, const Product& what, Here here) {
  AsyncBlock& async = runner.async();
  WarpgroupCalls& calls = async.calls(warp);
  WarpProducts& own = async.products(warp);
  const std::uint64_t index = own.issued++ - calls.first;
  if (index == calls.products.size()) {
    calls.products.push_back({what, here});
  } else if (!same(calls.products[index].what, what)) {
    return "the warps of the warpgroup give different shapes or descriptors: another warp is at " +
           describe(calls.products[index].here);
  }
  std::uint64_t least = own.issued;
  for (int w = warp / 4 * 4; w < warp / 4 * 4 + 4; ++w) {
    least = std::min(least, async.products(w).issued);
  }
  for (; calls.first < least; ++calls.first) calls.products.pop_front();
  return {};
}

/// The chunks of shared memory that the part of an operand that `warp` reads lies in, by rows (of M
/// or N) and steps of eight elements of K, or transposed: visit(offset, row, k).
template <class Visit>
void for_each_chunk(std::uint64_t descriptor, bool transposed, int first_row, int rows,
                    Visit&& visit) {
  const MatrixDescriptor matrix(descriptor);
  if (transposed) {
    for (int k = 0; k < 16; ++k) {
      for (int row = first_row; row < first_row + rows; row += 8) {
        visit(matrix.offset(row, k, true), row, k);
      }
    }
  } else {
    for (int row = first_row; row < first_row + rows; ++row) {
      for (int k = 0; k < 16; k += 8) visit(matrix.offset(row, k, false), row, k);
    }
  }
}

/// Whether the descriptor lies in shared memory, and what the checker says of the bytes.
std::string check_operand(BlockRunner& runner, std::uint64_t descriptor, bool transposed,
                          int first_row, int rows, const AsyncWork& work) {
  const MatrixDescriptor matrix(descriptor);
  if (matrix.has_base_offset()) return "the machine knows no base offset of a matrix descriptor";
  BlockChecker* checker = runner.checker();
  std::string error;
  const Origin* first = nullptr;
  int first_down = 0, first_right = 0;  // where it lies in the operand
  bool disagrees = false;
  for_each_chunk(descriptor, transposed, first_row, rows, [&](std::size_t at, int row, int k) {
    if (at + 16 > runner.shared_bytes()) {
      error = "an operand leaves the block's shared memory: its element (" + std::to_string(row) +
              ", " + std::to_string(k) + ") lies at byte " + std::to_string(at);
    }
    if (!error.empty() || !checker) return;
    checker->read_async(at, 16, work);
    const Origin* origin = checker->origin_of(at);
    if (!origin) return;
    // Where a copy brought the tile, neighbours in the tensor are neighbours in the operand.
    int down = transposed ? k : row, right = transposed ? row : k;
    if (!first) {
      first = origin;
      first_down = down;
      first_right = right;
    }
    down -= first_down;
    right -= first_right;
    const bool agrees = origin->swizzle == matrix.swizzle() && origin->row == first->row + down &&
                        origin->col == first->col + right && origin->plane == first->plane;
    if (agrees || disagrees) return;
    disagrees = true;
    checker->add_shared(Kind::layout_disagrees, work, false, {}, at, 16);
  });
  return error;
}

/// The accumulators that the lanes bring: those of a product under way, else new ones.
std::shared_ptr<Accumulators> accumulators_of(WarpProducts& products, void* const (&slots)[32],
                                              const Product& what) {
  const auto slot = [&](int lane) -> ProductSlot& {
    return *static_cast<ProductSlot*>(slots[lane]);
  };
  for (const auto& group : products.groups) {
    for (const IssuedProduct& issued : group) {
      if (issued.d->registers[0] == slot(0).d && issued.d->n == what.n) return issued.d;
    }
  }
  auto d = std::make_shared<Accumulators>();
  d->n = what.n;
  d->x.resize(static_cast<std::size_t>(16 * what.n));
  for (int lane = 0; lane < 32; ++lane) {
    d->registers[lane] = slot(lane).d;
    for (int i = 0; i < what.n / 2; ++i) {
      const int row = lane / 4 + i / 2 % 2 * 8, col = i / 4 * 8 + lane % 4 * 2 + i % 2;
      d->x[static_cast<std::size_t>(row * what.n + col)] = slot(lane).d[i];
      slot(lane).d[i] = std::bit_cast<float>(in_flight_pattern);
    }
  }
  return d;
}

std::string do_issue(void* const (&slots)[32], std::uint32_t) {
  BlockRunner& runner = *BlockRunner::current();
  const int warp = runner.thread_index() / 32;
  const auto& slot = *static_cast<ProductSlot*>(slots[0]);
  const Product& what = *slot.what;
  for (int lane = 1; lane < 32; ++lane) {
    if (!same(what, *static_cast<ProductSlot*>(slots[lane])->what)) {
      return "lane " + std::to_string(lane) + " gives another shape or descriptor than lane 0";
    }
  }
  if (std::string error = check_alike(runner, warp, what, slot.here); !error.empty()) return error;
  WarpProducts& products = runner.async().products(warp);
  if (products.groups.empty()) products.groups.emplace_back();
  BlockChecker* checker = runner.checker();
  if (checker && products.agent == 0) products.agent = checker->add_agent(warp * 32);
  const AsyncWork work{products.agent,
                       products.groups_done + static_cast<std::uint32_t>(products.groups.size()),
                       slot.place, warp * 32};
  std::string error;
  if (!what.a_in_registers) {
    error = check_operand(runner, what.a, what.a_is_transposed, warp % 4 * 16, 16, work);
  }
  if (error.empty()) error = check_operand(runner, what.b, what.b_is_transposed, 0, what.n, work);
  if (!error.empty()) return error;
  IssuedProduct issued{what, accumulators_of(products, slots, what), {}, slot.place};
  for (int lane = 0; lane < 32; ++lane) {
    issued.a[lane] = static_cast<ProductSlot*>(slots[lane])->a;
  }
  products.groups.back().push_back(std::move(issued));
  return {};
}

/// Elements (row, k) of an operand in memory, as [rows][16].
void gather(const BlockRunner& runner, std::uint64_t descriptor, bool transposed, int first_row,
            int rows, std::uint16_t* to) {
  for_each_chunk(descriptor, transposed, first_row, rows, [&](std::size_t at, int row, int k) {
    std::uint16_t chunk[8];
    std::memcpy(chunk, runner.shared_memory() + at, sizeof chunk);
    for (int i = 0; i < 8; ++i) {
      const int r = row - first_row + (transposed ? i : 0);
      to[r * 16 + k + (transposed ? 0 : i)] = chunk[i];
    }
  });
}

void carry_out(const BlockRunner& runner, int warp, const IssuedProduct& issued) {
  const Product& what = issued.what;
  std::uint16_t a[16][16], rows_of_b[256][16];
  if (what.a_in_registers) {
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < 8; ++i) {
        const int row = lane / 4 + i / 2 % 2 * 8, k = lane % 4 * 2 + i % 2 + i / 4 * 8;
        a[row][k] = static_cast<std::uint16_t>(issued.a[lane][i / 2] >> (16 * (i % 2)));
      }
    }
  } else {
    gather(runner, what.a, what.a_is_transposed, warp % 4 * 16, 16, a[0]);
  }
  gather(runner, what.b, what.b_is_transposed, 0, what.n, rows_of_b[0]);
  for (int n = 0; n < what.n; n += 8) {
    std::uint16_t b[16][8];
    float c[16][8] = {};
    for (int k = 0; k < 16; ++k) {
      for (int j = 0; j < 8; ++j) b[k][j] = rows_of_b[n + j][k];
    }
    float* d = &issued.d->x[static_cast<std::size_t>(n)];
    for (int i = 0; i < 16 && what.accumulates; ++i) std::copy_n(d + i * what.n, 8, c[i]);
    multiply_accumulate(what.type, runner.tensor_core(), a, b, c);
    for (int i = 0; i < 16; ++i) std::copy_n(c[i], 8, d + i * what.n);
  }
}

void put_back(const Accumulators& d) {
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < d.n / 2; ++i) {
      const int row = lane / 4 + i / 2 % 2 * 8, col = i / 4 * 8 + lane % 4 * 2 + i % 2;
      d.registers[lane][i] = d.x[static_cast<std::size_t>(row * d.n + col)];
    }
  }
}

struct WaitSlot {
  int pending;
};

std::string do_wait(void* const (&slots)[32], std::uint32_t) {
  BlockRunner& runner = *BlockRunner::current();
  const int warp = runner.thread_index() / 32;
  WarpProducts& products = runner.async().products(warp);
  const int pending = static_cast<WaitSlot*>(slots[0])->pending;
  // The last group is open.
  while (static_cast<int>(products.groups.size()) > pending + 1) {
    const std::vector<IssuedProduct> group = std::move(products.groups.front());
    products.groups.pop_front();
    ++products.groups_done;
    for (const IssuedProduct& issued : group) carry_out(runner, warp, issued);
    for (const IssuedProduct& issued : group) {
      const auto is_used = [&](const std::vector<IssuedProduct>& other) {
        return std::any_of(other.begin(), other.end(),
                           [&](const IssuedProduct& later) { return later.d == issued.d; });
      };
      if (std::none_of(products.groups.begin(), products.groups.end(), is_used)) {
        put_back(*issued.d);
      }
    }
  }
  if (BlockChecker* checker = runner.checker(); checker && products.agent != 0) {
    for (int thread = warp * 32; thread < warp * 32 + 32; ++thread) {
      checker->clocks().learn(thread, products.agent, products.groups_done);
    }
  }
  return {};
}

std::string do_commit(void* const (&)[32], std::uint32_t) {
  BlockRunner& runner = *BlockRunner::current();
  WarpProducts& products = runner.async().products(runner.thread_index() / 32);
  if (products.groups.empty()) products.groups.emplace_back();
  products.groups.emplace_back();
  return {};
}

std::string do_fence(void* const (&)[32], std::uint32_t) {
  BlockRunner& runner = *BlockRunner::current();
  const int warp = runner.thread_index() / 32;
  runner.async().products(warp).fenced = true;
  for (int thread = warp * 32; thread < warp * 32 + 32; ++thread) {
    for (OperandRange& range : runner.async().operands(thread)) range.touched = 0;
  }
  return {};
}

}  // namespace

void wgmma(const Product& product, float* d, const std::uint32_t* a, Here here) {
  BlockRunner& runner = *BlockRunner::current();
  if (product.n < 8 || product.n > 256 || product.n % 8 != 0) {
    runner.fail(name, here, "there is no n of " + std::to_string(product.n));
  }
  BlockChecker* checker = runner.checker();
  const std::uint32_t place = checker ? checker->place_of(__builtin_return_address(0)) : 0;
  if (checker) {
    runner.async().take_registers(d, static_cast<std::size_t>(product.n) * 2, product.accumulates,
                                  place);
    if (a) runner.async().take_registers(a, 16, true, place);
  }
  ProductSlot slot{&product, d, a, place, here};
  runner.meet_warp(name, do_issue, ~0u, &slot, here);
}

void wgmma_fence(Here here) {
  BlockRunner::current()->meet_warp("wgmma_fence", do_fence, ~0u, nullptr, here);
}

void wgmma_commit(Here here) {
  BlockRunner::current()->meet_warp("wgmma_commit", do_commit, ~0u, nullptr, here);
}

void wgmma_wait(int pending, Here here) {
  WaitSlot slot{pending};
  BlockRunner::current()->meet_warp("wgmma_wait", do_wait, ~0u, &slot, here);
}

}  // namespace lanescope::simt
