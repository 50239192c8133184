#pragma once

#include <string>
#include <vector>

namespace lanescope::ptx {

/// The PTX text that a fat binary holds (what nvcc embeds, and hands to __cudaRegisterFatBinary):
/// that for the newest architecture up to sm_90a. Throws UsageError where it holds none, or cannot
/// be read, and says how to compile it.
std::string ptx_of_fat_binary(const void* wrapper);

/// The PTX of what a program hands to cuModuleLoadData: a text that ends with a zero, or a fat
/// binary. Throws UsageError, also where it is machine code.
std::string ptx_of_image(const void* image);

/// The same of every fat binary in a shared library or program that holds PTX: nothing where none
/// does, or the file has none.
std::vector<std::string> ptx_of_library(const std::string& path);

}  // namespace lanescope::ptx
