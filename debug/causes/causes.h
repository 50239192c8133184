#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

namespace lanescope {

/// Why a site is wrong, as `locate` names it. Where several hold, the earlier one is named: it says
/// more than those after it.
enum class Cause : std::uint8_t {
  crash,
  launch_refused,
  hang,
  deadlock,
  machine_rule,
  out_of_bounds,
  index_overflow,
  barrier_overwritten,
  double_arrival,
  missing_grid_wait,
  wrong_expect_tx,
  layout_disagrees,
  register_in_flight,
  operand_overwritten,
  missing_proxy_fence,
  missing_register_fence,
  unfenced_barrier,
  wrong_phase,
  race,
  missing_wait,
  unfinished_copy,
  written_twice,
  misaligned,
  write_to_input,
  uninitialised_read,
  uninitialised_register,
  tile_skipped,
  never_written,
  masked_row_unguarded,
  divided_by_zero,
  mask_off_by_one,
  causal_mask_missing,
  tail_mask_missing,
  mask_misaligned,
  sliding_window,
  mask_value,
  rows_beyond_end,
  never_updated,
  incomplete_reduction,
  reduction_too_wide,
  accumulator_lost,
  accumulator_not_cleared,
  not_rescaled,
  rescaled_twice,
  contribution_missing,
  contribution_repeated,
  not_normalised,
  normalised_twice,
  weighted_by_sum,
  lse_without_maximum,
  lse_without_sum,
  wrong_base,
  clamped,
  wrong_formula,
  operand_of_other_row,
  stale_operand,
  wrong_head,
  wrong_type,
  scale_missing,
  scale_repeated,
  scale_of_other_head,
  wrong_scale,
  misplaced,
  transposed,
  wrong_stride,
  permuted,
  wrong_source,
  lanes_disagree,
  stale_value,
  written_zero,
  mask_wrong,
  overflow,
  non_finite,
  precision_lost,
  unexplained,
};

/// A cause: its name in reports, and what it means, in one line.
struct CauseRow {
  Cause cause;
  const char* name;
  const char* explanation;
  /// Wrong values that look like it may come of accesses in the wrong order or place: values alone
  /// do not settle it then.
  bool may_be_memory = false;
};

/// Of a number that is not finite, by values alone; the memory checker may know better.
inline constexpr const char* suspects_memory =
    "what the stage should read is finite: suspect memory or registers that were never written";

inline constexpr CauseRow cause_table[] = {
    {Cause::crash, "crash", "the kernel crashed: it ended its process, or the device gave up",
     true},
    {Cause::launch_refused, "launch_refused",
     "the kernel never ran: its launch asks for more than a block may have"},
    {Cause::hang, "hang", "the kernel did not end"},
    {Cause::deadlock, "deadlock", "lanes wait for what never comes, or for each other", true},
    {Cause::machine_rule, "machine_rule",
     "the kernel broke a rule of the machine (barrier, shuffle)", true},
    {Cause::out_of_bounds, "out_of_bounds", "an access outside of every buffer", true},
    {Cause::index_overflow, "index_overflow",
     "an index passes 2^31 and is computed in 32 bits: multiply in 64"},
    {Cause::barrier_overwritten, "barrier_overwritten",
     "the bytes of an mbarrier in use are written to"},
    {Cause::double_arrival, "double_arrival",
     "a thread arrives twice in a phase of an mbarrier, in the place of another"},
    {Cause::missing_grid_wait, "missing_grid_wait",
     "a grid that starts before the one before it has ended uses its bytes without a "
     "griddepcontrol.wait"},
    {Cause::wrong_expect_tx, "wrong_expect_tx",
     "a phase of an mbarrier completes before the copies into it, or never: its bytes are counted "
     "wrongly"},
    {Cause::layout_disagrees, "layout_disagrees",
     "a matrix descriptor reads a tile in another layout than its tensor map stored it in"},
    {Cause::register_in_flight, "register_in_flight",
     "a register of a wgmma that was not waited for is accessed"},
    {Cause::operand_overwritten, "operand_overwritten",
     "bytes that a wgmma or copy may still read are overwritten"},
    {Cause::missing_proxy_fence, "missing_proxy_fence",
     "the asynchronous proxy reads what a lane wrote, or overwrites what it wrote or read, without "
     "a "
     "fence.proxy.async"},
    {Cause::missing_register_fence, "missing_register_fence",
     "registers are accessed, then go into a wgmma without a wgmma.fence"},
    {Cause::unfenced_barrier, "unfenced_barrier",
     "a copy completes on an mbarrier whose initialisation was not fenced"},
    {Cause::wrong_phase, "wrong_phase",
     "a wait at an mbarrier passes by a phase that is over, and a copy may still be under way"},
    {Cause::race, "race", "no barrier orders two accesses of different lanes, one of them a write"},
    {Cause::missing_wait, "missing_wait", "an async copy into these bytes may still be under way"},
    {Cause::unfinished_copy, "unfinished_copy", "the block ends before a copy that it issued"},
    {Cause::written_twice, "written_twice",
     "an element that one lane should write once is written twice"},
    {Cause::misaligned, "misaligned", "an address is no multiple of the access's size"},
    {Cause::write_to_input, "write_to_input", "the kernel writes where it may only read"},
    {Cause::uninitialised_read, "uninitialised_read", "bytes that nobody wrote are read"},
    {Cause::uninitialised_register, "uninitialised_register",
     "a value that was never assigned goes to other lanes"},
    {Cause::tile_skipped, "tile_skipped",
     "nothing of the tile was written: the loop over the tiles left it out", true},
    {Cause::never_written, "never_written", "slots were never written", true},
    {Cause::masked_row_unguarded, "masked_row_unguarded",
     "-inf - (-inf) in a row that has seen no key yet: NaN"},
    {Cause::divided_by_zero, "divided_by_zero",
     "a row that sees no key has l = 0 and was divided by it"},
    {Cause::mask_off_by_one, "mask_off_by_one",
     "the mask begins or ends a key or two too early or too late"},
    {Cause::causal_mask_missing, "causal_mask_missing", "keys after the query are visible"},
    {Cause::tail_mask_missing, "tail_mask_missing",
     "keys beyond the end of the sequence are visible"},
    {Cause::mask_misaligned, "mask_misaligned",
     "the causal mask is counted from the wrong row or key"},
    {Cause::sliding_window, "sliding_window",
     "a row sees the keys of a window before its own alone"},
    {Cause::mask_value, "mask_value", "masked scores hold a finite number instead of -inf"},
    {Cause::rows_beyond_end, "rows_beyond_end",
     "rows beyond the end of the sequence hold what is no number", true},
    {Cause::never_updated, "never_updated", "the value is still that of before this tile", true},
    {Cause::incomplete_reduction, "incomplete_reduction",
     "a reduction stopped before it covered the whole row"},
    {Cause::reduction_too_wide, "reduction_too_wide",
     "a reduction took in other rows, parts that there are none of, or what it held of the row "
     "before"},
    {Cause::accumulator_lost, "accumulator_lost", "what earlier tiles gave is gone", true},
    {Cause::accumulator_not_cleared, "accumulator_not_cleared",
     "the accumulator started from what was in it before", true},
    {Cause::not_rescaled, "not_rescaled", "what earlier tiles gave was not multiplied by alpha",
     true},
    {Cause::rescaled_twice, "rescaled_twice", "a factor alpha too many"},
    {Cause::contribution_missing, "contribution_missing",
     "part of what this tile (or depth) gives is missing", true},
    {Cause::contribution_repeated, "contribution_repeated",
     "part of what this tile (or depth) gives was added repeatedly", true},
    {Cause::not_normalised, "not_normalised", "the output was not divided by l"},
    {Cause::normalised_twice, "normalised_twice", "divided by l once too often"},
    {Cause::weighted_by_sum, "weighted_by_sum",
     "the weights of a combine carry the row sums l_i, which partials already hold"},
    {Cause::lse_without_maximum, "lse_without_maximum", "the log-sum-exp lacks the row maximum"},
    {Cause::lse_without_sum, "lse_without_sum", "the log-sum-exp lacks the logarithm of l"},
    {Cause::wrong_base, "wrong_base", "base 2 and base e are mixed up"},
    {Cause::clamped, "clamped", "values beyond a limit are cut off or softly capped"},
    {Cause::wrong_formula, "wrong_formula",
     "another formula than the stage's explains every value"},
    {Cause::operand_of_other_row, "operand_of_other_row", "an operand belongs to another row",
     true},
    {Cause::stale_operand, "stale_operand", "an operand is that of another tile", true},
    {Cause::wrong_head, "wrong_head", "the keys or values are those of another head or batch"},
    {Cause::wrong_type, "wrong_type", "the bits of one type are taken for those of another"},
    {Cause::scale_missing, "scale_missing", "the scale of an input was left out"},
    {Cause::scale_repeated, "scale_repeated", "the scale of an input was applied once too often"},
    {Cause::scale_of_other_head, "scale_of_other_head",
     "the scale of another head, or of another input, was applied"},
    {Cause::wrong_scale, "wrong_scale", "off by a constant factor"},
    {Cause::misplaced, "misplaced", "the right rows are stored at the place of others", true},
    {Cause::transposed, "transposed", "rows and columns are exchanged"},
    {Cause::wrong_stride, "wrong_stride",
     "a tile is read with another distance between its rows than it was stored with"},
    {Cause::permuted, "permuted", "right values stand in wrong places", true},
    {Cause::wrong_source, "wrong_source", "the values come from another place of the inputs", true},
    {Cause::lanes_disagree, "lanes_disagree", "lanes that hold the same value differ", true},
    {Cause::stale_value, "stale_value", "the values belong to another site or an earlier tile",
     true},
    {Cause::written_zero, "written_zero", "zero was written instead of the value", true},
    {Cause::mask_wrong, "mask_wrong", "the wrong scores are masked, and no known rule says which"},
    {Cause::overflow, "overflow",
     "finite numbers become infinite: 2^x of a large x, or one beyond the range of a narrow type"},
    {Cause::non_finite, "non_finite", "NaN or infinity from finite operands", true},
    {Cause::precision_lost, "precision_lost",
     "right but for rounding: a narrower type or too rough arithmetic"},
    {Cause::unexplained, "unexplained", "no known cause explains the values"},
};

constexpr bool is_in_order() {
  for (int i = 0; const CauseRow& row : cause_table) {
    if (static_cast<int>(row.cause) != i++) return false;
  }
  return std::size(cause_table) == static_cast<std::size_t>(Cause::unexplained) + 1;
}
static_assert(is_in_order(), "the rows stand in the order of Cause, one each");

constexpr const CauseRow& row_of(Cause cause) { return cause_table[static_cast<int>(cause)]; }
constexpr const char* name_of(Cause cause) { return row_of(cause).name; }

}  // namespace lanescope
