#include "gates/run/partition.h"

#include <algorithm>
#include <string>

#include "reference/error.h"

namespace lanescope {
namespace {

constexpr std::int64_t wanted_blocks = 4 * 132;  // four for each multiprocessor of an H200
constexpr std::int64_t least_tiles = 2;          // of a split
constexpr std::int64_t most_splits = 1 << 16;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

Partition partition_of(const Module& module, const Problem& problem,
                       const std::optional<std::int64_t>& splits) {
  if (!module.combines) {
    if (!splits) return {};
    throw UsageError(std::string("--splits: kernel ") + module.kernel + " does not split the keys");
  }
  if (splits && (*splits < 1 || *splits > most_splits)) {
    throw UsageError("--splits: " + std::to_string(*splits) + " is not a number from 1 to " +
                     std::to_string(most_splits));
  }
  Partition partition;
  const std::int64_t group = problem.heads / problem.heads_kv;
  if (problem.len_q < module.br) partition.heads_per_tile = group;
  if (splits) {
    partition.splits = *splits;
    return partition;
  }
  const std::int64_t row_tiles = problem.batch * (problem.heads / partition.heads_per_tile) *
                                 ceil_div(partition.heads_per_tile * problem.len_q, module.br);
  const std::int64_t kv_tiles = ceil_div(problem.len_kv, module.bc);
  partition.splits =
      std::max<std::int64_t>(1, std::min(wanted_blocks / row_tiles, kv_tiles / least_tiles));
  return partition;
}

}  // namespace lanescope
