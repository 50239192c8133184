#include "debug/json.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "debug/text.h"

namespace lanescope {

nlohmann::ordered_json number_json(double value) {
  if (std::isfinite(value)) return value;
  return number_text(value, 1);
}

nlohmann::ordered_json shape_json(const Problem& problem) {
  return {{"batch", problem.batch},  {"heads", problem.heads},   {"heads_kv", problem.heads_kv},
          {"len_q", problem.len_q},  {"len_kv", problem.len_kv}, {"d", problem.d},
          {"causal", problem.causal}};
}

}  // namespace lanescope
