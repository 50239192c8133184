#include "debug/causes/formulas.h"

namespace lanescope {

void find_formula(const Scene& scene, Findings& findings) {
  const Formulas fits(scene, findings);
  switch (scene.first().stage) {
    case Stage::qk:
      return try_formulas_of_scores(scene, fits);
    case Stage::softmax:
      return try_formulas_of_softmax(scene, fits);
    case Stage::pv:
      return try_formulas_of_output(scene, fits);
    default:
      return;
  }
}

}  // namespace lanescope
