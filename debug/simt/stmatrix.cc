#include <cstring>

#include "debug/simt/block.h"
#include "debug/simt/hopper.h"

namespace lanescope::simt {
namespace {

struct MatrixStoreSlot {
  void* row;
  bool transposed;
  const std::uint32_t* registers;
};

/// Register i of lane t holds elements (t / 4, 2 · (t % 4) + {0, 1}) of matrix i; lane 8·i + j
/// gives the address of its row j (PTX ISA, stmatrix).
std::string do_stmatrix(void* const (&slots)[32], std::uint32_t) {
  for (int i = 0; i < 4; ++i) {
    std::uint16_t matrix[8][8];
    for (int lane = 0; lane < 32; ++lane) {
      const auto& slot = *static_cast<MatrixStoreSlot*>(slots[lane]);
      for (int half = 0; half < 2; ++half) {
        const int row = lane / 4, col = lane % 4 * 2 + half;
        (slot.transposed ? matrix[col][row] : matrix[row][col]) =
            static_cast<std::uint16_t>(slot.registers[i] >> (16 * half));
      }
    }
    for (int row = 0; row < 8; ++row) {
      std::memcpy(static_cast<MatrixStoreSlot*>(slots[8 * i + row])->row, matrix[row], 16);
    }
  }
  return {};
}

}  // namespace

void stmatrix_x4(void* row, const std::uint32_t (&registers)[4], bool transposed, Here here) {
  constexpr const char* name = "stmatrix";
  BlockRunner& runner = *BlockRunner::current();
  if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0) {
    runner.fail(name, here, "misaligned address: a multiple of 16 is needed");
  }
  if (BlockChecker* checker = runner.checker()) {
    const void* pc = __builtin_return_address(0);
    for (const std::uint32_t word : registers) {
      checker->pass_register(word, pc, runner.thread_index());
    }
    if (!checker->access(BlockChecker::Access::write, row, 16, 1, pc, runner.thread_index())) {
      runner.fail(name, here, "an address outside of every buffer");
    }
  }
  MatrixStoreSlot slot{row, transposed, registers};
  runner.meet_warp(name, do_stmatrix, ~0u, &slot, here);
}

}  // namespace lanescope::simt
