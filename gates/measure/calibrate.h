#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "debug/simt/numerics.h"
#include "gates/module/probes.h"

namespace lanescope {

/// A value of a probe that a rule set does not explain.
struct ProbeDifference {
  std::string probe;        ///< "f16: 25 bits: 1 + 4·2^-25", "ex2(-0.25)"
  std::string instruction;  ///< "mma.m16n8k16"
  int row = 0, col = 0;     ///< of the product
  std::uint32_t got = 0, want = 0;
  int bits = 32;  ///< of got and want
};

/// What a device's arithmetic and a rule set have in common.
struct RuleFit {
  const simt::RuleSet* rules = nullptr;
  std::int64_t compared = 0, differing = 0;  ///< values
  std::optional<ProbeDifference> first;
};

struct Calibration {
  std::string backend, device, arch;
  std::vector<RuleFit> fits;  ///< one per rule set

  /// The rule set that explains every value; nullptr where none does.
  const simt::RuleSet* rules() const;
};

/// Does the rounding probes on `backend` ("sim": rounding like `rules`, or "cuda") and compares
/// every bit with what each rule set gives; NaNs are alike. Throws Error where they cannot be done.
Calibration calibrate(const std::string& backend, const simt::RuleSet& rules);

std::string calibration_text(const Calibration& calibration);
std::string calibration_json(const Calibration& calibration);

}  // namespace lanescope
