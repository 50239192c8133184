#pragma once

#include <filesystem>
#include <memory>

#include "gates/module.h"

namespace lanescope {

/// An opened module.
class ModuleFile {
 public:
  /// Throws EnvironmentError where the file cannot be loaded, MismatchError where it is no module
  /// of this version of the program.
  explicit ModuleFile(const std::filesystem::path& path);

  const Module& operator*() const { return *module_; }
  const Module* operator->() const { return module_; }

 private:
  std::shared_ptr<void> library_;
  const Module* module_ = nullptr;
};

}  // namespace lanescope
