#pragma once

#include <cstdint>

#include "debug/ptx/warp.h"

namespace lanescope::ptx {

// PTX ISA, "Data Movement and Conversion Instructions: Bulk copy" and "Tensor copy": what
// cp.async.bulk and cp.reduce.async.bulk do on the lanes of `mask`.

/// Sources in s[]: the address in shared memory, that of the tensor map or of global memory, the
/// mbarrier of a load; then coordinates, or the bytes of a plain copy, in the order of the
/// operands.
enum class CopyKind : std::uint8_t { load, store, multicast, reduce };

/// `vector` coordinates lie in Program::operands from `target` on, behind them a multicast's mask,
/// or the Update of a reduction.
Flow copy_tensor(Warp& warp, const Instruction& in, std::uint32_t mask);
/// The bytes in s[3]; a multicast's mask in Program::operands at `target`, which of a reduction is
/// the Update.
Flow copy_bytes(Warp& warp, const Instruction& in, std::uint32_t mask);
Flow commit_bulk_copies(Warp& warp, const Instruction& in, std::uint32_t mask);
/// Until `immediate` groups of stores, or fewer, are under way.
Flow wait_for_bulk_copies(Warp& warp, const Instruction& in, std::uint32_t mask);

}  // namespace lanescope::ptx
