#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "debug/ptx/area_shadow.h"

namespace lanescope::ptx {

/// The global memory that a kernel may use: host memory, whose addresses are the device's.
class GlobalMemory {
 public:
  struct Area {
    std::uint64_t begin = 0, end = 0;
    std::string name;
    int allocation = 0;        ///< the how manieth of the program's own, from 1; 0: none of them
    bool is_argument = false;  ///< of a kernel, as which its name tells it
    bool guarded = false;      ///< simt::guard_bytes before and behind it are nobody's
    bool freed = false;
    /// Under the memory checker, of an area that is not a buffer it watches itself: what it knows,
    /// and the number that findings call the area by.
    std::shared_ptr<AreaShadow> shadow;
    int region = -1;
    /// Where the host has what lies here: what it is a copy of, or itself; nullptr: nowhere.
    const std::byte* host = nullptr;
    bool holds(std::uint64_t address, std::size_t bytes) const {
      return address >= begin && address <= end && bytes <= end - address;
    }
    std::size_t bytes() const { return end - begin; }
  };

  /// Returns the area, which stays where it is until it is removed.
  Area& add(const void* begin, std::size_t bytes, std::string name, bool guarded);
  /// False where nothing begins there.
  bool remove(const void* begin);
  /// The area may not be used any more; what touches it is told so until it is removed.
  void note_freed(const void* begin);
  /// The area that holds these bytes, or nullptr.
  const Area* find(std::uint64_t address, std::size_t bytes) const;
  Area* find(const void* begin, std::size_t bytes) {
    return const_cast<Area*>(
        std::as_const(*this).find(reinterpret_cast<std::uint64_t>(begin), bytes));
  }
  /// The same, where they lie up to simt::guard_bytes outside of one that has such guards.
  const Area* find_near(std::uint64_t address, std::size_t bytes) const;
  /// "4 bytes behind the 128 of q": what an address that no area holds is near to.
  std::string describe(std::uint64_t address) const;
  /// By their begin.
  std::map<std::uint64_t, Area>& areas() { return areas_; }

 private:
  std::map<std::uint64_t, Area> areas_;  ///< by their begin
};

}  // namespace lanescope::ptx
