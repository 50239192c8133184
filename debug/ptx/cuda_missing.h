#pragma once

#include <string_view>

namespace lanescope::cudart {

/// Whether a call of the driver's is there by its name alone, and says that it
/// is not supported.
bool is_missing(std::string_view name);

}  // namespace lanescope::cudart
