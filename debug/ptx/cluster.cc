#include "debug/ptx/cluster.h"

#include "debug/ptx/block.h"

namespace lanescope::ptx {

std::string ClusterBarrier::story() const {
  return "the cluster's barrier: " + std::to_string(arrived) + " of " + std::to_string(expected) +
         " threads have come";
}

Cluster::Cluster(const Grid& grid, const Program& program, simt::Sitting& sitting, GridOrder& order)
    : grid_(grid), order_(order) {
  for (int rank = 0; rank < grid.blocks_of_cluster(); ++rank) {
    blocks_.push_back(std::make_unique<Block>(grid, program, sitting, order, *this, rank));
  }
}

Cluster::~Cluster() = default;

void Cluster::begin(std::int64_t cluster) {
  std::array<std::uint32_t, 3> first{};
  for (std::size_t i = 0; i < 3; ++i) {
    const std::int64_t along = grid_.blocks[i] / grid_.cluster[i];
    coordinates_[i] = static_cast<std::uint32_t>(cluster % along);
    first[i] = coordinates_[i] * grid_.cluster[i];
    cluster /= along;
  }
  barrier_ = {};
  for (int rank = 0; rank < size(); ++rank) {
    const auto r = static_cast<std::uint32_t>(rank);
    const std::uint32_t x = grid_.cluster[0], y = grid_.cluster[1];
    block(rank).begin({first[0] + r % x, first[1] + r / x % y, first[2] + r / x / y});
  }
}

bool Cluster::go_on() {
  bool goes_on = false;
  for (const auto& block : blocks_) goes_on = block->run_ready() || goes_on;
  if (goes_on) return true;
  // What is under way comes when no block can go on without it.
  for (const auto& block : blocks_) goes_on = block->move_on() || goes_on;
  return goes_on;
}

void Cluster::end() {
  for (const auto& block : blocks_) block->end();
}

Block* Cluster::owner_of(const std::byte* at) {
  for (const auto& block : blocks_) {
    if (static_cast<std::size_t>(at - block->shared()) < block->shared_bytes()) return block.get();
  }
  return nullptr;
}

std::string Cluster::describe_places() const {
  if (size() == 1) return blocks_[0]->describe_places();
  std::string text;
  for (const auto& block : blocks_) {
    if (block->alive() == 0) continue;
    text += "\n of block " + std::to_string(block->index()) + ", rank " +
            std::to_string(block->rank()) + " of its cluster:" + block->describe_places();
  }
  return text;
}

void Cluster::arrive(int lanes) {
  barrier_.arrived += lanes;
  open_if_due();
}

void Cluster::note_exit(int arrived) {
  barrier_.arrived -= arrived;
  open_if_due();
}

void Cluster::open_if_due() {
  barrier_.expected = 0;
  for (const auto& block : blocks_) barrier_.expected += block->alive();
  if (barrier_.arrived == 0 || barrier_.arrived < barrier_.expected) return;
  barrier_.arrived = 0;
  ++barrier_.phase;
  if (grid_.checker && size() > 1) {
    // All that the blocks did before is before all that they do next.
    const auto held = order_.blocks.hold();
    for (int time = 0; time < 2; ++time) {
      for (const auto& block : blocks_) block->time = order_.blocks.meet(&barrier_, block->index());
    }
  }
  for (const auto& block : blocks_) block->open_cluster_barrier();
}

}  // namespace lanescope::ptx
