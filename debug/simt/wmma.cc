#include "debug/simt/wmma.h"

#include <cstddef>
#include <cstring>
#include <string>

#include "debug/simt/block.h"
#include "debug/simt/numerics.h"

namespace lanescope::simt {
namespace {

struct Place {
  int row, col;
};

/// The element of the accumulator that element `i` of `lane` is.
Place place_of(int lane, int i) {
  return {lane / 4 + i / 2 % 2 * 8, i / 4 * 8 + lane % 4 * 2 + i % 2};
}

/// What every lane brings to a transfer between a fragment and memory.
struct TransferSlot {
  const void* memory;
  int stride;
  bool transposed;
  void* registers;
};

TransferSlot& transfer(void* slot) { return *static_cast<TransferSlot*>(slot); }

std::string check_alike(void* const (&slots)[32]) {
  for (int lane = 1; lane < 32; ++lane) {
    if (transfer(slots[lane]).memory != transfer(slots[0]).memory ||
        transfer(slots[lane]).stride != transfer(slots[0]).stride) {
      return "lane " + std::to_string(lane) + " gives another address or stride than lane 0";
    }
  }
  return {};
}

std::string do_load_operand(void* const (&slots)[32], std::uint32_t) {
  if (std::string error = check_alike(slots); !error.empty()) return error;
  const TransferSlot& first = transfer(slots[0]);
  const auto* memory = static_cast<const std::uint16_t*>(first.memory);
  for (int lane = 0; lane < 32; ++lane) {
    auto& operand = *static_cast<WmmaOperand*>(transfer(slots[lane]).registers);
    for (int i = 0; i < 8; ++i) {
      const int row = lane / 2, col = lane % 2 * 8 + i;
      operand.x[i] = memory[first.transposed ? col * first.stride + row : row * first.stride + col];
    }
  }
  return {};
}

std::string do_load_accumulator(void* const (&slots)[32], std::uint32_t) {
  if (std::string error = check_alike(slots); !error.empty()) return error;
  const TransferSlot& first = transfer(slots[0]);
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 8; ++i) {
      const Place at = place_of(lane, i);
      static_cast<float*>(transfer(slots[lane]).registers)[i] =
          static_cast<const float*>(first.memory)[at.row * first.stride + at.col];
    }
  }
  return {};
}

std::string do_store_accumulator(void* const (&slots)[32], std::uint32_t) {
  if (std::string error = check_alike(slots); !error.empty()) return error;
  const TransferSlot& first = transfer(slots[0]);
  auto* memory = static_cast<float*>(const_cast<void*>(first.memory));
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 8; ++i) {
      const Place at = place_of(lane, i);
      memory[at.row * first.stride + at.col] =
          static_cast<const float*>(transfer(slots[lane]).registers)[i];
    }
  }
  return {};
}

struct MultiplySlot {
  ElementType type;
  float* c;
  const WmmaOperand *a, *b;
};

std::string do_multiply(void* const (&slots)[32], std::uint32_t) {
  std::uint16_t a[16][16], b[2][16][8];
  float c[2][16][8];  // halves: columns 0-7 and 8-15
  for (int lane = 0; lane < 32; ++lane) {
    const auto& slot = *static_cast<MultiplySlot*>(slots[lane]);
    std::memcpy(&a[lane / 2][lane % 2 * 8], slot.a->x, sizeof slot.a->x);
    std::memcpy(b[lane % 2][lane / 2], slot.b->x, sizeof slot.b->x);
    for (int i = 0; i < 8; ++i) {
      const Place at = place_of(lane, i);
      c[at.col / 8][at.row][at.col % 8] = slot.c[i];
    }
  }
  const ElementType type = static_cast<MultiplySlot*>(slots[0])->type;
  const TensorCoreRule rule = BlockRunner::current()->tensor_core();
  for (int half = 0; half < 2; ++half) multiply_accumulate(type, rule, a, b[half], c[half]);
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 8; ++i) {
      const Place at = place_of(lane, i);
      static_cast<MultiplySlot*>(slots[lane])->c[i] = c[at.col / 8][at.row][at.col % 8];
    }
  }
  return {};
}

using Access = BlockChecker::Access;

/// Tells the memory checker that the calling lane accesses `count` elements from `first` on, `step`
/// elements apart.
void check_access(const char* name, Access access, const void* first, int element_bytes, int count,
                  int step, const void* pc, Here here) {
  BlockRunner& runner = *BlockRunner::current();
  BlockChecker* checker = runner.checker();
  if (!checker) return;
  for (int i = 0; i < count; ++i) {
    const void* at =
        static_cast<const std::byte*>(first) + std::ptrdiff_t{i} * step * element_bytes;
    const auto bytes = static_cast<std::size_t>(element_bytes);
    if (!checker->access(access, at, bytes, 1, pc, runner.thread_index())) {
      runner.fail(name, here, "an address outside of every buffer");
    }
  }
}

/// The elements of the calling lane.
void check_accumulator(const char* name, Access access, const float* memory, int stride,
                       const void* pc, Here here) {
  const int lane = BlockRunner::current()->thread_index() % 32;
  for (int i = 0; i < 8; i += 2) {
    const Place at = place_of(lane, i);
    check_access(name, access, memory + at.row * stride + at.col, 4, 2, 1, pc, here);
  }
}

void meet(const char* name, WarpOperation operation, TransferSlot slot, int element_bytes,
          Here here) {
  BlockRunner& runner = *BlockRunner::current();
  if (reinterpret_cast<std::uintptr_t>(slot.memory) % 32 != 0) {
    runner.fail(name, here, "misaligned address: a multiple of 32 is needed");
  }
  if (slot.stride * element_bytes % 16 != 0) {
    runner.fail(name, here, "misaligned stride: a multiple of 16 bytes is needed");
  }
  runner.meet_warp(name, operation, ~0u, &slot, here);
}

}  // namespace

void wmma_load(WmmaOperand& operand, const void* from, int stride, bool transposed, Here here) {
  // Which lanes load an element is not specified: two of them do, so that a write by one lane alone
  // is not taken for its own.
  const int row = BlockRunner::current()->thread_index() % 32 / 2;
  check_access("load_matrix_sync", Access::read,
               static_cast<const std::uint16_t*>(from) + (transposed ? row : row * stride), 2, 16,
               transposed ? stride : 1, __builtin_return_address(0), here);
  meet("load_matrix_sync", do_load_operand, {from, stride, transposed, &operand}, 2, here);
}

void wmma_load(float (&c)[8], const float* from, int stride, Here here) {
  check_accumulator("load_matrix_sync", Access::read, from, stride, __builtin_return_address(0),
                    here);
  meet("load_matrix_sync", do_load_accumulator, {from, stride, false, c}, 4, here);
}

void wmma_store(float* to, const float (&c)[8], int stride, Here here) {
  check_accumulator("store_matrix_sync", Access::write, to, stride, __builtin_return_address(0),
                    here);
  meet("store_matrix_sync", do_store_accumulator, {to, stride, false, const_cast<float*>(c)}, 4,
       here);
}

void wmma_multiply(ElementType type, float (&c)[8], const WmmaOperand& a, const WmmaOperand& b,
                   Here here) {
  MultiplySlot slot{type, c, &a, &b};
  BlockRunner::current()->meet_warp("mma_sync", do_multiply, ~0u, &slot, here);
}

}  // namespace lanescope::simt
