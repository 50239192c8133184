#pragma once

#include <string>

#include "gates/commands/command.h"

namespace lanescope {

/// `list --maps`: which matrix element each lane holds of each fragment, on `backend` (auto, sim or
/// cuda). Throws Error.
ExitCode list_maps(const std::string& backend, const Output& output);

}  // namespace lanescope
