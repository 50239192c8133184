#pragma once

#include <string>
#include <vector>

#include "debug/causes/detectors.h"
#include "debug/causes/scene.h"

namespace lanescope {

/// A product got = left · right, solved for the operand that the kernel must have used.
struct ProductOperand {
  Scene::Array used, right;  ///< what was used, what should have been: [outer, depth]
  Scene::Array noise;        ///< how far `used` may be off because of rounding
  std::string depth;         ///< what the columns are: "keys", "columns of d"
  std::string outer;         ///< what the rows are
};

/// The operands that the scene's product (site s or o) determines, each alone wrong: K and Q, or P
/// and V. Where the scene has too few rows or keys, those of the head's other blocks and of other
/// tiles, which share the operand, are taken too.
std::vector<ProductOperand> solve_operands(const Scene& scene);

/// Whether rounding leaves enough of an operand to tell its numbers apart: else everything would
/// agree with everything.
bool is_sharp(const ProductOperand& e);

/// The operand read with rows and columns exchanged, or with another stride than it was stored
/// with.
void find_misread(const ProductOperand& e, Findings& findings);

}  // namespace lanescope
