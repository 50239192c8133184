#pragma once

#include <string>
#include <vector>

#include "debug/ptx/syntax.h"
#include "reference/site.h"

namespace lanescope::ptx {

/// The PTX of a file. Throws UsageError.
Module parse_file(const std::string& path);

/// `embedded`, as nvcc has put it into a program, with the markers that the file at `path` has of
/// the same code: nvcc drops comments. Throws MismatchError where the file is of other code.
Module with_markers(Module embedded, const std::string& path);

/// Throws MismatchError where the file `ptx` has kernels of other code than the shared library
/// `module`. One that holds no PTX cannot be compared.
void demand_markers_of(const std::string& module, const std::string& ptx);

/// Where the markers of a file name values of a site: "x.cu:12 (its marker)", then the statements
/// that may have computed what is traced there, "x.cu:9 (computes it: fma.rn)". Lines are those
/// of -lineinfo, else of the PTX.
std::vector<std::string> marked_lines(const std::string& ptx, SiteId site);

}  // namespace lanescope::ptx
