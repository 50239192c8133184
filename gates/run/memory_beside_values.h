#pragma once

#include <functional>

#include "debug/report/locate_report.h"

// What the memory checker found, `memory`, beside what values show of the same problem: which of
// the two is the cause, and what one says of the other.
namespace lanescope {

/// Whether a finding is of how tiles lie, and how they are read. The machine multiplies what lies
/// there: where values are right, it is no fault.
bool is_of_layout(simt::Kind kind);

/// Nobody wrote what is read of a tile; yet the tile was whole where the stage got it: it reads
/// another one.
void blame_reader(const Location& location, Diagnosis& memory);

/// A descriptor reads a tile in another layout than the copy stored it in. Where the tile is right
/// as the kernel shows it, that is the reader's fault.
void blame_descriptor(const Location& location, Diagnosis& memory);

/// Whether what the checker finds is no cause of what values show: it is the same, lies downstream,
/// or follows from that. `depends_on_order`: whether values are others as lanes come in another
/// order, which takes some runs.
bool adds_nothing(const Diagnosis& values, const Diagnosis& memory, const CheckReport& report,
                  const std::function<bool()>& depends_on_order);

/// All that was written is right: what is written twice is so by the lanes of one row, and stands
/// in nobody else's place.
void take_as_unwritten(const Diagnosis& values, Diagnosis& memory);

/// A product reads what nobody wrote, and a tile is wrong before it in a way that says no more: it
/// is that tile's fault.
void take_as_left_out(const Diagnosis& values, Diagnosis& memory);

/// Values show as zeros what the checker says that nobody wrote: on a GPU, memory is often zero.
/// Then `memory` is certain, by what they show; else nothing happens.
bool confirm_unwritten(const Diagnosis& values, Diagnosis& memory);

/// Takes what values show as evidence of what the checker finds.
void tell_where_values_differ(const Diagnosis& values, const CheckReport& report,
                              Diagnosis& memory);

/// What else is known of a run with a loaded tile that looks unfinished.
struct UnfinishedTile {
  bool outputs_right;
  bool lanes_skip;  ///< registers of later sites were never written either
  bool clean;       ///< the memory checker has run and finds nothing
};
/// Where nothing comes of it, and the memory is in order, it was traced before it was complete: the
/// kernel may be right. Else lanes skip the tile, or what was stored there had no value.
void judge_unfinished_tile(const UnfinishedTile& run, Diagnosis& values);

}  // namespace lanescope
