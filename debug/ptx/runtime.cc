#include "debug/ptx/runtime.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <new>

#include "debug/ptx/fat_binary.h"
#include "debug/simt/checker.h"
#include "reference/error.h"
#include "reference/site.h"

namespace lanescope::ptx {
namespace {

/// Of a block whose kernel has not asked for more (CUDA C++ Programming Guide, "Shared Memory").
constexpr std::size_t shared_of_default = std::size_t{48} << 10;

}  // namespace

Device& Device::instance() {
  static Device& device = *new Device;  // until the very end: modules say goodbye late
  return device;
}

Device::Device() : session_(ExecSession::open()) {
  if (session_) settings = session_->settings();
}

void Device::fail(const std::string& what, bool refused) {
  if (!failure_.empty()) return;
  failure_ = what;
  refused_ = refused;
}

/// Memory of kernels, with unused bytes before and behind it for the memory checker.
void* Device::place(std::size_t bytes, std::size_t alignment, const std::string& name,
                    bool written) {
  constexpr std::size_t guard = simt::guard_bytes;
  if (bytes > SIZE_MAX / 2) return nullptr;
  std::unique_ptr<std::byte[]> block(new (std::nothrow) std::byte[2 * guard + alignment + bytes]);
  if (!block) return nullptr;
  void* at = block.get() + guard;
  std::size_t space = bytes + alignment;
  at = std::align(alignment, std::max<std::size_t>(bytes, 1), at, space);
  std::fill_n(static_cast<std::uint32_t*>(at), bytes / 4, poison32);
  GlobalMemory::Area& area = memory_.add(at, bytes, name, true);
  if (checks()) area.shadow = std::make_shared<AreaShadow>(bytes, written);
  blocks_[at] = std::move(block);
  return at;
}

void* Device::allocate(std::size_t bytes, bool of_host) {
  constexpr std::size_t alignment = 256;  // as cudaMalloc's
  void* at = place(bytes, alignment, "allocation " + std::to_string(allocations_ + 1), of_host);
  if (!at) return nullptr;
  ++allocations_;
  allocated_ += bytes;
  return at;
}

bool Device::release(void* memory) {
  constexpr std::size_t most_freed = std::size_t{256} << 20;
  GlobalMemory::Area* area = memory_.find(memory, 0);
  if (!area || !blocks_.contains(memory)) return false;
  allocated_ -= area->bytes();
  memory_.note_freed(memory);
  freed_.push_back(memory);
  freed_bytes_ += area->bytes();
  for (; freed_bytes_ > most_freed; freed_.pop_front()) {
    const GlobalMemory::Area& oldest =
        memory_.areas().at(reinterpret_cast<std::uint64_t>(freed_.front()));
    freed_bytes_ -= oldest.bytes();
    memory_.remove(freed_.front());
    blocks_.erase(freed_.front());
  }
  return true;
}

void Device::note_write(const void* to, const void* from, std::size_t bytes) {
  GlobalMemory::Area* area = memory_.find(to, bytes);
  if (!area) return;
  const GlobalMemory::Area* source = from ? memory_.find(from, bytes) : nullptr;
  if (settings.checker && from && !source) settings.checker->note_copy(from, to, bytes);
  if (!area->shadow) return;
  const std::size_t offset = reinterpret_cast<std::uint64_t>(to) - area->begin;
  if (source && source->shadow) {
    area->shadow->note_copy(offset, *source->shadow,
                            reinterpret_cast<std::uint64_t>(from) - source->begin, bytes);
  } else {
    area->shadow->note_write(offset, bytes);
  }
}

bool Device::holds(const void* memory, std::size_t bytes) {
  return memory_.find(memory, bytes) != nullptr;
}

/// The memory checker knows the buffers of the problem; of the others, any bytes of which may
/// belong to a lane, their shadows know, and it learns their names.
void Device::watch_memory(simt::Checker& checker) {
  if (next_place_ == 1) watched_before_ = checker.regions().size();
  const auto is_watched = [&](const GlobalMemory::Area& area) {
    const auto& regions = checker.regions();
    return std::any_of(regions.begin(),
                       regions.begin() + static_cast<std::ptrdiff_t>(watched_before_),
                       [&](const simt::Region& region) {
                         return area.holds(std::bit_cast<std::uint64_t>(region.begin), 0);
                       });
  };
  for (auto& [begin, area] : memory_.areas()) {
    if (!area.shadow || area.freed) continue;
    if (!session_ && area.region < 0 && is_watched(area)) {
      area.shadow.reset();
      continue;
    }
    if (session_ || area.region < 0) {
      area.region = static_cast<int>(checker.regions().size());
      checker.watch_also({area.name, std::bit_cast<const void*>(begin), area.bytes(),
                          simt::Region::Use::input, 1, true});
    }
    area.shadow->begin_launch();
  }
}

void Device::map(void* memory, std::size_t bytes) {
  GlobalMemory::Area& area = memory_.add(memory, bytes, "host memory", false);
  if (checks()) area.shadow = std::make_shared<AreaShadow>(bytes, true);
}

bool Device::unmap(void* memory) { return !blocks_.contains(memory) && memory_.remove(memory); }

int Device::add_module(const void* fat_binary) {
  if (session_) session_->note_module();
  modules_.emplace_back().fat_binary = fat_binary;
  return static_cast<int>(modules_.size()) - 1;
}

bool Device::has_modules() const {
  return std::any_of(modules_.begin(), modules_.end(),
                     [](const LoadedModule& module) { return module.fat_binary != nullptr; });
}

void Device::remove_module(int module) {
  std::erase_if(kernels_, [&](const auto& kernel) { return kernel.second.module == module; });
  std::erase_if(variables_, [&](const auto& variable) { return variable.second.module == module; });
  LoadedModule& loaded = modules_[static_cast<std::size_t>(module)];
  for (const std::uint64_t address : loaded.addresses) {
    const auto* memory = std::bit_cast<const void*>(address);
    if (memory_.remove(memory)) blocks_.erase(memory);
  }
  loaded = {};
}

void Device::add_kernel(int module, const void* function, const char* name) {
  Kernel& kernel = kernels_[function];
  kernel.module = module;
  kernel.name = name;
}

void Device::add_variable(int module, const void* host, const char* name) {
  variables_[host] = {module, name};
}

/// Reads the PTX and places its variables.
void Device::load(LoadedModule& loaded, int index) {
  if (loaded.module) return;
  auto module = std::make_unique<Module>(
      parse(ptx_of_fat_binary(loaded.fat_binary), "module " + std::to_string(index) + ".ptx"));
  for (const Variable& variable : module->variables) {
    const bool here = variable.space == Space::global || variable.space == Space::constant;
    if (!here || variable.external) {
      loaded.addresses.push_back(0);
      continue;
    }
    constexpr std::size_t alignment = 256;
    void* at = place(variable.bytes, std::max<std::size_t>(alignment, variable.align),
                     variable.name, true);
    if (!at) throw UsageError("there is no memory for the variable " + variable.name);
    std::fill_n(static_cast<std::byte*>(at), variable.bytes, std::byte{0});
    std::copy_n(reinterpret_cast<const std::byte*>(variable.initial.data()),
                variable.initial.size(), static_cast<std::byte*>(at));
    loaded.addresses.push_back(reinterpret_cast<std::uint64_t>(at));
  }
  for (std::size_t i = 0; i < module->variables.size(); ++i) {
    for (const Variable::Address& address : module->variables[i].addresses) {
      const Variable* of = module->find_variable(address.of);
      const std::uint64_t base =
          of ? loaded.addresses[static_cast<std::size_t>(of - module->variables.data())] : 0;
      if (base == 0) throw UsageError("the address of " + address.of + " is not known");
      const std::uint64_t value = base + static_cast<std::uint64_t>(address.offset);
      std::memcpy(std::bit_cast<std::byte*>(loaded.addresses[i]) + address.at, &value, 8);
    }
  }
  loaded.module = std::move(module);
}

Device::Kernel* Device::find_kernel(const void* function) {
  const auto at = kernels_.find(function);
  if (at == kernels_.end()) return nullptr;
  Kernel& kernel = at->second;
  if (kernel.program) return &kernel;
  try {
    LoadedModule& loaded = modules_[static_cast<std::size_t>(kernel.module)];
    load(loaded, kernel.module);
    kernel.program =
        std::make_unique<Program>(decode(*loaded.module, kernel.name, loaded.addresses));
    const std::size_t fixed = kernel.program->shared_bytes;
    kernel.most_dynamic_shared = shared_of_default - std::min(shared_of_default, fixed);
  } catch (const Error& error) {
    fail(error.what(), true);
    if (session_) session_->note_launch(kernel.name, {}, {}, error.what(), true);
    return nullptr;
  }
  return &kernel;
}

std::pair<void*, std::size_t> Device::find_variable(const void* host) {
  const auto at = variables_.find(host);
  if (at == variables_.end()) return {nullptr, 0};
  try {
    LoadedModule& loaded = modules_[static_cast<std::size_t>(at->second.module)];
    load(loaded, at->second.module);
    const Variable* variable = loaded.module->find_variable(at->second.name);
    if (!variable) return {nullptr, 0};
    const auto index = static_cast<std::size_t>(variable - loaded.module->variables.data());
    return {std::bit_cast<void*>(loaded.addresses[index]), variable->bytes};
  } catch (const Error& error) {
    fail(error.what(), true);
    return {nullptr, 0};
  }
}

Device::Outcome Device::run(const Grid& grid, const Program& program, std::string& fault) {
  try {
    ptx::launch(grid, program);
    return Outcome::ok;
  } catch (const LaunchError& error) {
    fault = error.what();
    return Outcome::refused_sides;
  } catch (const KernelFault& error) {
    fault = error.what();
    fault_ = error.kind;
    fail(fault, false);
  } catch (const Error& error) {
    fault = error.what();
    fail(fault, true);
  }
  return Outcome::failed;
}

Device::Outcome Device::launch(Kernel& kernel, const std::array<std::uint32_t, 3>& blocks,
                               const std::array<std::uint32_t, 3>& threads,
                               std::size_t dynamic_shared, void* const* arguments) {
  if (!failure_.empty()) return Outcome::failed;
  const Program& program = *kernel.program;
  std::vector<std::byte> parameters(program.parameter_bytes + 16);
  for (std::size_t i = 0; i < program.parameters.size(); ++i) {
    std::memcpy(&parameters[program.parameter_offsets[i]], arguments[i],
                program.parameters[i].bytes);
  }
  simt::Checker of_session;
  simt::Checker* checker = session_ ? &of_session : settings.checker;
  Grid grid;
  grid.blocks = blocks;
  grid.threads = threads;
  grid.dynamic_shared = dynamic_shared;
  grid.parameters = parameters.data();
  grid.memory = &memory_;
  grid.workers = settings.workers;
  grid.schedule = settings.schedule;
  grid.checker = checker;
  grid.tensor_core = settings.tensor_core;
  if (checker) {
    watch_memory(*checker);
    grid.is_first = session_ || next_place_ == 1;
    if (kernel.first_place == 0) {
      kernel.first_place = next_place_;
      next_place_ += static_cast<std::uint32_t>(program.code.size());
    }
    grid.first_place = kernel.first_place;
  }
  std::string fault;
  Outcome outcome = Outcome::refused_memory;
  if (dynamic_shared <= kernel.most_dynamic_shared) {
    outcome = run(grid, program, fault);
  } else {
    fault = "the launch asks for " + std::to_string(dynamic_shared) +
            " bytes of dynamic shared memory, and the kernel may have " +
            std::to_string(kernel.most_dynamic_shared) +
            ": cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, ...) "
            "allows more";
  }
  if (session_) session_->note_launch(kernel.name, grid, of_session, fault, refused_);
  return outcome;
}

}  // namespace lanescope::ptx
