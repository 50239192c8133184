#pragma once

#include <string_view>

namespace lanescope::testing {

/// Reads `text` as PTX, decodes all its kernels, and writes it as ptxas is given it where it has
/// markers. What is refused with a UsageError is as good as what is read; nothing else may be
/// thrown.
void read_any_ptx(std::string_view text);

}  // namespace lanescope::testing
