#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "debug/ptx/slice.h"

namespace lanescope::ptx {

/// Goes back over what blocks and the host did, with the registers' lanes and the bytes that are
/// still to be explained.
class Slicer {
 public:
  Slicer(const History& history, const GlobalMemory& memory);

  /// From the last time on that `run` wrote some of these bytes; empty where it did not.
  Slice follow_back(const History::Run& run, const std::byte* begin, std::size_t bytes);

 private:
  using Address = std::uintptr_t;
  /// How the results of an instruction hang together with its sources.
  enum class Way : std::uint8_t {
    lane,         ///< lane by lane
    load,         ///< from memory
    store,        ///< to memory
    update,       ///< both
    load_matrix,  ///< ldmatrix
    load_transposed,
    store_matrix,
    store_transposed,
    product,  ///< mma of m16n8
    warp,     ///< of whatever lanes
  };
  static Way way_of(const Program& program, std::uint32_t instruction);
  /// How far back a block's steps have been gone over, and what came through them.
  struct Walk {
    const History::Run* run;
    std::size_t left;                                ///< steps
    std::vector<std::vector<std::uint32_t>> wanted;  ///< lanes, by warp and slot_of
    std::vector<SliceLine> lines;
    std::map<std::string, std::size_t> line_index;

    std::uint64_t when() const { return run->recording.steps()[left - 1].when; }
  };

  const Place* results() const { return program_->operands.data() + in_->operands; }
  const Place* sources() const { return results() + in_->result_count; }
  void step_back(Walk& walk);
  void end(const Walk& walk);
  void go_over(const History::HostWrite& write);
  std::vector<std::uint32_t>& registers_of(Walk& walk, std::size_t warp) const;
  void want(const std::byte* at, std::size_t bytes);
  /// Whether some of these bytes are wanted; from now on they are not.
  bool take(const std::byte* at, std::size_t bytes);
  void want(Place place, std::uint32_t lanes);
  std::uint32_t take(Place place, std::uint32_t lanes);
  /// The lanes of any result that are wanted, and the last of those results.
  std::uint32_t take_results(std::uint32_t lanes);

  // Back over one step (ptx/slice_follow.cc).

  void follow();
  void follow_lanes();
  void follow_copies();
  void follow_elements();
  void follow_access(Way way);
  void follow_matrices(Way way);
  void follow_product();
  void follow_warp();
  void follow_warpgroup();
  void want_row(const std::byte* shared, std::uint64_t descriptor, bool transposed, int row);

  void note_marks();
  template <class F>
  void each_lane(F&& f) const {
    for (std::uint32_t left = step_->mask; left != 0; left &= left - 1) f(std::countr_zero(left));
  }
  void add_line(Walk& walk);
  const std::string& line_of(std::uint32_t instruction);
  void add_sources();

  const History& history_;
  const GlobalMemory& memory_;
  Slice slice_;
  std::vector<Walk> walks_;
  std::unordered_set<Address> bytes_;                       ///< of memory, that are wanted
  std::unordered_set<Address> settled_;                     ///< that nobody wrote, or the host did
  using Origin = std::pair<const Program*, std::uint32_t>;  ///< an instruction
  std::map<Origin, Way> ways_;
  std::map<Origin, std::string> lines_;
  std::vector<std::pair<Place, std::uint32_t>> products_;
  // Of the step at hand.
  const Program* program_ = nullptr;
  const Recording* recording_ = nullptr;
  const Recording::Step* step_ = nullptr;
  const Instruction* in_ = nullptr;
  std::vector<std::uint32_t>* registers_ = nullptr;
  std::uint32_t hits_ = 0;  ///< lanes through which it came
  int last_result_ = -1;    ///< one that was wanted
};

}  // namespace lanescope::ptx
