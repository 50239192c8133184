#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace lanescope::ptx {

/// The global memory that a kernel may use: host memory, whose addresses are the device's. Areas
/// that a kernel under the memory checker uses have simt::guard_bytes before and behind them.
class GlobalMemory {
 public:
  struct Area {
    std::uint64_t begin = 0, end = 0;
    std::string name;
    bool holds(std::uint64_t address, std::size_t bytes) const {
      return address >= begin && address <= end && bytes <= end - address;
    }
  };

  void add(const void* begin, std::size_t bytes, std::string name);
  /// False where nothing begins there.
  bool remove(const void* begin);
  /// The area that holds these bytes, or nullptr.
  const Area* find(std::uint64_t address, std::size_t bytes) const;
  /// The same, where they lie up to simt::guard_bytes outside of it: the host has memory there.
  const Area* find_near(std::uint64_t address, std::size_t bytes) const;
  /// "4 bytes behind the 128 of q": what an address that no area holds is near to.
  std::string describe(std::uint64_t address) const;

 private:
  std::map<std::uint64_t, Area> areas_;  ///< by their begin
};

}  // namespace lanescope::ptx
