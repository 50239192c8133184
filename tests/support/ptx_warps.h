#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lanescope::ptx_warps {

/// A kernel around an instruction that takes memory, a whole warp or two blocks. Its parameters:
/// p0, the words of all threads, `in` of each; p1, those that they leave, `out` of each; p2, a
/// tensor map of the words at p0, 28 rows of 32 floats, in boxes of 16 by 16; p3, 8192 bytes of its
/// own.
struct Trial {
  std::string name;
  std::string text;  ///< a module with the kernel `kernel`
  std::vector<std::string> in;
  int out = 0;
  int threads = 32, blocks = 1;  ///< the blocks are one cluster
};

/// All that are tried, in a fixed order; those of tensor maps last.
std::vector<Trial> trials();

/// What all threads of a trial take, thread by thread: special values of the words' types and
/// random bits; behind ~, numbers of a size, in each warp another. A word of 64 bits is two.
std::vector<std::uint32_t> words_of(const Trial& trial);

/// The words that they leave.
inline int results_of(const Trial& trial) { return trial.out * trial.threads * trial.blocks; }

inline constexpr int scratch_bytes = 8192;

}  // namespace lanescope::ptx_warps
