#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "gates/module/module.h"

namespace lanescope {

/// Whether a path is that of PTX (gates/module/ptx_module.h).
bool is_ptx_path(const std::string& path);

/// An opened module, which has been loaded on trial before (gates/build/module_trial.h).
class ModuleFile {
 public:
  /// `on_machine`: what nvcc compiled is a sim module, since it finds the SIMT machine's CUDA
  /// runtime loaded in place of CUDA's (gates/process/machine_runtime.h). Throws what try_module
  /// throws, EnvironmentError where the file cannot be loaded here.
  explicit ModuleFile(const std::filesystem::path& path, bool on_machine = false);
  /// A module that lasts.
  explicit ModuleFile(const Module& module) : module_(&module) {}

  /// The same, of which `adapted` is another description, which `owner` keeps.
  void describe_as(const Module& adapted, std::shared_ptr<const void> owner) {
    module_ = &adapted;
    adapted_ = std::move(owner);
  }

  const Module& operator*() const { return *module_; }
  const Module* operator->() const { return module_; }

 private:
  std::shared_ptr<void> library_;
  std::shared_ptr<const Module> on_machine_;  ///< the module as the machine runs it
  std::shared_ptr<const void> adapted_;
  const Module* module_ = nullptr;
};

}  // namespace lanescope
