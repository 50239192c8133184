#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "debug/dump/dump.h"
#include "reference/inputs.h"

namespace lanescope::testing {

/// Ways to go through the online softmax that leave right outputs on every input.
const std::vector<std::string>& recurrences();

/// Bugs of such a kernel; some leave right outputs on most inputs.
const std::vector<std::string>& recurrence_bugs();

/// The dump of a kernel with `style`, one of those or "usual": fp32 arithmetic but for P, which is
/// rounded to `dtype`; four lanes to a row, s, p and o in shared memory.
Dump recurrent_dump(const Problem& problem, const std::string& style,
                    const std::string& input = "random", int br = 16, int bc = 16,
                    ElementType dtype = ElementType::f16);

inline constexpr int lanes_of_row = 4;  ///< that hold it

/// Runs one block of it, into the tensors of `dump`.
void run_recurrent_block(Dump& dump, const Inputs& inputs, std::int64_t block,
                         const std::string& style);

}  // namespace lanescope::testing
