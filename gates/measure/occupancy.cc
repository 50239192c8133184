#include "gates/measure/occupancy.h"

#include <algorithm>
#include <charconv>

namespace lanescope {
namespace {

struct Limits {
  int arch;
  int warps, blocks;
  std::int64_t shared;           ///< bytes
  std::int64_t shared_reserved;  ///< bytes that the system takes of each block's share
  std::int64_t shared_unit;      ///< bytes
};

constexpr std::int64_t kib = 1024;
constexpr Limits known_limits[] = {
    {70, 64, 32, 96 * kib, 0, 256},     {75, 32, 16, 64 * kib, 0, 256},
    {80, 64, 32, 164 * kib, kib, 128},  {86, 48, 16, 100 * kib, kib, 128},
    {87, 48, 16, 164 * kib, kib, 128},  {89, 48, 24, 100 * kib, kib, 128},
    {90, 64, 32, 228 * kib, kib, 128},  {100, 64, 32, 228 * kib, kib, 128},
    {103, 64, 32, 228 * kib, kib, 128}, {120, 48, 24, 100 * kib, kib, 128},
};
constexpr int registers_of_quarter = 16384, quarters = 4, register_unit = 256;

template <class N>
N round_up(N value, N unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

std::optional<int> blocks_per_multiprocessor(std::string_view arch, const BlockNeeds& needs) {
  int number = 0;
  if (arch.starts_with("sm_")) {
    std::from_chars(arch.data() + 3, arch.data() + arch.size(), number);
  }
  const auto* limits = std::find_if(std::begin(known_limits), std::end(known_limits),
                                    [&](const Limits& l) { return l.arch == number; });
  if (limits == std::end(known_limits)) return std::nullopt;
  const int warps = (needs.threads + 31) / 32;
  int blocks = std::min(limits->blocks, limits->warps / warps);
  if (needs.registers > 0) {
    const int of_warp = round_up(needs.registers * 32, register_unit);
    blocks = std::min(blocks, registers_of_quarter / of_warp * quarters / warps);
  }
  const std::int64_t shared = round_up(needs.shared + limits->shared_reserved, limits->shared_unit);
  if (shared > 0) {
    blocks = static_cast<int>(std::min<std::int64_t>(blocks, limits->shared / shared));
  }
  return blocks;
}

}  // namespace lanescope
