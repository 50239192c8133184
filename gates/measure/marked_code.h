#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "gates/measure/resources.h"

namespace lanescope {

/// The machine code that ptxas makes of a kernel.
struct MachineCode {
  std::string name;  ///< of the kernel, for people
  CompiledFunction function;
  /// Its instructions, 16 bytes each, without what only says where the code lies; and their
  /// opcodes, where nvdisasm is at hand ("HMMA.16816.F32").
  std::vector<std::string> instructions, opcodes;
  std::vector<std::string> serialised;  ///< what ptxas says of its wgmma
};

/// An opcode that stands in one code more often than in the other.
struct OpcodeCount {
  std::string opcode;
  std::int64_t with = 0, without = 0;
};

/// A kernel with its markers, and without.
struct MarkedCode {
  MachineCode with, without;
  bool same = false;                ///< instruction by instruction
  std::vector<OpcodeCount> counts;  ///< that differ
  /// What ptxas says of products of warpgroups that it does one after the other, with the markers
  /// alone.
  std::vector<std::string> serialised;
};

/// Has ptxas compile both PTX files for the architecture that each is for, and compares each kernel
/// that both have. Throws UsageError where there is none or ptxas refuses a file, EnvironmentError
/// where there is no ptxas.
std::vector<MarkedCode> compare_marked_code(const std::filesystem::path& with,
                                            const std::filesystem::path& without);

std::string marked_code_text(const std::vector<MarkedCode>& kernels);
std::string marked_code_json(const std::vector<MarkedCode>& kernels);

}  // namespace lanescope
