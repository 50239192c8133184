#pragma once

#include <nlohmann/json_fwd.hpp>

#include "reference/problem.h"

namespace lanescope {

/// `value` as JSON. JSON has no such numbers, so those become the strings "inf", "-inf" and "nan".
nlohmann::ordered_json number_json(double value);

/// {"batch", "heads", "heads_kv", "len_q", "len_kv", "d", "causal"}.
nlohmann::ordered_json shape_json(const Problem& problem);

}  // namespace lanescope
