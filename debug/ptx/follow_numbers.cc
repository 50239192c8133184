// Where numbers come from that are not finite: the first NaN and the first infinity that a kernel
// makes, of NaNs the first that it stores, and the way of the NaN back to memory, a constant or
// finite numbers. Registers of up to 32 bits are followed through arithmetic, moves, conversions,
// shuffles, matrix products and shared memory; not through local memory, cp.async and wgmma.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "debug/ptx/block.h"
#include "debug/ptx/lanes.h"
#include "debug/ptx/number_origins.h"
#include "debug/ptx/warp.h"
#include "debug/simt/rounding.h"

namespace lanescope::ptx {
namespace {

/// The number in a register; of two the one that is not finite.
float number_in(Type type, const std::byte* registers, Place place, int lane) {
  const auto half = [&](const simt::Format& format, bool both) {
    const std::uint32_t bits = both ? lane_of<std::uint32_t>(registers, place, lane)
                                    : lane_of<std::uint16_t>(registers, place, lane);
    const auto low = static_cast<float>(simt::value_of(format, bits & 0xffff));
    if (!both || !std::isfinite(low)) return low;
    const auto high = static_cast<float>(simt::value_of(format, bits >> 16));
    return std::isfinite(high) ? low : high;
  };
  switch (type) {
    case Type::f16:
    case Type::f16x2:
      return half(simt::f16_format, type == Type::f16x2);
    case Type::bf16:
    case Type::bf16x2:
      return half(simt::bf16_format, type == Type::bf16x2);
    default:
      return lane_of<float>(registers, place, lane);
  }
}

/// Of 32 lanes that hold floats: which are not finite.
std::uint32_t not_finite(const float* lanes) {
  std::uint32_t bits[32];
  std::memcpy(bits, lanes, sizeof bits);
  std::uint32_t any = 0;
  for (const std::uint32_t x : bits) any |= (x & 0x7f800000) == 0x7f800000 ? 1u : 0u;
  if (any == 0) return 0;
  std::uint32_t which = 0;
  for (std::uint32_t i = 0; i < 32; ++i) {
    which |= static_cast<std::uint32_t>((bits[i] & 0x7f800000) == 0x7f800000) << i;
  }
  return which;
}

/// The same of lanes whose low, or both, 16 bits are a half with these bits for its exponent.
template <class T>
std::uint32_t not_finite(const T* lanes, T exponent, T other) {
  std::uint32_t which = 0;
  bool any = false;
  T bits[32];
  std::memcpy(bits, lanes, sizeof bits);
  for (const T x : bits) any |= (x & exponent) == exponent || (x & other) == other;
  for (std::uint32_t i = 0; any && i < 32; ++i) {
    const bool is = (bits[i] & exponent) == exponent || (bits[i] & other) == other;
    which |= static_cast<std::uint32_t>(is) << i;
  }
  return which;
}

/// Lanes of a register whose numbers are not finite, or one of two.
std::uint32_t not_finite(Type type, const std::byte* at) {
  const bool is_f16 = type == Type::f16 || type == Type::f16x2;
  const std::uint16_t exponent = is_f16 ? 0x7c00 : 0x7f80;
  if (type == Type::f32) return not_finite(reinterpret_cast<const float*>(at));
  if (bits_of(type) == 16) {
    return not_finite(reinterpret_cast<const std::uint16_t*>(at), exponent, exponent);
  }
  return not_finite(reinterpret_cast<const std::uint32_t*>(at), std::uint32_t{exponent},
                    std::uint32_t{exponent} << 16);
}

}  // namespace

bool Warp::follows_numbers() const {
  return !origins_.empty() && !block_.numbers().nan_leaves && !block_.origins().is_full();
}

void Warp::set_origin(Place place, int lane, std::uint32_t node) {
  if (place < carry_place || place >= program_.constants_at) return;
  const std::uint32_t bit = 1u << lane;
  std::uint32_t& some = origin_lanes_[slot_of(place)];
  some = node == 0 ? some & ~bit : some | bit;
  origins_[slot_of(place)][static_cast<std::size_t>(lane)] = node;
  has_origins_ = has_origins_ || node != 0;
}

/// That of a source; a NaN's before an infinity's. Where lanes exchange numbers, any lane's.
std::uint32_t Warp::origin_of(const Place* sources, int count, int lane, bool of_any) const {
  std::uint32_t found = 0;
  const auto take = [&](std::uint32_t node) {
    if (node != 0 && (found == 0 || (std::isnan(block_.origins().value(node)) &&
                                     !std::isnan(block_.origins().value(found))))) {
      found = node;
    }
  };
  for (int i = 0; i < count; ++i) {
    if (sources[i] == no_place) continue;
    const std::uint32_t some = origin_lanes_[slot_of(sources[i])];
    const RegisterOrigins& nodes = origins_[slot_of(sources[i])];
    if (some >> lane & 1) {
      take(nodes[static_cast<std::size_t>(lane)]);
    } else if (of_any && some != 0) {
      take(nodes[static_cast<std::size_t>(std::countr_zero(some))]);
    }
  }
  return found;
}

void Warp::note_made(int lane, float value, std::uint32_t from, const float* operands, int count) {
  NumbersMade& made = block_.numbers();
  const bool is_nan = std::isnan(value);
  if (is_nan ? block_.nans().contains(pc()) : made.infinity.block >= 0) return;
  for (int i = 0; i < count; ++i) {
    if (is_nan ? std::isnan(operands[i]) : !std::isfinite(operands[i])) return;
  }
  NumberMade first{
      block_.index(), thread(lane), pc(), value, {}, count, block_.origins().way_to(from)};
  std::copy_n(operands, count, first.operands.begin());
  if (is_nan) block_.nans().emplace(pc(), first);
  if (!is_nan || made.nan.block < 0) (is_nan ? made.nan : made.infinity) = std::move(first);
}

void Warp::do_and_follow(const Instruction& in, std::uint32_t mask) {
  const Place* results = program_.operands.data() + in.operands;
  std::uint32_t hot = 0;  // lanes with an operand that is not finite
  for (int i = 0; has_origins_ && i < in.result_count + in.source_count; ++i) {
    hot |= origin_lanes_[slot_of(results[i])];
  }
  if (in.number_count == 0) {
    in.lanes(registers_, in, mask);
    if ((hot & mask) == 0) return;
    // Packed, permuted and the like: it is still what it was.
    for (int i = 0; i < in.result_count; ++i) {
      for (std::uint32_t left = mask; left != 0; left &= left - 1) {
        const int lane = std::countr_zero(left);
        set_origin(results[i], lane,
                   origin_of(results + in.result_count, in.source_count, lane, false));
      }
    }
    return;
  }
  const int count = std::min<int>(in.number_count, 3);
  alignas(64) std::byte before[3][128];  // the result may lie where one of them lies
  for (int i = 0; i < count; ++i) {
    if (in.s[i] == in.d) std::memcpy(before[i], registers_ + in.s[i], 128);
  }
  const std::uint32_t first = in.selects ? predicate(in.s[2]) : 0;
  in.lanes(registers_, in, mask);
  // What is computed of values that nobody wrote says nothing.
  const std::uint32_t unwritten = follows_unwritten() ? this->unwritten(in.d).lanes : 0;
  mask &= ~unwritten;
  mask &= hot | not_finite(in.makes, registers_ + in.d);
  for (std::uint32_t left = mask; left != 0; left &= left - 1) {
    const int lane = std::countr_zero(left);
    const float value = number_in(in.makes, registers_, in.d, lane);
    if (std::isfinite(value)) {
      if (hot >> lane & 1) set_origin(in.d, lane, 0);
      continue;
    }
    const Place chosen = in.selects ? in.s[first >> lane & 1 ? 0 : 1] : no_place;
    std::uint32_t from =
        in.selects ? origin_of(&chosen, 1, lane, false) : origin_of(in.s, count, lane, false);
    if (!in.selects && !in.moves) {
      float operands[3];
      for (int i = 0; i < count; ++i) {
        operands[i] = in.s[i] == in.d ? number_in(in.takes, before[i], 0, lane)
                                      : number_in(in.takes, registers_, in.s[i], lane);
      }
      note_made(lane, value, from, operands, count);
    }
    if ((in.moves || in.selects) && from != 0) {
      set_origin(in.d, lane, from);
    } else if (block_.origins().is_at(from, pc())) {
      set_origin(in.d, lane, from);  // a loop goes on with it
    } else {
      set_origin(in.d, lane, block_.origins().add({pc(), thread(lane), value, 0}, from));
    }
  }
}

void Warp::follow_exchange(const Instruction& in, std::uint32_t mask, bool multiplies) {
  const Place* results = program_.operands.data() + in.operands;
  const Place* sources = results + in.result_count;
  std::uint32_t hot = 0;
  for (int i = 0; i < in.source_count; ++i) hot |= origin_lanes_[slot_of(sources[i])];
  for (int i = 0; i < in.result_count; ++i) {
    if (results[i] < carry_place) continue;  // nobody reads it
    if (hot == 0 && !multiplies) {
      origin_lanes_[slot_of(results[i])] &= ~mask;
      continue;
    }
    // What is computed of values that nobody wrote says nothing.
    const std::uint32_t unwritten = follows_unwritten() ? this->unwritten(results[i]).lanes : 0;
    origin_lanes_[slot_of(results[i])] &= ~(mask & unwritten);
    const std::uint32_t some =
        mask & ~unwritten &
        (origin_lanes_[slot_of(results[i])] | not_finite(lanes<float>(results[i])));
    for (std::uint32_t left = some; left != 0; left &= left - 1) {
      const int lane = std::countr_zero(left);
      const float value = lane_of<float>(registers_, results[i], lane);
      const std::uint32_t from =
          std::isfinite(value) ? 0 : origin_of(sources, in.source_count, lane, true);
      if (std::isfinite(value)) {
        set_origin(results[i], lane, 0);
        continue;
      }
      const bool of_nan = from != 0 && std::isnan(block_.origins().value(from));
      if (multiplies && (std::isnan(value) ? !of_nan : from == 0)) {
        note_made(lane, value, from, nullptr, 0);
      }
      set_origin(results[i], lane, block_.origins().add({pc(), thread(lane), value, 0}, from));
    }
  }
}

void Warp::follow_load(Place place, std::uint32_t mask, const Pointers& pointers,
                       std::size_t offset, std::size_t bytes) {
  if (place < carry_place) return;
  std::uint32_t some = block_.origins().any_stored() ? mask : 0;
  if (bytes == 4) some |= mask & not_finite(lanes<float>(place));
  origin_lanes_[slot_of(place)] &= ~mask;
  for (; some != 0; some &= some - 1) {
    const int lane = std::countr_zero(some);
    follow_load(place, lane, pointers[static_cast<std::size_t>(lane)] + offset, bytes);
  }
}

void Warp::follow_load(Place place, int lane, const std::byte* at, std::size_t bytes) {
  if (place < carry_place) return;
  const auto offset = static_cast<std::size_t>(at - shared_);
  std::uint32_t node = offset < shared_bytes_ ? block_.origins().load(offset) : 0;
  if (bytes == 4) {
    const float value = lane_of<float>(registers_, place, lane);
    const bool global = offset >= shared_bytes_ && !is_private(at);
    if (node != 0 || !std::isfinite(value)) {
      node = block_.origins().add(
          {pc(), thread(lane), value, global ? std::bit_cast<std::uint64_t>(at) : 0}, node);
    }
  }
  set_origin(place, lane, node);
}

void Warp::follow_store(Place place, int lane, const std::byte* at) {
  const auto offset = static_cast<std::size_t>(at - shared_);
  const std::uint32_t some = origin_lanes_[slot_of(place)];
  if (some == 0 && !block_.origins().any_stored()) return;
  const std::uint32_t node =
      some >> lane & 1 ? origins_[slot_of(place)][static_cast<std::size_t>(lane)] : 0;
  if (offset < shared_bytes_) {
    block_.origins().store(offset, node);
  } else if (node != 0 && !is_private(at)) {
    NumbersMade& made = block_.numbers();
    made.leaves = true;
    if (made.nan_leaves || !std::isnan(block_.origins().value(node))) return;
    const auto maker = block_.nans().find(block_.origins().maker_of(node));
    if (maker == block_.nans().end()) return;  // it comes from memory
    made.nan = maker->second;
    made.nan_leaves = true;
  }
}

}  // namespace lanescope::ptx
