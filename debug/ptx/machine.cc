#include "debug/ptx/machine.h"

#include <algorithm>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "debug/ptx/block.h"
#include "debug/ptx/cluster.h"
#include "debug/ptx/exec_session.h"
#include "debug/ptx/program_flow.h"
#include "debug/ptx/provenance.h"
#include "debug/simt/checker.h"
#include "debug/simt/last_words.h"
#include "reference/error.h"

namespace lanescope::ptx {
namespace {

constexpr std::int64_t most_threads = 1024;  // of a block (CUDA C++ Programming Guide,
constexpr std::size_t most_shared = std::size_t{227} << 10;  // Technical Specifications)

void demand_fits(const Grid& grid, const Program& program) {
  const auto refuse = [&](const std::string& what) {
    throw LaunchError("the kernel " + readable_name(program.kernel_name) + " is launched with " +
                      what);
  };
  for (int i = 0; i < 3; ++i) {
    const auto side = static_cast<std::size_t>(i);
    if (grid.blocks[side] == 0 || grid.threads[side] == 0) refuse("an empty grid or block");
    if (i > 0 && grid.blocks[side] > 65535) refuse("more than 65535 blocks along y or z");
  }
  if (grid.blocks[0] > 0x7fffffff) refuse("more than 2^31 - 1 blocks along x");
  constexpr int most_of_cluster = 16;  // CUDA C++ Programming Guide, "Thread Block Clusters"
  for (std::size_t i = 0; i < 3; ++i) {
    if (grid.cluster[i] == 0 || grid.blocks[i] % grid.cluster[i] != 0) {
      refuse("a grid that its clusters do not divide");
    }
  }
  if (grid.blocks_of_cluster() > most_of_cluster) {
    refuse("clusters of " + std::to_string(grid.blocks_of_cluster()) +
           " blocks, and a GPU takes 16");
  }
  if (grid.threads[2] > 64) refuse("more than 64 threads along z");
  const std::int64_t most = program.max_threads > 0 ? program.max_threads : most_threads;
  if (grid.thread_count() > std::min(most, most_threads)) {
    refuse("blocks of " + std::to_string(grid.thread_count()) + " threads, and it takes " +
           std::to_string(most));
  }
  if (program.shared_bytes + grid.dynamic_shared > most_shared) {
    refuse(std::to_string(program.shared_bytes + grid.dynamic_shared) +
           " bytes of shared memory, and a block has " + std::to_string(most_shared));
  }
}

/// Without markers that say which row tile a block computes, blocks must be row tiles.
void demand_row_tiles(const Grid& grid, const Program& program) {
  if (!grid.markers || !program.traces || program.names_row_tiles) return;
  if (grid.block_count() == grid.markers->row_tiles) return;
  throw UsageError("the kernel " + program.kernel_name + " is launched with " +
                   std::to_string(grid.block_count()) + " blocks, and the problem has " +
                   std::to_string(grid.markers->row_tiles) + " row tiles of " +
                   std::to_string(grid.markers->br) +
                   " queries (br of the kernel): lanescope::row_tile(batch, head, index) says "
                   "which of them a block computes");
}

/// Whether blocks update memory that others see: which of them comes first decides who takes what,
/// and in which order sums are added up.
bool blocks_meet(const Program& program) {
  return std::ranges::any_of(program.origins, [](const Origin& origin) {
    const std::string_view opcode = origin.opcode;
    if (opcode.starts_with("cp.reduce.")) return true;
    const bool updates = opcode.starts_with("atom.") || opcode.starts_with("red.");
    return updates && opcode.find(".shared") == opcode.npos;
  });
}

/// The clusters along each dimension before the first that is run.
std::array<std::int64_t, 3> first_cluster(const Grid& grid) {
  std::array<std::int64_t, 3> first{};
  for (std::size_t i = 0; i < 3; ++i) first[i] = grid.first_block[i] / grid.cluster[i];
  return first;
}

bool is_run(const Grid& grid, std::int64_t cluster) {
  const auto first = first_cluster(grid);
  for (std::size_t i = 0; i < 3; ++i) {
    const std::int64_t along = grid.blocks[i] / grid.cluster[i];
    if (cluster % along < first[i]) return false;
    cluster /= along;
  }
  return true;
}

std::int64_t cluster_count(const Grid& grid) {
  return grid.block_count() / grid.blocks_of_cluster();
}

/// Whether a block draws again and again, as one does that takes items until none is left.
bool draws_again(const Program& program) {
  for (std::uint32_t at = 0; at < program.origins.size(); ++at) {
    const std::string_view opcode = program.origins[at].opcode;
    if (opcode.starts_with("atom.") && opcode.find(".shared") == opcode.npos &&
        leads_to(program, at, at)) {
      return true;
    }
  }
  return false;
}

/// Which clusters run by turns.
struct Turns {
  std::int64_t at_once = 1;  ///< from one that is a multiple of it on
  bool mixed = false;        ///< in an order in which neighbours are far from each other
};

/// A step by which all of `count` are gone through once, with as little rule as there is: about the
/// golden section of it. By halves, the two splits of a tile would come in pairs.
std::int64_t mixing_step(std::int64_t count) {
  std::int64_t step = count * 382 / 1000 + 1;
  while (std::gcd(step, count) != 1) ++step;
  return step;
}

/// Those of a cooperative grid may wait for each other. Of blocks that take items as they come, one
/// alone would take them all, and of many none would take a second. Of blocks that count
/// themselves, so that the last one merges what all have stored, each must count those of its own
/// work alone, which shows where others than its neighbours come between them.
Turns turns_of(const Grid& grid, const Program& program) {
  constexpr std::int64_t takers = 3, counted = 64;
  const std::int64_t all = cluster_count(grid);
  if (grid.is_cooperative()) return {all};
  if (!program.draws) return {};
  if (draws_again(program)) return {std::min(takers, all)};
  return {std::min(counted, all), true};
}

/// Runs clusters from `first` on by turns until none goes on, as many as the grid has of them.
void run_by_turns(const Grid& grid, const std::vector<std::shared_ptr<Cluster>>& all,
                  std::int64_t first, bool mixed) {
  std::vector<Cluster*> clusters;
  const std::int64_t count = std::min<std::int64_t>(std::ssize(all), cluster_count(grid) - first);
  const std::int64_t step = mixed ? mixing_step(count) : 1;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t next = i * step % count;
    if (!grid.is_cooperative() && !is_run(grid, first + next)) continue;
    clusters.push_back(all[static_cast<std::size_t>(next)].get());
    clusters.back()->begin(first + next);
  }
  bool goes_on = true;
  while (goes_on) {
    goes_on = false;
    for (Cluster* cluster : clusters) goes_on = cluster->go_on() || goes_on;
  }
  for (Cluster* cluster : clusters) cluster->end();
}

}  // namespace

std::int64_t launch(const Grid& grid, const Program& program) {
  demand_fits(grid, program);
  demand_row_tiles(grid, program);
  simt::note_pass();
  if (grid.checker) grid.checker->begin(grid.dynamic_shared + program.shared_bytes, grid.is_first);
  GridOrder order;
  std::mutex mutex;
  std::vector<std::shared_ptr<Cluster>> runners;
  const std::int64_t clusters = cluster_count(grid);
  const Turns turns = turns_of(grid, program);
  const std::int64_t at_once = turns.at_once;
  const auto [x, y, z] = first_cluster(grid);
  const std::int64_t along_y = grid.blocks[1] / grid.cluster[1];
  const std::int64_t along_x = grid.blocks[0] / grid.cluster[0];
  const std::int64_t begin = std::min((z * along_y + y) * along_x + x, clusters);
  // What is recorded, or who takes which part of the work, is so block by block: the same each
  // time.
  const int workers = grid.history || blocks_meet(program) ? 1 : grid.workers;
  const std::optional<simt::Fault> first = simt::run_blocks(
      begin / at_once, (clusters + at_once - 1) / at_once, workers, [&](simt::Sitting& sitting) {
        std::vector<std::shared_ptr<Cluster>> own;
        for (std::int64_t i = 0; i < at_once; ++i) {
          own.push_back(std::make_shared<Cluster>(grid, program, sitting, order));
        }
        const std::lock_guard lock(mutex);
        runners.insert(runners.end(), own.begin(), own.end());
        return
            [=, &grid](std::int64_t turn) { run_by_turns(grid, own, turn * at_once, turns.mixed); };
      });
  std::vector<Block*> blocks;
  for (const auto& runner : runners) {
    for (const auto& block : runner->blocks()) blocks.push_back(block.get());
  }
  for (Block* block : blocks) {
    if (grid.numbers) grid.numbers->add(block->numbers());
  }
  if (grid.slice) {
    grid.slice->found = slice_of(*grid.history, grid.slice->begin, grid.slice->bytes, *grid.memory);
  }
  if (grid.lookout) {
    (grid.lookout->terms ? follow_terms : look_out)(*grid.history, *grid.memory, *grid.lookout);
  }
  if (grid.tally) {
    grid.tally->assign(program.code.size(), {});
    for (const Block* block : blocks) {
      for (std::size_t i = 0; i < grid.tally->size(); ++i) (*grid.tally)[i].add(block->tally()[i]);
    }
  }
  if (grid.checker) {
    grid.checker->end(first ? first->block() : grid.block_count() - 1, false);
    grid.checker->tell_early_reads([&](std::uint32_t write, std::uint32_t read) {
      const std::uint32_t one = write - grid.first_place, other = read - grid.first_place;
      const bool known = one < program.code.size() && other < program.code.size();
      return known && leads_to(program, one, other) && !leads_to(program, other, one);
    });
    grid.checker->name_places([&](std::uint32_t place) {
      const std::uint32_t instruction = place - grid.first_place;
      if (instruction >= program.code.size()) return grid.line_elsewhere(place);
      return program.line_of(instruction) + program.calls_of(instruction) +
             program.stage_of(instruction);
    });
  }
  if (first) {
    const auto faulty = std::find_if(blocks.begin(), blocks.end(), [&](const Block* block) {
      return block->index() == first->block();
    });
    throw KernelFault(*first, (*faulty)->fault());
  }
  return std::accumulate(
      blocks.begin(), blocks.end(), std::int64_t{0},
      [](std::int64_t sum, const Block* block) { return sum + block->instructions(); });
}

}  // namespace lanescope::ptx
