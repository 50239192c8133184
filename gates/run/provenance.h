#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "debug/ptx/placements.h"
#include "debug/ptx/terms.h"
#include "gates/run/launch.h"
#include "gates/run/run_options.h"

namespace lanescope {

/// What became of the numbers of a run, as follow_terms (debug/ptx/provenance.h) wrote it.
struct Provenance {
  /// Of rows of K and V, or of columns: from, to; both are in it.
  using Set = std::vector<std::pair<std::int64_t, std::int64_t>>;

  /// ptx::TermUnit.
  struct Unit {
    enum class Kind : std::uint8_t { none, score, log_sum } kind = Kind::none;
    std::int64_t row = -1, key = -1;
    Set keys;
    bool operator==(const Unit&) const = default;
  };
  /// ptx::Term, or an element of Q, K or V.
  struct Term {
    std::string kind;  ///< "q", "score", "output"; "-": none
    std::int64_t row = -1, key = -1, column = -1;
    Unit a, b;
    Set set;
    bool is_input() const { return kind == "q" || kind == "k" || kind == "v"; }
  };
  /// Terms that do not go together, where an instruction put them together.
  struct Meeting {
    ptx::Conflict conflict;
    std::int64_t count = 0, fresh = 0;  ///< fresh: of terms that had no other in them
    std::int64_t block = 0;
    int warp = 0, lane = 0;
    std::string line;
    std::vector<std::pair<Term, Term>> samples;
    std::map<std::int64_t, std::int64_t> roads[2];  ///< of samples' terms: how many came by each
    /// Of samples' terms in products of matrices: how many stand in order with those beside them,
    /// and how many do not.
    std::int64_t ordered[2] = {}, disordered[2] = {};
  };
  /// What some values of a row of an output are.
  struct Output {
    std::int64_t count = 0;
    Term term;
    bool own_column = true;
    Set values;                          ///< rows of V
    std::vector<std::int64_t> meetings;  ///< that it has in it
    std::int64_t road = 0;
    std::string line = "-";  ///< that stored it
  };

  /// Numbers that an instruction made, with the terms that they are.
  struct Made {
    std::string line;
    std::vector<std::pair<double, Term>> values;
  };

  /// Where a kernel put a tile (ptx::Placements): by row and column, or key, bytes from the begin
  /// of the variable or allocation that it lies in, which has `room` of them; 0: that is not known.
  struct Placed {
    std::int64_t room = 0;
    std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> at;
    /// Whether all rows of each tile that there is are there, as far as they are kept, within the
    /// bytes of one. `length`: rows of Q, or K and V; no multiple of a tile's: false.
    bool is_whole(std::int64_t tile_rows, std::int64_t length, std::int64_t columns,
                  std::int64_t element_bytes) const;
    /// Whether some of the columns, as far as they are kept, are there in no row.
    bool lacks_columns(std::int64_t columns) const;
  };

  /// Lines that put parts of rows together; others behind the products that do nothing else.
  struct Merges {
    std::vector<std::string> lines, around;
    bool empty() const { return lines.empty() && around.empty(); }
  };

  /// A block's: bytes from and to of its variables, and which stage puts numbers there.
  struct SharedMemory {
    std::vector<std::pair<std::int64_t, std::int64_t>> variables;
    std::vector<std::pair<std::pair<std::int64_t, std::int64_t>, Stage>> stored;
    /// Of Q, K and V: whether its tiles are all there, in as many bytes as they have.
    std::array<bool, 3> is_whole{};
    /// Of those: whether columns are there in no row.
    std::array<bool, 3> lacks_columns{};
    /// Of bytes that nobody wrote: who puts numbers to both sides of them, in the variable that
    /// they lie in; nothing where that are several, or none.
    std::optional<Stage> stage_around(std::int64_t offset) const;
  };

  /// Where the kernel does what.
  struct Outline {
    Merges merges;
    SharedMemory shared;
    std::map<std::string, Stage> reads;  ///< by line: the stage that takes what it reads
    std::vector<std::string> roundings;  ///< lines that round O before it is divided by l
    bool empty() const { return reads.empty() && shared.stored.empty(); }
  };

  std::map<std::int64_t, Meeting> meetings;
  std::vector<Made> made;                             ///< as they came first
  std::array<Placed, ptx::Placements::kinds> placed;  ///< Q, K, V, scores, weights
  Outline outline;
  std::vector<std::string> masks;        ///< lines that replace scores
  std::vector<std::string> rescales[2];  ///< lines that rescale l; O
  /// Lines by which numbers came to where they were taken: one made it, or loaded it where the host
  /// had put it; others stored and loaded it since.
  std::map<std::int64_t, std::vector<std::string>> roads;
  /// By roads of those: where the addresses are made that they are fetched from.
  std::map<std::int64_t, std::vector<std::string>> addresses;
  /// Of elements of Q, K and V that were multiplied: how many came by each road.
  std::map<std::int64_t, std::int64_t> input_roads[3];
  std::map<std::int64_t, std::vector<Output>> o, lse;  ///< by row
  std::set<std::int64_t> repeats_columns;              ///< rows of O that have a column of V twice
  /// Products of Q and K whose keys follow each other, and others.
  std::int64_t keys_in_order = 0, keys_out_of_order = 0;
  /// Products with V whose columns come behind those before of the same rows, and others.
  std::int64_t columns_in_order = 0, columns_out_of_order = 0;
  bool columns_by_row = false;       ///< rows of O have the columns of V in orders of their own
  std::int64_t weights_of_zero = 0;  ///< weights that met a zero where an element of V should be
  /// By row: keys whose scores with it were made, and those whose scores were made again.
  std::map<std::int64_t, std::vector<Set>> scored;
  std::map<std::int64_t, Set> weighed;  ///< by row: keys whose weights were made
};

/// How many are in it; whether one is; those of a that are not in b.
std::int64_t count(const Provenance::Set& set);
bool has(const Provenance::Set& set, std::int64_t i);
Provenance::Set without(const Provenance::Set& a, const Provenance::Set& b);

/// What a file holds that follow_terms wrote; the last launch counts.
Provenance read_provenance(const std::string& path);

/// Runs it on the SIMT machine and follows what its numbers are. Empty where it breaks off.
Provenance follow_provenance(PreparedRun& run);

}  // namespace lanescope
