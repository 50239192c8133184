#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "debug/ptx/exec_session.h"
#include "debug/ptx/global_memory.h"
#include "debug/ptx/history.h"
#include "debug/ptx/machine.h"
#include "debug/ptx/program.h"
#include "debug/ptx/runtime_entry.h"

namespace lanescope::ptx {

/// The CUDA device of this process where there is no GPU: what debug/ptx/cudart.h stands on.
/// Everything is done at once, in the order of the calls, so streams need no more than a name.
class Device {
 public:
  static Device& instance();

  /// Set before a module's code runs; under `lanescope exec` by the environment.
  RunSettings settings;
  /// What went wrong in a kernel, or before it could run; empty where nothing has. A device whose
  /// kernel has failed takes no further ones, as with CUDA. Under `lanescope exec` a kernel that
  /// cannot be run is no such failure: the program's others can.
  const std::string& failure() const { return failure_; }
  /// Whether it was the module or its launch that is at fault, not the last kernel as it ran.
  bool refused() const { return refused_; }
  /// Whether it failed behind an allocation that failed, whatever the program made of that.
  bool lacked_memory() const { return !failure_.empty() && denied_ > 0; }
  /// Of all launches so far.
  const Work& work() const { return work_; }

  /// Device memory, filled with what reads as NaN; nullptr where there is none left. `of_host`: the
  /// host uses it too, and does not say when.
  void* allocate(std::size_t bytes, bool of_host);
  bool release(void* memory);
  /// The host writes to device memory; `from`: what it copies, if it does.
  void note_write(const void* to, const void* from, std::size_t bytes);
  /// Whether these bytes are memory that kernels may use.
  bool holds(const void* memory, std::size_t bytes);
  /// Host memory that kernels may use from now on, and no longer.
  void map(void* memory, std::size_t bytes);
  bool unmap(void* memory);
  std::size_t allocated() const { return allocated_; }

  /// A fat binary; its PTX is read when one of its kernels is asked for.
  int add_module(const void* fat_binary);
  /// A module that is given as PTX: its number.
  int add_module(Module module);
  /// What a program gives as a module while it runs, read at once; -1: `refusal` says why not.
  int load_image(const void* image);
  /// Whether there is a module of this number.
  bool has_module(int module) const;
  bool has_modules() const;
  /// How many there are that were added before it: those that were removed do not count.
  int modules_before(int module) const;
  void remove_module(int module);
  void add_kernel(int module, const void* function, const char* name);
  void add_variable(int module, const void* host, const char* name);

  struct Kernel {
    int module = 0;
    std::uint32_t first_place = 0;  ///< of its instructions, for the memory checker; 0: none yet
    std::string name;
    std::shared_ptr<const Program> program;
    /// Bytes of dynamic shared memory that a launch may ask for.
    std::size_t most_dynamic_shared = 0;
    std::string refusal;  ///< why it cannot be run
  };
  /// What stands for a kernel of a module, as a host function does; nullptr: it has none of that
  /// name.
  const void* handle_of(int module, const std::string& name);
  /// Whether a host function stands for a kernel, one that cannot be run included.
  bool has_kernel(const void* function) const { return kernels_.contains(function); }
  /// The kernel that stands behind a host function, decoded; nullptr where there is none, or it
  /// cannot be run: `failure`, under `lanescope exec` `refusal`, says why then.
  Kernel* find_kernel(const void* function);
  /// The same of a module that was given as PTX. Throws UsageError.
  Kernel& find_kernel(int module, const std::string& name);
  /// Where the variable lies that a host variable stands for; bytes 0: nowhere.
  std::pair<void*, std::size_t> find_variable(const void* host);
  std::pair<void*, std::size_t> find_variable(int module, const std::string& name);

  enum class Outcome : std::uint8_t {
    ok,
    failed,         ///< `failure` says why
    refused_sides,  ///< no device takes such a grid
    refused_memory  ///< more shared memory than the kernel may have
  };
  /// What a launch says beside its sides.
  struct Manner {
    std::array<std::uint32_t, 3> cluster = {1, 1, 1};  ///< blocks of one, along each side
    bool cooperative = false;                          ///< its blocks may wait for each other
    const void* stream = nullptr;                      ///< a name for it
    bool overlaps = false;  ///< it may begin before the one before it in the stream has ended
  };
  /// Runs a kernel; `arguments[i]` points to its i-th parameter.
  Outcome launch(Kernel& kernel, const std::array<std::uint32_t, 3>& blocks,
                 const std::array<std::uint32_t, 3>& threads, std::size_t dynamic_shared,
                 void* const* arguments, const Manner& manner);
  /// The host has waited for the device, or given it something else to do: all launches so far end
  /// before those to come begin.
  void settle() { ending_.reset(); }
  /// Why the last launch, or the last module, was not taken.
  const std::string& refusal() const { return refusal_; }
  /// Why the first launch that was refused was; empty: none was.
  const std::string& refused_launch() const { return refused_launch_; }
  /// What the failed kernel did.
  FaultKind fault() const { return fault_; }

 private:
  struct LoadedModule {
    const void* fat_binary = nullptr;  ///< nullptr: given as PTX, or gone
    std::unique_ptr<Module> module;
    std::vector<std::uint64_t> addresses;  ///< of its variables
    std::string refusal;                   ///< why it is not read
    bool variable_refused = false;         ///< that was told where a variable of it was wanted
  };
  Device();
  Module read(const std::string& text, int index);
  void load(LoadedModule& loaded, int index);
  void refuse(const std::string& kernel, const std::string& why);
  void place_variables(LoadedModule& loaded);
  void decode_kernel(Kernel& kernel);
  /// Whether the stages of accesses are told. Programs under `lanescope exec` need not be
  /// attention.
  bool names_accesses() const { return !session_; }
  /// nullptr where nothing is to be followed back.
  History* history();
  bool checks() const { return session_ || settings.checker; }
  void* place(std::size_t bytes, std::size_t alignment, const std::string& name, bool written);
  void name_allocations(const Program& program, void* const* arguments);
  void watch_memory(simt::Checker& checker, bool beside_last);
  std::string line_of(std::uint32_t place) const;
  void fail(const std::string& what, bool refused);
  std::uint64_t grid_workspace();
  Outcome run(const Grid& grid, const Program& program, std::string& fault);

  std::optional<ExecSession> session_;
  GlobalMemory memory_;
  /// What lies in each area, with its guards.
  std::map<const void*, std::unique_ptr<std::byte[]>> blocks_;
  void* workspace_ = nullptr;  ///< of grids that are cooperative
  std::deque<void*> freed_;    ///< that nobody gets again yet, the oldest first
  std::size_t freed_bytes_ = 0;
  std::int64_t allocations_ = 0;
  std::size_t watched_before_ = 0;  ///< buffers that the checker knew before the first launch
  std::uint32_t next_place_ = 1;
  /// The stream whose last launch let the next one begin early.
  std::optional<const void*> ending_;
  std::size_t allocated_ = 0;
  std::deque<LoadedModule> modules_;
  std::map<const void*, Kernel> kernels_;
  struct VariableOf {
    int module;
    std::string name;
  };
  std::map<const void*, VariableOf> variables_;
  std::optional<History> history_;
  Work work_;
  std::string failure_, refusal_, refused_launch_;
  bool refused_ = false;
  std::size_t denied_ = 0;  ///< bytes of the last allocation that failed
  FaultKind fault_ = FaultKind::launch_failure;
};

}  // namespace lanescope::ptx
