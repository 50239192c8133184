#pragma once

#include <optional>

#include "debug/causes/diagnose.h"
#include "debug/causes/scene.h"
#include "reference/tensor.h"

namespace lanescope {

/// The number of the type that is next to x towards zero, or x.
double truncated(ElementType type, double x);

/// Whether P is truncated to the inputs' type in the place of rounded, in a run whose
/// outputs are within their bounds and that shows nothing else: each value is off by little, all
/// together lean towards zero by half a unit, which rounding does not. Inputs of 16 bits; nothing
/// where the outputs are too few to say so, or more than is worth while (4096 to 65536 values of
/// O).
std::optional<Finding> find_truncation(const Dump& dump);

/// The same as the diagnosis of a kernel.
std::optional<Diagnosis> diagnose_truncation(const Dump& dump);

}  // namespace lanescope
