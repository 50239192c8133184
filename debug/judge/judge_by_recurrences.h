#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "debug/judge/diff.h"
#include "debug/judge/recurrence.h"

namespace lanescope {

/// Where find_recurrence does not look: the recurrence by which these row tiles of `dump`, a
/// checked one, are judged right, with `report` the diff of them by the reference's. Of pv_only,
/// tiles from the last to the first; of a kernel that declares when m follows (Site::rescale), m
/// that starts from a finite number. Nothing where neither is.
std::optional<Recurrence> judge_by_recurrences(const Dump& dump, const DiffReport& report,
                                               const std::vector<std::int64_t>& row_tiles,
                                               int threads);

}  // namespace lanescope
