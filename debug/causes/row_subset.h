#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lanescope {

/// Which of the `count` rows or columns (`what`) of a tile are `in` and which are `out`, as a rule
/// of the ways in which kernels give them to lanes and warps: "rows 8 to 15 of every 16" (a
/// register of mma.m16n8), "columns 32 to 63". Empty where there is no such rule, or too few to
/// tell it.
std::string subset_text(const std::string& what, const std::vector<std::int64_t>& in,
                        const std::vector<std::int64_t>& out, std::int64_t count);

}  // namespace lanescope
