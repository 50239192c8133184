#include "debug/ptx/global_memory.h"

#include <cstdio>
#include <utility>

#include "debug/simt/checker.h"

namespace lanescope::ptx {

GlobalMemory::Area& GlobalMemory::add(const void* begin, std::size_t bytes, std::string name,
                                      bool guarded) {
  const auto at = reinterpret_cast<std::uint64_t>(begin);
  Area area;
  area.begin = at;
  area.end = at + bytes;
  area.name = std::move(name);
  area.guarded = guarded;
  return areas_[at] = std::move(area);
}

void GlobalMemory::note_freed(const void* begin) {
  areas_.at(reinterpret_cast<std::uint64_t>(begin)).freed = true;
}

bool GlobalMemory::remove(const void* begin) {
  return areas_.erase(reinterpret_cast<std::uint64_t>(begin)) == 1;
}

const GlobalMemory::Area* GlobalMemory::find(std::uint64_t address, std::size_t bytes) const {
  auto at = areas_.upper_bound(address);
  if (at == areas_.begin()) return nullptr;
  --at;
  return at->second.holds(address, bytes) && !at->second.freed ? &at->second : nullptr;
}

const GlobalMemory::Area* GlobalMemory::find_near(std::uint64_t address, std::size_t bytes) const {
  const auto near = [&](const Area& area) {
    return area.guarded && !area.freed && address + simt::guard_bytes >= area.begin &&
           address + bytes <= area.end + simt::guard_bytes;
  };
  const auto next = areas_.upper_bound(address);
  if (next != areas_.begin() && near(std::prev(next)->second)) return &std::prev(next)->second;
  if (next != areas_.end() && near(next->second)) return &next->second;
  return nullptr;
}

std::string GlobalMemory::describe(std::uint64_t address) const {
  char text[32];
  std::snprintf(text, sizeof text, "address %#llx", static_cast<unsigned long long>(address));
  const auto next = areas_.upper_bound(address);
  constexpr std::uint64_t near = 1 << 20;
  if (next != areas_.begin()) {
    const Area& before = std::prev(next)->second;
    if (address - before.begin < before.end - before.begin + near) {
      const bool inside = address < before.end;
      return std::string(text) + ", " +
             std::to_string(address - (inside ? before.begin : before.end)) +
             (inside ? " bytes into the " : " bytes behind the ") + std::to_string(before.bytes()) +
             " of " + before.name + (before.freed ? ", which has been freed" : "");
    }
  }
  if (next != areas_.end() && next->first - address < near) {
    return std::string(text) + ", " + std::to_string(next->first - address) + " bytes before " +
           next->second.name;
  }
  return std::string(text) + ", near no memory that the kernel may use";
}

}  // namespace lanescope::ptx
