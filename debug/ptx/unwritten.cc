// What nobody wrote, under the memory checker: reading it is no fault, since kernels load tiles
// whole and mask what lies behind the end. It is followed through registers, shuffles, matrix
// products, shared and local memory; who stores it to global memory, loops by it or takes it for an
// address uses it. Where lanes branch forward by it, what they compute until both ways meet again
// is not written either, so that tails of tiles may be computed and thrown away.

#include <algorithm>
#include <bit>
#include <cstring>

#include "debug/ptx/block.h"
#include "debug/ptx/lanes.h"
#include "debug/ptx/warp.h"

namespace lanescope::ptx {

void Warp::set_unwritten(Place place, std::uint32_t mask, Unwritten value) {
  if (place < carry_place) return;  // nobody reads it
  std::uint32_t& known = unwritten_lanes_[slot_of(place)];
  known = (known & ~mask) | (value.lanes & mask);
  if ((value.lanes & mask) == 0) return;
  unwritten_sources_[slot_of(place)] = value.source;
  for (std::size_t half = 0; half < 2; ++half) {
    std::uint32_t& written = written_halves_[slot_of(place)][half];
    written = (written & ~mask) | (value.but[half] & mask);
  }
}

std::array<std::uint32_t, 2> Warp::written_halves_of(const Instruction& in,
                                                     std::uint32_t given) const {
  std::array<std::uint32_t, 2> written = {0, 0};
  if (in.halves == Halves::high) {
    const std::uint32_t upper = unwritten(in.s[0]).but[1];
    return {given & upper & ~doubt_.lanes, given & ~doubt_.lanes};
  }
  if (in.halves != Halves::each && in.halves != Halves::joined) return written;
  const Place* sources = program_.operands.data() + in.operands + in.result_count;
  for (std::size_t half = 0; half < 2; ++half) {
    std::uint32_t missing = doubt_.lanes;
    for (std::size_t i = 0; i < in.source_count; ++i) {
      if (in.halves == Halves::joined && sources[i] != in.s[half]) continue;
      const Unwritten source = unwritten(sources[i]);
      missing |= source.lanes & ~(in.halves == Halves::each ? source.but[half] : 0);
    }
    written[half] = given & ~missing;
  }
  return written;
}

std::uint32_t Warp::note_absent_lane(int lane) {
  simt::Finding finding;
  finding.kind = simt::Kind::absent_lane;
  finding.access = {false, place_number(), block_.index(), thread(lane)};
  finding.region = simt::registers_region;
  finding.bytes = 4;
  finding.count = 1;
  return keep_source(finding);
}

/// Its index in Block::unwritten_sources. Of an instruction's the first is kept.
std::uint32_t Warp::keep_source(const simt::Finding& finding) {
  auto& sources = block_.unwritten_sources;
  const auto known =
      std::find_if(sources.begin() + 1, sources.end(), [&](const simt::Finding& source) {
        return source.access.place == finding.access.place && source.region == finding.region;
      });
  const auto index = static_cast<std::uint32_t>(known - sources.begin());
  if (known == sources.end()) sources.push_back(finding);
  return index;
}

void Warp::tell_use(Unwritten value, std::uint32_t mask, bool writes) {
  const std::uint32_t lanes = value.lanes & mask;
  if (lanes == 0) return;
  const int lane = std::countr_zero(lanes);
  if (value.source == 0) return block_.checker()->use_unwritten_register(place(), thread(lane));
  simt::Finding finding = block_.unwritten_sources[value.source];
  finding.used = {writes, place_number(), block_.index(), thread(lane)};
  block_.checker()->report(finding);
}

void Warp::doubt(Unwritten guard, std::uint32_t target) {
  const Instruction* code = program_.code.data();
  // An else ends where the branch at the end of its then leads to.
  const Instruction& last = code[target - 1];
  const bool has_else = last.branches && last.guard == no_place && last.target > target;
  doubt_until_ = std::max(doubt_.lanes != 0 ? doubt_until_ : 0, has_else ? last.target : target);
  doubt_.lanes |= guard.lanes;
  doubt_.source = guard.source;
  for (std::uint32_t i = pc() + 1; i < doubt_until_; ++i) {
    const Place* results = program_.operands.data() + code[i].operands;
    for (int k = 0; k < code[i].result_count; ++k) set_unwritten(results[k], guard.lanes, guard);
  }
}

bool Warp::concerns_unwritten(const Instruction& in) const {
  std::uint32_t lanes = doubt_.lanes;
  if (in.guard != no_place) lanes |= unwritten_lanes_[slot_of(in.guard)];
  const Place* operands = program_.operands.data() + in.operands;
  const int count = in.result_count + in.source_count;
  for (int i = 0; i < count; ++i) lanes |= unwritten_lanes_[slot_of(operands[i])];
  return lanes != 0;
}

void Warp::follow_unwritten(const Instruction& in, std::uint32_t active, std::uint32_t mask) {
  Unwritten given;
  const auto take = [&](Unwritten value, std::uint32_t lanes) {
    if ((value.lanes & lanes) == 0) return;
    given.lanes |= value.lanes & lanes;
    given.source = value.source;
  };
  if (doubt_.lanes != 0 && pc() >= doubt_until_) doubt_.lanes &= ~active;
  take(doubt_, in.branches ? 0 : mask);
  std::uint32_t written = mask;  // lanes of the results
  if (in.guard != no_place) {
    const Unwritten guard = unwritten(in.guard);
    if (in.lanes) {
      take(guard, active);
      written |= guard.lanes & active;
    } else if (in.branches && in.target > pc()) {
      if ((guard.lanes & active) != 0) doubt({guard.lanes & active, guard.source}, in.target);
    } else {
      unwritten_lanes_[slot_of(in.guard)] &= ~active;
      tell_use(guard, active);
    }
  }
  if (in.carries) {
    if (in.s[0] != no_place && in.addresses) tell_use(unwritten(in.s[0]), mask);
    return;
  }
  const Place* operands = program_.operands.data() + in.operands;
  std::array<std::uint32_t, 2> selected = {0, 0};  // lanes whose half is written of what they take
  if (in.selects) {
    const std::uint32_t first = predicate(in.s[2]);
    const Unwritten one = unwritten(in.s[0]), other = unwritten(in.s[1]), by = unwritten(in.s[2]);
    take(one, mask & first);
    take(other, mask & ~first);
    take(by, mask);
    for (std::size_t half = 0; half < 2; ++half) {
      selected[half] =
          ((first & (~one.lanes | one.but[half])) | (~first & (~other.lanes | other.but[half]))) &
          ~by.lanes & ~doubt_.lanes;
    }
  } else {
    for (int i = 0; i < in.source_count; ++i) {
      take(unwritten(operands[in.result_count + i]), mask);
    }
  }
  if (!in.lanes) {
    tell_use(given, mask);
    given.lanes = 0;
  }
  const bool is_guarded = in.guard != no_place && (unwritten(in.guard).lanes & active) != 0;
  if (!is_guarded) given.but = written_halves_of(in, given.lanes);
  if (!is_guarded && in.selects) given.but = {given.lanes & selected[0], given.lanes & selected[1]};
  for (int i = 0; i < in.result_count; ++i) {
    Unwritten value = given;
    const bool takes_half = in.halves == Halves::parted || in.halves == Halves::low;
    if (takes_half && !is_guarded) {
      value.lanes &= ~unwritten(in.s[0]).but[static_cast<std::size_t>(i)] | doubt_.lanes;
    }
    set_unwritten(operands[i], written, value);
  }
}

std::uint32_t Warp::unwritten_source(int lane, const std::byte* at, std::size_t bytes) {
  simt::Finding finding;
  finding.kind = simt::Kind::uninitialised_read;
  if (block_.checker()->in_shared(at, bytes)) {
    const auto offset = static_cast<std::size_t>(at - shared_);
    const auto& stored = block_.unwritten_shared;
    for (std::size_t i = offset; !stored.empty() && i < offset + bytes; ++i) {
      if (stored[i] != 0) return stored[i];
    }
    if (!block_.checker()->is_unwritten(at, bytes)) return 0;
    finding.region = simt::shared_region;
    finding.unwritten = block_.checker()->unwritten_run(at);
    finding.left_early = block_.left_early();
    finding.offset = static_cast<std::int64_t>(offset);
  } else {
    if (is_private(at)) return local_source(at, bytes);
    const auto address = std::bit_cast<std::uint64_t>(at);
    const GlobalMemory::Area* area = find_area(address, bytes);
    if (!area || !area->shadow || !area->holds(address, bytes)) return 0;
    if (!area->shadow->is_unwritten(address - area->begin, bytes)) return 0;
    finding.region = area->region;
    finding.offset = static_cast<std::int64_t>(address - area->begin);
  }
  finding.access = {false, place_number(), block_.index(), thread(lane)};
  finding.bytes = static_cast<int>(bytes);
  finding.count = 1;
  return keep_source(finding) + 1;
}

void Warp::note_loaded(Place place, std::uint32_t mask, const Pointers& pointers,
                       std::size_t offset, std::size_t bytes) {
  Unwritten taken;
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    const std::byte* at = pointers[static_cast<std::size_t>(lane)] + offset;
    const std::uint32_t source = unwritten_source(lane, at, bytes);
    if (source == 0) continue;
    taken.lanes |= 1u << lane;
    taken.source = source - 1;
    for (std::size_t half = 0; bytes >= 4 && half < 2; ++half) {
      if (unwritten_source(lane, at + bytes / 2 * half, bytes / 2) == 0) {
        taken.but[half] |= 1u << lane;
      }
    }
  }
  set_unwritten(place, mask, taken);
}

void Warp::note_stored(Place place, int lane, std::byte* at, std::size_t bytes) {
  Unwritten value = unwritten(place);
  if ((doubt_.lanes >> lane & 1) != 0) value = doubt_;
  if (!block_.checker()->in_shared(at, bytes)) {
    if (!is_private(at)) {
      tell_use(value, 1u << lane, true);
    } else {
      note_local(value, lane, at, bytes);
    }
    return;
  }
  if ((value.lanes >> lane & 1) == 0) return note_written(at, bytes);
  simt::Finding& read = block_.unwritten_sources[value.source];
  const bool is_own = read.region == simt::shared_region && read.access.thread == thread(lane);
  if (is_own && read.offset == at - shared_) read.updates = true;
  block_.unwritten_shared.resize(shared_bytes_);
  std::fill_n(&block_.unwritten_shared[static_cast<std::size_t>(at - shared_)], bytes,
              value.source + 1);
  for (std::size_t half = 0; bytes >= 4 && half < 2; ++half) {
    if ((value.but[half] >> lane & 1) != 0) note_written(at + bytes / 2 * half, bytes / 2);
  }
}

void Warp::note_local(const Unwritten& value, int lane, const std::byte* at, std::size_t bytes) {
  const bool is_unwritten = (value.lanes >> lane & 1) != 0;
  if (!is_unwritten && unwritten_local_.empty()) return;
  for (std::size_t i = 0; i < bytes; i += local_piece) {
    const bool has_halves = bytes >= 2 * local_piece;
    const bool half_is_written = has_halves && (value.but[2 * i / bytes] >> lane & 1) != 0;
    if (is_unwritten && !half_is_written) {
      unwritten_local_[at + i] = value.source + 1;
    } else {
      unwritten_local_.erase(at + i);
    }
  }
}

std::uint32_t Warp::local_source(const std::byte* at, std::size_t bytes) const {
  for (std::size_t i = 0; i < bytes && !unwritten_local_.empty(); i += local_piece) {
    const auto known = unwritten_local_.find(at + i);
    if (known != unwritten_local_.end()) return known->second;
  }
  return 0;
}

void Warp::note_written(const std::byte* at, std::size_t bytes) {
  if (block_.unwritten_shared.empty() || !block_.checker()->in_shared(at, bytes)) return;
  std::fill_n(&block_.unwritten_shared[static_cast<std::size_t>(at - shared_)], bytes, 0);
}

void Warp::tell_of_stored(int lane, const std::byte* at, std::size_t bytes) {
  if (block_.unwritten_shared.empty() || !block_.checker()->in_shared(at, bytes)) return;
  const auto* stored = &block_.unwritten_shared[static_cast<std::size_t>(at - shared_)];
  const auto* source = std::find_if(stored, stored + bytes, [](auto s) { return s != 0; });
  if (source != stored + bytes) tell_use({1u << lane, *source - 1}, 1u << lane);
}

bool Warp::check_load(std::uint32_t mask, std::size_t bytes, const Pointers& pointers,
                      bool orders) {
  simt::BlockChecker* checker = block_.checker();
  if (!checker) return false;
  checker->follow_unwritten(true);
  check(Access::read, mask, bytes, pointers, orders);
  checker->follow_unwritten(false);
  return checker->met_unwritten() || !block_.unwritten_shared.empty() || !unwritten_local_.empty();
}

void Warp::check_store(int lane, std::byte* at, const std::byte* value, std::size_t bytes,
                       bool orders) {
  Pointers pointers;
  pointers[static_cast<std::size_t>(lane)] = at;
  const bool same = std::memcmp(at, value, bytes) == 0;
  check(same ? Access::rewrite : Access::write, 1u << lane, bytes, pointers, orders);
}

}  // namespace lanescope::ptx
