#pragma once

#include <cstdint>

#include "debug/ptx/program.h"

namespace lanescope::ptx {

/// Whether instruction `to` may run after instruction `from`, of the same function, in one lane.
bool leads_to(const Program& program, std::uint32_t from, std::uint32_t to);

}  // namespace lanescope::ptx
