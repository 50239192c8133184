#include "debug/ptx/runtime.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <new>
#include <utility>

#include "debug/ptx/fat_binary.h"
#include "debug/ptx/marked_text.h"
#include "debug/ptx/marker_run.h"
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

History* Device::history() {
  const bool wanted =
      session_ ? session_->follows_back() : settings.slice_bytes > 0 || settings.lookout;
  if (wanted && !history_) history_.emplace();
  return history_ ? &*history_ : nullptr;
}

void Device::fail(const std::string& what, bool refused) {
  if (!failure_.empty()) return;
  refused_ = refused;
  if (refused) refusal_ = what;
  if (refused && session_) return;
  failure_ = what;
  if (denied_ > 0) {
    failure_ += "; before that, an allocation of " + std::to_string(denied_) +
                " bytes had failed: there is no such room";
  }
}

int Device::add_module(const void* fat_binary) {
  if (session_) session_->note_module();
  modules_.emplace_back().fat_binary = fat_binary;
  return static_cast<int>(modules_.size()) - 1;
}

int Device::add_module(Module module) {
  LoadedModule& loaded = modules_.emplace_back();
  loaded.module = std::make_unique<Module>(std::move(module));
  place_variables(loaded);
  return static_cast<int>(modules_.size()) - 1;
}

bool Device::has_module(int module) const {
  if (module < 0 || static_cast<std::size_t>(module) >= modules_.size()) return false;
  const LoadedModule& loaded = modules_[static_cast<std::size_t>(module)];
  return loaded.fat_binary != nullptr || loaded.module;
}

bool Device::has_modules() const { return modules_before(static_cast<int>(modules_.size())) > 0; }

int Device::modules_before(int module) const {
  int before = 0;
  for (int other = 0; other < module; ++other) before += has_module(other);
  return before;
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

Module Device::read(const std::string& text, int index) {
  Module module = parse(text, "module " + std::to_string(modules_before(index)) + ".ptx");
  const std::string markers = session_              ? session_->marked_ptx()
                              : settings.marked_ptx ? settings.marked_ptx
                                                    : "";
  return markers.empty() ? std::move(module) : with_markers(std::move(module), markers);
}

void Device::load(LoadedModule& loaded, int index) {
  if (loaded.module) return;
  if (!loaded.refusal.empty()) throw UsageError(loaded.refusal);
  try {
    loaded.module = std::make_unique<Module>(read(ptx_of_fat_binary(loaded.fat_binary), index));
    place_variables(loaded);
  } catch (const Error& error) {
    loaded.module.reset();
    loaded.refusal = error.what();
    throw;
  }
}

int Device::load_image(const void* image) {
  if (session_) session_->note_module();
  try {
    return add_module(read(ptx_of_image(image), static_cast<int>(modules_.size())));
  } catch (const Error& error) {
    refuse("a module", error.what());
    return -1;
  }
}

void Device::refuse(const std::string& kernel, const std::string& why) {
  fail(why, true);
  if (session_) session_->note_launch(kernel, {}, {}, nullptr, why, true);
}

void Device::place_variables(LoadedModule& loaded) {
  const Module* module = loaded.module.get();
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
    // The memory checker may come later.
    if (GlobalMemory::Area* area = memory_.find(at, 0); area && !area->shadow) {
      area->shadow = std::make_shared<AreaShadow>(variable.bytes, true);
    }
    std::fill_n(static_cast<std::byte*>(at), variable.bytes, std::byte{0});
    std::copy_n(reinterpret_cast<const std::byte*>(variable.initial.data()),
                variable.initial.size(), static_cast<std::byte*>(at));
    loaded.addresses.push_back(reinterpret_cast<std::uint64_t>(at));
  }
  for (std::size_t i = 0; i < module->variables.size(); ++i) {
    for (const Variable::Address& address : module->variables[i].addresses) {
      // A kernel that calls what a table holds is refused; others of the module do not look there.
      if (module->find_function(address.of)) continue;
      const Variable* of = module->find_variable(address.of);
      const std::uint64_t base =
          of ? loaded.addresses[static_cast<std::size_t>(of - module->variables.data())] : 0;
      if (base == 0) throw UsageError("the address of " + address.of + " is not known");
      const std::uint64_t value = base + static_cast<std::uint64_t>(address.offset);
      std::memcpy(std::bit_cast<std::byte*>(loaded.addresses[i]) + address.at, &value, 8);
    }
  }
}

void Device::decode_kernel(Kernel& kernel) {
  LoadedModule& loaded = modules_[static_cast<std::size_t>(kernel.module)];
  kernel.program = std::make_shared<Program>(decode(*loaded.module, kernel.name, loaded.addresses,
                                                    settings.markers && settings.markers->injects,
                                                    names_accesses()));
}

Device::Kernel& Device::find_kernel(int module, const std::string& name) {
  const Module& text = *modules_[static_cast<std::size_t>(module)].module;
  const Function* function = text.find_function(name);
  Kernel& kernel = kernels_[function];
  kernel.module = module;
  kernel.name = name;
  if (!kernel.program) decode_kernel(kernel);
  kernel.most_dynamic_shared = SIZE_MAX;  // as much as a block may have
  return kernel;
}

Device::Kernel* Device::find_kernel(const void* function) {
  const auto at = kernels_.find(function);
  if (at == kernels_.end()) return nullptr;
  Kernel& kernel = at->second;
  if (kernel.program) return &kernel;
  if (!kernel.refusal.empty()) {  // and it was told
    fail(kernel.refusal, true);
    return nullptr;
  }
  try {
    load(modules_[static_cast<std::size_t>(kernel.module)], kernel.module);
    decode_kernel(kernel);
    const std::size_t fixed = kernel.program->shared_bytes;
    kernel.most_dynamic_shared = shared_of_default - std::min(shared_of_default, fixed);
  } catch (const Error& error) {
    kernel.refusal = error.what();
    refuse(kernel.name, kernel.refusal);
    return nullptr;
  }
  return &kernel;
}

const void* Device::handle_of(int module, const std::string& name) {
  const Function* function = modules_[static_cast<std::size_t>(module)].module->find_function(name);
  if (!function || !function->is_entry) return nullptr;
  if (!kernels_.contains(function)) add_kernel(module, function, name.c_str());
  return function;
}

std::pair<void*, std::size_t> Device::find_variable(const void* host) {
  const auto at = variables_.find(host);
  if (at == variables_.end()) return {nullptr, 0};
  return find_variable(at->second.module, at->second.name);
}

std::pair<void*, std::size_t> Device::find_variable(int module, const std::string& name) {
  LoadedModule& loaded = modules_[static_cast<std::size_t>(module)];
  try {
    load(loaded, module);
    const Variable* variable = loaded.module->find_variable(name);
    if (!variable) return {nullptr, 0};
    const auto index = static_cast<std::size_t>(variable - loaded.module->variables.data());
    return {std::bit_cast<void*>(loaded.addresses[index]), variable->bytes};
  } catch (const Error& error) {
    if (!std::exchange(loaded.variable_refused, true)) refuse("a module", error.what());
    return {nullptr, 0};
  }
}

std::uint64_t Device::grid_workspace() {
  constexpr std::size_t bytes = 256;
  if (!workspace_) workspace_ = place(bytes, bytes, "the workspace of cooperative grids", true);
  std::fill_n(static_cast<std::byte*>(workspace_), bytes, std::byte{0});
  return std::bit_cast<std::uint64_t>(workspace_);
}

}  // namespace lanescope::ptx
