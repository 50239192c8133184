#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gates/sweep/cell.h"

namespace lanescope {

/// How a cell fared.
enum class Outcome : std::uint8_t {
  match,
  diverged,
  unsettled,  ///< of some values no bound says anything: neither right nor wrong
  rule,       ///< the kernel broke a rule of its backend
  crash,
  hang,
  stray,    ///< it wrote outside of its buffers
  finding,  ///< of the memory checker
  refused,  ///< the module does not take such a problem
  lost,     ///< the process that ran and judged it ended, twice
};
const char* name_of(Outcome outcome);

constexpr bool is_failure(Outcome outcome) {
  return outcome != Outcome::match && outcome != Outcome::unsettled && outcome != Outcome::refused;
}

/// A cell, how it fared, and where that was found.
struct CellResult {
  std::string sweep;        ///< which sweep it is of: SweepPlan::id
  std::int64_t index = -1;  ///< of the cell in that; −1: tried while a failure was made smaller
  Cell cell;
  Outcome outcome = Outcome::match;
  std::string stage, site, detail;       ///< of the first divergence, or why it failed
  std::int64_t tile_index = -1;          ///< the K/V tile of that
  std::map<std::string, double> errors;  ///< largest error over bound of each site that was judged
  std::string bits;    ///< 16 hex digits: hash of what the gate leaves; empty where it did not end
  double seconds = 0;  ///< from its begin to its end
  double cpu_seconds = 0;  ///< of the processes that ran and judged it
  /// Of a benchmark: medians of a launch, of the kernel and of the peer that it is compared with.
  std::optional<double> microseconds, peer_microseconds;
  // Where it comes from.
  std::string build;  ///< SweepPlan::build
  std::string source_hash, compile_flags, device, version, host, time;

  bool failed() const { return is_failure(outcome); }
  /// What fails in the same way has the same: "diverged at softmax / alpha".
  std::string way() const;
};

/// One line of a results file, without its end:
///   {schema, sweep, index, then the members of cell_json, outcome, failed, stage, site,
///   tile_index, detail, errors: {site: error over bound}, bits, seconds, cpu_seconds,
///   microseconds, peer_microseconds, build,
///   source_hash, compile_flags, device, version, host, time}
std::string result_line(const CellResult& result);
/// Throws UsageError that says what is wrong.
CellResult parse_result(const std::string& line);

/// Whether two results are of the same cell of the same sweep, or the same cell tried.
std::string identity_of(const CellResult& result);

/// The results in several files, one line each, those of the same cell once (the last one). A last
/// line that broke off is left out. Throws UsageError that names file and line.
std::vector<CellResult> read_results(const std::vector<std::string>& paths);

/// A results file that grows by a line per cell, each in one write, so that what is there stays
/// whole whenever the program ends.
class ResultFile {
 public:
  /// Opens it, and makes it where it is not there; a last line that broke off is cut off. Throws
  /// UsageError where it cannot be written, or another sweep writes it.
  explicit ResultFile(const std::string& path);
  ~ResultFile();
  ResultFile(const ResultFile&) = delete;
  ResultFile& operator=(const ResultFile&) = delete;

  void add(const std::string& line);

 private:
  std::string path_;
  int file_ = -1;
};

}  // namespace lanescope
