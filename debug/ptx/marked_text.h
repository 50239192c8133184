#pragma once

#include <string>

#include "debug/ptx/syntax.h"

namespace lanescope::ptx {

/// `embedded`, as nvcc has put it into a program, with the markers that the file at `path` has of
/// the same code: nvcc drops comments. Throws UsageError where the file is of other code.
Module with_markers(Module embedded, const std::string& path);

}  // namespace lanescope::ptx
