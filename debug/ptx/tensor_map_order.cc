#include "debug/ptx/tensor_map_order.h"

#include <algorithm>

namespace lanescope::ptx {

bool TensorMapOrder::knows(const Moment& me, const Event& event, const BlockOrder& order) {
  if (event.party.block == me.party.block) {
    return event.party.thread / 32 == me.party.thread / 32 || me.past.holds(event.epoch);
  }
  return order.holds(event.party.block, event.time, me.party.block);
}

void TensorMapOrder::write(std::uint64_t map, const Moment& me, bool releases) {
  const std::lock_guard lock(mutex_);
  Map& written = maps_[map];
  written = {event_of(me), std::nullopt, {}};
  if (releases) written.released = event_of(me);
}

void TensorMapOrder::release(const Moment& me, const BlockOrder& order) {
  const std::lock_guard lock(mutex_);
  for (auto& [address, map] : maps_) {
    if (!map.released && knows(me, map.written, order)) map.released = event_of(me);
  }
}

void TensorMapOrder::acquire(std::uint64_t map, const Moment& me, const BlockOrder& order) {
  const std::lock_guard lock(mutex_);
  const auto at = maps_.find(map);
  if (at == maps_.end()) return;
  Map& of = at->second;
  if (of.released && knows(me, *of.released, order)) of.acquired.push_back(event_of(me));
}

std::optional<simt::Party> TensorMapOrder::use(std::uint64_t map, const Moment& me,
                                               const BlockOrder& order) const {
  const std::lock_guard lock(mutex_);
  const auto at = maps_.find(map);
  if (at == maps_.end()) return std::nullopt;
  const auto& acquired = at->second.acquired;
  // Each block has to (CUDA C++ Programming Guide, "Tensor maps in global memory").
  const bool seen = std::any_of(acquired.begin(), acquired.end(), [&](const Event& event) {
    return event.party.block == me.party.block && knows(me, event, order);
  });
  return seen ? std::nullopt : std::optional(at->second.written.party);
}

}  // namespace lanescope::ptx
