#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "debug/simt/async_shadow.h"
#include "debug/simt/cell_map.h"
#include "debug/simt/checker.h"

namespace lanescope::simt {

/// An address, to tell how far it is from others, whatever they are of.
inline std::uintptr_t number(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address);
}

struct Arrival;

/// The memory checker of the block that runs on this OS thread.
class BlockChecker {
 public:
  /// `shared` has guard_bytes before and behind it.
  BlockChecker(Checker& grid, int threads, const std::byte* shared, std::size_t shared_bytes);

  void begin(std::int64_t block);
  void end();
  /// These lanes meet in a way that orders their memory accesses.
  void meet(std::span<const int> threads) { clocks_.meet(threads); }
  bool overflowed() const { return clocks_.overflowed(); }
  const Clocks& clocks() const { return clocks_; }
  Clocks& clocks() { return clocks_; }
  std::uint32_t place_of(const void* pc) const { return grid_.place_of(pc); }
  bool in_shared(const void* address, std::size_t bytes) const {
    const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(address) - shared_);
    return offset < shared_bytes_ && bytes <= shared_bytes_ - offset;
  }

  /// `rewrite`: writes the bytes that lie there already, which of several lanes may come last.
  /// `update`: an atomic one, which races with none of its kind.
  enum class Access : std::uint8_t { read, write, rewrite, update };
  /// `thread` is about to access `bytes` at `address`; `pc` is a return address in the kernel.
  /// Known to be in neither its stack nor the program. Returns false where it must not be let.
  bool access(Access access, const void* address, std::size_t bytes, std::size_t alignment,
              const void* pc, int thread);

  /// `thread` issues an async copy of `bytes` into shared memory, of which `valid` are read and the
  /// others become zeroes: from now until it waits nobody may touch them. Returns false as `access`
  /// does.
  bool issue_copy(void* to, const void* from, std::size_t bytes, std::size_t valid, const void* pc,
                  int thread);
  /// `thread` has waited for the copy into the `bytes` at `to`.
  void complete_copy(const void* to, std::size_t bytes, int thread);
  /// Another block of the cluster writes to shared memory. Nothing is known of when.
  void write_from_outside(const void* address, std::size_t bytes);
  /// An atomic access stands between the two.
  void acquire(const void* address, int thread) { clocks_.acquire(address, thread); }
  void release(const void* address, int thread) { clocks_.release(address, thread); }
  /// `thread` passes a site, whose value lies in `bytes` at `value`.
  void pass(Progress progress, const void* value, std::size_t bytes, int thread);
  /// `thread` uses a register that nothing was written to.
  void use_unwritten_register(const void* pc, int thread);
  void use_unwritten_register_at(std::uint32_t place, int thread);
  /// `thread` gives `word` to other lanes.
  void pass_register(std::uint32_t word, const void* pc, int thread);

  // Of the asynchronous proxy (debug/simt/async_checks.cc).

  /// One more agent, which does work that `thread` issues; 0 where there are too many.
  int add_agent(int thread);
  /// Bytes of an mbarrier: nothing else may be written there.
  void guard_barrier(std::size_t offset, std::uint32_t place, int thread);
  /// A copy into shared memory, and one from it or an operand of a product: whole chunks.
  void write_async(std::size_t offset, std::size_t bytes, const AsyncWork& work);
  void read_async(std::size_t offset, std::size_t bytes, const AsyncWork& work);
  /// What is wrong with such a read: with the byte at `at`, which `write` left.
  struct Misread {
    Kind kind = Kind::none;
    Touch write{};
    std::size_t at = 0;
  };
  Misread misread(std::size_t offset, std::size_t bytes, const AsyncWork& work);
  AsyncShadow& async();
  /// Where the bytes at `offset` came from, where a copy of a tensor brought them.
  const Origin* origin_of(std::size_t offset);
  /// The arrivals that completed a phase of `count` of the mbarrier at `offset`: a thread that came
  /// twice may have taken the place of another. It is a finding where there are others.
  void note_arrivals(std::size_t offset, const std::vector<Arrival>& arrivals, int count);
  /// A phase of the mbarrier at `offset` completed, the copies of `copied` in it (0: none), though
  /// nothing says that `thread` has passed its wait for the phase before, at `place`.
  void note_overtaken_wait(std::size_t offset, int thread, std::uint32_t place,
                           std::uint32_t copied);
  /// A lane waits for its own copies.
  void note_wait(int thread, std::uint32_t place) {
    waits_[{thread, 0}] = waits_[{thread, any_agent}] = {place, false};
  }
  /// The same at the mbarrier of `agent`, of which `phases` have completed. `in_vain`: by a phase
  /// that it knew to be over.
  void note_wait_at(int agent, int thread, std::uint32_t place, bool in_vain, std::uint32_t phases);
  /// The block ended before a copy did, which comes to its shared memory (`arrives`) or leaves it.
  void add_unfinished(bool arrives, int thread, std::uint32_t place);
  /// A lane's access to a register of a product that was issued at `issued`; the register lies at
  /// `address` in its stack, where that is known.
  void touch_register(Kind kind, bool write, std::uint32_t place, std::uint32_t issued, int thread,
                      const void* address = nullptr);
  void add_shared(Kind kind, const AsyncWork& work, bool write, const Party& earlier,
                  std::size_t offset, std::size_t bytes);

  /// That a read is of what nobody wrote is from now on no fault by itself: who reads follows the
  /// value to its use, and reports that. Of shared memory.
  void follow_unwritten(bool follows) {
    follows_unwritten_ = follows;
    if (follows) met_unwritten_ = false;
  }
  bool follows_unwritten() const { return follows_unwritten_; }
  /// Whether that has happened since such reads are followed.
  bool met_unwritten() const { return met_unwritten_; }
  void meet_unwritten() { met_unwritten_ = true; }
  /// Whether nobody wrote these bytes of shared memory, or some of them.
  bool is_unwritten(const void* address, std::size_t bytes) const;
  /// Such bytes side by side around `address`, which is one.
  UnwrittenRun unwritten_run(const void* address) const;
  /// Notes what was found. Bytes that nobody wrote, read behind a wait that passed by a phase that
  /// is over, come of that wait.
  void report(Finding finding);
  /// An mbarrier of which as many bytes were expected as came, all phases together: a copy that
  /// missed its phase was issued before that had begun, without a wait for it.
  void note_all_bytes_came(std::size_t offset);
  /// Who wrote a byte of shared memory last.
  Party writer_of(std::size_t offset) const { return party_of(cells_.at(offset).write, true); }
  /// An access whose address is no multiple of its size.
  void note_misaligned(Access access, const void* address, const void* pc, int thread);
  /// The accesses from now on are of a copy by such a tensor map; {}: of none.
  void copy_by(const MapSides& map) { copies_by_ = map; }
  /// Enters that the lane uses element `index` of an array of `length`.
  void note_beyond_array(std::int64_t index, std::int64_t length, const void* pc, int thread);
  /// Notes what was found of an access that is checked elsewhere.
  void add(Kind kind, const Party& access, const Party& earlier, int region, std::int64_t offset,
           std::size_t bytes);

 private:
  void enter_shared(std::size_t offset, std::size_t bytes, Access access, Epoch flag,
                    const void* pc, int thread);
  void check_generic_write(std::size_t offset, std::size_t bytes, const void* pc, int thread);
  /// The lane of an epoch: that of an agent is the one it works for.
  int thread_behind(Epoch e) const;
  /// Who touched a byte of shared memory, if anybody did.
  Party party_of(const Touch& touch, bool write) const;
  /// Whether a write was done in the generic proxy.
  bool is_generic(const Touch& write) const;
  /// Two copies bring parts of different tensors to the same bytes: neither should.
  bool overlap(const Party& one, const Party& other) const;
  bool enter_global(Access access, const void* address, std::size_t bytes, const void* pc,
                    int thread);

  Checker& grid_;
  Clocks clocks_;
  const std::byte* shared_;
  std::size_t shared_bytes_;
  CellMap cells_;  ///< of shared memory
  /// What a lane holds of a site.
  struct Held {
    SiteId site;
    const std::byte* value;
    std::size_t bytes;
  };
  /// Says of a register whose address is known which site's it is.
  void name_register(Finding& finding) const;
  std::vector<Progress> passed_;         ///< by each lane
  std::vector<std::vector<Held>> held_;  ///< likewise
  std::vector<Finding> found_;
  std::vector<Finding> suspected_;  ///< that explain others
  /// Of cp.async: what it brought and was waited for, wgmma sees without a fence.proxy.async.
  /// PTX ISA does not say so; CUTLASS (sm90_mma_multistage_gmma_ss) and Triton rely on it.
  std::set<std::uint32_t> copy_places_;
  std::uint32_t last_copy_place_ = 0;
  std::map<std::uint32_t, int> sources_;  ///< of cp.async, by place: the region that it copies from
  std::set<std::uint32_t> generic_places_;  ///< of asynchronous work in the generic proxy
  std::unique_ptr<AsyncShadow> async_;
  std::vector<int> issuers_;  ///< of each agent
  struct Wait {
    std::uint32_t place;
    bool in_vain;
    std::uint32_t phases = 0;
  };
  /// Reads of bytes that a copy may be under way to, by a lane that had waited for what they held
  /// before: until the lane waits for that copy as well, it may have left out a wait.
  struct EarlyCopies {
    std::uint32_t phase;  ///< of the copy
    std::vector<Finding> reads;
  };
  std::map<std::pair<int, int>, EarlyCopies> early_;  ///< by lane and agent
  /// Copies of a lane by one instruction: when those that may be under way were issued, and the
  /// last one that is done.
  struct OwnCopies {
    std::multiset<std::uint32_t> under_way;
    std::uint32_t done = 0;
  };
  std::map<std::pair<int, std::uint32_t>, OwnCopies> own_copies_;  ///< by lane and place
  /// Says of an access to bytes that a copy may be under way to what it lacks. True where that
  /// shows later, by what the lane waits for.
  bool add_under_way(Finding& finding);
  /// Whether the lane has waited for its own part of what a copy of another lane brings: a barrier
  /// is missing, not a wait.
  bool has_waited_for_own(int thread, const Touch& copy) const;
  std::map<int, std::uint32_t> issued_;  ///< by agent: the phase of its last copy
  static constexpr int any_agent = -1;
  std::map<std::pair<int, int>, Wait> waits_;  ///< by lane and agent, the last one
  MapSides copies_by_;                         ///< the copy whose accesses are entered
  /// Said last to be misaligned: the lane, and what it accesses there.
  std::pair<int, const void*> misaligned_{-1, nullptr};
  std::int64_t block_ = 0;
  bool follows_unwritten_ = false, met_unwritten_ = false;
};

}  // namespace lanescope::simt
