#include "debug/dump/safetensors.h"

#include <bit>
#include <cstring>

#include "debug/dump/file.h"
#include "debug/dump/safetensors_header.h"
#include "debug/text/text.h"
#include "reference/error.h"

namespace lanescope {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "safetensors holds little-endian values");

}  // namespace

SafetensorsFile::SafetensorsFile(const fs::path& path) : path_(path) {
  std::uint64_t size = 0;
  std::tie(mapping_, size) = map_file(path);
  if (size < 8) {
    throw UsageError(path.string() + " is no safetensors file: it has only " +
                     std::to_string(size) + " bytes; it may be truncated");
  }
  std::uint64_t length = 0;
  std::memcpy(&length, mapping_.get(), 8);
  if (length > size - 8 || length > max_header_bytes) {
    throw UsageError(path.string() + " is no safetensors file: its header would have " +
                     std::to_string(length) + " bytes, more than " +
                     (length > size - 8 ? "the file; it may be truncated" : "the format allows"));
  }
  const std::byte* data = mapping_.get() + 8 + length;
  const std::string_view json(reinterpret_cast<const char*>(mapping_.get()) + 8, length);
  SafetensorsHeader header = parse_header(json, size - 8 - length, path.string());
  metadata_ = std::move(header.metadata);
  entries_.reserve(header.entries.size());
  for (auto& entry : header.entries) {
    entries_.push_back({std::move(entry.name),
                        std::move(entry.dtype),
                        std::move(entry.dims),
                        {data + entry.begin, data + entry.end}});
  }
}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
  for (const auto& entry : entries_) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

Tensor SafetensorsFile::tensor(const SafetensorsEntry& entry) const {
  for (const auto type :
       {ElementType::f32, ElementType::f16, ElementType::bf16, ElementType::e4m3}) {
    if (entry.dtype != safetensors_name(type)) continue;
    Tensor tensor;
    tensor.type = type;
    tensor.dims = entry.dims;
    tensor.bytes = Bytes({mapping_, entry.bytes.data()}, entry.bytes.size());
    return tensor;
  }
  throw UsageError(path_.string() + ": tensor '" + printable(entry.name) + "' has dtype " +
                   printable(entry.dtype, 20) + ", where F32, F16, BF16 or F8_E4M3 is needed");
}

void write_safetensors(const fs::path& path, std::span<const SafetensorsEntry> entries,
                       const SafetensorsMetadata& metadata) {
  const std::string header = header_text(entries, metadata);
  std::uint64_t data_bytes = 0;
  for (const auto& entry : entries) data_bytes += entry.bytes.size();
  parse_header(header, data_bytes, path.string());  // what could not be read is not written

  const std::uint64_t length = header.size();
  NewFile file(path);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(std::as_bytes(std::span(header)));
  for (const auto& entry : entries) file.write(entry.bytes);
  file.complete();
}

}  // namespace lanescope
