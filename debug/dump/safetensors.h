#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reference/tensor.h"

namespace lanescope {

/// One tensor of a safetensors file.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;                 ///< as the format names it: "F16", "I16", ...
  std::vector<std::int64_t> dims;    ///< none negative; their product fits
  std::span<const std::byte> bytes;  ///< row-major, little-endian, at any alignment
};

/// The strings under `__metadata__`, key and value, in the order of the file.
using SafetensorsMetadata = std::vector<std::pair<std::string, std::string>>;

/// A safetensors file, mapped read-only: opening it reads the header alone, whatever its size.
/// A copy shares the mapping. The file must not shrink while it is open.
class SafetensorsFile {
 public:
  /// Checks the whole header: afterwards every entry's bytes lie in the file, no two overlap, and
  /// for a known dtype they are as many as the dimensions say.
  /// Throws UsageError, saying what is wrong, where the file is unreadable or breaks the format.
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  const SafetensorsMetadata& metadata() const { return metadata_; }
  /// In the order of the header.
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }

  /// nullptr where there is none of that name.
  const SafetensorsEntry* find(std::string_view name) const;

  /// `entry`'s values, which share the mapping. Throws UsageError where no ElementType holds its
  /// dtype.
  Tensor tensor(const SafetensorsEntry& entry) const;

 private:
  std::filesystem::path path_;
  std::shared_ptr<const std::byte> mapping_;
  SafetensorsMetadata metadata_;
  std::vector<SafetensorsEntry> entries_;
};

/// Writes a safetensors file, header and data in the order given, the data from a multiple of 64
/// bytes on. The file appears whole under its name or, after an error, not at all.
/// Text in `metadata` that is no UTF-8 is written with U+FFFD for the bytes that are not.
/// Throws UsageError where the entries break the format, and as NewFile does where the file cannot
/// be written.
void write_safetensors(const std::filesystem::path& path, std::span<const SafetensorsEntry> entries,
                       const SafetensorsMetadata& metadata);

}  // namespace lanescope
