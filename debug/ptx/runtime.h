#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "debug/ptx/global_memory.h"
#include "debug/ptx/machine.h"
#include "debug/ptx/program.h"
#include "debug/ptx/runtime_entry.h"

namespace lanescope::ptx {

/// The CUDA device of this process where there is no GPU: what debug/ptx/cudart.cc stands on.
/// Everything is done at once, in the order of the calls, so streams need no more than a name.
class Device {
 public:
  static Device& instance();

  RunSettings settings;
  /// What went wrong in a kernel, or before it could run; empty where nothing has. A device whose
  /// kernel has failed takes no further ones, as with CUDA.
  const std::string& failure() const { return failure_; }
  /// Whether it was the module or its launch that is at fault, not the kernel as it ran.
  bool refused() const { return refused_; }

  /// Device memory, filled with what reads as NaN; nullptr where there is none left.
  void* allocate(std::size_t bytes);
  bool release(void* memory);
  /// The host writes to device memory; `from`: what it copies, if it does.
  void note_write(const void* to, const void* from, std::size_t bytes);
  /// Host memory that kernels may use from now on, and no longer.
  void map(void* memory, std::size_t bytes);
  bool unmap(void* memory);
  std::size_t allocated() const { return allocated_; }

  /// A fat binary; its PTX is read when one of its kernels is asked for.
  int add_module(const void* fat_binary);
  bool has_modules() const;
  void remove_module(int module);
  void add_kernel(int module, const void* function, const char* name);
  void add_variable(int module, const void* host, const char* name);

  struct Kernel {
    int module = 0;
    std::uint32_t first_place = 0;  ///< of its instructions, for the memory checker; 0: none yet
    std::string name;
    std::unique_ptr<Program> program;
  };
  /// The kernel that stands behind a host function, decoded; nullptr where there is none, or it
  /// cannot be run: `failure` says why then.
  Kernel* find_kernel(const void* function);
  /// Where the variable lies that a host variable stands for; bytes 0: nowhere.
  std::pair<void*, std::size_t> find_variable(const void* host);

  /// Runs a kernel; `arguments[i]` points to its i-th parameter. False where it failed.
  bool launch(Kernel& kernel, const std::array<std::uint32_t, 3>& blocks,
              const std::array<std::uint32_t, 3>& threads, std::size_t dynamic_shared,
              void* const* arguments);

 private:
  struct LoadedModule {
    const void* fat_binary = nullptr;
    std::unique_ptr<Module> module;
    std::vector<std::uint64_t> addresses;  ///< of its variables
    std::vector<std::unique_ptr<std::byte[]>> memory;
  };
  void load(LoadedModule& loaded, int index);
  void watch_memory();
  void fail(const std::string& what, bool refused);

  GlobalMemory memory_;
  std::map<const void*, std::unique_ptr<std::byte[]>> blocks_;
  struct Size {
    std::size_t bytes;
    bool filled;
  };
  std::map<const void*, Size> sizes_;
  std::uint32_t next_place_ = 1;
  std::size_t allocated_ = 0;
  std::deque<LoadedModule> modules_;
  std::map<const void*, Kernel> kernels_;
  struct VariableOf {
    int module;
    std::string name;
  };
  std::map<const void*, VariableOf> variables_;
  std::string failure_;
  bool refused_ = false;
};

}  // namespace lanescope::ptx
