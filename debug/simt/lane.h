#pragma once

#include <cstddef>
#include <cstdint>
#include <source_location>

#include "reference/element_type.h"
#include "reference/site.h"

namespace lanescope::simt {

/// A place in a kernel's source: where a lane meets other lanes. As a default argument,
/// `Here here = std::source_location::current()` is the place of the call.
struct Here {
  const char* file = "";
  unsigned line = 0;
  unsigned column = 0;
  Here() = default;
  constexpr Here(std::source_location at)
      : file(at.file_name()), line(at.line()), column(at.column()) {}
};

// What a kernel calls while it runs on the SIMT machine. All of it acts on the calling lane.

int thread_index();
std::int64_t block_index();
std::int64_t block_count();
/// 0, 1, ... once each, to the blocks of the launch by turns, however fast each of them is; behind
/// the `all`-th 0 again.
int next_ticket(int all);
/// The block's shared memory, aligned to 1024 bytes.
std::byte* shared_memory();

/// Tells the memory checker, where there is one, that the lane has come to `site` of `tile`, whose
/// value it holds in `bytes` at `value`. item: what the block works on, where it takes up several;
/// else −1.
void pass_site(SiteId site, int tile, std::int64_t item, const void* value, std::size_t bytes);

/// Meets all lanes of the block that have not exited (CUDA C++ Programming Guide, __syncthreads).
void block_barrier(Here here);
/// Meets the lanes of `mask` (PTX ISA, bar.warp.sync).
void warp_barrier(std::uint32_t mask, Here here);

enum class Shuffle : std::uint8_t { index, up, down, butterfly };
/// The value of the lane that `argument` leads to (PTX ISA, shfl.sync, width 32). Reading a lane
/// that is not in `mask` is an error.
std::uint32_t shuffle(Shuffle kind, std::uint32_t value, int argument, std::uint32_t mask,
                      Here here);
/// Bit i: the predicate of lane i (PTX ISA, vote.sync.ballot).
std::uint32_t ballot(bool predicate, std::uint32_t mask, Here here);

/// Queues a copy of 16 bytes, zeros where not `valid`; both addresses are aligned to 16 bytes.
void copy_async_16(void* to_shared, const void* from, bool valid, Here here);
/// Closes the calling lane's current group of copies.
void commit_copies();
/// Carries out the calling lane's committed groups but the newest `pending`.
void wait_copies(int pending);

/// ldmatrix.x4 of 16-bit elements; `row` is aligned to 16 bytes.
void ldmatrix_x4(std::uint32_t (&registers)[4], const void* row, bool transposed, Here here);
/// mma.sync.m16n8k16 with fp32 accumulation; `type` is f16 or bf16.
void mma_m16n8k16(ElementType type, float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                  std::uint32_t b1, Here here);

}  // namespace lanescope::simt
