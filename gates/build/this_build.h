#pragma once

#include <string>

/// What the build of this program is, without a slash at the end of a folder. One file holds it, so
/// that a copy of the sources compiles little anew.
namespace lanescope::this_build {

std::string version();        ///< "0.1.0"
std::string source_root();    ///< the folder of the sources
std::string build_root();     ///< the folder that Ninja builds in
std::string module_folder();  ///< the folder of the modules, below it

}  // namespace lanescope::this_build
