#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "debug/dump/safetensors.h"

namespace lanescope {

/// The JSON header of a safetensors file, as text and as values.
struct SafetensorsHeader {
  struct Entry {
    std::string name;
    std::string dtype;
    std::vector<std::int64_t> dims;
    std::uint64_t begin = 0, end = 0;  ///< bytes from the start of the data
  };
  SafetensorsMetadata metadata;
  std::vector<Entry> entries;
};

/// Longer headers are refused, here and by the format's own reader.
inline constexpr std::uint64_t max_header_bytes = 100'000'000;

/// Reads and checks the header of a file with `data_bytes` bytes of data. What it allocates grows
/// with `json` alone, never with a number in it.
/// Throws UsageError on everything that the format forbids; `where` begins the error's text.
SafetensorsHeader parse_header(std::string_view json, std::uint64_t data_bytes,
                               const std::string& where);

/// The header of a file that holds `entries` back to back, filled with spaces so that the data
/// after its 8 bytes of length starts at a multiple of 64.
std::string header_text(std::span<const SafetensorsEntry> entries,
                        const SafetensorsMetadata& metadata);

}  // namespace lanescope
