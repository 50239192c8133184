#include "debug/ptx/tally.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace lanescope::ptx {
namespace {

constexpr std::uint64_t bank_bytes = 4, bank_count = 32, sector_bytes = 32;

/// The multiples of `grain` that the accesses touch, divided by it, each once.
std::vector<std::uint64_t> touched(std::uint32_t mask, std::size_t bytes, std::uint64_t grain,
                                   std::span<const std::uint64_t, 32> at) {
  std::vector<std::uint64_t> all;
  for (std::size_t lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    for (std::uint64_t i = at[lane] / grain; i <= (at[lane] + bytes - 1) / grain; ++i) {
      all.push_back(i);
    }
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

}  // namespace

AccessCost shared_cost(std::uint32_t mask, std::size_t bytes,
                       std::span<const std::uint64_t, 32> at) {
  AccessCost cost{1, 0, 0};
  // What more than 4 bytes a lane are goes by halves or quarters of the warp.
  const std::size_t lanes_at_once =
      std::max<std::size_t>(32 * bank_bytes / std::max<std::size_t>(bytes, bank_bytes), 1);
  for (std::size_t first = 0; first < 32; first += lanes_at_once) {
    const std::uint32_t some = lanes_at_once == 32 ? ~0u : ((1u << lanes_at_once) - 1) << first;
    if ((mask & some) == 0) continue;
    std::array<std::int64_t, bank_count> words{};
    for (const std::uint64_t word : touched(mask & some, bytes, bank_bytes, at)) {
      ++words[word % bank_count];
    }
    cost.taken += *std::max_element(words.begin(), words.end());
    ++cost.needed;
  }
  return cost;
}

AccessCost global_cost(std::uint32_t mask, std::size_t bytes,
                       std::span<const std::uint64_t, 32> at) {
  const auto taken = touched(mask, bytes, sector_bytes, at).size();
  const auto used = touched(mask, bytes, 1, at).size();
  return {1, static_cast<std::int64_t>(taken),
          static_cast<std::int64_t>((used + sector_bytes - 1) / sector_bytes)};
}

void InstructionTally::add(const InstructionTally& other) {
  shared.add(other.shared);
  global.add(other.global);
  waits += other.waits;
  awaited += other.awaited;
  opened_short += other.opened_short;
  crossed += other.crossed;
  this->other = std::max(this->other, other.other);
  if (other.block >= 0 && (block < 0 || other.block < block)) {
    came = other.came;
    expected = other.expected;
    block = other.block;
  }
}

std::vector<LineCost> costly_lines(const Tally& tally, const Program& program) {
  std::map<std::pair<std::string, bool>, AccessCost> by_line;
  for (std::uint32_t i = 0; i < tally.size(); ++i) {
    for (const bool shared : {true, false}) {
      const AccessCost& cost = shared ? tally[i].shared : tally[i].global;
      if (cost.accesses > 0) by_line[{program.describe(i), shared}].add(cost);
    }
  }
  std::vector<LineCost> lines;
  for (const auto& [place, cost] : by_line) {
    if (cost.taken > cost.needed) lines.push_back({place.first, place.second, cost});
  }
  std::stable_sort(lines.begin(), lines.end(), [](const LineCost& a, const LineCost& b) {
    return a.cost.taken - a.cost.needed > b.cost.taken - b.cost.needed;
  });
  return lines;
}

}  // namespace lanescope::ptx
