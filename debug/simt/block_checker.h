#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "debug/simt/checker.h"

namespace lanescope::simt {

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
  bool in_shared(const void* address, std::size_t bytes) const {
    const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(address) - shared_);
    return offset < shared_bytes_ && bytes <= shared_bytes_ - offset;
  }

  enum class Access : std::uint8_t { read, write };
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
  /// An atomic access stands between the two.
  void acquire(const void* address, int thread) { clocks_.acquire(address, thread); }
  void release(const void* address, int thread) { clocks_.release(address, thread); }
  /// `thread` passes a site.
  void pass(Progress progress, int thread) { passed_[static_cast<std::size_t>(thread)] = progress; }
  /// `thread` uses a register that nothing was written to.
  void use_unwritten_register(const void* pc, int thread);
  /// `thread` gives `word` to other lanes.
  void pass_register(std::uint32_t word, const void* pc, int thread);
  /// Notes what was found of an access that is checked elsewhere.
  void add(Kind kind, const Party& access, const Party& earlier, int region, std::int64_t offset,
           std::size_t bytes);

 private:
  void enter_shared(std::size_t offset, std::size_t bytes, bool write, Epoch flag, const void* pc,
                    int thread);
  bool enter_global(Access access, const void* address, std::size_t bytes, const void* pc,
                    int thread);

  Checker& grid_;
  Clocks clocks_;
  const std::byte* shared_;
  std::size_t shared_bytes_;
  std::vector<Cell> cells_;       ///< of shared memory
  std::vector<Progress> passed_;  ///< by each lane
  std::vector<Finding> found_;
  std::int64_t block_ = 0;
};

}  // namespace lanescope::simt
