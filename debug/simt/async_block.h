#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "debug/simt/accumulators.h"
#include "debug/simt/async_host.h"
#include "debug/simt/hopper.h"
#include "debug/simt/shadow.h"

namespace lanescope::simt {

/// 32-bit registers of a block (CUDA C++ Programming Guide, compute capability 9.0).
inline constexpr int registers_of_block = 65536;

/// Who came to a barrier, and where.
struct Arrival {
  int thread;
  Here here;
  std::uint32_t place;   ///< of the call, in findings
  Epoch epoch = 0;       ///< when, in the lane's time
  bool repeats = false;  ///< of several that one call is, all but the first
  bool in_vain = false;  ///< the thread's last wait passed by a phase that it had waited for
};

/// "0-31,64"
std::string threads_text(const std::vector<Arrival>& arrivals);

class AsyncBlock;
struct WarpProducts;

/// An mbarrier: a phase completes when no arrivals and no bytes are pending.
struct MbarrierState final : Waitable {
  /// The end of a wait: how many phases it saw completed, and when.
  struct Heed {
    std::uint32_t phases = 0;
    Epoch epoch = 0;
    std::uint32_t place = 0;
    std::uint64_t products = 0;  ///< that the thread's warp had issued
  };
  std::string name;
  std::size_t offset = 0;  ///< in shared memory
  int count = 0;           ///< arrivals of each phase
  int pending = 0;         ///< arrivals
  std::int64_t bytes = 0;  ///< that are expected and have not come
  std::int64_t expected = 0;
  std::uint32_t phase = 0;  ///< phases completed
  /// In this phase, in the last one, and in that before it.
  std::vector<Arrival> arrived, arrived_before, arrived_earlier;
  std::vector<int> waiting;  ///< threads
  Epoch initialised = 0;
  bool init_fenced = false;
  /// Of a block of a cluster, who initialised it, and when: others come behind that.
  Party initialised_by{};
  std::uint32_t initialised_at = 0;
  int agent = 0;  ///< of the copies that complete on it: its clock is the phase
  std::uint32_t phase_of_copy = 0, phase_waited_for = 0;  ///< counted from 1, the last ones
  Arrival copied{};                                       ///< who issued the last copy
  std::map<int, Heed> heeded;                             ///< by thread: its last wait
  int under_way = 0;                                      ///< copies that complete on it
  std::set<AsyncBlock*> senders;                          ///< other blocks that have sent copies
  bool has_outsiders = false;  ///< other blocks have arrived, or sent copies
  Carried current;             ///< of all arrivals so far
  /// A phase that completed: what whoever waits for it knows from then on, and its arrivals.
  struct Phase {
    Carried completed;
    std::vector<Epoch> arrivals;  ///< empty: others may have come, or bytes
  };
  std::deque<Phase> phases;  ///< the last of them; under the memory checker
  std::string story() const override;
  /// Of how many phases a lane knows that they have completed, whatever the order in which the
  /// machine ran the lanes.
  std::uint32_t phases_known(const Clocks& clocks, int thread) const;
  bool is_unused() const {
    return phase == 0 && pending == count && expected == 0 && waiting.empty() && copied.place == 0;
  }
  /// A lane whose warp nothing orders before the phase that completes now: had it been slower, its
  /// wait for the phase before would have met this parity, and waited for another phase. Lanes of a
  /// warp go on together, as do those of a warpgroup that has issued a product since. `issued`: by
  /// warp.
  std::optional<std::pair<int, Heed>> overtaken(const std::vector<WarpProducts>& issued) const;
  /// Phases that completed behind the last one that was waited for.
  std::uint32_t unheeded() const { return phase - phase_waited_for; }
  /// How it may come that nobody waited for phases: what is known of those who arrived in them.
  std::string story_of_unheeded() const;
  /// Whether the same thread has come by the same instruction, in this phase or the last one.
  bool has_arrival_of(const Caller& caller) const;
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

/// A product of a warp that was issued: its quarter of the warpgroup's.
struct IssuedProduct {
  Product what;
  std::shared_ptr<Accumulators> d;
  RegisterArray a;  ///< where A is in registers
  std::uint32_t place;
};

/// The products of a warp that were issued and not waited for.
struct WarpProducts {
  std::deque<std::vector<IssuedProduct>> groups;  ///< oldest first; the last one is open
  std::uint64_t issued = 0;
  std::uint32_t groups_done = 0;      ///< and waited for
  std::uint32_t groups_computed = 0;  ///< these and more: another warp of the warpgroup has waited
  bool fenced = false;                ///< has executed wgmma.fence

  std::uint32_t committed() const {
    return groups_done + static_cast<std::uint32_t>(groups.empty() ? 0 : groups.size() - 1);
  }
  /// How many are done where at most `pending` of those committed are not.
  std::uint32_t done_but(int pending) const {
    return committed() - std::min(committed(), static_cast<std::uint32_t>(pending));
  }
};

/// A range of a lane's registers that products have used, in its stack.
struct OperandRange {
  const std::byte* begin;
  std::size_t bytes;
  std::uint32_t touched = 0;  ///< where the lane accessed it since its last wgmma.fence; 0: nowhere
};

/// What a store to global memory does there in the place of writing.
using Reduction = std::function<void(std::byte* to, const std::byte* from, std::size_t bytes)>;

/// The bulk groups of stores of a lane.
struct LaneStores {
  std::vector<std::shared_ptr<Flight>> open;
  std::deque<std::vector<std::shared_ptr<Flight>>> groups;
  std::uint32_t groups_done = 0;
  int agent = 0;
};

/// What the lanes of a warpgroup must do alike: their products are one, which is carried out when
/// all four warps have issued it, and complete for all of them at once. What each of them did
/// before it issued is before what the product reads: PTX ISA does not say so, but a GPU starts a
/// product when all four are there, and CUTLASS and FlashMLA rely on it.
struct WarpgroupCalls final : Waitable {
  struct Call {
    Product what;
    Here here;
    int issued = 0;  ///< by how many warps
    Carried known;   ///< to their lanes, under the memory checker
  };
  std::deque<Call> products;
  std::uint64_t first = 0;   ///< number of the first of them
  int agent = 0;             ///< of all four warps
  std::vector<int> waiting;  ///< threads
  std::string story() const override;
};

/// Of one block: its barriers, and what is under way in it.
class AsyncBlock {
 public:
  AsyncBlock(AsyncHost& host, int threads);

  AsyncHost& host() { return host_; }
  std::uint32_t place_of(const Caller& caller) const;

  /// The barrier at this offset of shared memory; fails where there is none.
  MbarrierState& barrier(std::size_t offset, const Caller& caller);
  void init(std::size_t offset, std::int64_t count, const Caller& caller);
  /// It is none any more.
  void invalidate(std::size_t offset, const Caller& caller);
  /// fence.mbarrier_init: what `thread` knows to be initialised, the asynchronous proxy sees.
  void fence_init(int thread);
  /// fence.proxy.async: generic accesses before it, and asynchronous ones behind it.
  void fence_proxy(int thread);
  /// `count`: arrivals that it is, all at once.
  void arrive(MbarrierState& barrier, const Caller& caller, int count = 1);
  void expect(MbarrierState& barrier, std::int64_t bytes, const Caller& caller);
  void complete_bytes(MbarrierState& barrier, std::int64_t bytes);
  /// Whether the phase of this parity has completed: 1 passes before the first one has. Else
  /// `thread` is woken when a phase has.
  bool try_wait(MbarrierState& barrier, int parity, const Caller& caller);
  /// `thread` waits no longer.
  static void leave(MbarrierState& barrier, int thread);
  /// A lane comes to one of the barriers 1 to 15. False where it must wait until it is woken.
  bool arrive(int id, int threads, bool waits, const Caller& caller);
  const Waitable& named(int id) const { return named_[id]; }

  /// Copies of a box between global and shared memory, from or to this offset. `full` gets the
  /// bytes of a whole box; a store is in the lane's open bulk group. What a lane of another block
  /// loads it has checked for itself in global memory. `again`: another lane has issued the same
  /// store together with this one, and was checked.
  void load(std::size_t to, const TensorMap& map, const std::int64_t* at, int rank,
            MbarrierState& full, const Caller& caller);
  void store(const TensorMap& map, const std::int64_t* at, int rank, std::size_t from,
             const Caller& caller, const Reduction& reduce = {}, bool again = false);
  /// Bytes that come from a lane, or from another block of the cluster
  /// (debug/simt/cluster_copy.cc): `bring` writes them when they land. `generic`: in the generic
  /// proxy, as st.async does it.
  std::shared_ptr<Flight> receive(std::size_t to, std::size_t bytes, MbarrierState& full,
                                  bool generic, const Caller& caller,
                                  std::function<void(std::byte* to)> bring);
  /// A copy from this offset to `to` in the shared memory of `other`, a block of the same cluster,
  /// which completes on its `full`.
  void send(std::size_t from, std::size_t bytes, AsyncBlock& other, std::size_t to,
            MbarrierState& full, const Caller& caller, const Reduction& reduce);
  /// How many copies of this block to `full` have landed; `thread` knows that so many have, so that
  /// they do not read shared memory any more.
  std::uint32_t landed_on(const MbarrierState& full) { return senders_[&full].landed; }
  void learn_landed(const MbarrierState& full, std::uint32_t count, int thread);
  /// The last lane has exited, and shared memory goes with it.
  void finish_sending();
  void commit_stores(int thread);
  /// Until at most `pending` of the lane's committed bulk groups are under way.
  void wait_stores(int pending, int thread);

  void enqueue(const std::shared_ptr<Flight>& flight) { flights_.push_back(flight); }
  /// Carries out a copy, the `choice`-th; false where there is none.
  bool land_one(std::uint64_t choice = 0);
  static void land(Flight& flight) {
    if (!flight.landed) flight.land();
    flight.landed = true;
  }
  bool idle() const { return flights_.empty(); }

  /// The four calls of a warp that wgmma is. What is wrong with a product comes back as text.
  std::string issue(int warp, const Product& what, const RegisterArray& d, const RegisterArray& a,
                    const Caller& caller);
  void commit_products(int warp);
  /// Until at most `pending` groups of the warp are under way. False where another warp of the
  /// warpgroup has not issued its part yet: `caller` is woken when one commits.
  bool wait_for_products(int warp, int pending, const Caller& caller);
  /// The products that end in this wait of the warp: no other warp of the warpgroup has waited for
  /// them yet.
  std::vector<IssuedProduct> ending_products(int warp, int pending);
  void fence_registers(int warp);
  /// These lanes have copied 16 bits of a register. Where a product is under way that gives them,
  /// the copy gets its value in the wait that covers the product, unless it is overwritten before:
  /// so do compilers that move registers before the wait, and ptxas, which makes no instructions of
  /// such moves (debug/simt/register_copies.cc).
  void copy_register(int warp, const HalfRegister& to, const HalfRegister& from,
                     std::uint32_t lanes);

  WarpProducts& products(int warp) { return products_[static_cast<std::size_t>(warp)]; }
  WarpgroupCalls& calls(int warp) { return calls_[static_cast<std::size_t>(warp / 4)]; }
  LaneStores& stores(int thread) { return stores_[thread]; }
  std::vector<OperandRange>& operands(int thread) {
    return operands_[static_cast<std::size_t>(thread)];
  }

  // Of lanes whose registers are their stack, under the memory checker.

  /// A product takes these registers of the lane: as accumulators that it reads or not, or as a
  /// fragment.
  void take_registers(const void* registers, std::size_t bytes, bool is_read, const Caller& caller);
  /// Where the product under way was issued that uses these of the lane's registers; 0: nowhere.
  std::uint32_t register_in_flight(int thread, const void* address, std::size_t bytes) const;
  /// The lane accesses its stack.
  void access_own_stack(int thread, const void* address, std::size_t bytes, bool write,
                        const void* pc);

  /// setmaxnreg of a lane. False where it must wait until it is woken.
  bool change_registers(int registers, bool more, const Caller& caller);
  const Waitable& register_pool() const { return registers_free_; }
  /// At the block's end: what is wrong with how it was left.
  void finish();

 private:
  void complete_if_due(MbarrierState& barrier);
  /// A lane's wait at this parity is over: what it knows now.
  void learn_phase(MbarrierState& barrier, int parity, const Caller& caller);
  /// What `caller` has under way completes on `full` with so many bytes, once `bring` has moved
  /// them.
  std::shared_ptr<Flight> deliver(MbarrierState& full, std::int64_t bytes, const Caller& caller,
                                  std::function<void()> bring);
  void demand_fenced(MbarrierState& full, const AsyncWork& work);
  void wake(std::vector<int>& waiting, const Carried& completed);
  std::string check_alike(int warp, const Product& what, const AsyncWork& work, Here here);
  std::string operand_error(const Product& what, int warp) const;
  void check_operands(const Product& what, int warp, const AsyncWork& work);
  void check_operand(const Product& what, std::uint64_t descriptor, bool transposed, int first_row,
                     int rows, const AsyncWork& work);
  bool is_as_copied(const Product& what, std::uint64_t descriptor, bool transposed, int first_row,
                    int rows) const;
  bool has_rank_in(std::uint64_t descriptor, bool transposed, int first_row, int rows) const;
  bool fits_from_elsewhere(const Product& what, std::uint64_t descriptor, bool transposed,
                           int first_row, int rows) const;
  bool fits_by_other_offset(const Product& what, std::uint64_t descriptor, bool transposed,
                            int first_row, int rows) const;
  Kind kind_of_disagreement(const Product& what, std::uint64_t descriptor, bool transposed,
                            int first_row, int rows) const;
  std::shared_ptr<Accumulators> accumulators_of(int warp, const RegisterArray& d,
                                                const Product& what);
  /// The products' that are under way.
  std::vector<std::shared_ptr<Accumulators>> accumulators_in_flight(int warp);
  /// A product takes these registers over from those that they are of, or are copies of.
  static std::vector<HalfFrom> take_over(
      const std::vector<std::shared_ptr<Accumulators>>& in_flight, const RegisterArray& d);
  void carry_out(int warp, const IssuedProduct& issued);
  void compute_until(int warp, std::uint32_t groups);
  void gather(std::uint64_t descriptor, bool transposed, int first_row, int rows,
              std::uint16_t* to) const;

  /// Registers that others must give back first.
  struct RegisterPool final : Waitable {
    int wanted = 0, free = 0;
    std::string story() const override;
  };

  AsyncHost& host_;
  std::map<std::size_t, MbarrierState> barriers_;  ///< by offset
  NamedBarrier named_[16];
  std::deque<std::shared_ptr<Flight>> flights_;
  std::vector<WarpProducts> products_;
  std::vector<WarpgroupCalls> calls_;
  std::map<int, LaneStores> stores_;
  /// Copies to an mbarrier of another block, which land in their order.
  struct Sender {
    struct Sent {
      std::shared_ptr<Flight> flight;
      int thread;  ///< that issued it
    };
    std::deque<Sent> under_way;
    std::uint32_t landed = 0;
    int agent = 0;  ///< its clock counts the copies
  };
  std::map<const MbarrierState*, Sender> senders_;
  std::vector<std::vector<OperandRange>> operands_;
  /// By thread: whether its last wait ended by phases that it had seen before.
  std::vector<char> waited_in_vain_;
  std::vector<const MbarrierState*> arrived_last_;  ///< by thread
  std::vector<int> registers_;                      ///< of a lane, by thread
  std::vector<int> waiting_for_registers_;          ///< threads
  RegisterPool registers_free_;
};

}  // namespace lanescope::simt
