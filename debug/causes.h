#pragma once

#include <cstdint>

namespace lanescope {

/// Why a site is wrong, as `locate` names it. Where several hold, the earlier one is named: it says
/// more than those after it.
enum class Cause : std::uint8_t {
  crash,
  hang,
  machine_rule,
  out_of_bounds,
  race,
  missing_wait,
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
  mask_value,
  rows_beyond_end,
  never_updated,
  incomplete_reduction,
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
  wrong_formula,
  operand_of_other_row,
  stale_operand,
  scale_missing,
  scale_repeated,
  scale_of_other_head,
  wrong_scale,
  transposed,
  wrong_stride,
  permuted,
  wrong_source,
  lanes_disagree,
  stale_value,
  written_zero,
  mask_wrong,
  non_finite,
  precision_lost,
  unexplained,
};
inline constexpr int cause_count = static_cast<int>(Cause::unexplained) + 1;

struct CauseText {
  const char* name;
  const char* explanation;
};

/// The name in reports and what it means, one line.
constexpr CauseText text_of(Cause cause) {
  constexpr CauseText texts[] = {
      {"crash", "the kernel crashed: it ended its process, or the device gave up"},
      {"hang", "the kernel did not end"},
      {"machine_rule", "the kernel broke a rule of the machine (barrier, shuffle, deadlock)"},
      {"out_of_bounds", "an access outside of every buffer"},
      {"race", "no barrier orders two accesses of different lanes, one of them a write"},
      {"missing_wait", "an async copy into these bytes may still be under way"},
      {"written_twice", "an element that one lane should write once is written twice"},
      {"misaligned", "an address is no multiple of the access's size"},
      {"write_to_input", "the kernel writes where it may only read"},
      {"uninitialised_read", "bytes that nobody wrote are read"},
      {"uninitialised_register", "a value that was never assigned goes to other lanes"},
      {"tile_skipped", "nothing of the tile was written: the loop over the tiles left it out"},
      {"never_written", "slots were never written"},
      {"masked_row_unguarded", "-inf - (-inf) in a row that has seen no key yet: NaN"},
      {"divided_by_zero", "a row that sees no key has l = 0 and was divided by it"},
      {"mask_off_by_one", "the mask begins or ends a key or two too early or too late"},
      {"causal_mask_missing", "keys after the query are visible"},
      {"tail_mask_missing", "keys beyond the end of the sequence are visible"},
      {"mask_misaligned", "the causal mask is counted from the wrong row or key"},
      {"mask_value", "masked scores hold a finite number instead of -inf"},
      {"rows_beyond_end", "rows beyond the end of the sequence are not zero"},
      {"never_updated", "the value is still that of before this tile"},
      {"incomplete_reduction", "a reduction stopped before it covered the whole row"},
      {"accumulator_lost", "what earlier tiles gave is gone"},
      {"accumulator_not_cleared", "the accumulator started from what was in it before"},
      {"not_rescaled", "what earlier tiles gave was not multiplied by alpha"},
      {"rescaled_twice", "a factor alpha too many"},
      {"contribution_missing", "part of what this tile (or depth) gives is missing"},
      {"contribution_repeated", "part of what this tile (or depth) gives was added repeatedly"},
      {"not_normalised", "the output was not divided by l"},
      {"normalised_twice", "divided by l once too often"},
      {"weighted_by_sum",
       "the weights of a combine carry the row sums l_i, which partials already hold"},
      {"lse_without_maximum", "the log-sum-exp lacks the row maximum"},
      {"lse_without_sum", "the log-sum-exp lacks the logarithm of l"},
      {"wrong_base", "base 2 and base e are mixed up"},
      {"wrong_formula", "another formula than the stage's explains every value"},
      {"operand_of_other_row", "an operand belongs to another row"},
      {"stale_operand", "an operand is that of another tile"},
      {"scale_missing", "the scale of an input was left out"},
      {"scale_repeated", "the scale of an input was applied once too often"},
      {"scale_of_other_head", "the scale of another head, or of another input, was applied"},
      {"wrong_scale", "off by a constant factor"},
      {"transposed", "rows and columns are exchanged"},
      {"wrong_stride",
       "a tile is read with another distance between its rows than it was stored with"},
      {"permuted", "right values stand in wrong places"},
      {"wrong_source", "the values come from another place of the inputs"},
      {"lanes_disagree", "lanes that hold the same value differ"},
      {"stale_value", "the values belong to another site or an earlier tile"},
      {"written_zero", "zero was written instead of the value"},
      {"mask_wrong", "the wrong scores are masked, and no known rule says which"},
      {"non_finite", "NaN or infinity from finite operands"},
      {"precision_lost", "right but for rounding: a narrower type or too rough arithmetic"},
      {"unexplained", "no known cause explains the values"},
  };
  static_assert(sizeof(texts) / sizeof(texts[0]) == cause_count);
  return texts[static_cast<int>(cause)];
}

constexpr const char* name_of(Cause cause) { return text_of(cause).name; }

/// Whether wrong values that look like `cause` may come of accesses in the wrong order or place.
/// Values alone do not settle it then.
constexpr bool may_be_memory(Cause cause) {
  switch (cause) {
    case Cause::crash:
    case Cause::tile_skipped:
    case Cause::never_written:
    case Cause::never_updated:
    case Cause::accumulator_lost:
    case Cause::accumulator_not_cleared:
    case Cause::contribution_missing:
    case Cause::contribution_repeated:
    case Cause::operand_of_other_row:
    case Cause::stale_operand:
    case Cause::permuted:
    case Cause::wrong_source:
    case Cause::lanes_disagree:
    case Cause::stale_value:
    case Cause::written_zero:
    case Cause::non_finite:
    case Cause::rows_beyond_end:
      return true;
    default:
      return false;
  }
}

}  // namespace lanescope
