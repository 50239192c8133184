#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace lanescope::simt {

/// The source lines of the calls that return to `places` (offsets in the file `image`), as
/// "kernels/mma.h:113": of functions inlined into each other, the innermost that is the kernel's
/// own and not of the device vocabulary. Asks binutils' addr2line, once. Where that is missing:
/// "mma.fused.so+0x1234", and `warning` says so.
std::map<std::uint32_t, std::string> source_lines(const std::string& image,
                                                  const std::vector<std::uint32_t>& places,
                                                  std::string& warning);

/// "/build/../kernels/mma.h:113 (discriminator 2)" as "kernels/mma.h:113" where it is the
/// lab's, wherever that lies.
std::string shortened(std::string line);

/// Whether a line, as above, is of the lab's own code that kernels call or run in.
bool is_vocabulary(const std::string& line);

/// Of code that runs: the first of `places` (callees first) that is a line of the kernel's own, as
/// above; else the first that has a line; empty where none has.
std::string kernel_line(const std::string& image, const std::vector<std::uint32_t>& places);

}  // namespace lanescope::simt
