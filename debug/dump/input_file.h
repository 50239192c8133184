#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "reference/inputs.h"

namespace lanescope {

/// The order of the dimensions in a user's file: [batch, heads, length, d] or
/// [batch, length, heads, d].
enum class Layout : std::uint8_t { bhsd, bshd };

struct InputFile {
  Inputs inputs;  ///< always [batch, heads, length, d]
  Problem problem;
  std::vector<std::string> warnings;  ///< what was rounded; NaN and inf in the file
};

/// Reads q, k, v from a safetensors file: all F16, all BF16, all F32 or all F8_E4M3, with four
/// dimensions. With F8_E4M3 go q_scale [batch, heads], k_scale and v_scale [batch, heads of k] of
/// F32, by which the elements of a head are multiplied; one that is missing is 1, and a warning
/// says so. Rounds to nearest even into `dtype`, or quantises into e4m3
/// (reference/quantise.h); without it F32 becomes `for_f32` and the others stay as they are. Other
/// tensors in the file do not matter. Throws UsageError, naming the file, the tensor and what is
/// needed instead, where the file is unreadable, a tensor is missing or of another type, or the
/// shapes do not make an attention.
InputFile read_input_file(const std::filesystem::path& path, Layout layout,
                          std::optional<ElementType> dtype, bool causal,
                          ElementType for_f32 = ElementType::f16);

}  // namespace lanescope
