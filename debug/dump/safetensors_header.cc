#include "debug/dump/safetensors_header.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "debug/text/json.h"
#include "debug/text/text.h"
#include "reference/error.h"

namespace lanescope {
namespace {

constexpr std::size_t max_rank = 32;

std::optional<std::int64_t> bytes_of(std::string_view dtype) {
  constexpr std::pair<std::string_view, int> sizes[] = {
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1},
      {"U16", 2},  {"I16", 2}, {"F16", 2}, {"BF16", 2},    {"U32", 4},
      {"I32", 4},  {"F32", 4}, {"U64", 8}, {"I64", 8},     {"F64", 8}};
  for (const auto& [name, size] : sizes) {
    if (name == dtype) return size;
  }
  return std::nullopt;
}

/// Takes the header's JSON event by event: no tree is built, so that hostile nesting or a flood of
/// values costs nothing, and each value is refused where it stands if it has no business there.
class HeaderReader : public JsonEvents {
 public:
  HeaderReader(SafetensorsHeader& header, const std::string& where)
      : header_(header), where_(where) {}

  void begin_object() override {
    if (in_ == In::nothing) return enter(In::top);
    if (in_ != In::top) fail("an object where none belongs");
    if (key_ != "__metadata__") {
      header_.entries.push_back({.name = key_, .dtype = {}, .dims = {}});
      seen_ = 0;
      return enter(In::entry);
    }
    if (has_metadata_) fail("__metadata__ twice");
    has_metadata_ = true;
    return enter(In::metadata);
  }

  void key(std::string& text) override {
    key_ = text;
    if (in_ != In::entry) return;
    const int field = text == "dtype" ? 1 : text == "shape" ? 2 : text == "data_offsets" ? 4 : 0;
    if (field == 0) fail("the unknown field '" + printable(text) + "'");
    if (seen_ & field) fail("the field '" + text + "' twice");
    seen_ |= field;
  }

  void string(std::string& text) override {
    if (in_ == In::metadata) {
      header_.metadata.emplace_back(key_, text);
    } else if (in_ == In::entry && key_ == "dtype") {
      header_.entries.back().dtype = text;
    } else {
      fail("a string where none belongs");
    }
  }

  void begin_array() override {
    if (in_ != In::entry || key_ == "dtype") fail("an array where none belongs");
    offsets_ = 0;
    return enter(In::array);
  }

  void whole(std::uint64_t value) override {
    if (in_ != In::array) fail("a number where none belongs");
    auto& entry = header_.entries.back();
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      fail("the number " + std::to_string(value) + ", which is too large");
    }
    if (key_ == "shape") {
      if (entry.dims.size() == max_rank) fail("more than 32 dimensions");
      entry.dims.push_back(static_cast<std::int64_t>(value));
    } else {
      if (++offsets_ > 2) fail("more than two data_offsets");
      (offsets_ == 1 ? entry.begin : entry.end) = value;
    }
  }

  void end_array() override {
    if (key_ == "data_offsets" && offsets_ != 2) fail("fewer than two data_offsets");
    return enter(In::entry);
  }

  void end_object() override {
    if (in_ == In::entry && seen_ != 7) fail("not all of dtype, shape and data_offsets");
    return enter(In::top);
  }

  void negative(std::int64_t value) override {
    fail("the negative number " + std::to_string(value));
  }
  void real(double, const std::string& text) override {
    fail("the number " + printable(text, 30) + ", which is no whole number that fits 64 bits");
  }
  void null() override { fail("a null where none belongs"); }
  void boolean(bool) override { fail("a boolean where none belongs"); }

 private:
  enum class In { nothing, top, metadata, entry, array };

  void enter(In in) { in_ = in; }

  [[noreturn]] void fail(const std::string& what) const {
    const bool in_entry = in_ == In::entry || in_ == In::array;
    throw UsageError(
        where_ + ": the safetensors header has " + what +
        (in_entry ? " in tensor '" + printable(header_.entries.back().name) + "'" : std::string()));
  }

  SafetensorsHeader& header_;
  const std::string& where_;
  In in_ = In::nothing;
  std::string key_;
  bool has_metadata_ = false;
  int seen_ = 0;     // fields of the entry at hand: 1 dtype, 2 shape, 4 data_offsets
  int offsets_ = 0;  // of the entry at hand
};

void refuse_twins(std::vector<std::string_view> names, const std::string& where) {
  std::sort(names.begin(), names.end());
  const auto twin = std::adjacent_find(names.begin(), names.end());
  if (twin == names.end()) return;
  throw UsageError(where + ": the safetensors header has '" + printable(*twin) + "' twice");
}

void check_bytes(const SafetensorsHeader::Entry& entry, std::uint64_t data_bytes,
                 const std::string& where) {
  const std::string subject = where + ": tensor '" + printable(entry.name) + "' ";
  if (entry.begin > entry.end) throw UsageError(subject + "ends before it begins");
  if (entry.end > data_bytes) {
    throw UsageError(subject + "ends at byte " + std::to_string(entry.end) +
                     " of the data, but the file has only " + std::to_string(data_bytes) +
                     " bytes of data; it may be truncated");
  }
  const auto element = bytes_of(entry.dtype);
  std::int64_t bytes = element.value_or(1);
  bool overflow = false;
  for (const std::int64_t dim : entry.dims) overflow |= __builtin_mul_overflow(bytes, dim, &bytes);
  if (overflow) throw UsageError(subject + "has a shape whose size overflows 64 bits");
  if (element && static_cast<std::uint64_t>(bytes) != entry.end - entry.begin) {
    throw UsageError(subject + "has " + std::to_string(entry.end - entry.begin) +
                     " bytes where its shape and dtype " + entry.dtype + " need " +
                     std::to_string(bytes));
  }
}

void check_tiling(const SafetensorsHeader& header, std::uint64_t data_bytes,
                  const std::string& where) {
  std::vector<const SafetensorsHeader::Entry*> order;
  order.reserve(header.entries.size());
  for (const auto& entry : header.entries) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  std::uint64_t end = 0;
  for (const auto* entry : order) {
    if (entry->begin < end) {
      throw UsageError(where + ": tensor '" + printable(entry->name) + "' overlaps another one");
    }
    if (entry->begin > end) {
      throw UsageError(where + ": a hole of " + std::to_string(entry->begin - end) +
                       " bytes lies before tensor '" + printable(entry->name) + "'");
    }
    end = entry->end;
  }
  if (end != data_bytes) {
    throw UsageError(where + ": the last " + std::to_string(data_bytes - end) +
                     " bytes belong to no tensor");
  }
}

}  // namespace

SafetensorsHeader parse_header(std::string_view json, std::uint64_t data_bytes,
                               const std::string& where) {
  if (!json.starts_with('{')) {
    throw UsageError(where + " is no safetensors file: its header does not begin with '{'");
  }
  SafetensorsHeader header;
  HeaderReader reader(header, where);
  if (const auto wrong_at = read_json(json, reader)) {
    throw UsageError(where + ": the safetensors header is no valid JSON at its byte " +
                     std::to_string(*wrong_at));
  }

  std::vector<std::string_view> names;
  for (const auto& entry : header.entries) names.push_back(entry.name);
  refuse_twins(names, where);
  names.clear();
  for (const auto& [key, value] : header.metadata) names.push_back(key);
  refuse_twins(names, where);
  for (const auto& entry : header.entries) check_bytes(entry, data_bytes, where);
  check_tiling(header, data_bytes, where);
  return header;
}

std::string header_text(std::span<const SafetensorsEntry> entries,
                        const SafetensorsMetadata& metadata) {
  // Joined by hand: a JSON object would sort its members and drop a name that comes twice, which
  // parse_header must see to refuse.
  const auto quoted = [](const std::string& text) { return Json(text).dump(); };
  std::string text = "{\"__metadata__\":{";
  for (const auto& [key, value] : metadata) {
    if (text.back() != '{') text += ',';
    text += quoted(key) + ':' + quoted(value);
  }
  text += '}';
  std::uint64_t offset = 0;
  for (const auto& entry : entries) {
    const std::uint64_t end = offset + entry.bytes.size();
    text += ',' + quoted(entry.name) + ":{\"dtype\":" + quoted(entry.dtype) +
            ",\"shape\":" + Json(entry.dims).dump() + ",\"data_offsets\":[" +
            std::to_string(offset) + ',' + std::to_string(end) + "]}";
    offset = end;
  }
  text += '}';
  text.resize((text.size() + 8 + 63) / 64 * 64 - 8, ' ');
  return text;
}

}  // namespace lanescope
