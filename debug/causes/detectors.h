#pragma once

#include <vector>

#include "debug/causes/scene.h"

namespace lanescope {

// A detector knows one class of faults. It appends a finding per cause that it recognises, with
// evidence that `lanescope show` can verify, and stays silent otherwise.
using Findings = std::vector<Finding>;

/// Slots, rows, tiles or outputs that were never written; zeros instead of values.
void find_unwritten(const Scene& scene, Findings& findings);
/// Lanes that hold the same row but not the same value.
void find_disagreement(const Scene& scene, Findings& findings);
/// The first NaN or infinity, with the operands that made it.
void find_non_finite(const Scene& scene, Findings& findings);
/// Scores that are masked and should not be, or the other way round.
void find_mask(const Scene& scene, Findings& findings);
/// Formulas close to the right one (a factor, a term, an operand more or less) that give the
/// values.
void find_formula(const Scene& scene, Findings& findings);
/// The same of what a block stores: O = o / l, the log-sum-exp, partials.
void find_epilogue(const Scene& scene, Findings& findings);
/// Values that are cut off at a limit, or softly capped.
void find_limit(const Scene& scene, Findings& findings);
/// Bits of one 16-bit type that are taken for those of the other.
void find_type(const Scene& scene, Findings& findings);
/// Tiles that are read, or stored, with another distance between their rows than they have.
void find_stride(const Scene& scene, Findings& findings);
/// The same of the combine pass: weights and sums of the partials that give the values.
void find_combine(const Scene& scene, Findings& findings);
/// Outputs that hold one tile more than the block has.
void find_extra_tile(const Scene& scene, Findings& findings);
/// The right formula with an operand of another row.
void find_other_row(const Scene& scene, Findings& findings);
/// Row maxima and sums over a part of the row.
void find_reduction(const Scene& scene, Findings& findings);
/// Row maxima and sums over more than the row.
void find_wide_reduction(const Scene& scene, Findings& findings);
/// Products from which part of the depth is missing, or in which it counts twice or out of order.
void find_product(const Scene& scene, Findings& findings);
/// Scales of 8-bit inputs that are missing, applied twice, or of another head.
void find_input_scale(const Scene& scene, Findings& findings);
/// Factors that are constant over the tile, a row or a column.
void find_scale(const Scene& scene, Findings& findings);
/// Right values in wrong places of the tile.
void find_permutation(const Scene& scene, Findings& findings);
/// The same, by offsets that all of a row have whose columns are alike in fragments.
void find_offsets(const Scene& scene, Findings& findings);
/// The same, where a row, a column or both differ in one bit; where nothing else is certain.
void find_exchange(const Scene& scene, Findings& findings);
/// Values of the inputs, of other sites and of earlier tiles.
void find_source(const Scene& scene, Findings& findings);
/// Outputs that are those of attention with a bug that kernels are known to have. Of a kernel that
/// is traced, a bug behind the last tile.
void find_known_flaw(const Scene& scene, Findings& findings);
/// Outputs that are wrong in the rows that see no key alone, and the same in all of them.
void find_empty_rows(const Scene& scene, Findings& findings);
/// Outputs that are not finite where the maximum of some scores alone, or nothing, is subtracted
/// from all of a row. Of a kernel that is not traced.
void find_overflow(const Scene& scene, Findings& findings);
/// Errors that look like rounding.
void find_lost_precision(const Scene& scene, Findings& findings);

}  // namespace lanescope
