// PTX ISA, "Data Movement and Conversion Instructions: st.async" and "Parallel Synchronization and
// Communication Instructions: red.async", in their forms that complete on an mbarrier. Both are of
// the generic proxy.

#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include "debug/ptx/atomic.h"
#include "debug/ptx/block.h"
#include "debug/ptx/bulk_copy.h"
#include "debug/ptx/cluster.h"
#include "debug/ptx/decoder.h"

namespace lanescope::ptx {
namespace {

/// The kind of one that stores; others are 1 + their Update.
constexpr std::uint8_t stores = 0;

/// s[0]: the destination, s[2] and `immediate2`: the mbarrier; the numbers are the last of the
/// sources.
template <class T>
Flow store_async(Warp& warp, const Instruction& in, std::uint32_t mask) {
  const std::size_t count = in.vector, bytes = sizeof(T) * count;
  const Place* places = &warp.program().operands[in.operands + in.source_count - count];
  Instruction barrier = in;
  barrier.s[0] = in.s[2];
  barrier.immediate = in.immediate2;
  Recording::Pointers pointers{};
  for (; mask != 0; mask &= mask - 1) {
    const int lane = std::countr_zero(mask);
    if (warp.block().cluster().size() == 1) {
      warp.fail(lane, "the block is alone in its cluster: it is for clusters of several blocks");
    }
    const std::uint64_t address = warp.address_of(in, lane);
    if (address % bytes != 0) {
      warp.fail(lane, "misaligned address: a multiple of " + std::to_string(bytes) + " is needed",
                FaultKind::misaligned_address);
    }
    const Destination at =
        destination_of(warp, lane, in.space, address, bytes, warp.address_of(barrier, lane));
    const bool updates = in.kind != stores;
    if (updates) demand_other_block(warp, lane, at);
    std::array<T, 4> numbers{};
    for (std::size_t i = 0; i < count; ++i) numbers[i] = warp.lanes<T>(places[i])[lane];
    warp.check_sent(at.to, bytes, updates, at.full, lane);
    pointers[static_cast<std::size_t>(lane)] = at.to.block->shared() + at.to.offset;
    at.to.block->async().receive(
        at.to.offset, bytes, *at.full, true, at.caller,
        [=, type = in.type, update = static_cast<Update>(in.kind - 1)](std::byte* to) {
          const auto* from = reinterpret_cast<const std::byte*>(numbers.data());
          updates ? update_elements(update, type, to, from, bytes, false)
                  : void(std::memcpy(to, from, bytes));
        });
  }
  // Who reads it waits for it: as far as numbers go, it is there at once.
  if (Recording* recording = warp.recording(); recording && in.kind == stores) {
    recording->note_pointers(pointers);
  }
  return Flow::next;
}

void take_numbers(Decoder& d, std::size_t count) {
  const std::vector<Operand> elements = d.elements(d.operand(1));
  if (elements.size() != count) {
    d.fail("it has " + std::to_string(elements.size()) + " registers for " + std::to_string(count) +
           " elements");
  }
  for (const Operand& element : elements) {
    const std::size_t before = d.sources.size();
    const Place place = d.source_of(element, d.in.type);
    if (d.sources.size() == before) d.sources.push_back(place);  // a constant
  }
}

}  // namespace

void decode_store_async(Decoder& d) {
  const bool updates = d.modifiers.base() == "red";
  d.modifiers.ignore({"async", "weak", "relaxed", "cluster"});
  if (d.modifiers.take("release") || d.modifiers.take("mmio") || d.modifiers.take("global")) {
    d.refuse("with a release to global memory, which no GPU before sm_100 has");
  }
  d.in.space = d.modifiers.take("shared::cluster") ? Space::shared : Space::generic;
  if (!d.modifiers.take("mbarrier::complete_tx::bytes") && !updates) {
    d.fail(".mbarrier::complete_tx::bytes is missing");
  }
  const int vector = updates ? -1 : d.modifiers.choose({"v2", "v4"}, -1);
  d.in.vector = vector < 0 ? 1 : static_cast<std::uint8_t>(2 << vector);
  if (updates) {
    const int update =
        d.modifiers.choose({"add", "min", "max", "inc", "dec", "and", "or", "xor"}, -1);
    if (update < 0) d.fail("it names no operation");
    d.in.kind = static_cast<std::uint8_t>(1 + update);
  }
  d.in.type = d.demand_type();
  const int bits = bits_of(d.in.type);
  if (updates) {
    const char* fault = fault_of_shared_reduction(static_cast<Update>(d.in.kind - 1), d.in.type);
    if (fault) d.fail(fault);
  } else if ((bits != 32 && bits != 64) || bits * d.in.vector > 128) {
    d.fail("it stores elements of 32 or 64 bits, 16 bytes at most");
  }
  d.demand_operands(3);
  d.address(d.operand(2));
  d.in.s[2] = d.in.s[0];
  d.in.immediate2 = d.in.immediate;
  const bool wide = d.in.wide_address;
  d.address(d.operand(0));
  if (wide != d.in.wide_address) d.refuse("addresses of different widths");
  take_numbers(d, d.in.vector);
  d.in.act = bits == 32 ? store_async<std::uint32_t> : store_async<std::uint64_t>;
}

}  // namespace lanescope::ptx
