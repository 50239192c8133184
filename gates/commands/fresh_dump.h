#pragma once

#include <string>

#include "debug/dump/dump.h"

namespace lanescope {

/// Reads a dump. One of a binary that is not built from the sources at hand says nothing about
/// them: throws MismatchError unless `stale_ok`.
Dump read_fresh_dump(const std::string& path, bool stale_ok);

}  // namespace lanescope
