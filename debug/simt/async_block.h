#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "debug/simt/hopper.h"
#include "debug/simt/shadow.h"

namespace lanescope::simt {

class BlockRunner;

/// What registers hold while a product is under way: as what was never assigned.
inline constexpr std::uint32_t in_flight_pattern = 0xfefefefe;

/// What lanes can wait for.
class Waitable {
 public:
  virtual ~Waitable() = default;
  /// How far it has come, for lanes that wait in vain.
  virtual std::string story() const = 0;
};

/// Who came to a barrier, and where.
struct Arrival {
  int thread;
  Here here;
  std::uint32_t place;  ///< of the call, in findings
};

/// An mbarrier: a phase completes when no arrivals and no bytes are pending.
struct MbarrierState final : Waitable {
  std::string name;
  std::size_t offset = 0;  ///< in shared memory
  int count = 0;           ///< arrivals of each phase
  int pending = 0;         ///< arrivals
  std::int64_t bytes = 0;  ///< that are expected and have not come
  std::int64_t expected = 0;
  std::uint32_t phase = 0;                       ///< phases completed
  std::vector<Arrival> arrived, arrived_before;  ///< in this phase, and in the last one
  std::vector<int> waiting;                      ///< threads
  Epoch initialised = 0;
  bool init_fenced = false;
  int agent = 0;  ///< of the copies that complete on it: its clock is the phase
  std::uint32_t phase_of_copy = 0, phase_waited_for = 0;  ///< counted from 1, the last ones
  Arrival copied{};                                       ///< who issued the last copy
  Carried completed, current;
  std::string story() const override;
};

/// One of the block's 16 barriers, which take a number of threads.
struct NamedBarrier final : Waitable {
  int id = 0;
  int threads = 0;  ///< of the arrivals that are under way
  std::vector<Arrival> arrived;
  std::vector<int> waiting;
  Carried completed, current;
  std::string story() const override;
};

/// A copy that was issued.
struct Flight {
  std::function<void()> land;
  std::uint32_t place;  ///< where
  bool landed = false;
};

/// What products of a warp accumulate, while they are under way: [16][n].
struct Accumulators {
  int n;
  std::vector<float> x;
  float* registers[32];  ///< of each lane
};

/// A product of a warp that was issued: its quarter of the warpgroup's.
struct IssuedProduct {
  Product what;
  std::shared_ptr<Accumulators> d;
  const std::uint32_t* a[32];
  std::uint32_t place;
};

/// The products of a warp that were issued and not waited for.
struct WarpProducts {
  std::deque<std::vector<IssuedProduct>> groups;  ///< oldest first; the last one is open
  std::uint64_t issued = 0;
  std::uint32_t groups_done = 0;
  int agent = 0;
  bool fenced = false;  ///< has executed wgmma.fence
};

/// A range of a lane's registers that products have used, in its stack.
struct OperandRange {
  const std::byte* begin;
  std::size_t bytes;
  std::uint32_t touched = 0;  ///< where the lane accessed it since its last wgmma.fence; 0: nowhere
};

/// The bulk groups of stores of a lane.
struct LaneStores {
  std::vector<std::shared_ptr<Flight>> open;
  std::deque<std::vector<std::shared_ptr<Flight>>> groups;
  std::uint32_t groups_done = 0;
  int agent = 0;
};

/// What the lanes of a warpgroup must do alike.
struct WarpgroupCalls {
  struct Call {
    Product what;
    Here here;
  };
  std::deque<Call> products;
  std::uint64_t first = 0;  ///< number of the first of them
};

/// Of one block: its barriers, and what is under way in it.
class AsyncBlock {
 public:
  AsyncBlock(BlockRunner& runner, int threads);

  /// The barrier at `memory`; fails where there is none.
  MbarrierState& barrier(const Mbarrier& memory, const char* name, Here here);
  void init(Mbarrier& memory, int count, Here here, std::uint32_t place);
  void fence_init();
  void arrive(MbarrierState& barrier, const char* name, Here here, std::uint32_t place);
  void expect(MbarrierState& barrier, std::int64_t bytes, const char* name, Here here);
  void complete_bytes(MbarrierState& barrier, std::int64_t bytes);
  void wait(MbarrierState& barrier, int parity, Here here);
  void arrive(int id, int threads, bool waits, Here here);

  void enqueue(const std::shared_ptr<Flight>& flight) { flights_.push_back(flight); }
  /// Carries out a copy, the `choice`-th; false where there is none.
  bool land_one(std::uint64_t choice = 0);
  static void land(Flight& flight) {
    if (!flight.landed) flight.land();
    flight.landed = true;
  }
  bool idle() const { return flights_.empty(); }

  WarpProducts& products(int warp) { return products_[static_cast<std::size_t>(warp)]; }
  WarpgroupCalls& calls(int warp) { return calls_[static_cast<std::size_t>(warp / 4)]; }
  LaneStores& stores(int thread) { return stores_[thread]; }
  std::vector<OperandRange>& operands(int thread) {
    return operands_[static_cast<std::size_t>(thread)];
  }

  /// A product that is issued at `place` takes these registers of the running lane: as accumulators
  /// that it reads or not, or as a fragment.
  void take_registers(const void* registers, std::size_t bytes, bool is_read, std::uint32_t place);
  /// Where the product under way was issued that uses these of the lane's registers; 0: nowhere.
  std::uint32_t register_in_flight(int thread, const void* address, std::size_t bytes) const;
  /// Under the memory checker: the running lane accesses its stack, where its registers are.
  void access_own_stack(int thread, const void* address, std::size_t bytes, bool write,
                        const void* pc);

  void change_registers(int thread, int registers, bool more, Here here);
  /// At the block's end: what is wrong with how it was left.
  void finish();

 private:
  void complete_if_due(MbarrierState& barrier);
  void wake(std::vector<int>& waiting, const Carried& completed);

  BlockRunner& runner_;
  std::map<std::size_t, MbarrierState> barriers_;  ///< by offset
  NamedBarrier named_[16];
  std::deque<std::shared_ptr<Flight>> flights_;
  std::vector<WarpProducts> products_;
  std::vector<WarpgroupCalls> calls_;
  std::map<int, LaneStores> stores_;
  std::vector<std::vector<OperandRange>> operands_;
  std::vector<int> registers_;              ///< of a lane, by warp
  std::vector<int> waiting_for_registers_;  ///< threads
  int free_registers_;
};

}  // namespace lanescope::simt
