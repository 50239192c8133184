#include <algorithm>
#include <cmath>
#include <string>

#include "debug/causes/diagnose.h"

// Reads of what nobody wrote: whose fault they are, and what they do not explain.
namespace lanescope {

bool updates_unwritten(const Diagnosis& memory) {
  return memory.cause == Cause::uninitialised_read && !memory.memory.empty() &&
         memory.memory.front().finding.updates;
}

namespace {

/// Whether about as much is stored for nobody as is read that nobody wrote: a few bytes more are
/// the padding of rows. Of lanes that read the same, all count.
bool stores_for_nobody(const simt::Finding& finding) {
  constexpr std::int64_t readers = 64;
  return finding.unread > 0 && readers * finding.unread >= finding.count * finding.bytes;
}

/// A read of what nobody wrote in memory of the kernel's own, where no site lies; no update of it.
bool is_of_memory_of_its_own(const CheckReport::Item& item) {
  return item.finding.kind == simt::Kind::uninitialised_read && item.region_bytes > 0 &&
         !item.site && !item.finding.updates;
}

/// Rows of a tile are read in global memory where nobody wrote any, and some that were stored there
/// are not.
bool takes_other_place(const CheckReport::Item& item) {
  const bool of_tile =
      item.stage == Stage::load || item.stage == Stage::qk || item.stage == Stage::pv;
  return is_of_memory_of_its_own(item) && of_tile && stores_for_nobody(item.finding);
}

/// A read of a partial's row that the block cannot have, however many heads share its tile: it
/// takes the place of another one.
bool reads_row_beyond(const CheckReport& report, const CheckReport::Item& item) {
  const Problem& p = report.problem;
  return item.finding.kind == simt::Kind::uninitialised_read && item.site &&
         is_partial(*item.site) && item.row >= p.len_q * (p.heads / p.heads_kv);
}

}  // namespace

bool is_left_out(const CheckReport::Item& item) {
  return is_of_memory_of_its_own(item) && item.finding.unread >= 0 &&
         !stores_for_nobody(item.finding);
}

void settle_place(const CheckReport& report, Diagnosis& diagnosis) {
  const CheckReport::Item& first = diagnosis.memory.front();
  if (takes_other_place(first)) {
    diagnosis.cause = Cause::wrong_source;
    diagnosis.certain = false;
    diagnosis.evidence.push_back(
        std::to_string(first.finding.unread) + " bytes of " + first.region +
        " are stored and read by nobody: who reads takes another place than the one it needs");
  }
  if (reads_row_beyond(report, first)) {
    diagnosis.cause = Cause::operand_of_other_row;
    diagnosis.evidence.push_back("there is no row " + std::to_string(first.row) +
                                 " of a part: who reads it takes it for one that there is");
  }
}

bool may_be_unfilled(const Diagnosis& memory) {
  if (memory.cause != Cause::uninitialised_read || memory.memory.empty()) return false;
  if (updates_unwritten(memory)) return false;
  const CheckReport::Item& item = memory.memory.front();
  // A few bytes are no rows of a tile: the stage reads a number beside those that there are.
  constexpr int shortest_row = 64;
  const int run = item.finding.unwritten.bytes;
  if (run > 0 && run < shortest_row) return false;
  return item.finding.region == simt::shared_region && !item.site &&
         (item.stage == Stage::qk || item.stage == Stage::pv);
}

void settle_unfilled(const CheckReport* whole, Diagnosis& memory) {
  CheckReport::Item& item = memory.memory.front();
  const std::string reader = name_of(*item.stage);
  item.stage = Stage::load;
  const auto is_same = [&](const CheckReport::Item& other) {
    return other.finding.kind == item.finding.kind && other.access_line == item.access_line;
  };
  if (whole && std::none_of(whole->items.begin(), whole->items.end(), is_same)) {
    memory.evidence.push_back("with all rows of its last block " + reader +
                              " reads nothing of the kind: lanes whose rows do not exist leave out "
                              "their part of the tile");
    memory.left_out_by_lanes = true;
    return;
  }
  if (const int left = item.finding.left_early; !whole && left > 0) {
    memory.evidence.push_back(std::to_string(left) +
                              " threads of the block had exited before its first barrier: they "
                              "leave out their part of the tile");
    memory.left_out_by_lanes = true;
    return;
  }
  memory.certain = false;
  memory.evidence.push_back("not certain: who fills the tile leaves it out, or " + reader +
                            " reads beside what was filled");
}

void doubt_unwritten_read(const Diagnosis& values, Diagnosis& memory) {
  if (memory.cause != Cause::uninitialised_read || !values.first) return;
  if (values.first->unwritten || !std::isfinite(values.first->got)) return;
  if (updates_unwritten(memory) || memory.left_out_by_lanes) return;
  memory.certain = false;
  memory.evidence.push_back(
      "not certain: what nobody wrote is NaN, and finite values are wrong as well: the tile may be "
      "stored in another place than it is read from");
}

}  // namespace lanescope
