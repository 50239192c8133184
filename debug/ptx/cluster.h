#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "debug/ptx/machine.h"
#include "debug/ptx/tensor_map_order.h"
#include "debug/simt/async_host.h"

namespace lanescope::ptx {

class Block;

/// The barrier of a cluster (PTX ISA, barrier.cluster): a phase completes when all lanes of its
/// blocks that have not exited have arrived.
struct ClusterBarrier final : simt::Waitable {
  int arrived = 0, expected = 0;
  std::uint32_t phase = 0;  ///< phases completed
  std::string story() const override;
};

/// Runs clusters of a grid, one after the other, on the calling thread. The blocks of one run by
/// turns, warp by warp: each can read and write the shared memory of the others. A grid without
/// clusters has one block in each.
class Cluster {
 public:
  Cluster(const Grid& grid, const Program& program, simt::Sitting& sitting, GridOrder& order);
  ~Cluster();

  // The run of one. They throw Fault.

  void begin(std::int64_t cluster);
  /// Whether anything went on.
  bool go_on();
  /// Nothing does any more.
  void end();

  int size() const { return static_cast<int>(blocks_.size()); }
  Block& block(int rank) { return *blocks_[static_cast<std::size_t>(rank)]; }
  const std::vector<std::unique_ptr<Block>>& blocks() const { return blocks_; }
  /// Coordinates in the grid of clusters.
  std::array<std::uint32_t, 3> coordinates() const { return coordinates_; }
  /// The block whose shared memory an address lies in; nullptr: none of the cluster.
  Block* owner_of(const std::byte* at);

  /// Where the lanes of its blocks are.
  std::string describe_places() const;

  const ClusterBarrier& barrier() const { return barrier_; }
  /// So many lanes have come to the barrier.
  void arrive(int lanes);
  /// Lanes have exited, of which so many had come to the barrier of this phase.
  void note_exit(int arrived);

 private:
  void open_if_due();

  const Grid& grid_;
  GridOrder& order_;
  std::vector<std::unique_ptr<Block>> blocks_;  ///< by rank
  std::array<std::uint32_t, 3> coordinates_{};
  ClusterBarrier barrier_;
};

}  // namespace lanescope::ptx
