#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "reference/site.h"

namespace lanescope::simt {

/// What the memory checker finds.
enum class Kind : std::uint8_t {
  none,
  race,                    ///< two accesses, one a write, that nothing orders
  race_with_read,          ///< the same, the earlier access a read
  missing_wait,            ///< an async copy into these bytes has not been waited for
  wrong_phase,             ///< the same, behind a wait for a phase of an mbarrier that was over
  copies_overlap,          ///< async copies bring different parts to the same bytes, at one time
  uninitialised_read,      ///< bytes that were never written
  uninitialised_register,  ///< what a shuffle or matrix product takes was never assigned
  out_of_bounds,
  map_disagrees,  ///< the same, by a tensor map whose strides are not those of its tensor
  beyond_array,   ///< an index of an array, of registers or in memory, whose length is known
  misaligned,
  write_to_input,
  written_twice,  ///< an element of an output
  never_written,  ///< an element of an output
  // Of asynchronous work (debug/simt/hopper.h).
  missing_proxy_fence,     ///< a lane's write that the asynchronous proxy may not see yet
  operand_overwritten,     ///< bytes that asynchronous work may still read
  register_in_flight,      ///< a register of a product that has not been waited for
  missing_register_fence,  ///< a register was accessed, then goes into a product: no wgmma.fence
  late_register_access,    ///< the same, behind the wgmma.fence of the product: no fault
  layout_disagrees,        ///< a matrix descriptor that is not how the tile was stored
  // One that is how the tile was stored, but does not start where the product can go on from:
  fits_k_major,         ///< were K contiguous in the operand, it would
  fits_mn_major,        ///< were its rows
  wrong_start,          ///< started elsewhere in tiles of the tensor, it would
  parts_differ,         ///< each part is how a copy stored it; together they are no tile
  rank_in_descriptor,   ///< bits of a start address that are none of its offset in the block
  wrong_expect_tx,      ///< a phase of an mbarrier completed before a copy into it
  unfenced_barrier,     ///< a copy completes on an mbarrier that its proxy may not see yet
  barrier_overwritten,  ///< the bytes of an mbarrier
  unfinished_copy,      ///< the block ended before it
  double_arrival,       ///< of one thread in a phase of an mbarrier, in the place of another
  overtaken_wait,       ///< of a phase of an mbarrier that the next one may complete before
  missing_map_fence,    ///< a tensor map that a lane made, which copies may not see yet
  absent_lane,          ///< what a shuffle takes of a lane that does not take part is used
  missing_grid_wait,    ///< what the grid before uses, which may not have ended yet
  unfenced_read,        ///< a copy overwrites what lanes have read, with no fence between: no fault
};

/// Whether it is more than what kernels rely on beyond PTX.
constexpr bool is_fault(Kind kind) {
  return kind != Kind::late_register_access && kind != Kind::unfenced_read;
}

/// How far a lane has come: the last site that it passed, in which tile.
struct Progress {
  SiteId site{};
  int tile = -1;           ///< -1: it has passed none yet
  std::int64_t item = -1;  ///< of a persistent block: the block that it would be else
};

/// The end of an access in a finding.
struct Party {
  bool write = false;
  std::uint32_t place = 0;  ///< offset in the kernel's image of the instruction behind; 0: none
  std::int64_t block = -1;
  int thread = -1;
  int agent = 0;  ///< of asynchronous work: who does it for the thread; 0: the thread does it
  /// Of what is overwritten while asynchronous work may read it: who overwrites it has waited for
  /// the thread, which said too early that it is done.
  bool released = false;
};

/// Bytes of shared memory that nobody wrote and that lie side by side, and those that were written
/// on the side that has fewer of them; of each at most 64. 0: it is not known.
struct UnwrittenRun {
  int bytes = 0, beside = 0;
};

/// Of a tensor map of three dimensions or more: elements along the second, and bytes from one to
/// the next along the third. 0: there is none.
struct MapSides {
  std::int64_t rows = 0, pitch = 0;
};

/// One way in which a kernel breaks a rule, with the first instance of it.
struct Finding {
  Kind kind = Kind::none;
  Party access;
  Party earlier;            ///< what it collides with; place 0: nothing
  Progress passed;          ///< by the lane of `access`, before it
  int region = -1;          ///< index of the watched Region, shared_region, or nowhere
  std::int64_t offset = 0;  ///< bytes from its begin; from its end on, or below 0: out of bounds
  int bytes = 0;            ///< of the access
  std::int64_t count = 0;   ///< instances with the same kind and places, within a warp or not
  UnwrittenRun unwritten = {};  ///< of a read of bytes of shared memory that nobody wrote
  /// Of a double arrival, or a copy that missed its phase: a wait was missing before, so that a
  /// thread ran ahead.
  bool behind_missing_wait = false;
  Party used = {};    ///< who used what was read of bytes that nobody wrote; place 0: unknown
  Party waited = {};  ///< where the lane had waited for a copy before it; place 0: nowhere
  Progress earlier_passed = {};   ///< by the lane of `earlier`, until now
  const void* address = nullptr;  ///< of a register, in the stack of the lane of `access`
  std::optional<SiteId> site_of_register = {};  ///< `offset` is then from its begin
  // Of a read of bytes of shared memory that nobody wrote:
  bool updates = false;  ///< who reads them stores there what it made of them
  int left_early = 0;    ///< threads that exited before the block's first barrier
  /// Of a read of bytes of global memory that nobody wrote: those of its region that somebody wrote
  /// and nobody read, until now; −1: it is not known.
  std::int64_t unread = -1;
  MapSides map = {};  ///< of what is out of bounds: by which it was copied
};

/// Whether the two accesses are of lanes of one warp.
constexpr bool is_within_warp(const Finding& f) {
  return f.access.place != 0 && f.earlier.place != 0 && f.access.block == f.earlier.block &&
         f.access.thread / 32 == f.earlier.thread / 32;
}

inline constexpr int nowhere = -1;        ///< no region lies near the address
inline constexpr int shared_region = -2;  ///< the block's shared memory
inline constexpr int registers_region = -3;

}  // namespace lanescope::simt
