#include <cmath>
#include <string>

#include "debug/causes/flaw_families.h"

namespace lanescope {
namespace {

constexpr double normal = 0x1p-6;   ///< the smallest
constexpr double spacing = 0x1p-9;  ///< of those below

}  // namespace

double widened_as_normal(double x) {
  if (!(std::abs(x) < normal)) return x;
  return std::copysign(normal / 2 * (1 + std::abs(x) / spacing / 8), x);
}

void add_flaws_of_widening(const DumpInfo& info, Flaws& flaws) {
  if (info.dtype != ElementType::e4m3) return;
  struct Way {
    Cause cause;
    const char* text;
    double (*widened)(double);
  };
  const Way ways[] = {
      {Cause::wrong_type, "0 and what is below 2^-6 are widened as if they were normal",
       widened_as_normal},
      {Cause::wrong_type, "what is below 2^-6 is widened as if it were normal",
       [](double x) { return x == 0 ? x : widened_as_normal(x); }},
      {Cause::precision_lost, "what is below 2^-6 is taken for 0",
       [](double x) { return std::abs(x) < normal ? 0 : x; }},
  };
  struct Inputs {
    const char* text;
    bool q, k, v;
  };
  const Inputs all[] = {{"Q, K and V", true, true, true},
                        {"K and V", false, true, true},
                        {"Q", true, false, false},
                        {"K", false, true, false},
                        {"V", false, false, true}};
  for (const auto& [cause, text, widened] : ways) {
    for (const Inputs& of : all) {
      flaws.push_back({cause, Stage::load, std::string("in whose ") + of.text + " " + text,
                       of.q && of.k && of.v ? 0 : 1, [=, widened = widened](RowPlan& plan) {
                         if (of.q) plan.q_kept = widened;
                         if (of.k) plan.k_kept = widened;
                         if (of.v) plan.v_kept = widened;
                       }});
    }
  }
}

}  // namespace lanescope
