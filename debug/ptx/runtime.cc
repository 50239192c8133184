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

Device& Device::instance() {
  static Device& device = *new Device;  // until the very end: modules say goodbye late
  return device;
}

void Device::fail(const std::string& what, bool refused) {
  if (!failure_.empty()) return;
  failure_ = what;
  refused_ = refused;
}

void* Device::allocate(std::size_t bytes) {
  // Unused bytes before and behind it, for the memory checker; aligned as cudaMalloc's is.
  constexpr std::size_t guard = simt::guard_bytes, alignment = 256;
  if (bytes > SIZE_MAX / 2) return nullptr;
  std::unique_ptr<std::byte[]> block(new (std::nothrow) std::byte[2 * guard + alignment + bytes]);
  if (!block) return nullptr;
  void* at = block.get() + guard;
  std::size_t space = bytes + alignment;
  at = std::align(alignment, std::max<std::size_t>(bytes, 1), at, space);
  std::fill_n(static_cast<std::uint32_t*>(at), bytes / 4, poison32);
  memory_.add(at, bytes, "memory of " + std::to_string(bytes) + " bytes from cudaMalloc");
  blocks_[at] = std::move(block);
  sizes_[at] = {bytes, false};
  allocated_ += bytes;
  return at;
}

bool Device::release(void* memory) {
  if (blocks_.erase(memory) == 0) return false;
  memory_.remove(memory);
  allocated_ -= sizes_[memory].bytes;
  sizes_.erase(memory);
  return true;
}

void Device::note_write(const void* to, const void* from, std::size_t bytes) {
  const auto at = sizes_.find(to);
  if (at == sizes_.end()) return;
  at->second.filled = true;
  if (settings.checker && from) settings.checker->note_copy(from, to, bytes);
}

/// The memory checker knows the buffers of the problem; the others are the module's own. Any bytes
/// of them may belong to a lane.
void Device::watch_memory() {
  const auto watch = [&](const void* begin, std::size_t bytes, const std::string& name,
                         bool filled) {
    if (bytes == 0 || settings.checker->watches(begin, bytes)) return;
    settings.checker->watch_also({name, begin, bytes, simt::Region::Use::output, 1, filled});
  };
  for (const auto& [begin, size] : sizes_) {
    watch(begin, size.bytes, "memory of " + std::to_string(size.bytes) + " bytes from cudaMalloc",
          size.filled);
  }
  for (const LoadedModule& loaded : modules_) {
    for (std::size_t i = 0; i < loaded.addresses.size(); ++i) {
      const Variable& variable = loaded.module->variables[i];
      watch(std::bit_cast<const void*>(loaded.addresses[i]), variable.bytes, variable.name, true);
    }
  }
}

void Device::map(void* memory, std::size_t bytes) { memory_.add(memory, bytes, "host memory"); }

bool Device::unmap(void* memory) { return !blocks_.contains(memory) && memory_.remove(memory); }

int Device::add_module(const void* fat_binary) {
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
  for (const auto& memory : loaded.memory) memory_.remove(memory.get());
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
    auto memory = std::make_unique<std::byte[]>(variable.bytes + 2 * alignment);
    void* at = memory.get();
    std::size_t space = variable.bytes + 2 * alignment;
    at = std::align(std::max<std::size_t>(alignment, variable.align), variable.bytes, at, space);
    if (!at) throw UsageError("the variable " + variable.name + " asks for too wide an alignment");
    std::copy_n(reinterpret_cast<const std::byte*>(variable.initial.data()),
                variable.initial.size(), static_cast<std::byte*>(at));
    memory_.add(at, variable.bytes, variable.name);
    loaded.addresses.push_back(reinterpret_cast<std::uint64_t>(at));
    loaded.memory.push_back(std::move(memory));
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
  } catch (const Error& error) {
    fail(error.what(), true);
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

bool Device::launch(Kernel& kernel, const std::array<std::uint32_t, 3>& blocks,
                    const std::array<std::uint32_t, 3>& threads, std::size_t dynamic_shared,
                    void* const* arguments) {
  if (!failure_.empty()) return false;
  const Program& program = *kernel.program;
  std::vector<std::byte> parameters(program.parameter_bytes + 16);
  for (std::size_t i = 0; i < program.parameters.size(); ++i) {
    std::memcpy(&parameters[program.parameter_offsets[i]], arguments[i],
                program.parameters[i].bytes);
  }
  Grid grid;
  grid.blocks = blocks;
  grid.threads = threads;
  grid.dynamic_shared = dynamic_shared;
  grid.parameters = parameters.data();
  grid.memory = &memory_;
  grid.workers = settings.workers;
  grid.schedule = settings.schedule;
  grid.checker = settings.checker;
  grid.tensor_core = settings.tensor_core;
  if (settings.checker) {
    watch_memory();
    grid.is_first = next_place_ == 1;
    if (kernel.first_place == 0) {
      kernel.first_place = next_place_;
      next_place_ += static_cast<std::uint32_t>(program.code.size());
    }
    grid.first_place = kernel.first_place;
  }
  try {
    ptx::launch(grid, program);
  } catch (const simt::Fault& fault) {
    fail(fault.what(), false);
  } catch (const Error& error) {
    fail(error.what(), true);
  }
  return failure_.empty();
}

}  // namespace lanescope::ptx
