#pragma once

#include <cstdint>

#include "debug/ptx/warp.h"
#include "debug/simt/async_block.h"

namespace lanescope::ptx {

// PTX ISA, "Data Movement and Conversion Instructions: Bulk copy" and "Tensor copy": what
// cp.async.bulk and cp.reduce.async.bulk do on the lanes of `mask`.

/// Sources in s[]: the address in shared memory, that of the tensor map or of global memory, the
/// mbarrier of a load; then coordinates, or the bytes of a plain copy, in the order of the
/// operands.
enum class CopyKind : std::uint8_t { load, store, multicast, reduce };

/// Where an asynchronous write of a lane goes in the shared memory of the cluster, and the mbarrier
/// beside it that it completes on.
struct Destination {
  Warp::SharedPlace to;
  simt::MbarrierState* full;
  simt::Caller caller;
};
Destination destination_of(Warp& warp, int lane, Space space, std::uint64_t address,
                           std::size_t bytes, std::uint64_t barrier);
/// A fault where it is the block's own shared memory: PTX ISA leaves open what happens there.
void demand_other_block(Warp& warp, int lane, const Destination& destination);

/// `vector` coordinates lie in Program::operands from `target` on, behind them a multicast's mask,
/// or the Update of a reduction.
Flow copy_tensor(Warp& warp, const Instruction& in, std::uint32_t mask);
/// The bytes in s[3]; a multicast's mask in Program::operands at `target`, which of a reduction is
/// the Update.
Flow copy_bytes(Warp& warp, const Instruction& in, std::uint32_t mask);
/// The bytes in s[3] from the block's shared memory, at s[1] and `immediate2`, into that of another
/// block, at s[0]; of kind `reduce` an Update by them, which is `target`.
Flow send_bytes(Warp& warp, const Instruction& in, std::uint32_t mask);
Flow commit_bulk_copies(Warp& warp, const Instruction& in, std::uint32_t mask);
/// Until `immediate` groups of stores, or fewer, are under way.
Flow wait_for_bulk_copies(Warp& warp, const Instruction& in, std::uint32_t mask);

}  // namespace lanescope::ptx
