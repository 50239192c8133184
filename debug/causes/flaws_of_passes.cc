#include <numbers>

#include "debug/causes/flaw_families.h"

namespace lanescope {

// A kernel that goes through the keys several times, for m, for l and for O, computes scores in
// each pass: a bug in the last one leaves m, l and the log-sum-exp right.
std::vector<Flaw> flaws_of_passes(const std::vector<Flaw>& known) {
  const std::string of_pass = "whose P in O, alone, is that of attention ";
  Flaws flaws;
  for (const Flaw& flaw : known) {
    if (flaw.stage != Stage::qk && flaw.stage != Stage::load) continue;
    // Keys that are left out there alone, or count twice, are so in the product.
    const bool counts = flaw.cause == Cause::tile_skipped ||
                        flaw.cause == Cause::contribution_missing ||
                        flaw.cause == Cause::contribution_repeated;
    flaws.push_back({flaw.cause, counts ? Stage::pv : flaw.stage, of_pass + flaw.text,
                     flaw.choices + 2, [edit = flaw.edit](RowPlan& plan) {
                       edit(plan);
                       plan.weights_anew = 1;
                     }});
  }
  for (const bool too_large : {true, false}) {
    flaws.push_back(
        {Cause::wrong_base, Stage::softmax,
         of_pass + (too_large ? "with e^x of scores in base 2" : "with 2^x of scores in base e"), 2,
         [=](RowPlan& plan) {
           plan.weights_anew = too_large ? std::numbers::log2e : std::numbers::ln2;
         }});
  }
  return flaws;
}

}  // namespace lanescope
