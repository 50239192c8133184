#pragma once

#include <optional>
#include <string>

#include "debug/causes/diagnose.h"
#include "debug/causes/memory_findings.h"

namespace lanescope {

/// Takes the stage of the first finding of `diagnosis` from others where the lines of its own do
/// not say whose it is. A line of evidence where it is that of one side of a race alone, or of
/// another access; empty where there is nothing to say.
std::string settle_stage(const CheckReport& report, Diagnosis& diagnosis);

}  // namespace lanescope
