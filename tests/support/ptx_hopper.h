#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "debug/causes/memory_findings.h"
#include "debug/ptx/tensor_map.h"
#include "debug/simt/checker.h"
#include "debug/simt/machine.h"
#include "reference/error.h"
#include "tests/support/ptx_kernel.h"

/// Kernels of 128 threads that use Hopper's asynchronous instructions.
namespace lanescope::ptx_hopper {

using simt::Kind;

/// The address of its word of the output in %rd1, of the input in %rd3, of a tensor map in %rd4; of
/// shared memory `box` in %r8, of an mbarrier in %r9; the first thread in %p0.
inline const std::string begin =
    ".shared .align 1024 .b8 box[8192]; .shared .align 8 .b64 bar;\n"
    ".reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %rd<16>; .reg .f32 %f<16>;\n"
    "mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [p0]; ld.param.u64 %rd3, [p1]; ld.param.u64 %rd4, "
    "[p2];\n"
    "mul.wide.u32 %rd2, %r0, 4; add.s64 %rd1, %rd0, %rd2; mov.u32 %r8, box; mov.u32 %r9, bar;\n"
    "setp.eq.u32 %p0, %r0, 0; shl.b32 %r7, %r0, 2; add.u32 %r7, %r7, %r8;\n";

/// As Triton names it.
inline const std::string dynamic = ".extern .shared .align 16 .b8 global_smem[];\n";

inline std::string init(const std::string& count) {
  return "@%p0 mbarrier.init.shared::cta.b64 [%r9], " + count +
         ";\n@%p0 fence.mbarrier_init.release.cluster;\nbar.sync 0;\n";
}
inline std::string expect(const std::string& bytes) {
  return "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r9], " + bytes + ";\n";
}
inline const std::string wait =
    "W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r9], 0;\n@%p1 bra D; bra W;\nD:\n";
inline const std::string load =
    "@%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r8], [%rd3], 512, "
    "[%r9];\n";
inline const std::string read_back = "ld.shared.u32 %r1, [%r7]; st.global.u32 [%rd1], %r1;\n";

struct Result {
  std::vector<std::uint32_t> out;
  std::vector<Kind> kinds;
  CheckReport told;  ///< the same, as people read it
  std::string fault;

  bool found(Kind kind) const { return std::count(kinds.begin(), kinds.end(), kind) > 0; }
};

/// 128 threads, in each of `blocks` that form a cluster; the input's words are 100, 101, ...,
/// unless they are given. `type`: of the tensor's elements, a CUtensorMapDataType. Of several
/// `clusters` the grid is cooperative.
inline Result run(const std::string& body, bool checked = false, std::uint64_t schedule = 0,
                  std::vector<std::uint32_t> words = {}, std::uint32_t blocks = 1,
                  std::uint8_t type = 0, std::uint32_t clusters = 1) {
  constexpr std::size_t count = 1024, guard = simt::guard_bytes;
  if (words.empty()) {
    for (std::uint32_t i = 0; i < count; ++i) words.push_back(100 + i);
  }
  std::vector<std::byte> memory(4 * guard + 3 * count * 4);
  auto* aligned =
      memory.data() + guard + 128 - reinterpret_cast<std::uintptr_t>(memory.data()) % 128;
  auto* in = aligned;
  auto* out = aligned + count * 4 + guard;
  auto* map = out + count * 4 + guard;
  std::memcpy(in, words.data(), words.size() * 4);
  // 16 words of a row, of 20 rows; a box is 16 by 8.
  ptx::TensorMapBytes tensor;
  tensor.base = reinterpret_cast<std::uint64_t>(in);
  tensor.element_bytes = 4;
  tensor.rank = 2;
  tensor.type = type;
  tensor.size[0] = 16;
  tensor.size[1] = 20;
  tensor.stride[0] = 64;
  tensor.box[0] = 16;
  tensor.box[1] = 8;
  std::memcpy(map, &tensor, sizeof tensor);
  Result result;
  simt::Checker checker;
  checker.watch({{"out", out, count * 4, simt::Region::Use::output, 4, false},
                 {"in", in, count * 4, simt::Region::Use::input, 4, false},
                 {"map", map, 128, simt::Region::Use::input, 4, false}});
  try {
    PtxKernel kernel(ptx_module(begin + body + "ret;", 3, dynamic));
    kernel.use(memory);
    if (checked) kernel.grid.checker = &checker;
    kernel.grid.threads[0] = 128;
    kernel.grid.blocks[0] = blocks * clusters;
    kernel.grid.cluster[0] = blocks;
    if (clusters > 1) {
      kernel.grid.workspace = address(memory.data());
      kernel.grid.workers = 1;
      kernel.grid.timeout_seconds = 2;
    }
    kernel.grid.schedule = schedule;
    kernel.run({address(out), address(in), address(map)});
  } catch (const simt::Fault& fault) {
    result.fault = fault.what();
  } catch (const UsageError& error) {
    result.fault = error.what();
  }
  result.out.resize(count);
  std::memcpy(result.out.data(), out, count * 4);
  if (checked)
    describe_findings(
        checker, [](std::int64_t) { return std::nullopt; }, result.told);
  for (const simt::Finding& finding : checker.findings()) result.kinds.push_back(finding.kind);
  return result;
}

}  // namespace lanescope::ptx_hopper
