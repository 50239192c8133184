#include <bit>
#include <cstdio>

#include "debug/text/json.h"
#include "gates/measure/calibrate.h"

namespace lanescope {
namespace {

std::string hex(std::uint32_t value, int bits) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%0*x", bits / 4, value);
  return text;
}

/// "0x3f800001 (1.00000012)"
std::string number(std::uint32_t value, int bits) {
  if (bits != 32) return hex(value, bits);
  char text[32];
  std::snprintf(text, sizeof text, " (%.9g)", static_cast<double>(std::bit_cast<float>(value)));
  return hex(value, bits) + text;
}

bool is_product(const ProbeDifference& difference) {
  return difference.instruction.find("mma") != std::string::npos;
}

}  // namespace

std::string calibration_text(const Calibration& calibration) {
  char line[256];
  std::string text = calibration.device + "  " + calibration.arch + "\n\n";
  std::snprintf(line, sizeof line, "%-8s %9s %10s\n", "rules", "compared", "differing");
  text += line;
  for (const RuleFit& fit : calibration.fits) {
    std::snprintf(line, sizeof line, "%-8s %9lld %10lld\n", fit.rules->name,
                  static_cast<long long>(fit.compared), static_cast<long long>(fit.differing));
    text += line;
  }
  const simt::RuleSet* rules = calibration.rules();
  for (const RuleFit& fit : calibration.fits) {
    if (!fit.first) continue;
    const ProbeDifference& first = *fit.first;
    text += std::string("\nfirst difference from ") + fit.rules->name + "\n  probe  " +
            first.probe + "\n  " + first.instruction;
    if (is_product(first)) {
      text += ", row " + std::to_string(first.row) + ", column " + std::to_string(first.col);
    }
    text += "\n  got    " + number(first.got, first.bits) + "\n  " + fit.rules->name + " " +
            number(first.want, first.bits) + "\n";
  }
  if (rules) {
    text += std::string("\nfits: ") + rules->name + "\n";
  } else {
    text +=
        "\nnone fits: sim does not give this device's bits, and error bounds derived from them may "
        "not hold\n";
  }
  return text;
}

std::string calibration_json(const Calibration& calibration) {
  const simt::RuleSet* rules = calibration.rules();
  Json json = {{"backend", calibration.backend},
               {"device", calibration.device},
               {"arch", calibration.arch},
               {"verdict", rules ? "fits" : "none"},
               {"rules", rules ? Json(rules->name) : Json()},
               {"rule_sets", Json::array()}};
  for (const RuleFit& fit : calibration.fits) {
    Json first;
    if (fit.first) {
      first = {{"probe", fit.first->probe}, {"instruction", fit.first->instruction}};
      if (is_product(*fit.first)) {
        first["row"] = fit.first->row;
        first["col"] = fit.first->col;
      }
      first["got_bits"] = hex(fit.first->got, fit.first->bits);
      first["want_bits"] = hex(fit.first->want, fit.first->bits);
    }
    json["rule_sets"].push_back({{"rules", fit.rules->name},
                                 {"compared", fit.compared},
                                 {"differing", fit.differing},
                                 {"first", first}});
  }
  return document_text(json);
}

}  // namespace lanescope
