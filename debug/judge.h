#pragma once

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "debug/diff.h"
#include "debug/site_slots.h"
#include "gates/gate.h"
#include "reference/online.h"

namespace lanescope {

/// What one block's values came to.
struct BlockVerdict {
  std::map<std::pair<SiteId, Judgement>, SiteReport> sites;
  std::vector<RowError> rows;  ///< of the gate's result, every query row of the block
};

/// Called with what every site of every tile of a block is judged against, in the order of the
/// data; the tile of an output is −1. The rows that exist; padding rows of q_smem too.
using JudgeObserver = std::function<void(SiteId site, std::int64_t tile, Judgement judgement,
                                         const reference::Bounded& want)>;

/// What the judges of all blocks share: how the dump's gate, kernel and types are to be judged.
class Judge {
 public:
  /// `dump` (a checked one) must outlive the judge. Throws UsageError on a gate that is not known.
  explicit Judge(const Dump& dump);

  /// Judges everything that the dump holds of `block`: its traced sites and its outputs.
  BlockVerdict judge(std::int64_t block, const JudgeObserver& observer = {}) const;

  const Inputs& inputs() const { return inputs_; }
  const reference::Walk& walk() const { return walk_; }
  /// The slots of a traced site that the gate makes or reads, else nullptr.
  const SiteSlots* slots(SiteId id) const;
  /// Traced sites that the gate neither makes nor reads; they are not judged.
  const std::vector<SiteId>& foreign_sites() const { return foreign_sites_; }
  /// Whether `fused`, which owes them, lacks its outputs.
  bool lacks_outputs() const;

 private:
  friend class BlockJudge;

  const Dump& dump_;
  Gate gate_;
  Inputs inputs_;
  reference::Walk walk_;
  std::array<std::optional<SiteSlots>, site_id_count> slots_;
  std::vector<SiteId> foreign_sites_;
};

}  // namespace lanescope
