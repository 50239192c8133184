#pragma once

#include <string>

namespace lanescope::ptx {

/// The PTX text that a fat binary holds (what nvcc embeds, and hands to __cudaRegisterFatBinary):
/// that for the newest architecture up to sm_90a. Throws UsageError where it holds none, or cannot
/// be read, and says how to compile it.
std::string ptx_of_fat_binary(const void* wrapper);

}  // namespace lanescope::ptx
