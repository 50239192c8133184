#include "gates/run/term_contest.h"

#include <algorithm>
#include <string>

#include "debug/causes/cause_families.h"
#include "gates/run/outline_stages.h"

namespace lanescope {
namespace {

/// Accesses that come of a row or tile that is taken for another: what they are is not why.
bool may_come_of_terms(Cause cause) {
  return cause == Cause::uninitialised_read || cause == Cause::out_of_bounds ||
         cause == Cause::uninitialised_register;
}

/// What is not there may be lost in an access that strayed: that comes of it, and not the other way
/// round.
bool says_what_lacks(Cause cause) {
  return cause == Cause::tile_skipped || cause == Cause::not_normalised ||
         cause == Cause::contribution_missing || cause == Cause::incomplete_reduction ||
         cause == Cause::never_updated || cause == Cause::lse_without_maximum ||
         cause == Cause::lse_without_sum;
}

/// A race of one statement with itself: what two lanes store at the same place, they may have to
/// store at different ones.
bool writes_over_itself(const Diagnosis& diagnosis) {
  const CheckReport::Item& item = diagnosis.memory.front();
  return diagnosis.cause == Cause::race && !item.access_line.empty() &&
         item.access_line == item.earlier_line;
}

/// A race of two stores: what is stored at the place of others meets those.
bool writes_over_others(const Diagnosis& diagnosis) {
  const simt::Finding& finding = diagnosis.memory.front().finding;
  return diagnosis.cause == Cause::race && finding.access.write && finding.earlier.write;
}

/// A race of a read and a write, by lines of their own.
bool reads_what_is_written(const Diagnosis& diagnosis) {
  const simt::Finding& finding = diagnosis.memory.front().finding;
  return diagnosis.cause == Cause::race && finding.earlier.place != 0 &&
         finding.access.write != finding.earlier.write;
}

/// Parts that are relative to different maxima: the outputs tell whether they were to be rescaled.
bool are_of_other_maxima(Cause flaw, Cause terms) {
  return flaw == Cause::not_rescaled && terms == Cause::incomplete_reduction;
}

}  // namespace

const Finding* named_flaw(const Diagnosis& diagnosis) {
  const auto named = std::ranges::find(diagnosis.flaws, diagnosis.cause, &Finding::cause);
  return named == diagnosis.flaws.end() ? nullptr : &*named;
}

bool are_alike(Cause a, Cause b) {
  if (are_of_other_maxima(a, b)) return true;
  const bool of_keys = is_mask(a) && (is_mask(b) || b == Cause::contribution_repeated);
  return of_keys || (takes_others(a) && takes_others(b));
}

namespace {

/// contest_terms, step by step.
class Contest {
 public:
  Contest(const TermFault& fault, bool is_whole, const SeenWays& seen,
          const TermsElsewhere& elsewhere, Location& location)
      : fault_(fault),
        is_whole_(is_whole),
        seen_(seen),
        elsewhere_(elsewhere),
        location_(location) {}

  void settle() {
    if (fault_.share < (is_mere_symptom() ? 0.2 : 0.5)) return;
    if (makes_infinity(standing_.cause) && !overflows_by_numbers() && !comes_of_operands()) return;
    const bool of_memory = !standing_.memory.empty();
    if (of_memory && !is_whole_ && writes_over_itself(standing_)) standing_.certain = false;
    // Who reads where another tensor lies meets those who write that.
    if (of_memory && fault_.of_tensors && reads_what_is_written(standing_)) {
      standing_.certain = false;
    }
    if (of_memory && !stage_) take_stage();  // that alone is not known
    if (of_memory && !is_consequence()) return;
    // Of two flaws at once one may stand for anything: what the terms say is one.
    const Finding* const flaw = named_flaw(standing_);
    const bool composed = flaw && flaw->other_cause;
    if (composed) standing_.certain = false;
    if (never_meets_zeros() || needs_scores()) return take(fault_.cause);
    if (is_refuted_by_numbers()) return take(standing_.cause);
    if (comes_before_flaw() || reads_twice()) return take(fault_.cause);
    const bool sure = standing_.sure() && !of_memory;
    if (loses_parts_in_merge() || lacks_parts_before_merge()) take_stage();
    if (sure && !moves_row() && standing_.cause != fault_.cause) {
      take_lines();
      return;
    }
    const bool alike =
        flaw && !composed && !of_memory && !moves_row() && are_alike(standing_.cause, fault_.cause);
    const bool says_no_cause = fault_.cause == Cause::unexplained && !composed;
    if (standing_.cause == fault_.cause || alike || says_no_cause || names_row()) {
      if (!keeps_stage(sure)) take_stage();
    } else if (flaw && !composed && elsewhere_.is_harmless(fault_)) {
      standing_.evidence.emplace_back("so it is where outputs are right: that alone is no fault");
      return;
    } else {
      // What stands at the place of others leaves its own unwritten.
      const bool leaves_own = standing_.cause == Cause::never_written &&
                              fault_.cause == Cause::permuted && fault_.stage == Stage::epilogue;
      return take(leaves_own ? Cause::misplaced : fault_.cause);
    }
    location_.source = fault_.lines;
  }

 private:
  /// Whether rows of V would have to be zeros, and no weight is multiplied by any: they are left
  /// out.
  bool never_meets_zeros() const {
    return standing_.cause == Cause::written_zero && named_flaw(standing_) &&
           standing_.memory.empty() && fault_.of_outputs && !fault_.meets_zeros &&
           fault_.cause == Cause::contribution_missing;
  }

  /// Whether a flaw is of what is done with weights of all keys, and some have not even scores.
  bool needs_scores() const {
    const Finding* const flaw = named_flaw(standing_);
    if (!flaw || !standing_.memory.empty()) return false;
    if (fault_.lacks_scores && flaw->stage > Stage::softmax) {
      return !says_what_lacks(standing_.cause);
    }
    // Or of V alone, and scores are others.
    return seen_.lacks_scores && fault_.stage <= Stage::qk && fault_.operand != 2 &&
           taker_of(flaw->flaw) == Stage::pv;
  }

  /// Whether a flaw is of a stage whose numbers are right: the first that are wrong are a merge's.
  bool is_refuted_by_numbers() const {
    return named_flaw(standing_) && standing_.memory.empty() && is_whole_ &&
           fault_.stage == Stage::combine && stage_ && *stage_ < Stage::epilogue;
  }

  /// Whether numbers are wrong before the stage of a flaw, which is not sure.
  bool comes_before_flaw() const {
    return named_flaw(standing_) && standing_.memory.empty() && is_whole_ && !standing_.sure() &&
           stage_ && fault_.stage < *stage_ && fault_.stage < Stage::epilogue;
  }

  /// Whether what a reduction leaves out is there until parts are put together.
  bool loses_parts_in_merge() const {
    return standing_.cause == Cause::incomplete_reduction && stage_ == Stage::softmax &&
           fault_.stage == Stage::combine && says_what_lacks(fault_.cause);
  }

  /// Whether parts that a merge seems to leave out were never made.
  bool lacks_parts_before_merge() const {
    return named_flaw(standing_) && standing_.memory.empty() && stage_ == Stage::combine &&
           fault_.lacks_scores && says_what_lacks(standing_.cause);
  }

  /// Whether the access that the checker found comes of what the terms say.
  bool is_consequence() const {
    if (fault_.cause == standing_.cause && !fault_.of_place) return false;
    if (fault_.of_place && reads_unwritten()) return true;
    // Who reads too early, or too late, gets what was there before or comes behind: in its place.
    const bool strays_within = fault_.of_place || fault_.of_columns;
    if (strays_within && reads_what_is_written(standing_)) return true;
    // What is read are inputs still, of another place: outputs that go out through the memory of
    // operands come behind that, and meet it there.
    const bool meets_outputs =
        standing_.cause == Cause::operand_overwritten && stage_ == Stage::epilogue;
    if (meets_outputs && fault_.stage <= Stage::qk && takes_others(fault_.cause)) return true;
    const bool lost = standing_.cause == Cause::out_of_bounds || reads_what_no_kernel_left();
    // A factor that nobody wrote rescales nothing, and a sum has in it what nobody wrote.
    const bool strays = (lost && says_what_lacks(fault_.cause)) ||
                        fault_.cause == Cause::not_rescaled ||
                        (standing_.cause == Cause::uninitialised_read &&
                         fault_.cause == Cause::accumulator_not_cleared);
    const bool is_symptom = (may_come_of_terms(standing_.cause) && !is_unfilled() && !strays) ||
                            (fault_.cause == Cause::misplaced && writes_over_others(standing_));
    return is_symptom && !is_whole_ && !comes_after();
  }

  bool reads_unwritten() const {
    return may_come_of_terms(standing_.cause) || standing_.cause == Cause::wrong_stride ||
           standing_.cause == Cause::wrong_source;
  }

  /// Whether numbers are read that a kernel before should have left in memory of its own.
  bool reads_what_no_kernel_left() const {
    return standing_.cause == Cause::uninitialised_read &&
           standing_.memory.front().finding.region != simt::shared_region;
  }

  /// Whether what the terms say is done to outputs, behind the access that the checker found.
  bool comes_after() const {
    return stage_ && *stage_ <= Stage::pv && fault_.stage >= Stage::epilogue;
  }

  /// Whether lanes are known to leave out their part of a tile, or never to set what they add to.
  bool is_unfilled() const {
    const bool of_tile = standing_.certain && standing_.cause == Cause::uninitialised_read &&
                         standing_.memory.front().stage == Stage::load;
    return of_tile || updates_unwritten(standing_);
  }

  /// Whether values alone say no more than how far they are off: some rows may have the fault in
  /// another way.
  bool is_mere_symptom() const {
    const bool of_values = standing_.memory.empty() && !named_flaw(standing_) && !standing_.certain;
    return of_values &&
           (standing_.cause == Cause::wrong_scale || standing_.cause == Cause::unexplained);
  }

  /// Whether scores that are no number, or -inf all, may be those of other rows or columns; or what
  /// is subtracted before 2^x overflows is another row's.
  bool comes_of_operands() const {
    if (standing_.certain) return false;
    if (standing_.cause == Cause::overflow) {
      return fault_.stage <= Stage::softmax && fault_.cause == Cause::operand_of_other_row;
    }
    return standing_.cause == Cause::masked_row_unguarded && fault_.stage <= Stage::qk &&
           takes_others(fault_.cause);
  }

  /// Whether what overflows is a number that is wrong wherever it is finite.
  bool overflows_by_numbers() const {
    return standing_.cause == Cause::overflow && !standing_.certain && is_whole_ &&
           fault_.of_weights;
  }

  /// Whether a right row is in the place of another, and the terms say of which row Q was taken.
  bool moves_row() const {
    const bool moved = standing_.cause == Cause::permuted || standing_.cause == Cause::misplaced;
    return moved && stage_ == Stage::epilogue && fault_.cause == Cause::operand_of_other_row;
  }

  /// Whether columns of V that stand in the place of others stand in their own as well: who stores
  /// them exchanges none.
  bool reads_twice() const {
    return standing_.cause == Cause::permuted && stage_ == Stage::epilogue &&
           standing_.memory.empty() && fault_.of_outputs && fault_.cause == Cause::wrong_source;
  }

  /// The cause stays, which is sure: the lines are better known.
  void take_lines() {
    // A limit that rows agree on takes fewer words than a rule by their bits.
    if (is_mask(standing_.cause) && fault_.cause == Cause::mask_off_by_one) {
      standing_.certain = false;
    }
    if (stage_ == fault_.stage || location_.source.empty()) location_.source = fault_.lines;
  }

  /// Whether values say of which row a maximum is that the terms have for another one.
  bool names_row() const {
    return standing_.cause == Cause::operand_of_other_row && standing_.memory.empty() &&
           stage_ == Stage::epilogue && fault_.stage == Stage::epilogue &&
           (fault_.cause == Cause::stale_operand || fault_.cause == Cause::incomplete_reduction);
  }

  /// Whether the stage that stands is better known, of the same cause.
  bool keeps_stage(bool sure) const {
    if (fault_.stage_is_told) return false;
    if (fault_.loses_weights && stage_ == Stage::combine) return true;
    // That scores have another scale shows first where weights are made of them.
    if (is_scale(standing_.cause) && stage_ == Stage::qk && fault_.stage == Stage::softmax)
      return true;
    // A row sum is one wherever its parts are added up; so is a maximum wherever it is taken first.
    const bool of_row = standing_.cause == Cause::incomplete_reduction ||
                        (sure && standing_.cause == Cause::stale_operand);
    if (of_row && stage_ == Stage::softmax && fault_.stage == Stage::epilogue) return true;
    if (are_of_other_maxima(standing_.cause, fault_.cause)) return true;
    // So is a maximum that is rounded.
    const bool of_maximum = sure && named_flaw(standing_) && stage_ == Stage::softmax &&
                            standing_.cause == Cause::precision_lost && fault_.stage == Stage::qk;
    if (of_maximum) return true;
    return stage_ == fault_.or_stage || is_mask(standing_.cause) ||
           (sure && fault_.cause == Cause::permuted);
  }

  void take_stage() { set_stage(fault_.stage, standing_); }
  void take(Cause cause) {
    const Finding* const flaw = named_flaw(standing_);
    if (flaw && cause != standing_.cause) disown(*flaw);
    standing_.certain = false;
    standing_.cause = cause;
    take_stage();
    location_.source = fault_.lines;
  }

  /// What the outputs say of the flaw stays, as no more than that; its numbers and rivals go.
  void disown(const Finding& flaw) {
    if (flaw.evidence.empty()) return;
    const std::string& says = flaw.evidence.front();
    std::erase_if(standing_.evidence, [&](const std::string& line) {
      const auto names = [&](const Finding& rival) {
        return !rival.flaw.empty() && line.find(rival.flaw) != line.npos;
      };
      const bool of_flaw = std::ranges::find(flaw.evidence, line) != flaw.evidence.end();
      return line != says && (of_flaw || std::ranges::any_of(standing_.flaws, names));
    });
    const auto line = std::ranges::find(standing_.evidence, says);
    if (line != standing_.evidence.end()) *line = "taken by themselves, " + *line;
  }

  const TermFault& fault_;
  bool is_whole_;
  const SeenWays& seen_;
  const TermsElsewhere& elsewhere_;
  Location& location_;
  Diagnosis& standing_ = *location_.diagnosis;
  const std::optional<Stage> stage_ = standing_.stage();  ///< that stood
};

}  // namespace

void contest_terms(const TermFault& fault, bool is_whole, const SeenWays& seen,
                   const TermsElsewhere& elsewhere, Location& location) {
  Contest(fault, is_whole, seen, elsewhere, location).settle();
}

}  // namespace lanescope
