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

namespace {

/// Which element of K 16-bit word `k` of an operand is.
int element_of(const Product& what, int k) { return 2 * k / bytes_of(what.a_type); }

}  // namespace

/// Where what a warp reads does not lie in shared memory.
std::string AsyncBlock::operand_error(const Product& what, int warp) const {
  std::string error;
  const auto look = [&](std::uint64_t descriptor, bool transposed, int first_row, int rows) {
    if (MatrixDescriptor(descriptor).has_base_offset()) {
      error = "the machine knows no base offset of a matrix descriptor";
    }
    for_each_chunk(descriptor, transposed, first_row, rows,
                   [&](std::size_t address, int row, int k) {
                     const std::size_t at = address - host_.shared_address();
                     if (at <= host_.shared_bytes() && at + 16 <= host_.shared_bytes()) return;
                     error = "an operand leaves the block's shared memory: its element (" +
                             std::to_string(row) + ", " + std::to_string(element_of(what, k)) +
                             ") lies at byte " + std::to_string(static_cast<std::ptrdiff_t>(at));
                   });
  };
  if (!what.a_in_registers) look(what.a, what.a_is_transposed, warp % 4 * 16, 16);
  if (error.empty()) look(what.b, what.b_is_transposed, 0, what.n);
  return error;
}

void AsyncBlock::check_operands(const Product& what, int warp, const AsyncWork& work) {
  const int warps = std::min(4, static_cast<int>(products_.size()) - warp / 4 * 4);
  if (!what.a_in_registers) {
    check_operand(what, what.a, what.a_is_transposed, 0, 16 * warps, work);
  }
  check_operand(what, what.b, what.b_is_transposed, 0, what.n, work);
}

/// Whether an operand lies as a copy brought it, all of one tile: neighbours in the tensor are
/// neighbours in the operand.
bool AsyncBlock::is_as_copied(const Product& what, std::uint64_t descriptor, bool transposed,
                              int first_row, int rows) const {
  const MatrixDescriptor matrix(descriptor);
  const Origin* first = nullptr;
  bool agrees = true;
  for_each_chunk(descriptor, transposed, first_row, rows, [&](std::size_t address, int row, int k) {
    const std::size_t at = address - host_.shared_address();
    const bool inside = at <= host_.shared_bytes() && at + 16 <= host_.shared_bytes();
    const Origin* origin = inside ? host_.checker()->origin_of(at) : nullptr;
    const int along = element_of(what, k);
    const int down = transposed ? along : row - first_row;
    const int right = transposed ? row - first_row : along;
    if (!first) first = origin;
    agrees = agrees && origin && origin->swizzle == matrix.swizzle() &&
             origin->tensor == first->tensor && origin->plane == first->plane &&
             origin->row == first->row + down && origin->col == first->col + right;
  });
  return agrees;
}

/// Whether the descriptor would agree with tiles of the tensor that it starts in, started
/// elsewhere.
bool AsyncBlock::fits_from_elsewhere(const Product& what, std::uint64_t descriptor, bool transposed,
                                     int first_row, int rows) const {
  constexpr std::uint64_t start = 0x3fff;  // in units of 16 bytes
  const std::uint64_t begin = host_.shared_address() / 16;
  const auto tensor_from = [&](std::uint64_t bits) -> const void* {
    const std::size_t at =
        MatrixDescriptor(bits).offset(first_row, 0, transposed) - host_.shared_address();
    const bool inside = at <= host_.shared_bytes() && at + 16 <= host_.shared_bytes();
    const Origin* origin = inside ? host_.checker()->origin_of(at) : nullptr;
    return origin ? origin->tensor : nullptr;
  };
  const void* const tensor = tensor_from(descriptor);
  if (!tensor) return false;
  for (std::uint64_t at = begin; at < begin + host_.shared_bytes() / 16 && at <= start; ++at) {
    const std::uint64_t moved = (descriptor & ~start) | at;
    if (tensor_from(moved) == tensor && is_as_copied(what, moved, transposed, first_row, rows)) {
      return true;
    }
  }
  return false;
}

/// What is wrong with a descriptor that disagrees with the tile: another one that would not.
Kind AsyncBlock::kind_of_disagreement(const Product& what, std::uint64_t descriptor,
                                      bool transposed, int first_row, int rows) const {
  const bool has_sides = bytes_of(what.a_type) == 2;  // those of 8 bits have one major-ness
  if (has_sides && is_as_copied(what, descriptor, !transposed, first_row, rows)) {
    return transposed ? Kind::fits_k_major : Kind::fits_mn_major;
  }
  return fits_from_elsewhere(what, descriptor, transposed, first_row, rows)
             ? Kind::wrong_start
             : Kind::layout_disagrees;
}

/// What the memory checker says of the bytes of an operand.
void AsyncBlock::check_operand(const Product& what, std::uint64_t descriptor, bool transposed,
                               int first_row, int rows, const AsyncWork& work) {
  const MatrixDescriptor matrix(descriptor);
  BlockChecker& checker = *host_.checker();
  const Origin* first = nullptr;
  std::size_t first_at = 0;
  int first_down = 0, first_right = 0;  // where it lies in the operand
  bool disagrees = false;
  const auto add_disagreement = [&](std::size_t at) {
    if (disagrees) return;
    disagrees = true;
    checker.add_shared(kind_of_disagreement(what, descriptor, transposed, first_row, rows), work,
                       false, {}, at, 16);
  };
  for_each_chunk(descriptor, transposed, first_row, rows, [&](std::size_t address, int row, int k) {
    const std::size_t at = address - host_.shared_address();
    // Of the rows of other warps, which tell of it themselves.
    if (at > host_.shared_bytes() || at + 16 > host_.shared_bytes()) return;
    // What a copy brought is whole: the operand goes on where no copy put anything.
    if (first && checker.is_unwritten(host_.shared_memory() + at, 16)) {
      add_disagreement(at);
      return;
    }
    // Or where others than copies did, who rightly did not make it ready for a product.
    if (first && checker.async().origin(at).copy == 0 &&
        checker.misread(at, 16, work).kind != Kind::none &&
        fits_from_elsewhere(what, descriptor, transposed, first_row, rows)) {
      add_disagreement(first_at);
      return;
    }
    checker.read_async(at, 16, work);
    const Origin* origin = checker.origin_of(at);
    if (!origin) return;
    // Where a copy brought the tile, neighbours in the tensor are neighbours in the operand.
    int down = transposed ? k : row, right = transposed ? row : element_of(what, k);
    if (!first) {
      first = origin;
      first_at = at;
      first_down = down;
      first_right = right;
    }
    down -= first_down;
    right -= first_right;
    const bool agrees = origin->swizzle == matrix.swizzle() && origin->row == first->row + down &&
                        origin->col == first->col + right && origin->plane == first->plane;
    if (!agrees) add_disagreement(at);
  });
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
