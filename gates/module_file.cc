#include "gates/module_file.h"

#include <dlfcn.h>

#include <string>

#include "debug/error.h"

namespace lanescope {

ModuleFile::ModuleFile(const std::filesystem::path& path) {
  const std::filesystem::path absolute = std::filesystem::absolute(path);
  void* library = dlopen(absolute.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    throw EnvironmentError("cannot load the module " + path.string() + ": " + dlerror());
  library_ = std::shared_ptr<void>(library, [](void* handle) { dlclose(handle); });
  const auto entry =
      reinterpret_cast<decltype(&lanescope_module)>(dlsym(library, "lanescope_module"));
  if (!entry) {
    throw MismatchError(path.string() +
                        " is no module: it does not export lanescope_module (gates/module.h)");
  }
  module_ = entry();
  if (module_->abi != module_abi) {
    throw MismatchError("the module " + path.string() + " was built for version " +
                        std::to_string(module_->abi) + " of gates/module.h, this program for " +
                        std::to_string(module_abi) + ": build the module again");
  }
}

}  // namespace lanescope
