#include "debug/dump/metadata_fields.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <system_error>
#include <utility>

#include "debug/text/text.h"
#include "reference/error.h"

namespace lanescope {
namespace {

/// Far above what any dump needs, far below what could hurt.
constexpr std::size_t most_json_bytes = 1 << 16;

}  // namespace

Members::Members(const Json& object, std::string where)
    : object_(object), where_(std::move(where)) {
  if (!object.is_object()) throw UsageError(where_ + " is not a JSON object");
}

std::int64_t Members::integer(const char* key, std::int64_t most) const {
  return integer_of(at(key), key, most);
}

int Members::small(const char* key) const { return static_cast<int>(integer(key, 1 << 20)); }

bool Members::boolean(const char* key) const {
  if (!at(key).is_boolean()) fail(key, "is neither true nor false");
  return at(key).boolean();
}

std::string Members::text(const char* key) const {
  if (!at(key).is_string()) fail(key, "is not a string");
  return at(key).text();
}

Range Members::range(const char* key) const {
  const Json& value = at(key);
  if (!value.is_array() || value.size() != 2) fail(key, "is not a pair of numbers");
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  return {integer_of(value[0], key, most), integer_of(value[1], key, most)};
}

const Json& Members::at(const char* key) const {
  const Json* member = object_.find(key);
  if (!member) fail(key, "is missing");
  return *member;
}

std::int64_t Members::integer_of(const Json& value, const char* key, std::int64_t most) const {
  // The parser calls exactly the whole numbers that are not negative unsigned.
  if (!value.is_number_unsigned() || value.integer() < 0 || value.integer() > most) {
    fail(key, "is no whole number from 0 to " + std::to_string(most));
  }
  return value.integer();
}

void Members::fail(const char* key, const std::string& what) const {
  throw UsageError("'" + std::string(key) + "' of " + where_ + " " + what);
}

bool Strings::has(const std::string& key) const {
  return std::any_of(metadata_.begin(), metadata_.end(),
                     [&](const auto& entry) { return entry.first == key; });
}

const std::string& Strings::text(const char* key) const {
  for (const auto& [name, value] : metadata_) {
    if (name == key) return value;
  }
  throw UsageError("its metadata has no '" + std::string(key) + "'");
}

std::string Strings::shown(const char* key, bool lines) const {
  return without_controls(text(key), lines);
}

std::string Strings::one_of(const char* key, const char* first, const char* second) const {
  const std::string& value = text(key);
  if (value == first || value == second) return value;
  throw UsageError("'" + std::string(key) + "' of its metadata is '" + printable(value) +
                   "', neither '" + first + "' nor '" + second + "'");
}

std::uint64_t Strings::number(const char* key) const {
  const std::string& value = text(key);
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc{} || end != value.data() + value.size()) {
    throw UsageError("'" + std::string(key) + "' of its metadata is no number: '" +
                     printable(value) + "'");
  }
  return number;
}

int Strings::number(const char* key, int most) const {
  const std::uint64_t value = number(key);
  if (value <= static_cast<std::uint64_t>(most)) return static_cast<int>(value);
  throw UsageError("'" + std::string(key) + "' of its metadata is more than " +
                   std::to_string(most) + ": '" + printable(text(key)) + "'");
}

Json Strings::json(const char* key) const {
  const std::string& value = text(key);
  std::optional<Json> parsed;
  std::string twin;
  if (value.size() <= most_json_bytes) parsed = Json::parse(value, &twin);
  if (!twin.empty()) {
    throw UsageError("'" + std::string(key) + "' of its metadata has '" + printable(twin) +
                     "' twice in one object");
  }
  if (!parsed) {
    throw UsageError("'" + std::string(key) + "' of its metadata is no valid JSON of at most " +
                     std::to_string(most_json_bytes) + " bytes");
  }
  return *parsed;
}

}  // namespace lanescope
