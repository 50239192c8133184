#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lanescope {

/// The errors in what ninja, a compiler (g++, clang++, nvcc) or a linker said, `output`, at most
/// `most`, each with its place and the source line; names of files from the source root on. Empty
/// where nothing failed to build; the last lines where something did, but no error is to be found.
std::string compile_errors(std::string_view output, int most = 3);

/// The warnings of g++ or clang in it, "FILE:LINE:COLUMN: warning: WORDS", each once, those in
/// files below the source root left out.
std::vector<std::string> compile_warnings(std::string_view output);

}  // namespace lanescope
