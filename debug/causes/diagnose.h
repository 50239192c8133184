#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "debug/causes/causes.h"
#include "debug/causes/memory_findings.h"
#include "debug/causes/scene.h"
#include "debug/judge/diff.h"

namespace lanescope {

/// What is wrong with a run, and why.
struct Diagnosis {
  std::optional<Divergence>
      first;  ///< where; not there if the run broke off before anything differed. Its stage is
              ///< that of the bug, where the site is an output that tells
  Cause cause = Cause::unexplained;
  bool certain = false;
  bool stage_certain = true;       ///< of a cause that is: whether its stage is, too
  bool predicts = false;           ///< the values follow from the cause, one by one
  bool reads_unwritten = false;    ///< of the cause, as in Finding
  bool untaken = false;            ///< the same
  bool left_out_by_lanes = false;  ///< bytes nobody wrote, in blocks whose last rows are none
  bool by_end = false;  ///< the cause is how the run ended: it yields to one that has a place
  std::vector<std::string> evidence;  ///< each a fact that the dump shows
  std::vector<Finding> suspects;      ///< the next best, without the cause itself
  std::vector<Finding> rivals;  ///< of them, those that explain as much with as few words: another
                                ///< problem may tell them apart
  std::vector<Finding> flaws;   ///< all known flaws that give the outputs, the shortest first
  std::function<bool(const DumpInfo& other)> shows;  ///< of the cause, as in Finding
  std::optional<Recurrence> softmax;                 ///< DiffReport::softmax: what is no fault
  std::vector<CheckReport::Item> memory;  ///< what the memory checker found, the cause first
  std::optional<Stage> end_stage;  ///< of the code that the run broke off in, where it says so
  bool hidden_by_step = false;     ///< that is races alone of lanes of a warp, which ran in step

  /// Where the bug is, as far as its place or the accesses that the checker found say so.
  std::optional<Stage> stage() const {
    if (first) return first->stage;
    return memory.empty() ? end_stage : memory.front().stage;
  }
  /// Certain, and nothing else explains as much.
  bool sure() const { return certain && rivals.empty(); }
};

/// The cause where a run did not end; `why`: what is said of that.
Cause cause_of_end(Stop::Kind kind, const std::string& why);

/// Of how a run ended: whether the cause is about the mbarriers of tiles that come and go.
bool is_of_ring(Cause cause);

/// The stage that the story of how a run ended names first, or where lanes miss some of their warp.
std::optional<Stage> stage_of_end(const std::string& fault);
/// That of a cause about the mbarriers of tiles is `load`, whoever waits.
std::optional<Stage> stage_of_end(Cause cause, const std::string& fault);
/// Of a line of such a story, where a warp came before that is waited for and has exited; empty:
/// there is none.
std::string place_of_absent(const std::string& line);
/// Whether a run ended by an arrival at an mbarrier whose phase has all, or in a phase that nobody
/// waits for: who arrives may do so because somebody does not wait, or waits for another phase.
bool may_be_of_other_wait(const std::string& fault);

/// Whether all that lanes wait for in vain are mbarriers, which tell of tiles that come or go.
bool waits_for_tiles(const std::string& fault);

/// Whether what is wrong at a site may be wrong at another because of it: V is multiplied at last.
bool feeds(SiteId from, SiteId to);

/// The cause of what a run under the memory checker found; `report` is not clean. The finding in
/// the site where values are `wrong` first, or in the nearest one before it, goes first.
Diagnosis diagnose(const CheckReport& report, std::optional<SiteId> wrong = std::nullopt);

/// What is computed of nothing but bytes that nobody wrote is NaN. Where `values` are numbers and
/// wrong, more is wrong than such a read, which `memory` says: it is not certain then.
void doubt_unwritten_read(const Diagnosis& values, Diagnosis& memory);

/// Whether who reads what nobody wrote stores there what it made of that: what it adds to, or
/// scales, was never set.
bool updates_unwritten(const Diagnosis& memory);

/// Whether bytes of global memory that nobody wrote are read, and all others of their region are as
/// well: who stores there leaves them out, or stores in another's place.
bool is_left_out(const CheckReport::Item& item);

/// Where bytes of global memory that nobody wrote are read because who reads them takes another
/// place than the one it needs, of which `diagnosis` says no more: names that.
void settle_place(const CheckReport& report, Diagnosis& diagnosis);

/// Whether a stage reads bytes of shared memory that nobody wrote, of a kernel that does not say
/// what lies there: who fills a tile may leave them out, or the stage reads beside it.
bool may_be_unfilled(const Diagnosis& memory);
/// Says which, by what the checker finds in the problem with `whole` blocks of queries; null: there
/// is no other. Where the same is found, it is not certain.
void settle_unfilled(const CheckReport* whole, Diagnosis& memory);

/// The cause of what `report`, a diff of `dump` that is no match, found first. Deterministic.
Diagnosis diagnose(const Dump& dump, const DiffReport& report, Breadth breadth = Breadth::all);

/// Takes back what would show in a run that is `right`: rivals, or the cause for the best of them.
void refute(Diagnosis& diagnosis, const DumpInfo& right);

/// The same where the memory checker finds nothing: nobody reads what was never written.
void refute_unwritten_reads(Diagnosis& diagnosis);

/// Names a known flaw in the place of what is named; `rivals` explain as much.
void name_flaw(Diagnosis& diagnosis, const Finding& flaw, const std::vector<Finding>& rivals);

/// Where a known flaw is named that is not certain, and others give the outputs as well: the first
/// of those in this stage is named in its place.
void name_flaw_in(Diagnosis& diagnosis, Stage stage);

/// Names the rival of this cause, if there is one, in the place of what is named.
void name_rival(Diagnosis& diagnosis, Cause cause);

}  // namespace lanescope
