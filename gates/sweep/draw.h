#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gates/build/module_catalogue.h"
#include "gates/sweep/cell.h"
#include "gates/sweep/space.h"

namespace lanescope {

/// Of which modules cells are drawn, and over what.
struct DrawPlan {
  /// The traced modules that may be drawn: kernels and gates as wanted, of the backends at hand, a
  /// kernel's first type and tile first. Not empty.
  std::vector<ModuleName> modules;
  std::vector<std::string> combining;  ///< kernels among them that take `splits`
  SweepSpace space;
  std::uint64_t seed = 0;
  int checked_percent = 0;  ///< of the cells on sim: under the memory checker
};

/// Cell `index` of the plan: always the same, whichever others are drawn. Kernel, gate, type and
/// tile are drawn alike often. Of the sides a third is uniform, a third uniform in the logarithm, a
/// third from where kernels break: 1, the ends of the range, multiples of the tile and one beside
/// them, primes, powers of two. What takes long (2^18 scores and more) is rare.
Cell draw_cell(const DrawPlan& plan, std::uint64_t index);

/// Neighbour `index` of a cell: some of its sides are those of a cell that is drawn of its kernel,
/// gate and backend, the others its own. Near a cell that fails about half of them fail, and so
/// they say most about why.
Cell draw_neighbour(const DrawPlan& plan, const Cell& of, std::uint64_t index);

}  // namespace lanescope
