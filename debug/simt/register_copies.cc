// Registers of products under way that are copied: the copies get the value when it is there.

#include <algorithm>
#include <bit>
#include <utility>

#include "debug/simt/async_block.h"

namespace lanescope::simt {
namespace {

HalfRegister half_of(const RegisterArray& registers, int reg, int half) {
  auto* lanes = reinterpret_cast<std::byte*>(registers.first[static_cast<std::size_t>(reg)]);
  return {lanes + 2 * half, 4};
}

/// Which half of these registers it is: 2 * register + half; -1: none.
int index_in(const RegisterArray& registers, const HalfRegister& one) {
  if (registers.by_lane || one.stride != 4) return -1;
  for (int i = 0; i < registers.count; ++i) {
    const std::ptrdiff_t offset = one.first - half_of(registers, i, 0).first;
    if (offset == 0 || offset == 2) return 2 * i + static_cast<int>(offset / 2);
  }
  return -1;
}

}  // namespace

void Accumulators::begin() {
  for (const HalfFrom& part : beginning) {
    for (std::uint32_t left = part.lanes; left != 0; left &= left - 1) {
      const int lane = std::countr_zero(left), to = 16 * part.half;
      const std::uint32_t half =
          part.from->bits(lane, part.from_reg) >> 16 * part.from_half & 0xffff;
      set_bits(lane, part.reg, (bits(lane, part.reg) & ~(0xffffu << to)) | half << to);
    }
  }
  beginning.clear();
}

void Accumulators::leave_registers() {
  for (int i = 0; i < 2 * registers.count; ++i) {
    copies.push_back({i / 2, i % 2, half_of(registers, i / 2, i % 2), ~0u});
  }
  registers = {{}, 0, registers.by_lane};
}

std::vector<std::shared_ptr<Accumulators>> AsyncBlock::accumulators_in_flight(int warp) {
  std::vector<std::shared_ptr<Accumulators>> all;
  for (const auto& group : products(warp).groups) {
    for (const IssuedProduct& issued : group) {
      if (std::find(all.begin(), all.end(), issued.d) == all.end()) all.push_back(issued.d);
    }
  }
  return all;
}

void AsyncBlock::copy_register(int warp, const HalfRegister& to, const HalfRegister& from,
                               std::uint32_t lanes) {
  for (int lane = 0; lane < 32; ++lane) {
    if ((lanes >> lane & 1) != 0 && !is_in_flight(from.at(lane))) lanes &= ~(1u << lane);
  }
  if (lanes == 0) return;
  const auto in_flight = accumulators_in_flight(warp);
  std::vector<std::pair<Accumulators*, HalfTo>> made;
  for (const auto& d : in_flight) {
    const auto make = [&](int index, std::uint32_t of) {
      if (index_in(d->registers, to) == index) {
        lanes &= ~of;  // it is where it belongs
      } else {
        made.push_back({d.get(), {index / 2, index % 2, to, of}});
      }
    };
    if (const int i = index_in(d->registers, from); i >= 0) make(i, lanes);
    for (const HalfTo& copy : d->copies) {
      if (copy.to == from) make(2 * copy.reg + copy.half, copy.lanes & lanes);
    }
  }
  if (lanes == 0) return;
  for (const auto& d : in_flight) {
    if (index_in(d->registers, to) >= 0) d->leave_registers();
    for (HalfTo& copy : d->copies) {
      if (copy.to == to) copy.lanes &= ~lanes;
    }
    std::erase_if(d->copies, [](const HalfTo& copy) { return copy.lanes == 0; });
  }
  for (const auto& [d, copy] : made) d->copies.push_back(copy);
}

std::vector<HalfFrom> AsyncBlock::take_over(
    const std::vector<std::shared_ptr<Accumulators>>& in_flight, const RegisterArray& d) {
  std::vector<HalfFrom> parts;
  if (d.by_lane) return parts;  // of the vocabulary: a compiler for CPUs copies values
  for (const auto& other : in_flight) {
    bool meets = false;
    for (int i = 0; i < other->registers.count && !meets; ++i) {
      meets = index_in(d, half_of(other->registers, i, 0)) >= 0;
    }
    if (meets) other->leave_registers();
    std::erase_if(other->copies, [&](const HalfTo& copy) {
      const int i = index_in(d, copy.to);
      if (i >= 0) parts.push_back({other, copy.reg, copy.half, i / 2, i % 2, copy.lanes});
      return i >= 0;
    });
  }
  return parts;
}

}  // namespace lanescope::simt
