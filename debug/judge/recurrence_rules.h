#pragma once

#include <optional>
#include <vector>

#include "debug/judge/recurrence.h"
#include "debug/judge/visits.h"

namespace lanescope {

/// What numbers of each unit are multiplied by to be in base 2.
struct Units {
  double raw = 1;  ///< log2(e) / sqrt(d), times the scales of 8-bit inputs
  double of(Recurrence::Unit unit) const;
};

/// Whether the scores of all visits, times `factor`, are the true ones.
bool scores_hold(const std::vector<Visit>& visits, double factor);

/// Who may decide together on the maxima of `rows` rows, simplest first.
std::vector<Recurrence::Decision> possible_decisions(reference::Index rows);

/// Takes into account what a tile did to m: `rises`, by how much each row's would rise, in base 2,
/// -inf where it would not. [rows] Decisions that are not possible go.
void note_step(const std::vector<double>& rises, const reference::Array& before,
               const reference::Array& after, std::vector<Recurrence::Decision>& decisions);

/// By how much m is above the maximum, in base 2, in the first row that has seen a key; 0 where no
/// row has. `scores`: of s, `maximum`: of m.
double above_of(const std::vector<Visit>& visits, double scores, double maximum);

/// Whether m of all visits, in their order, is the maximum that `r` says; fills in its start, and
/// what is seen of its decisions, of which none is judged. `scores`: of s, `maximum`: of m.
bool maxima_hold(const std::vector<Visit>& visits, double scores, double maximum, Recurrence& r);

/// What of the rest holds, given m as held.
struct RestHolds {
  bool weights[2] = {true, true};  ///< p and alpha: as they are; divided by l of the tile
  /// l: in every lane; of all lanes together; in every lane, of P as it is held
  bool sums[3] = {true, true, true};
  /// o by Recurrence::Divided; relative to the first maximum
  bool outputs[4] = {true, true, true, true};
  bool first_alpha = false;  ///< one that multiplies zeros alone is another number
};
/// Clears what does not hold in these visits. `error`: of 2^x that is let pass, relative.
void rest_holds(const Judge& judge, const std::vector<Visit>& visits, double scores, double maximum,
                double error, RestHolds& holds);

/// How the partials of all traced blocks stand for the right ones; nothing where they do not.
std::optional<Recurrence::Partials> partials_held(const Judge& judge);

}  // namespace lanescope
