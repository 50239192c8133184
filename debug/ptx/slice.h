#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "debug/ptx/global_memory.h"
#include "debug/ptx/history.h"
#include "debug/ptx/recording.h"

namespace lanescope::ptx {

/// A source line that a value came through, with the instructions of it that did.
struct SliceLine {
  std::string line;  ///< "x.cu:17"
  struct Count {
    std::string opcode;
    std::int64_t times;  ///< instructions of warps
  };
  std::vector<Count> instructions;  ///< in the order in which they ran last, backwards
  struct WarpLanes {
    int warp;
    std::uint32_t lanes;
  };
  std::vector<WarpLanes> lanes;
  std::string value;  ///< that the last of them left, where it is known what it is
};

/// How bytes of memory came to hold what they hold: all that was computed, loaded and stored on the
/// way, through registers, lanes and memory, and where it came from. Addresses and conditions are
/// not followed (a thin slice: Sridharan, Fink and Bodik, PLDI 2007): what a wrong address brought,
/// or a wrong branch left out, shows in the lines that are there.
struct Slice {
  std::int64_t block = -1;
  std::vector<SliceLine> lines;  ///< the last that ran first
  /// Another block, of this launch or of one before, whose stores it went on through.
  struct Earlier {
    std::int64_t launch = 0;  ///< counted from 1
    std::int64_t block = 0;
    std::string kernel;
    std::vector<SliceLine> lines;
  };
  std::vector<Earlier> earlier;        ///< the last that stored first
  std::vector<Recording::Mark> marks;  ///< values on the way that markers name, the first one first
  /// Memory that the block found as it is.
  struct Source {
    std::string name;  ///< of the area
    std::int64_t bytes = 0;
    std::uint64_t first = 0, last = 0;  ///< bytes of the area, of those that count
    const std::byte* host = nullptr;    ///< where the area came from, where that is known
  };
  std::vector<Source> sources;
  std::vector<std::string> not_followed;
};

/// Follows the `bytes` at `begin` back through what was done, from the lowest block of the last
/// launch on that wrote them. Empty lines: none did.
Slice slice_of(const History& history, const std::byte* begin, std::size_t bytes,
               const GlobalMemory& memory);

/// The slice for another process, which `read_slice` reads: the last of several in a file counts.
void write_slice(const Slice& slice, int file);

/// The slice, a line each.
std::vector<std::string> slice_notes(const Slice& slice);

}  // namespace lanescope::ptx
