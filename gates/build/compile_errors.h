#pragma once

#include <string>
#include <string_view>

namespace lanescope {

/// The errors in what ninja, a compiler (g++, clang++, nvcc) or a linker said, `output`, at most
/// `most`, each with its place and the source line; names of files from the source root on. Empty
/// where nothing failed to build; the last lines where something did, but no error is to be found.
std::string compile_errors(std::string_view output, int most = 3);

}  // namespace lanescope
