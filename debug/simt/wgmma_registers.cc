// The registers of products of warpgroups, under the memory checker: arrays in the stacks of lanes.

#include "debug/simt/async_block.h"

namespace lanescope::simt {
namespace {

bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  const auto* x = static_cast<const std::byte*>(a);
  const auto* y = static_cast<const std::byte*>(b);
  return x < y + b_bytes && y < x + a_bytes;
}

}  // namespace

void AsyncBlock::take_registers(const void* registers, std::size_t bytes, bool is_read,
                                const Caller& caller) {
  BlockChecker* checker = host_.checker();
  const int thread = caller.thread;
  const std::uint32_t place = place_of(caller);
  const auto* words = static_cast<const std::uint32_t*>(registers);
  auto& ranges = operands(thread);
  bool known = false;
  for (OperandRange& range : ranges) {
    if (!overlap(range.begin, range.bytes, registers, bytes)) continue;
    known =
        known || (range.begin <= static_cast<const std::byte*>(registers) && range.bytes >= bytes);
    if (range.touched == 0) continue;
    checker->touch_register(Kind::missing_register_fence, true, place, range.touched, thread,
                            range.begin);
    range.touched = 0;
  }
  if (!known) ranges.push_back({static_cast<const std::byte*>(registers), bytes, 0});
  if (!products(thread / 32).fenced) {
    checker->touch_register(Kind::missing_register_fence, true, place, 0, thread, registers);
  }
  if (!is_read || register_in_flight(thread, registers, bytes) != 0) return;
  for (std::size_t i = 0; i < bytes / 4; ++i) {
    if (words[i] != in_flight_pattern) continue;
    checker->use_unwritten_register_at(place, thread);
    return;
  }
}

std::uint32_t AsyncBlock::register_in_flight(int thread, const void* address,
                                             std::size_t bytes) const {
  const auto lane = static_cast<std::size_t>(thread % 32);
  for (const auto& group : products_[static_cast<std::size_t>(thread / 32)].groups) {
    for (const IssuedProduct& issued : group) {
      const auto holds = [&](const RegisterArray& array) {
        return array.count > 0 && overlap(address, bytes, array.first[lane],
                                          static_cast<std::size_t>(array.count) * 4);
      };
      if (holds(issued.d->registers) || (issued.what.a_in_registers && holds(issued.a))) {
        return issued.place;
      }
    }
  }
  return 0;
}

void AsyncBlock::access_own_stack(int thread, const void* address, std::size_t bytes, bool write,
                                  const void* pc) {
  for (OperandRange& range : operands(thread)) {
    if (!overlap(address, bytes, range.begin, range.bytes)) continue;
    BlockChecker& checker = *host_.checker();
    const std::uint32_t place = checker.place_of(pc);
    range.touched = place;
    if (const std::uint32_t issued = register_in_flight(thread, address, bytes); issued != 0) {
      checker.touch_register(Kind::register_in_flight, write, place, issued, thread, address);
    }
    return;
  }
}

}  // namespace lanescope::simt
