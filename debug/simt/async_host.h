#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "debug/simt/block_checker.h"
#include "debug/simt/lane.h"
#include "debug/simt/numerics.h"

namespace lanescope::simt {

/// An instruction of a lane, as errors and findings name it.
struct Caller {
  int thread;
  const char* name;  ///< "mbarrier_wait"
  Here here;
  const void* pc;             ///< what the memory checker knows its place by
  bool from_outside = false;  ///< a thread of another block of the cluster
};

/// What lanes can wait for.
class Waitable {
 public:
  virtual ~Waitable() = default;
  /// How far it has come, for lanes that wait in vain.
  virtual std::string story() const = 0;
};

/// The running block whose asynchronous work an AsyncBlock does: one whose lanes are fibers
/// (simt/block.h), or of a kernel given as PTX (ptx/block.h).
class AsyncHost {
 public:
  AsyncHost() = default;
  AsyncHost(const AsyncHost&) = delete;
  AsyncHost& operator=(const AsyncHost&) = delete;

  /// nullptr where the launch has none.
  virtual BlockChecker* checker() = 0;
  virtual std::byte* shared_memory() const = 0;
  virtual std::size_t shared_bytes() const = 0;
  /// The address of the first byte of shared memory, as matrix descriptors have it.
  virtual std::size_t shared_address() const = 0;
  /// Of the block in its cluster, which stands above the 24 bits of its addresses in shared memory.
  virtual int rank() const { return 0; }
  /// "k_full[1]", or where it lies.
  virtual std::string describe_shared(std::size_t offset) const = 0;
  virtual TensorCoreRule tensor_core() const = 0;
  /// Whether a compiler uses mbarriers by what hardware does and PTX does not promise: without a
  /// fence behind what initialises them, which may come again or be overwritten where nobody uses
  /// them.
  virtual bool by_compiler() const { return false; }
  /// A copy accesses global memory for the lane that issues it. False where it must not be let.
  virtual bool access_global(BlockChecker::Access access, const std::byte* at, std::size_t bytes,
                             const Caller& caller) = 0;
  /// A copy has written to shared memory.
  virtual void note_written(std::size_t offset, std::size_t bytes) = 0;
  /// Whether note_copied is to be called.
  virtual bool follows_copies() const { return false; }
  /// A copy that `caller` issued has moved these bytes; from nullptr: zeroes. `updates`: what lay
  /// there before counts as well.
  virtual void note_copied(const std::byte* /*to*/, const std::byte* /*from*/,
                           std::size_t /*bytes*/, bool /*updates*/, const Caller& /*caller*/) {}
  /// What a lane waited for may have come.
  virtual void wake(int thread) = 0;
  /// Ends the block with an error: does not return.
  [[noreturn]] virtual void fail(const Caller& caller, const std::string& what) = 0;

 protected:
  ~AsyncHost() = default;
};

}  // namespace lanescope::simt
