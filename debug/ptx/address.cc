// Where the memory lies that an instruction names.

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <utility>

#include "debug/ptx/block.h"
#include "debug/ptx/cluster.h"
#include "debug/ptx/lanes.h"
#include "debug/ptx/warp.h"

namespace lanescope::ptx {
namespace {

std::string hex(std::uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "%#llx", static_cast<unsigned long long>(value));
  return text;
}

/// Addresses that an access may use: of `bytes` each, at a multiple of `bytes`; plus `to_host` they
/// are the host's.
struct Range {
  std::uint64_t begin, size, bytes, to_host;
};

/// The addresses of the lanes of a register, on the host, and which lanes lie outside of the range.
template <class Address>
[[gnu::always_inline]] inline std::uint32_t compute_addresses(const std::byte* base,
                                                              std::uint64_t offset,
                                                              const Range& range,
                                                              Pointers& pointers) {
  const auto* lanes = reinterpret_cast<const Address*>(base);
  const std::uint64_t begin = range.begin, odd = range.bytes - 1;
  const std::uint64_t most = range.size >= range.bytes ? range.size - range.bytes : 0;
  // Of all of them: bit 63 where one lies before or behind those that may be used; bits of any.
  std::uint64_t far = 0, bits = 0;
  for (int i = 0; i < 32; ++i) {
    const std::uint64_t address = lanes[i] + offset, behind = address - begin;
    pointers[static_cast<std::size_t>(i)] = std::bit_cast<std::byte*>(address + range.to_host);
    far |= behind | (most - behind);
    bits |= address;
  }
  if (!(far >> 63) && !(bits & odd) && range.size >= range.bytes) return 0;
  std::uint32_t outside = 0;
  for (int i = 0; i < 32; ++i) {
    const std::uint64_t address = lanes[i] + offset;
    const bool strays = range.size < range.bytes || address - begin > most || (address & odd) != 0;
    outside |= static_cast<std::uint32_t>(strays) << i;
  }
  return outside;
}

using ComputeAddresses = std::uint32_t (*)(const std::byte*, std::uint64_t, const Range&,
                                           Pointers&);
template <class Address>
std::uint32_t addresses_portable(const std::byte* base, std::uint64_t offset, const Range& range,
                                 Pointers& pointers) {
  return compute_addresses<Address>(base, offset, range, pointers);
}
#if defined(__x86_64__)
template <class Address>
[[gnu::target("avx2")]] std::uint32_t addresses_avx2(const std::byte* base, std::uint64_t offset,
                                                     const Range& range, Pointers& pointers) {
  return compute_addresses<Address>(base, offset, range, pointers);
}
#endif
template <class Address>
ComputeAddresses addresses_function() {
#if defined(__x86_64__)
  if (has_wide_lanes()) return addresses_avx2<Address>;
#endif
  return addresses_portable<Address>;
}

}  // namespace

void Warp::fail(int lane, const std::string& what, FaultKind kind) {
  block_.fail("lane " + std::to_string(lane) + " of warp " + std::to_string(index_) + ", " +
                  program_.describe(current_->pc) + ": " + what,
              kind);
}

/// Under the memory checker it may lie beside the bytes, which is told of and goes on.
const GlobalMemory::Area* Warp::find_area(std::uint64_t address, std::size_t bytes) const {
  if (area_.holds(address, bytes)) return area_.whole;
  const GlobalMemory& memory = *block_.grid().memory;
  const GlobalMemory::Area* area = memory.find(address, bytes);
  return area || !block_.checker() ? area : memory.find_near(address, bytes);
}

std::uint64_t Warp::address_of(const Instruction& in, int lane) const {
  const std::byte* base = registers_ + in.s[0];
  const std::uint64_t at = in.wide_address ? reinterpret_cast<const std::uint64_t*>(base)[lane]
                                           : reinterpret_cast<const std::uint32_t*>(base)[lane];
  return at + static_cast<std::uint64_t>(in.immediate);
}

std::byte* Warp::locate(Space space, std::uint64_t address, std::size_t bytes, int lane) {
  if (space == Space::generic) {
    const std::uint64_t window = address & window_mask;
    space = window == shared_window  ? Space::shared
            : window == local_window ? Space::local
            : window == param_window ? Space::param
                                     : Space::global;
    address &= ~window_mask;
  }
  const auto inside = [&](std::size_t begin, std::size_t size, const char* what) {
    if (address >= begin && address - begin <= size && bytes <= size - (address - begin)) return;
    fail(lane,
         hex(address) + " is outside of " + what + ", which has " + std::to_string(size) +
             " bytes from " + hex(begin) + " on",
         FaultKind::illegal_address);
  };
  switch (space) {
    case Space::shared: {
      if (address >> rank_shift != static_cast<std::uint64_t>(block_.rank())) {
        return locate_in_cluster(address, bytes, lane);
      }
      address &= shared_offset_bits;
      // The memory checker names what is just outside, and goes on.
      const std::size_t guard = block_.checker() ? simt::guard_bytes : 0;
      if (guard == 0 || address < shared_begin - std::min<std::size_t>(guard, shared_begin) ||
          address > shared_begin + block_.shared_bytes() + guard - bytes) {
        inside(shared_begin, block_.shared_bytes(), "the block's shared memory");
      }
      return block_.shared() +
             (static_cast<std::int64_t>(address) - static_cast<std::int64_t>(shared_begin));
    }
    case Space::local:
      inside(0, program_.local_bytes, "the lane's local memory");
      return local_memory(lane) + address;
    case Space::param:
      inside(0, program_.parameter_bytes, "the kernel's parameters");
      return const_cast<std::byte*>(static_cast<const std::byte*>(block_.grid().parameters)) +
             address;
    default:
      break;
  }
  if (!area_.holds(address, bytes)) {
    const GlobalMemory::Area* area = find_area(address, bytes);
    if (!area) {
      fail(lane, block_.grid().memory->describe(address), FaultKind::illegal_address);
    }
    if (area->holds(address, bytes)) area_ = {area->begin, area->end, area};
  }
  return std::bit_cast<std::byte*>(address);
}

std::byte* Warp::locate_in_cluster(std::uint64_t address, std::size_t bytes, int lane) {
  Cluster& cluster = block_.cluster();
  const std::uint64_t rank = address >> rank_shift;
  const std::uint64_t offset = (address & shared_offset_bits) - shared_begin;
  if (rank >= static_cast<std::uint64_t>(cluster.size())) {
    fail(lane, hex(address) + " is no address of a cluster's shared memory",
         FaultKind::illegal_address);
  }
  Block& owner = cluster.block(static_cast<int>(rank));
  if (offset > owner.shared_bytes() || bytes > owner.shared_bytes() - offset) {
    fail(lane,
         hex(address) + " is outside of the shared memory of the block of rank " +
             std::to_string(rank) + ", which has " + std::to_string(owner.shared_bytes()) +
             " bytes",
         FaultKind::illegal_address);
  }
  if (owner.alive() == 0) {
    fail(lane,
         "the block of rank " + std::to_string(rank) +
             " has exited, and its shared memory is gone: a barrier.cluster before its end is "
             "missing",
         FaultKind::illegal_address);
  }
  return owner.shared() + offset;
}

Block* Warp::other_block_of(const std::byte* at) const {
  if (block_.cluster().size() == 1) return nullptr;
  Block* owner = block_.cluster().owner_of(at);
  return owner == &block_ ? nullptr : owner;
}

void Warp::locate(const Instruction& in, std::uint32_t mask, std::size_t bytes,
                  Pointers& pointers) {
  static const ComputeAddresses wide = addresses_function<std::uint64_t>();
  static const ComputeAddresses narrow = addresses_function<std::uint32_t>();
  // Nearly all accesses: within shared memory, or where the last one was.
  Range range{0, 0, bytes, 0};
  if (in.space == Space::shared) {
    const std::uint64_t begin = block_.shared_base();
    range = {begin, shared_bytes_, bytes, std::bit_cast<std::uint64_t>(shared_) - begin};
  }
  if (in.space == Space::global) range = {area_.begin, area_.end - area_.begin, bytes, 0};
  const std::uint32_t outside =
      mask & (in.wide_address ? wide : narrow)(
                 registers_ + in.s[0], static_cast<std::uint64_t>(in.immediate), range, pointers);
  const bool lenient = block_.checker() != nullptr;  // it tells of what is misaligned
  for (std::uint32_t left = outside; left != 0; left &= left - 1) {
    const int lane = std::countr_zero(left);
    const auto i = static_cast<std::size_t>(lane);
    const std::uint64_t address = std::bit_cast<std::uint64_t>(pointers[i]) - range.to_host;
    if (address % bytes != 0 && !lenient) {
      fail(lane,
           "misaligned address " + hex(address) + ": a multiple of " + std::to_string(bytes) +
               " is needed",
           FaultKind::misaligned_address);
    }
    pointers[i] = locate(in.space, address, bytes, lane);
  }
  if (block_.grid().tallies_accesses) tally_access(mask, bytes, pointers);
  if (recording_) recording_->note_pointers(pointers);
}

void Warp::tally_access(std::uint32_t mask, std::size_t bytes, const Pointers& pointers) {
  InstructionTally* tally = block_.tally_of(pc());
  if (!tally || mask == 0) return;
  const std::byte* first = pointers[static_cast<std::size_t>(std::countr_zero(mask))];
  if (is_private(first) || other_block_of(first)) return;
  const bool shared = static_cast<std::size_t>(first - shared_) < shared_bytes_;
  std::array<std::uint64_t, 32> at{};
  for (std::size_t i = 0; i < 32; ++i) {
    at[i] = std::bit_cast<std::uint64_t>(pointers[i]) -
            (shared ? std::bit_cast<std::uint64_t>(shared_) : 0);
  }
  if (shared) {
    tally->shared.add(shared_cost(mask, bytes, at));
  } else {
    tally->global.add(global_cost(mask, bytes, at));
  }
}

const void* Warp::place() const {
  return std::bit_cast<const void*>(std::uintptr_t{place_number()});
}

std::uint32_t Warp::place_number() const {
  return static_cast<std::uint32_t>(pc() + block_.grid().first_place);
}

}  // namespace lanescope::ptx
