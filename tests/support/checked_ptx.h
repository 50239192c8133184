#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "debug/simt/checker.h"
#include "tests/support/ptx_kernel.h"

// Small kernels given as PTX under the memory checker.

namespace lanescope::testing {

/// Runs 64 lanes on an output of a word each, in %rd1, and on a shared array `box`; %r9: the lane's
/// element of it.
inline std::vector<simt::Finding> findings_of(const std::string& body,
                                              ptx::NumbersMade* numbers = nullptr) {
  PtxKernel kernel(ptx_module(
      ".shared .align 16 .b8 box[1024]; .reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %rd<16>; "
      ".reg .b16 %h<8>;\n"
      "mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [p0]; mul.wide.u32 %rd2, %r0, 4; add.s64 %rd1, "
      "%rd0, %rd2;\n"
      "shl.b32 %r9, %r0, 2; mov.u32 %r8, box; add.u32 %r9, %r9, %r8;\n" +
          body,
      1));
  constexpr std::size_t guard = simt::guard_bytes;
  std::vector<std::byte> memory(2 * guard + 64 * 4 + 64);
  auto* out = memory.data() + guard + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64);
  simt::Checker checker;
  checker.watch({{"out", out, 256, simt::Region::Use::output, 4, false}});
  kernel.use(memory);
  kernel.grid.checker = &checker;
  kernel.grid.numbers = numbers;
  kernel.grid.threads[0] = 64;
  kernel.run({address(out)});
  return checker.findings();
}

inline std::vector<simt::Kind> kinds_of(const std::string& body) {
  std::vector<simt::Kind> kinds;
  for (const simt::Finding& finding : findings_of(body)) kinds.push_back(finding.kind);
  return kinds;
}

}  // namespace lanescope::testing
