#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "debug/dump/dump.h"
#include "debug/judge/recurrence.h"
#include "debug/judge/rounded_operands.h"

namespace lanescope {
namespace reference {
struct Bounded;
}

/// What a slot is judged against.
///   chain: the true value, from the gate's inputs on (fused: from Q, K, V on)
///   local: the reference applied to what this stage really received, as traced
enum class Judgement : std::uint8_t { local, chain };

/// Called with what every site of every tile of a block is judged against, in the order of the
/// data; the tile of an output is −1, its block the first of its row tile. The rows that exist;
/// padding rows of q_smem too.
using JudgeObserver = std::function<void(SiteId site, std::int64_t block, std::int64_t tile,
                                         Judgement judgement, const reference::Bounded& want)>;

/// One diverged element. Fields that do not apply are −1.
struct Divergence {
  SiteId site{};
  Stage stage{};
  Judgement judgement{};
  std::int64_t block = -1, tile = -1;
  std::int64_t batch = -1, head = -1;
  std::int64_t warp = -1, lane = -1, reg = -1;
  std::int64_t row = -1, col = -1;  ///< in the tile
  std::int64_t query = -1;          ///< row of Q in its head
  std::int64_t key = -1;            ///< row of K in its head, where the site has keys
  double got = 0, want = 0, bound = 0;
  bool unwritten = false;  ///< the slot was never written
  bool idle = false;       ///< a number that multiplies zeros alone: no output depends on it
};

/// How one site fared under one judgement.
struct SiteReport {
  SiteId site{};
  Stage stage{};
  Judgement judgement{};
  std::int64_t compared = 0;
  std::int64_t failed = 0;
  std::int64_t vacuous = 0;  ///< within a bound that says nothing (reference/reach.h)
  std::int64_t unwritten = 0;
  std::int64_t non_finite = 0;  ///< got NaN, or an infinity that the reference has not
  double max_error = 0;
  double max_error_over_bound = 0;  ///< <= 1 where all holds; inf where a NaN or inf differs
  std::optional<Divergence> first;  ///< earliest in the order block, tile, warp, lane, reg
  std::optional<Divergence> worst;  ///< largest error over bound, also where that holds
};

/// Error of one query row, for the sites over the final output.
struct RowError {
  std::int64_t batch = 0, head = 0, query = 0;
  double max_error = 0, error_over_bound = 0;
};

/// The last site, in the order of the data, of which a warp of a block has written anything.
struct LastSite {
  std::int64_t block = -1;
  std::int64_t warp = -1;  ///< −1: the block, by sites of which no warp is known to be the writer
  std::optional<SiteId> site;  ///< nothing: it wrote nothing
  std::int64_t tile = -1;      ///< −1: the site is there once per block
  std::int64_t lane = -1;      ///< −1: of all lanes
};

/// Values of a site about which no comparison said anything.
struct Untold {
  SiteId site{};
  std::int64_t values = 0;
};

struct DiffReport {
  bool match = false;  ///< every value was compared with a bound that says something, and holds
  /// What could be judged holds and nothing is missing, but of some values no bound says anything.
  bool unsettled = false;
  /// The first in the order of the data (tile, stage, site, block, lane) among what failed locally;
  /// only where nothing did, among what failed against the chain.
  std::optional<Divergence> first;
  /// Where outputs are right and inner values are not: the recurrence that explains all of them.
  std::optional<Recurrence> recurrence;
  /// Where something is wrong: the recurrence, another one than the reference's, by which the
  /// softmax, or m, follows from the scores (follow_softmax). `first` and `sites` are of what is
  /// judged by it then: all but what follows, tiles in its order.
  std::optional<Recurrence> softmax;
  /// Of a kernel of f32, whether or not its outputs are within their bounds: it computes with fewer
  /// bits than it declares; no match then, and `first` is there.
  std::optional<RoundedOperands> rounded;
  std::vector<SiteReport> sites;
  std::vector<RowError> rows;         ///< the rows of the judged output that are worst, at most 16
  std::vector<Untold> untold;         ///< sites that have such values; no match then
  std::vector<std::string> warnings;  ///< e.g. inf or NaN in the inputs
  /// What the dump says of itself that its contents disprove; no match then.
  std::vector<std::string> contradictions;
  /// What the dump says of itself that nothing in it can prove or disprove, where it was read from
  /// a file.
  std::vector<std::string> unchecked;
  /// How far the warps came, where the run broke off.
  std::vector<LastSite> last_sites;

  /// Whether nothing is wrong: a match, or right outputs of another recurrence.
  bool holds() const { return match || (recurrence && recurrence->is_settled()); }
};

/// Judges every value of `dump` against the reference (debug/judge/README.md says what a match
/// promises), blocks spread over `threads` threads
/// (0: all cores). The result does not depend on the number of threads. Not judged: padding rows
/// of the last query tile (but in q_smem), and tiles that no row of a block sees, where a site is
/// wholly unwritten. No match without a failure: a run that did not end, `fused` without outputs.
/// Where the run did not end, a value that it did not write fails, but is never the first.
/// Throws UsageError on a dump that check_dump refuses, on a gate or an architecture without a
/// reference, and where there is nothing to judge.
DiffReport diff_against_reference(const Dump& dump, int threads = 0);

/// The same of these row tiles alone, without warnings and contradictions. Several threads call
/// `observer` at once, each with another row tile. `softmax`: as of a Judge.
DiffReport diff_row_tiles(const Dump& dump, const std::vector<std::int64_t>& row_tiles,
                          int threads = 0, const JudgeObserver& observer = {},
                          const Recurrence* softmax = nullptr);

/// What else is to be said of `dump`, a checked one, e.g. inf or NaN in the inputs: adds warnings,
/// and what ends a match: contradictions, and operands of fewer bits.
void add_remarks(const Dump& dump, DiffReport& report);

/// "match", "unsettled", "variant" (right outputs of another recurrence), or "diverged": all other.
const char* verdict_of(const DiffReport& report);

/// What a dump that was read from a file says of itself, and nothing in it can prove or disprove:
/// the device, for one.
std::vector<std::string> unchecked_claims(const DumpInfo& info);

/// How one tensor of two dumps of the same run compares, bit for bit (two NaNs are the same,
/// an unwritten slot equals only an unwritten slot).
struct BitReport {
  std::string name;
  std::int64_t compared = 0;  ///< 0: only one of the dumps holds the tensor
  std::int64_t differing = 0;
  std::optional<Divergence> first;  ///< got: of b; want: of a
};

/// Compares two dumps of the same problem: every traced site and output of either, bit for bit
/// where the same kernel made both, by value (by_value.h) where not. Throws MismatchError, saying
/// what differs, where gate, shape or inputs do, where a tensor has another shape, and where they
/// have nothing in common.
std::vector<BitReport> diff_dumps(const Dump& a, const Dump& b);

}  // namespace lanescope
