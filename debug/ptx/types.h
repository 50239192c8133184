#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace lanescope::ptx {

/// What an instruction takes its operands for (PTX ISA, "Fundamental Types" and "Alternate
/// Floating-Point Data Formats").
enum class Type : std::uint8_t {
  pred,
  b8,
  b16,
  b32,
  b64,
  b128,
  u8,
  u16,
  u32,
  u64,
  s8,
  s16,
  s32,
  s64,
  f16,
  f16x2,
  bf16,
  bf16x2,
  tf32,
  f32,
  f64,
  e4m3x2,
  e5m2x2,
};

struct TypeInfo {
  std::string_view name;
  int bits;  ///< a predicate's is 1
};
inline constexpr TypeInfo type_infos[] = {
    {"pred", 1},  {"b8", 8},   {"b16", 16}, {"b32", 32},    {"b64", 64},   {"b128", 128},
    {"u8", 8},    {"u16", 16}, {"u32", 32}, {"u64", 64},    {"s8", 8},     {"s16", 16},
    {"s32", 32},  {"s64", 64}, {"f16", 16}, {"f16x2", 32},  {"bf16", 16},  {"bf16x2", 32},
    {"tf32", 32}, {"f32", 32}, {"f64", 64}, {"e4m3x2", 16}, {"e5m2x2", 16}};

inline const TypeInfo& info_of(Type type) { return type_infos[static_cast<int>(type)]; }
inline int bits_of(Type type) { return info_of(type).bits; }
inline int bytes_of(Type type) { return (bits_of(type) + 7) / 8; }
inline std::string_view name_of(Type type) { return info_of(type).name; }
inline bool is_signed(Type type) { return type >= Type::s8 && type <= Type::s64; }
inline bool is_integer(Type type) { return type >= Type::b8 && type <= Type::s64; }
inline bool is_float(Type type) { return type >= Type::f16; }

/// "u32" as a type.
inline std::optional<Type> parse_type(std::string_view name) {
  for (int i = 0; i < static_cast<int>(std::size(type_infos)); ++i) {
    if (type_infos[i].name == name) return static_cast<Type>(i);
  }
  return std::nullopt;
}

/// Where a variable or an access lies. Of a generic address the address itself tells.
enum class Space : std::uint8_t { generic, global, shared, local, constant, param };

}  // namespace lanescope::ptx
