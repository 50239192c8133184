#pragma once

#include <string>
#include <vector>

#include "debug/causes/diagnose.h"

namespace lanescope {

/// Where the source makes the accesses that the memory checker's first finding is about; of a run
/// that broke off, where lanes were.
std::vector<std::string> accessing_lines(const Diagnosis& diagnosis);

}  // namespace lanescope
