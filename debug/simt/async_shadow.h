#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "debug/simt/hopper.h"
#include "debug/simt/shadow.h"

namespace lanescope::simt {

/// Where an element of shared memory came from, if a copy of a tensor brought it.
struct Origin {
  std::uint32_t copy = 0;  ///< counted from 1; 0: no copy brought it
  Swizzle swizzle{};
  std::int64_t row = 0, col = 0;  ///< in the tensor: dimensions 1 and up as one number, and 0
  std::int64_t line = 0;          ///< which row of the copy's box, dimensions 1 and up as one
  std::int64_t address = 0;       ///< bytes from where the tensor begins, also outside of it
  /// Bytes from element to element along dimensions 1 and 2, where that are more than dimension 0
  /// has, else 0: either may be the rows of a tensor whose columns a map takes apart.
  std::int64_t pitch[2] = {};
  const void* tensor = nullptr;  ///< where it begins in global memory
};

/// A piece of asynchronous work: when in its agent's time, and the instruction that issued it.
struct AsyncWork {
  int agent;
  std::uint32_t clock;
  std::uint32_t place;
  int thread;  ///< that issued it
  /// By another block of the cluster: what orders it behind earlier accesses is not known.
  bool from_outside = false;
  /// In the generic proxy (st.async, red.async): no fence of the proxy is before it.
  bool generic = false;
  /// What several threads know that issue it together; nullptr: `thread` alone.
  const Carried* known = nullptr;
};

/// What the asynchronous proxy has done to shared memory, by chunks of 16 bytes: who reads them,
/// and where they came from. Every agent's last read is kept, for the ring of a kernel is given
/// back by all who read it.
class AsyncShadow {
 public:
  static constexpr std::size_t chunk = 16;
  explicit AsyncShadow(std::size_t bytes)
      : chunks_((bytes + chunk - 1) / chunk),
        origins_(chunks_),
        from_outside_(chunks_),
        guarded_(chunks_ * 2) {}

  /// `issued`: the present of the lane that has it read.
  void read(std::size_t offset, const AsyncWork& work, Epoch issued);
  /// A read of the chunk at `offset` that `past` does not hold; epoch 0: there is none.
  struct PendingRead {
    Touch touch;
    bool released;  ///< past holds what the lane did since
  };
  PendingRead pending_read(std::size_t offset, Past past) const;

  Origin& origin(std::size_t offset) { return origins_[offset / chunk]; }
  std::uint32_t next_copy() { return ++copies_; }

  /// Notes who writes the chunk at `offset`; whether that is another block than wrote it before.
  bool is_of_other_side(std::size_t offset, const AsyncWork& work) {
    const bool before = from_outside_[offset / chunk];
    from_outside_[offset / chunk] = work.from_outside;
    return before != work.from_outside;
  }

  /// Whether another block of the cluster wrote the chunk last.
  bool is_from_outside(std::size_t offset) const { return from_outside_[offset / chunk]; }

  /// Where the mbarrier in these 8 bytes was initialised; 0: there is none.
  std::uint32_t& guarded(std::size_t offset) { return guarded_[offset / 8]; }

 private:
  struct Reader {
    int agent;
    std::vector<Touch> last;    ///< [chunk]
    std::vector<Epoch> issued;  ///< likewise
  };
  std::size_t chunks_;
  std::vector<Reader> readers_;
  std::vector<Origin> origins_;
  std::vector<bool> from_outside_;  ///< [chunk]: the last copy that wrote it
  std::vector<std::uint32_t> guarded_;
  std::uint32_t copies_ = 0;
};

}  // namespace lanescope::simt
