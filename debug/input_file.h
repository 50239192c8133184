#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "reference/problem.h"

namespace lanescope {

/// The order of the dimensions in a user's file: [batch, heads, length, d] or
/// [batch, length, heads, d].
enum class Layout : std::uint8_t { bhsd, bshd };

struct InputFile {
  Inputs inputs;  ///< always [batch, heads, length, d]
  Problem problem;
  std::vector<std::string> warnings;  ///< what was rounded; NaN and inf in the file
};

/// Reads q, k, v from a safetensors file: all F16, all BF16 or all F32, with four dimensions.
/// Rounds to nearest even into `dtype`, f16 or bf16; without it F16 and BF16 stay as they are and
/// F32 becomes f16. Other tensors in the file do not matter.
/// Throws UsageError, naming the file, the tensor and what is needed instead, where the file is
/// unreadable, a tensor is missing or of another type, or the shapes do not make an attention.
InputFile read_input_file(const std::filesystem::path& path, Layout layout,
                          std::optional<ElementType> dtype, bool causal);

}  // namespace lanescope
