#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "debug/simt/finding.h"
#include "debug/simt/nan_origin.h"
#include "debug/simt/shadow.h"
#include "reference/tile_layout.h"

namespace lanescope::simt {

/// Unused bytes that must lie before and behind every watched buffer: an access that misses its
/// buffer by less is found and goes on; farther away it ends the block, as it might on a GPU.
inline constexpr std::size_t guard_bytes = 1 << 16;

/// A buffer in global memory that the kernel may use.
struct Region {
  enum class Use : std::uint8_t {
    input,
    output,
    output_once,  ///< every element is written exactly once
  };
  std::string name;
  const void* begin = nullptr;
  std::size_t bytes = 0;
  Use use = Use::input;
  std::size_t element = 4;  ///< bytes of an element; no two lanes write to the same one
  bool filled = false;      ///< an output that holds values before the first launch
};

/// The memory checker of a launch: knows the buffers, and gathers what the blocks' checkers find.
/// The kernel is code compiled with -fsanitize=thread, whose __tsan_* functions report every access
/// (debug/simt/instrumentation.cc). What it cannot see: registers, but for what a shuffle or a
/// matrix product takes, and an index that strays from one member of shared memory into another
/// (it shows as a race or an uninitialised read).
class Checker {
 public:
  /// From the next launch on. The regions must outlive it.
  void watch(std::vector<Region> regions) { regions_ = std::move(regions); }
  const std::vector<Region>& regions() const { return regions_; }
  /// Before a launch: of the bytes at `host`, where watched buffers may lie, the kernel uses a copy
  /// at `copy`.
  void note_copy(const void* host, const void* copy, std::size_t bytes);
  /// Before a launch: the host writes to these bytes of the kernel's; a kernel may read them then.
  void note_host_write(const void* begin, std::size_t bytes);
  /// Before a launch: one more buffer.
  void watch_also(const Region& region);
  /// Whether a watched buffer lies in these bytes.
  bool watches(const void* begin, std::size_t bytes) const;
  /// What places mean in a kernel that is no code of this process, as source_lines has it.
  const std::map<std::uint32_t, std::string>& lines() const { return lines_; }
  void name_places(const std::function<std::string(std::uint32_t place)>& line_of);
  /// Behind a launch: what is found to be overwritten comes before the read in any lane, where
  /// `comes_first` says so of the places of write and read. So the read is not too late, but too
  /// early.
  void tell_early_reads(
      const std::function<bool(std::uint32_t write, std::uint32_t read)>& comes_first);
  /// What was found since the last first launch, in a fixed order, whatever the number of workers.
  const std::vector<Finding>& findings() const { return findings_; }
  /// The file that holds the kernel's code, for source_lines.
  const std::string& image() const { return image_; }

  /// What else the machine saw, for people: where the first NaN was made, and of what.
  const std::vector<std::string>& notes() const { return notes_; }
  void note(const std::vector<std::string>& lines) {
    notes_.insert(notes_.end(), lines.begin(), lines.end());
  }
  /// The first NaN, for programs.
  const NanOrigin& nan_origin() const { return nan_origin_; }
  /// Of several launches the first's that made one.
  void note_nan(const NanOrigin& origin) {
    if (nan_origin_.kind == NanOrigin::Kind::none) nan_origin_ = origin;
  }

  /// Behind a launch: so many bytes of a region were written, and nobody has read them.
  void note_unread(int region, std::int64_t bytes);

  std::size_t shared_bytes() const { return shared_bytes_; }
  /// The tiles in shared memory that the kernel named, in their order.
  const std::set<NamedTile>& tiles() const { return tiles_; }

  /// Writes what was found to a file, from which a checker in another process, told to watch the
  /// same regions, takes it.
  void save(int file) const;
  void load(int file);

  // For the machine.

  /// `kernel` is any function of the kernel's image; `arguments` lie on the calling thread's stack.
  /// A launch that is not the first comes after all that the ones before did.
  void begin(const void* kernel, std::size_t shared_bytes, bool is_first);
  /// The same for a kernel that is no code of this process: its places are numbers from 1 on.
  void begin(std::size_t shared_bytes, bool is_first);
  /// Settles the findings; those of blocks behind `last_block` are dropped, since they may or may
  /// not have run. `complete`: nothing will be written any more; else `finish` says so.
  void end(std::int64_t last_block, bool complete);
  void finish() { find_never_written(); }
  void name_tile(const NamedTile& tile);
  /// The findings of a block that has ended.
  void take(std::int64_t block, std::vector<Finding> found);

  std::uint32_t place_of(const void* return_address) const {
    return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(return_address) - base_);
  }
  /// Enters an access to the element of an output that lies at `offset`. Returns what is wrong.
  /// `rewrites`: it writes the bytes that lie there already, which of several lanes may come last.
  Kind enter(const Region& region, std::size_t offset, bool write, bool rewrites,
             std::int64_t block, Touch me, Past past, Party& earlier);
  /// Whether `address` lies where a kernel finds its arguments and constants: the stack of the
  /// thread that launched, or the kernel's image.
  bool is_exempt(std::uintptr_t address) const {
    return address - stack_ < stack_bytes_ || address - base_ < image_bytes_;
  }

 private:
  /// What is known of an element of an output, by the lowest block that wrote it.
  struct GlobalCell {
    Cell cell;
    std::int64_t block = -1;
    bool before = false;  ///< a launch before this one wrote it
    bool filled = false;  ///< the host did
    bool read = false;    ///< by whom ever, in this launch or one before
    bool written() const { return before || cell.write.epoch != 0; }
  };

  struct HostWrite {
    std::size_t region, first, end;  ///< its elements
  };

  void find_never_written();
  /// Bytes of a region that a launch wrote and none has read; −1: none wrote there.
  std::int64_t unread_of(std::size_t region) const;
  void take_host_writes();
  static std::vector<GlobalCell> cells_of(const Region& region);

  std::vector<Region> regions_;
  std::vector<std::vector<GlobalCell>> cells_;  ///< of each region; empty for inputs
  std::vector<HostWrite> host_writes_;          ///< since the last launch
  std::map<std::int64_t, std::vector<Finding>> found_;
  std::vector<Finding> findings_;
  std::string image_;
  std::map<std::uint32_t, std::string> lines_;
  std::vector<std::string> notes_;
  NanOrigin nan_origin_;
  std::set<NamedTile> tiles_;
  std::uintptr_t base_ = 0;  ///< of the image
  std::size_t image_bytes_ = 0;
  std::uintptr_t stack_ = 0;
  std::size_t stack_bytes_ = 0;
  std::size_t shared_bytes_ = 0;
  std::mutex mutex_;
};

/// Adds an instance to `findings`: merged with one of the same kind and places.
void merge(std::vector<Finding>& findings, const Finding& finding);

}  // namespace lanescope::simt
