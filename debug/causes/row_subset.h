#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lanescope {

/// Which rows of a tile of `br` are `in` and which are `out`, as a rule of the ways in which
/// kernels give rows to lanes and warps: "rows 8 to 15 of every 16" (a register of mma.m16n8),
/// "rows 16 to 31 of every 32". Empty where there is no such rule, or too few rows to tell it.
std::string rows_text(const std::vector<std::int64_t>& in, const std::vector<std::int64_t>& out,
                      std::int64_t br);

}  // namespace lanescope
