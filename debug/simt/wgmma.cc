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
#include "debug/simt/numerics.h"

namespace lanescope::simt {
namespace {

/// The chunks of shared memory that the part of an operand that `warp` reads lies in, by rows (of M
/// or N) and steps of 16 bytes of K, or transposed: visit(address, row, k), k in units of 16 bits.
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

}  // namespace

std::string AsyncBlock::check_alike(int warp, const Product& what, Here here) {
  WarpgroupCalls& group = calls(warp);
  const std::uint64_t index = products(warp).issued++ - group.first;
  if (index == group.products.size()) {
    group.products.push_back({what, here});
  } else if (group.products[index].what != what) {
    return "the warps of the warpgroup give different shapes or descriptors: another warp is at " +
           describe(group.products[index].here);
  }
  std::uint64_t least = products(warp).issued;
  const int last = std::min(warp / 4 * 4 + 4, static_cast<int>(products_.size()));
  for (int w = warp / 4 * 4; w < last; ++w) least = std::min(least, products(w).issued);
  for (; group.first < least; ++group.first) group.products.pop_front();
  return {};
}

/// Whether the descriptor lies in shared memory, and what the checker says of the bytes.
std::string AsyncBlock::check_operand(const Product& what, std::uint64_t descriptor,
                                      bool transposed, int first_row, int rows,
                                      const AsyncWork& work) {
  const MatrixDescriptor matrix(descriptor);
  if (matrix.has_base_offset()) return "the machine knows no base offset of a matrix descriptor";
  BlockChecker* checker = host_.checker();
  const int elements = 2 / size_of(what.type);  // of 16 bits
  std::string error;
  const Origin* first = nullptr;
  int first_down = 0, first_right = 0;  // where it lies in the operand
  bool disagrees = false;
  for_each_chunk(descriptor, transposed, first_row, rows, [&](std::size_t address, int row, int k) {
    const std::size_t at = address - host_.shared_address();
    if (at > host_.shared_bytes() || at + 16 > host_.shared_bytes()) {
      error = "an operand leaves the block's shared memory: its element (" + std::to_string(row) +
              ", " + std::to_string(k * elements) + ") lies at byte " +
              std::to_string(static_cast<std::ptrdiff_t>(at));
    }
    if (!error.empty() || !checker) return;
    checker->read_async(at, 16, work);
    const Origin* origin = checker->origin_of(at);
    if (!origin) return;
    // Where a copy brought the tile, neighbours in the tensor are neighbours in the operand.
    int down = transposed ? k : row, right = transposed ? row : k * elements;
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

/// Those of a product under way, else new ones.
std::shared_ptr<Accumulators> AsyncBlock::accumulators_of(int warp, const RegisterArray& d,
                                                          const Product& what) {
  for (const auto& group : products(warp).groups) {
    for (const IssuedProduct& issued : group) {
      if (issued.d->registers == d) return issued.d;
    }
  }
  auto own = std::make_shared<Accumulators>();
  own->n = what.n;
  own->x = std::make_unique<float[][16]>(static_cast<std::size_t>(what.n));
  own->registers = d;
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < what.n / 2; ++i) {
      const int row = lane / 4 + i / 2 % 2 * 8, col = i / 4 * 8 + lane % 4 * 2 + i % 2;
      own->x[static_cast<std::size_t>(col)][row] = std::bit_cast<float>(*d.at(lane, i));
      *d.at(lane, i) = in_flight_pattern;
    }
  }
  return own;
}

std::string AsyncBlock::issue(int warp, const Product& what, const RegisterArray& d,
                              const RegisterArray& a, const Caller& caller) {
  if (std::string error = check_alike(warp, what, caller.here); !error.empty()) return error;
  WarpProducts& own = products(warp);
  if (own.groups.empty()) own.groups.emplace_back();
  BlockChecker* checker = host_.checker();
  int& agent = calls(warp).agent;
  if (checker && agent == 0) agent = checker->add_agent(warp * 32);
  const std::uint32_t place = place_of(caller);
  const AsyncWork work{agent, own.committed() + 1, place, warp * 32};
  std::string error;
  if (!what.a_in_registers) {
    error = check_operand(what, what.a, what.a_is_transposed, warp % 4 * 16, 16, work);
  }
  if (error.empty()) error = check_operand(what, what.b, what.b_is_transposed, 0, what.n, work);
  if (!error.empty()) return error;
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
  const std::uint16_t signs = size_of(what.type) == 1 ? 0x8080 : 0x8000;
  for (auto& row : a) {
    for (std::uint16_t& x : row) x ^= what.negates ? signs : std::uint16_t{0};
  }
  gather(what.b, what.b_is_transposed, 0, what.n, rows_of_b[0]);
  float(*d)[16] = issued.d->x.get();
  if (!what.accumulates) std::fill_n(d[0], 16 * what.n, 0.0f);
  if (what.type == ElementType::e4m3) {
    std::uint8_t bytes_of_a[16][32];
    std::memcpy(bytes_of_a, a, sizeof a);
    const auto* columns = reinterpret_cast<const std::uint8_t(*)[32]>(rows_of_b);
    multiply_accumulate_e4m3(bytes_of_a, columns, what.n, d);
  } else {
    multiply_accumulate(what.type, host_.tensor_core(), a, rows_of_b, what.n, d);
  }
}

namespace {

void put_back(const Accumulators& d) {
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < d.n / 2; ++i) {
      const int row = lane / 4 + i / 2 % 2 * 8, col = i / 4 * 8 + lane % 4 * 2 + i % 2;
      *d.registers.at(lane, i) =
          std::bit_cast<std::uint32_t>(d.x[static_cast<std::size_t>(col)][row]);
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

bool AsyncBlock::wait_for_products(int warp, int pending, const Caller& caller) {
  WarpProducts& own = products(warp);
  const std::uint32_t committed = own.committed();
  const std::uint32_t target = committed - std::min(committed, static_cast<std::uint32_t>(pending));
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
