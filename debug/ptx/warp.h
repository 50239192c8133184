#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "debug/ptx/global_memory.h"
#include "debug/ptx/machine.h"
#include "debug/ptx/program.h"
#include "debug/ptx/recording.h"
#include "debug/ptx/tensor_map_order.h"
#include "debug/simt/async_host.h"
#include "debug/simt/block_checker.h"

namespace lanescope::simt {
struct IssuedProduct;
struct MbarrierState;
}  // namespace lanescope::simt

namespace lanescope::ptx {

class Block;
struct Vote;

/// Lanes of a warp that run together: at one place, called from the same places.
struct Split {
  /// `polls`: comes to its instruction again when it is woken.
  enum class State : std::uint8_t { ready, waits, at_barrier, polls };
  std::uint32_t pc = 0;
  std::uint32_t mask = 0;
  State state = State::ready;
  int barrier = -1;           ///< where it waits at one
  bool told_in_vain = false;  ///< that what it polls for has not come
  const simt::Waitable* waits_for = nullptr;
  std::uint64_t turn = 0;              ///< when it ran last
  std::vector<std::uint32_t> returns;  ///< the calls that it is in, the outermost first
  std::vector<std::uint32_t> calls;    ///< index into Program::calls of each
};

/// The host addresses of an access, a lane each.
using Pointers = std::array<std::byte*, 32>;

/// The lanes of a register whose value nobody wrote, and where it comes from: an index into
/// Block::unwritten_sources, 0: a register that nothing was assigned to.
struct Unwritten {
  std::uint32_t lanes = 0;
  std::uint32_t source = 0;
  /// Of these lanes those whose lower and upper 16 bits were written, of 32; else none of it was.
  std::array<std::uint32_t, 2> but = {0, 0};
};

/// One warp of a running block. Its lanes may take different ways: they then form splits, of which
/// the one that is deepest in calls, and among those the one with the lowest place, runs first, and
/// which become one again where they meet. Compilers lay code out so that lanes which have parted
/// meet again at a higher place, which makes this reconverge like hardware does; and since no lane
/// is ever needed to move another on but where PTX says so (bar.warp.sync, shfl.sync, ...), it
/// cannot deadlock: a split that waits lets the others run, and one that spins loses its turn after
/// a while (Volta's independent thread scheduling).
class Warp {
 public:
  Warp(Block& block, int index);
  Warp(const Warp&) = delete;
  Warp& operator=(const Warp&) = delete;

  /// Puts all lanes at the begin of the program.
  void begin(std::uint32_t lanes);
  bool done() const { return alive_ == 0; }
  bool ready() const;
  /// Runs until nothing of it is ready or `turns` instructions have run.
  void run(std::int64_t turns);
  std::int64_t instructions() const { return instructions_; }

  // For the operations.

  Block& block() { return block_; }
  const Program& program() const { return program_; }
  std::byte* registers() { return registers_; }
  /// Where to note what is done; nullptr: nowhere.
  Recording* recording() { return recording_; }
  int index() const { return index_; }
  std::uint32_t alive() const { return alive_; }
  Split& split() { return *current_; }
  const std::vector<Split>& splits() const { return splits_; }
  std::uint32_t pc() const { return current_->pc; }
  /// The thread of the block that a lane is.
  int thread(int lane) const { return index_ * 32 + lane; }

  template <class T>
  T* lanes(Place place) {
    return reinterpret_cast<T*>(registers_ + place);
  }
  std::uint32_t& predicate(Place place) { return *lanes<std::uint32_t>(place); }

  /// Sends the lanes of `mask` to `target`, the others of the split go on.
  Flow branch(std::uint32_t mask, std::uint32_t target);
  /// Sends `some` to `target`; `others` come to the same instruction again.
  Flow branch_some(std::uint32_t some, std::uint32_t others, std::uint32_t target);
  Flow call(const Call& call, std::uint32_t mask, std::uint32_t index);
  Flow return_from_call(std::uint32_t mask);
  Flow exit(std::uint32_t mask);
  /// Whether all lanes that a lane names in `members`, and that have not exited, are in the split
  /// with the same members. Where that holds for some lanes only, the others wait here.
  Flow converge(const std::array<std::uint32_t, 32>& members);
  /// The same for instructions that all lanes of the warp execute together.
  Flow converge_all();
  /// Has the splits at this barrier go on behind their instructions.
  void release(int barrier, const Vote& vote);
  /// What bar.red leaves where the barrier has opened.
  void write_vote(const Instruction& in, std::uint32_t mask, const Vote& vote);
  /// What these lanes did before is seen by all of them behind.
  void order_accesses(std::uint32_t mask);
  /// What one of all lanes has waited for has ended for all behind.
  void share_waits();
  /// They have given each other values.
  void note_exchange(std::uint32_t mask);
  /// Wakes what waits with bar.warp.sync for these members elsewhere.
  void release_waiting(std::uint32_t mask);

  /// The host addresses of an access to `bytes` at in.s[0] + in.immediate. Throws Fault for an
  /// address that the kernel may not use.
  void locate(const Instruction& in, std::uint32_t mask, std::size_t bytes, Pointers& pointers);
  std::byte* locate(Space space, std::uint64_t address, std::size_t bytes, int lane);
  std::byte* locate_global(std::uint64_t address, std::size_t bytes, int lane) {
    if (area_.holds(address, bytes)) return std::bit_cast<std::byte*>(address);
    return locate(Space::global, address, bytes, lane);
  }
  std::byte* local_memory(int lane) {
    return local_.data() + static_cast<std::size_t>(lane) * local_stride_;
  }
  std::uint64_t address_of(const Instruction& in, int lane) const;
  /// Of these lanes, what polls is ready again; `in_vain`: where it may be told that nothing came.
  bool wake(std::uint32_t lanes, bool in_vain);
  /// What waits for this is ready again.
  void wake_from(const simt::Waitable& what);
  /// barrier.cluster: all lanes of the split come to it; whether it has opened for them, after
  /// which they have left it.
  void arrive_at_cluster();
  bool leave_cluster_barrier();
  /// A lane at the present instruction, as the asynchronous machine names it.
  simt::Caller caller(int lane);
  /// Where an address lies in the shared memory of a block of the cluster.
  struct SharedPlace {
    Block* block;
    std::size_t offset;
  };
  SharedPlace shared_place(Space space, std::uint64_t address, std::size_t bytes, int lane);
  /// Where an address lies in the block's shared memory; a fault where it does not.
  std::size_t shared_offset(Space space, std::uint64_t address, std::size_t bytes, int lane);
  std::size_t shared_offset(const Instruction& in, std::size_t bytes, int lane);
  /// An access of global memory at a lane's present instruction, checked.
  bool access_global(simt::BlockChecker::Access access, int lane, const std::byte* at,
                     std::size_t bytes);
  /// What the instruction makes of each lane's registers.
  void do_lanes(const Instruction& in, std::uint32_t mask);
  /// A product of the warpgroup has been issued that uses these registers, and is waited for.
  void note_product(const Place* accumulators, int count, const Place* fragment);
  void note_products_committed();
  /// For all groups but the last `pending`.
  void note_products_waited(int pending);
  void note_product_fence();

  /// Ends the block.
  [[noreturn]] void fail(int lane, const std::string& what,
                         FaultKind kind = FaultKind::launch_failure);

  using Access = simt::BlockChecker::Access;
  /// Tells the memory checker, where there is one, of accesses that are located. `orders`: those of
  /// global memory order what lies before and behind them (ld.acquire, st.volatile, ...).
  void check(Access access, std::uint32_t mask, std::size_t bytes, const Pointers& pointers,
             bool orders = false);
  /// The same of a read into registers. Whether there may be what nobody wrote among it, which
  /// they take over (note_loaded); else they are written.
  bool check_load(std::uint32_t mask, std::size_t bytes, const Pointers& pointers, bool orders);
  /// The same of a lane's store of `value`.
  void check_store(int lane, std::byte* at, const std::byte* value, std::size_t bytes, bool orders);
  /// Whether values that nobody wrote are followed: under the memory checker (ptx/unwritten.cc).
  bool follows_unwritten() const { return !unwritten_lanes_.empty(); }
  Unwritten unwritten(Place place) const {
    const std::uint32_t slot = slot_of(place);
    return {unwritten_lanes_[slot], unwritten_sources_[slot], written_halves_[slot]};
  }
  void set_unwritten(Place place, std::uint32_t mask, Unwritten value);
  /// A value that this instruction has for a lane from one that does not take part: its index into
  /// Block::unwritten_sources.
  std::uint32_t note_absent_lane(int lane);
  /// What nobody wrote of these bytes, as 1 + an index into Block::unwritten_sources; 0: all is
  /// written.
  std::uint32_t unwritten_source(int lane, const std::byte* at, std::size_t bytes);
  /// A register was loaded, by each lane from `bytes` at its pointer + offset.
  void note_loaded(Place place, std::uint32_t mask, const Pointers& pointers, std::size_t offset,
                   std::size_t bytes);
  /// A lane has stored a register.
  void note_stored(Place place, int lane, std::byte* at, std::size_t bytes);
  /// To be held while accesses that order are checked and done.
  std::unique_lock<std::mutex> hold_order();
  /// The same of a lane's atomic access, which orders in every memory; `old`: what gets what was
  /// there, if anything; `adds`: that goes into what is there afterwards.
  void check_update(Place old, int lane, const std::byte* at, std::size_t bytes, bool adds);
  /// Who initialises an mbarrier, which other blocks of the cluster use behind that: whether a lane
  /// of one does.
  void note_initialised(simt::MbarrierState& barrier, int lane);
  void check_initialised(Block& owner, const simt::MbarrierState& barrier, int lane);
  /// The same of bytes that a lane puts into shared memory of the cluster, to arrive later.
  /// `updates`: what lies there is changed by them; `full`: the mbarrier that they complete on.
  void check_sent(const SharedPlace& to, std::size_t bytes, bool updates, const void* full,
                  int lane);
  /// The warp has waited for a product: whether other blocks of the cluster write to its operands
  /// in shared memory before that.
  void check_operands(const simt::IssuedProduct& product);
  /// A lane has arrived at an mbarrier of another block of the cluster.
  void note_arrival_at(Block& other, int lane);
  /// The last lanes of the block exit, of which this is one: whether others of the cluster have
  /// read its shared memory, and arrived at its mbarriers. Throws Fault where nothing says so.
  void check_end(int lane);
  /// The lane, as the fences of tensor maps know it; under the memory checker.
  TensorMapOrder::Moment moment(int lane);
  /// A lane copies by the tensor map at `map`.
  void check_map(const std::byte* map, int lane);
  /// Whether numbers that are not finite are followed.
  bool follows_numbers() const;
  /// A lane has loaded a register, or stores it.
  void follow_load(Place place, std::uint32_t mask, const Pointers& pointers, std::size_t offset,
                   std::size_t bytes);
  void follow_load(Place place, int lane, const std::byte* at, std::size_t bytes);
  void follow_store(Place place, int lane, const std::byte* at);
  /// Counts what an access costs (ptx/tally.h), at the present instruction.
  void tally_access(std::uint32_t mask, std::size_t bytes, const Pointers& pointers);
  /// Counts that the present instruction waits, and whether there is anything to wait for.
  void tally_wait(bool awaits);
  /// Queues copies of `bytes` each, of which `valid` are read and the others zeroes.
  void issue_copies(std::uint32_t mask, std::size_t bytes, const Pointers& to, const Pointers& from,
                    const std::array<std::uint8_t, 32>& valid);
  /// Does what each lane has queued: `all`, or the groups that it has committed, but for the last
  /// `pending`.
  /// Returns whether there was anything.
  bool complete_copies(std::uint32_t mask, bool all, std::uint32_t pending);
  /// Tells the memory checker that these lanes wait for copies here.
  void note_wait(std::uint32_t mask);
  std::array<std::uint32_t, 32> groups_committed{};
  /// Lanes that have executed a fence of the cluster's scope, or a wider one.
  std::uint32_t fenced_lanes = 0;

 private:
  /// A cp.async: the copies into shared memory of its lanes that are under way.
  struct Copies {
    std::uint32_t lanes;
    std::uint8_t bytes;
    std::array<std::uint8_t, 32> valid;   ///< that are copied; zeroes behind
    std::array<std::uint32_t, 32> group;  ///< of the lane's, counted from 0
    Pointers to, from;
  };
  void land(const Copies& copies, std::size_t lane);
  /// What an instruction does is noted, or followed: its operands before, its results behind it.
  bool is_watched() const;
  void watch_operands(const Instruction& in, std::uint32_t active, std::uint32_t mask);
  void watch_results(const Instruction& in, std::uint32_t mask, Flow flow);
  void do_watched(const Instruction& in, std::uint32_t active, std::uint32_t mask);
  void pass(const std::vector<Passing>& passings, std::uint32_t mask);
  template <class Visit>
  void each_part(const LaneFrame& frame, int lane, Visit&& visit);
  void save_frame(const LaneFrame& frame, std::uint32_t mask);
  void restore_frame(const LaneFrame& frame, int lane);
  void note_async_copy(int lane, std::size_t bytes, const std::byte* to, const std::byte* from,
                       std::size_t valid);
  Split* choose();
  void execute(std::int64_t& turns);
  void divide_off(std::uint32_t mask, std::uint32_t pc);
  void absorb_waiting();
  /// The shared memory of another block of the cluster, by an address with that block's rank.
  std::byte* locate_in_cluster(std::uint64_t address, std::size_t bytes, int lane);
  /// The other block that it lies in, nullptr: none.
  Block* other_block_of(const std::byte* at) const;
  /// Whether it lies where the kernel's parameters or the lanes' local memory lie.
  bool is_private(const std::byte* at) const;
  /// What the memory checker knows the present instruction by.
  const void* place() const;
  std::uint32_t place_number() const;
  const GlobalMemory::Area* find_area(std::uint64_t address, std::size_t bytes) const;
  void check_lane(Access access, int lane, const std::byte* at, std::size_t bytes,
                  std::size_t alignment, bool orders, AreaShadow::Held& held);
  void check_ordering(Access access, int lane, const std::byte* at, std::size_t bytes,
                      AreaShadow::Held& held);
  void enter_cluster(Block& owner, Access access, int lane, const std::byte* at, std::size_t bytes,
                     bool orders, AreaShadow::Held& held,
                     std::optional<std::uint32_t> sent = std::nullopt);
  void enter_cluster(Block& owner, std::size_t offset, std::size_t bytes,
                     const AreaShadow::Visit& visit, const simt::Party& party,
                     AreaShadow::Held& held);
  [[noreturn]] void fail_at_end(int lane, const simt::Party& other, const std::string& does);
  AreaShadow::Visit visit_of(Access access, const simt::Party& party, bool orders);
  void enter_area(const GlobalMemory::Area& area, Access access, int lane, std::uint64_t address,
                  std::size_t bytes, bool orders, AreaShadow::Held& held);
  /// Does an instruction and follows numbers that are not finite (ptx/follow_numbers.cc).
  void do_and_follow(const Instruction& in, std::uint32_t mask);
  /// The same behind one whose lanes exchange numbers, or multiply matrices.
  void follow_exchange(const Instruction& in, std::uint32_t mask, bool multiplies);
  void set_origin(Place place, int lane, std::uint32_t node);
  std::uint32_t origin_of(const Place* sources, int count, int lane, bool of_any) const;
  void note_made(int lane, float value, std::uint32_t from, const float* operands, int count);
  /// Follows which registers hold what was never written: what is computed of it is not either,
  /// and using it for more than that is told of.
  std::uint32_t keep_source(const simt::Finding& finding);
  void follow_unwritten(const Instruction& in, std::uint32_t active, std::uint32_t mask);
  /// The lanes of `given`, what a result takes over, in which a half of it was written all the
  /// same.
  std::array<std::uint32_t, 2> written_halves_of(const Instruction& in, std::uint32_t given) const;
  /// Whether an instruction reads or writes a register of which something is not written.
  bool concerns_unwritten(const Instruction& in) const;
  /// A read that follows nothing is a use of what was stored there.
  void tell_of_stored(int lane, const std::byte* at, std::size_t bytes);
  /// Shared memory is overwritten with what somebody wrote.
  void note_written(const std::byte* at, std::size_t bytes);
  /// A lane stores to its local memory, and what it read there.
  void note_local(const Unwritten& value, int lane, const std::byte* at, std::size_t bytes);
  std::uint32_t local_source(const std::byte* at, std::size_t bytes) const;
  void doubt(Unwritten guard, std::uint32_t target);
  void tell_use(Unwritten value, std::uint32_t mask, bool writes = false);
  /// Notes which registers of products an instruction accesses, and tells of those in flight.
  void begin_products();
  /// Where the product in flight was issued whose sums an instruction copies; 0: it copies none.
  std::uint32_t copied_product(const Instruction& in) const;
  void follow_products(const Instruction& in, std::uint32_t mask);

  std::vector<Copies> copies_;  ///< oldest first
  /// The phase of the cluster's barrier that has to complete for a lane that came to it; 0: it has
  /// not come.
  std::array<std::uint32_t, 32> cluster_phase_{};
  Block& block_;
  const Program& program_;
  int index_;
  Recording* recording_;
  std::byte* registers_;
  std::uint32_t alive_ = 0;
  /// Of each lane what calls of functions that call themselves have saved (LaneFrame).
  std::array<std::vector<std::byte>, 32> stacks_;
  std::vector<Split> splits_;
  Split* current_ = nullptr;
  bool starved_ = false;  ///< the last run ended while others were ready
  std::uint64_t turn_ = 0;
  std::int64_t instructions_ = 0;
  std::byte* shared_;  ///< the block's
  std::size_t shared_bytes_;
  std::size_t local_stride_;
  std::vector<std::byte> local_;
  /// The global memory that was used last.
  struct LastArea {
    std::uint64_t begin = 0, end = 0;
    const GlobalMemory::Area* whole = nullptr;
    bool holds(std::uint64_t address, std::size_t bytes) const {
      return address >= begin && address <= end && bytes <= end - address;
    }
  };
  LastArea area_;
  /// Lanes that branched forward by a value that nobody wrote, until the place where both ways
  /// meet: what they compute until there is not written either.
  Unwritten doubt_;
  std::uint32_t doubt_until_ = 0;
  /// Of registers, by slot_of; empty without a checker. Most instructions ask for the first alone.
  std::vector<std::uint32_t> unwritten_lanes_, unwritten_sources_;
  static constexpr std::size_t local_piece = 2;  ///< bytes of local memory that are followed alike
  std::unordered_map<const std::byte*, std::uint32_t> unwritten_local_;  ///< as unwritten_shared
  std::vector<std::array<std::uint32_t, 2>> written_halves_;             ///< of unwritten registers
  /// By slot_of: which lanes have an origin, and those. Empty where they are not followed.
  std::vector<std::uint32_t> origin_lanes_;
  std::vector<RegisterOrigins> origins_;
  bool has_origins_ = false;  ///< some register has had one
  /// Registers of products, by slot_of; empty where there are none, or no checker.
  struct ProductRegister {
    enum class Holds : std::uint8_t { sums, fragment, copy };
    bool is_one = false;
    Holds holds = Holds::sums;  ///< of the product in flight; a copy of its sums gets them, too
    std::uint32_t issued = 0;   ///< where the product in flight was issued; 0: there is none
    std::uint32_t touched = 0;  ///< where it was accessed since the last wgmma.fence; 0: nowhere
  };
  std::vector<ProductRegister> product_registers_;
  std::vector<std::uint32_t> product_slots_;  ///< those that are one
  bool fenced_since_commit_ = false;          ///< by wgmma.fence, since the last group's end
  std::vector<std::byte> storage_;
};

}  // namespace lanescope::ptx
