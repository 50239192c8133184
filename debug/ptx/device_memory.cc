// What the device of debug/ptx/runtime.h knows of its memory.

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "debug/ptx/exec_session.h"
#include "debug/ptx/runtime.h"
#include "debug/simt/checker.h"
#include "reference/site.h"

namespace lanescope::ptx {

/// Memory of kernels, with unused bytes before and behind it for the memory checker.
void* Device::place(std::size_t bytes, std::size_t alignment, const std::string& name,
                    bool written) {
  constexpr std::size_t guard = simt::guard_bytes;
  if (bytes > SIZE_MAX / 2) return nullptr;
  std::unique_ptr<std::byte[]> block(new (std::nothrow) std::byte[2 * guard + alignment + bytes]);
  if (!block) return nullptr;
  void* at = block.get() + guard;
  std::size_t space = bytes + alignment;
  at = std::align(alignment, std::max<std::size_t>(bytes, 1), at, space);
  // Of far more than a run touches, most takes no memory.
  if (!settings.ends_of) std::fill_n(static_cast<std::uint32_t*>(at), bytes / 4, poison32);
  GlobalMemory::Area& area = memory_.add(at, bytes, name, true);
  if (checks()) area.shadow = std::make_shared<AreaShadow>(bytes, written);
  blocks_[at] = std::move(block);
  if (History* history = this->history()) history->note_host_write(at, nullptr, bytes);
  return at;
}

void* Device::allocate(std::size_t bytes, bool of_host) {
  constexpr std::size_t alignment = 256;  // as cudaMalloc's
  void* at = place(bytes, alignment, "allocation " + std::to_string(allocations_ + 1), of_host);
  if (!at) {
    denied_ = bytes;
    return nullptr;
  }
  memory_.find(at, 0)->allocation = ++allocations_;
  allocated_ += bytes;
  return at;
}

bool Device::release(void* memory) {
  constexpr std::size_t most_freed = std::size_t{256} << 20;
  GlobalMemory::Area* area = memory_.find(memory, 0);
  if (!area || !blocks_.contains(memory)) return false;
  allocated_ -= area->bytes();
  memory_.note_freed(memory);
  freed_.push_back(memory);
  freed_bytes_ += area->bytes();
  for (; freed_bytes_ > most_freed; freed_.pop_front()) {
    const GlobalMemory::Area& oldest =
        memory_.areas().at(reinterpret_cast<std::uint64_t>(freed_.front()));
    freed_bytes_ -= oldest.bytes();
    memory_.remove(freed_.front());
    blocks_.erase(freed_.front());
  }
  return true;
}

void Device::note_write(const void* to, const void* from, std::size_t bytes) {
  GlobalMemory::Area* area = memory_.find(to, bytes);
  if (!area) return;
  if (History* history = this->history()) history->note_host_write(to, from, bytes);
  const GlobalMemory::Area* source = from ? memory_.find(from, bytes) : nullptr;
  const bool whole = reinterpret_cast<std::uint64_t>(to) == area->begin && bytes == area->bytes();
  if (from && whole) area->host = source ? source->host : static_cast<const std::byte*>(from);
  if (settings.checker) {
    // The buffers of the problem come from the host as they are; what else does is the program's.
    const bool brings_buffer = from && !source && settings.checker->watches(from, bytes);
    brings_buffer ? settings.checker->note_copy(from, to, bytes)
                  : settings.checker->note_host_write(to, bytes);
  }
  if (!area->shadow) return;
  const std::size_t offset = reinterpret_cast<std::uint64_t>(to) - area->begin;
  if (source && source->shadow) {
    area->shadow->note_copy(offset, *source->shadow,
                            reinterpret_cast<std::uint64_t>(from) - source->begin, bytes);
  } else {
    area->shadow->note_write(offset, bytes);
  }
}

bool Device::holds(const void* memory, std::size_t bytes) {
  return memory_.find(memory, bytes) != nullptr;
}

/// A number alone does not tell whose memory it is: what it was to the first kernel that got it
/// does.
void Device::name_allocations(const Program& program, void* const* arguments) {
  for (std::size_t i = 0; i < program.parameters.size(); ++i) {
    const std::size_t bytes = program.parameters[i].bytes;
    for (std::size_t offset = 0; offset + 8 <= bytes; offset += 8) {
      const void* pointer = nullptr;
      std::memcpy(&pointer, static_cast<const std::byte*>(arguments[i]) + offset, 8);
      GlobalMemory::Area* const area = memory_.find(pointer, 0);
      if (!area || area->allocation == 0 || area->is_argument ||
          area->begin != std::bit_cast<std::uint64_t>(pointer)) {
        continue;
      }
      area->is_argument = true;
      area->name += bytes == 8 ? " (" : " (at byte " + std::to_string(offset) + " of ";
      area->name +=
          "argument " + std::to_string(i + 1) + " of " + readable_name(program.kernel_name) + ")";
    }
  }
}

/// The memory checker knows the buffers of the problem; of the others, any bytes of which may
/// belong to a lane, their shadows know, and it learns their names.
void Device::watch_memory(simt::Checker& checker, bool beside_last) {
  if (next_place_ == 1) watched_before_ = checker.regions().size();
  const auto is_watched = [&](const GlobalMemory::Area& area) {
    const auto& regions = checker.regions();
    return std::any_of(regions.begin(),
                       regions.begin() + static_cast<std::ptrdiff_t>(watched_before_),
                       [&](const simt::Region& region) {
                         return area.holds(std::bit_cast<std::uint64_t>(region.begin), 0);
                       });
  };
  for (auto& [begin, area] : memory_.areas()) {
    if (!area.shadow || area.freed) continue;
    if (!session_ && area.region < 0 && is_watched(area)) {
      area.shadow.reset();
      continue;
    }
    if (session_ || area.region < 0) {
      area.region = static_cast<int>(checker.regions().size());
      checker.watch_also({area.name, std::bit_cast<const void*>(begin), area.bytes(),
                          simt::Region::Use::input, 1, true});
    }
    area.shadow->begin_launch(beside_last);
  }
}

void Device::map(void* memory, std::size_t bytes) {
  GlobalMemory::Area& area = memory_.add(memory, bytes, "host memory", false);
  area.host = static_cast<const std::byte*>(memory);
  if (checks()) area.shadow = std::make_shared<AreaShadow>(bytes, true);
}

bool Device::unmap(void* memory) { return !blocks_.contains(memory) && memory_.remove(memory); }

}  // namespace lanescope::ptx
