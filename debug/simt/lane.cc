#include "debug/simt/lane.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "debug/simt/block.h"
#include "debug/simt/describe.h"
#include "debug/simt/numerics.h"
#include "debug/simt/transpose.h"

namespace lanescope::simt {
namespace {

template <class F>
void for_each_lane(std::uint32_t mask, F&& f) {
  for (int lane = 0; lane < 32; ++lane) {
    if (mask >> lane & 1) f(lane);
  }
}

struct ShuffleSlot {
  Shuffle kind;
  int argument;
  std::uint32_t value, result;
};

/// The lane whose value `lane` receives; its own where the source lies outside the warp.
int shuffle_source(const ShuffleSlot& slot, int lane) {
  const int source = slot.kind == Shuffle::index  ? slot.argument & 31
                     : slot.kind == Shuffle::up   ? lane - slot.argument
                     : slot.kind == Shuffle::down ? lane + slot.argument
                                                  : lane ^ slot.argument;
  return source < 0 || source > 31 ? lane : source;
}

std::string do_shuffle(void* const (&slots)[32], std::uint32_t mask) {
  std::string error;
  for_each_lane(mask, [&](int lane) {
    auto& slot = *static_cast<ShuffleSlot*>(slots[lane]);
    const int source = shuffle_source(slot, lane);
    if (!(mask >> source & 1)) {
      error = "lane " + std::to_string(lane) + " reads lane " + std::to_string(source) +
              ", which is not in the mask " + describe_mask(mask);
      return;
    }
    slot.result = static_cast<ShuffleSlot*>(slots[source])->value;
  });
  BlockRunner::current()->note_exchange(mask);
  return error;
}

struct BallotSlot {
  bool predicate;
  std::uint32_t result;
};

std::string do_ballot(void* const (&slots)[32], std::uint32_t mask) {
  std::uint32_t votes = 0;
  for_each_lane(mask, [&](int lane) {
    if (static_cast<BallotSlot*>(slots[lane])->predicate) votes |= 1u << lane;
  });
  for_each_lane(mask, [&](int lane) { static_cast<BallotSlot*>(slots[lane])->result = votes; });
  return {};
}

struct MatrixLoadSlot {
  const void* row;
  bool transposed;
  std::uint32_t* registers;
};

/// Register i of lane t holds elements (t / 4, 2 · (t % 4) + {0, 1}) of matrix i.
std::string do_ldmatrix(void* const (&slots)[32], std::uint32_t) {
  for (int i = 0; i < 4; ++i) {
    std::uint16_t matrix[8][8], turned[8][8];
    for (int row = 0; row < 8; ++row) {
      std::memcpy(matrix[row], static_cast<MatrixLoadSlot*>(slots[8 * i + row])->row, 16);
    }
    std::memcpy(turned, matrix, sizeof turned);
    columns::transpose_eight(turned);
    for (int lane = 0; lane < 32; ++lane) {
      const auto& slot = *static_cast<MatrixLoadSlot*>(slots[lane]);
      const std::uint16_t* row = slot.transposed ? turned[lane / 4] : matrix[lane / 4];
      std::memcpy(&slot.registers[i], row + lane % 4 * 2, 4);
    }
  }
  return {};
}

struct MatrixProductSlot {
  ElementType type;
  const std::uint32_t* a;
  std::uint32_t b[2];
  float* c;
};

/// Puts the lanes of each register side by side, multiplies, and gives them back.
std::string do_mma(void* const (&slots)[32], std::uint32_t) {
  std::uint32_t a[4][32], b[2][32];
  float c[4][32];
  for (int lane = 0; lane < 32; ++lane) {
    const auto& slot = *static_cast<MatrixProductSlot*>(slots[lane]);
    for (int i = 0; i < 4; ++i) {
      a[i][lane] = slot.a[i];
      c[i][lane] = slot.c[i];
    }
    for (int i = 0; i < 2; ++i) b[i][lane] = slot.b[i];
  }
  const auto& first = *static_cast<MatrixProductSlot*>(slots[0]);
  const MmaRegisters registers{
      {a[0], a[1], a[2], a[3]}, {b[0], b[1]}, {c[0], c[1], c[2], c[3]}, {c[0], c[1], c[2], c[3]}};
  multiply_accumulate(first.type, BlockRunner::current()->tensor_core(), registers);
  for (int lane = 0; lane < 32; ++lane) {
    auto& slot = *static_cast<MatrixProductSlot*>(slots[lane]);
    for (int i = 0; i < 4; ++i) slot.c[i] = c[i][lane];
  }
  return {};
}

/// Reports a read of the calling lane to the memory checker, where there is one.
void check_read(const char* name, const void* address, std::size_t bytes, const void* pc,
                Here here) {
  BlockRunner& runner = *BlockRunner::current();
  BlockChecker* checker = runner.checker();
  if (!checker) return;
  const bool goes_on =
      checker->access(BlockChecker::Access::read, address, bytes, 1, pc, runner.thread_index());
  if (!goes_on) runner.fail(name, here, "an address outside of every buffer");
}

void check_registers(const std::uint32_t* words, int count, const void* pc) {
  BlockRunner& runner = *BlockRunner::current();
  BlockChecker* checker = runner.checker();
  if (!checker) return;
  for (int i = 0; i < count; ++i) checker->pass_register(words[i], pc, runner.thread_index());
}

void check_aligned(const char* name, const void* address, Here here) {
  if (reinterpret_cast<std::uintptr_t>(address) % 16 != 0) {
    BlockRunner::current()->fail(name, here, "misaligned address: a multiple of 16 is needed");
  }
}

}  // namespace

int thread_index() { return BlockRunner::current()->thread_index(); }
std::int64_t block_index() { return BlockRunner::current()->block_index(); }
std::int64_t block_count() { return BlockRunner::current()->block_count(); }
int next_ticket(int all) { return BlockRunner::current()->next_ticket(all); }
void pass_site(SiteId site, int tile, std::int64_t item, const void* value, std::size_t bytes) {
  BlockRunner& runner = *BlockRunner::current();
  if (!runner.checker()) return;
  runner.checker()->pass({site, tile, item}, value, bytes, runner.thread_index());
}
std::byte* shared_memory() { return BlockRunner::current()->shared_memory(); }

void block_barrier(Here here) { BlockRunner::current()->meet_block(here); }

void warp_barrier(std::uint32_t mask, Here here) {
  BlockRunner::current()->meet_warp("warp_sync", nullptr, mask, nullptr, here);
}

std::uint32_t shuffle(Shuffle kind, std::uint32_t value, int argument, std::uint32_t mask,
                      Here here) {
  constexpr const char* names[] = {"shfl", "shfl_up", "shfl_down", "shfl_xor"};
  check_registers(&value, 1, __builtin_return_address(0));
  ShuffleSlot slot{kind, argument, value, 0};
  BlockRunner::current()->meet_warp(names[static_cast<int>(kind)], do_shuffle, mask, &slot, here);
  return slot.result;
}

std::uint32_t ballot(bool predicate, std::uint32_t mask, Here here) {
  BallotSlot slot{predicate, 0};
  BlockRunner::current()->meet_warp("ballot", do_ballot, mask, &slot, here);
  return slot.result;
}

void ldmatrix_x4(std::uint32_t (&registers)[4], const void* row, bool transposed, Here here) {
  check_aligned("ldmatrix", row, here);
  check_read("ldmatrix", row, 16, __builtin_return_address(0), here);
  MatrixLoadSlot slot{row, transposed, registers};
  BlockRunner::current()->meet_warp("ldmatrix", do_ldmatrix, ~0u, &slot, here);
}

void mma_m16n8k16(ElementType type, float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                  std::uint32_t b1, Here here) {
  const void* pc = __builtin_return_address(0);
  const std::uint32_t b[] = {b0, b1};
  check_registers(a, 4, pc);
  check_registers(b, 2, pc);
  for (const float element : c) {
    const auto word = std::bit_cast<std::uint32_t>(element);
    check_registers(&word, 1, pc);
  }
  MatrixProductSlot slot{type, a, {b0, b1}, c};
  BlockRunner::current()->meet_warp("mma_m16n8k16", do_mma, ~0u, &slot, here);
}

void copy_async_16(void* to_shared, const void* from, bool valid, Here here) {
  check_aligned("copy_async_16", to_shared, here);
  check_aligned("copy_async_16", from, here);
  BlockRunner& runner = *BlockRunner::current();
  if (BlockChecker* checker = runner.checker()) {
    const bool goes_on = checker->issue_copy(to_shared, from, 16, valid ? 16 : 0,
                                             __builtin_return_address(0), runner.thread_index());
    if (!goes_on) runner.fail("copy_async_16", here, "an address outside of every buffer");
  }
  runner.lane().copies.back().push_back({to_shared, from, valid});
}

void commit_copies() { BlockRunner::current()->lane().copies.emplace_back(); }

void wait_copies(int pending) {
  BlockRunner& runner = *BlockRunner::current();
  if (BlockChecker* checker = runner.checker()) {
    checker->note_wait(runner.thread_index(), checker->place_of(__builtin_return_address(0)));
  }
  auto& groups = runner.lane().copies;
  const auto committed = static_cast<std::ptrdiff_t>(groups.size()) - 1;
  const auto done = std::max<std::ptrdiff_t>(0, committed - pending);
  for (std::ptrdiff_t i = 0; i < done; ++i) {
    for (const Lane::Copy& copy : groups[static_cast<std::size_t>(i)]) {
      if (copy.valid) {
        std::memcpy(copy.to, copy.from, 16);
      } else {
        std::memset(copy.to, 0, 16);
      }
      if (BlockChecker* checker = runner.checker()) {
        checker->complete_copy(copy.to, 16, runner.thread_index());
      }
    }
  }
  groups.erase(groups.begin(), groups.begin() + done);
}

}  // namespace lanescope::simt
