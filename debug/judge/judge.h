#pragma once

#include <array>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "debug/dump/site_slots.h"
#include "debug/judge/diff.h"
#include "reference/gate.h"
#include "reference/online.h"

namespace lanescope {

/// What the values of the blocks of one row tile came to.
struct RowTileVerdict {
  std::map<std::pair<SiteId, Judgement>, SiteReport> sites;
  std::map<SiteId, std::int64_t> untold;  ///< values about which no comparison said anything
  std::vector<RowError> rows;             ///< of the gate's result, every query row
};

/// Whether the kernel of a dump writes a log-sum-exp: one that writes none says so in its table.
bool owes_lse(const Dump& dump);

/// What the judges of all blocks share: how the dump's gate, kernel and types are to be judged.
class Judge {
 public:
  /// `dump` (a checked one) must outlive the judge. `softmax`: the recurrence that gives all of the
  /// softmax (follow_softmax); the rest is judged in the order of its tiles, against what is held.
  /// Throws UsageError on a gate that is not known.
  explicit Judge(const Dump& dump, const Recurrence* softmax = nullptr);

  /// Judges everything that the dump holds of a row tile: the traced sites of its blocks, one per
  /// split, and the outputs, which count as those of the first of them.
  RowTileVerdict judge(std::int64_t row_tile, const JudgeObserver& observer = {}) const;

  /// The reference of one block.
  reference::OnlineBlock reference_of(std::int64_t block) const;

  const Dump& dump() const { return dump_; }
  Gate gate() const { return gate_; }
  /// Whether the run broke off: what it did not write is a consequence of that.
  bool broke_off() const { return dump_.info.broke_off(); }
  const Inputs& inputs() const { return inputs_; }
  const reference::Walk& walk() const { return walk_; }
  /// Whether the recurrence is to be the reference's.
  bool by_reference() const { return by_reference_; }
  /// Whether alpha, p and l are judged.
  bool judges_softmax() const { return judges_softmax_; }
  /// What m is before the first tile.
  double start() const { return start_; }
  /// Whether the kernel comes to the last tile of a block first.
  bool downwards() const { return downwards_; }
  /// The slots of a traced site that the gate makes or reads, else nullptr.
  const SiteSlots* slots(SiteId id) const;
  /// Traced sites that the gate neither makes nor reads; they are not judged.
  const std::vector<SiteId>& foreign_sites() const { return foreign_sites_; }
  /// Whether the gate owes outputs and the dump lacks one.
  bool lacks_outputs() const;
  /// The stage that makes the outputs.
  Stage last_stage() const { return last_stage_; }

 private:
  const Dump& dump_;
  Gate gate_;
  Stage last_stage_ = Stage::epilogue;
  Inputs inputs_;
  reference::Walk walk_;
  bool by_reference_, judges_softmax_, downwards_;
  double start_;
  std::array<std::optional<SiteSlots>, site_id_count> slots_;
  std::vector<SiteId> foreign_sites_;
};

}  // namespace lanescope
