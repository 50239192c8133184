#pragma once

#include <cstdint>

namespace lanescope {

/// How one number is held: in an input, in a traced register, in shared memory.
enum class ElementType : std::uint8_t { f32, f16, bf16, e4m3 };

inline constexpr ElementType all_element_types[] = {ElementType::f16, ElementType::bf16,
                                                    ElementType::e4m3, ElementType::f32};

/// Bytes that one element takes.
constexpr int size_of(ElementType type) {
  return type == ElementType::f32 ? 4 : type == ElementType::e4m3 ? 1 : 2;
}

/// The type in which the O of inputs of `type` is stored, and in which they enter matrix products
/// that take no e4m3: e4m3 becomes f16, the others stay.
constexpr ElementType operand_type(ElementType type) {
  return type == ElementType::e4m3 ? ElementType::f16 : type;
}

/// The largest x so that 2^x is a number of `type`.
constexpr int highest_power(ElementType type) {
  return type == ElementType::e4m3 ? 8 : type == ElementType::f16 ? 15 : 127;
}

/// The name on the command line and in a module's name.
constexpr const char* name_of(ElementType type) {
  constexpr const char* names[] = {"f32", "f16", "bf16", "e4m3"};
  return names[static_cast<int>(type)];
}

/// The name that the safetensors format uses.
constexpr const char* safetensors_name(ElementType type) {
  constexpr const char* names[] = {"F32", "F16", "BF16", "F8_E4M3"};
  return names[static_cast<int>(type)];
}

}  // namespace lanescope
