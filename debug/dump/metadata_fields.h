#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "debug/dump/dump.h"
#include "debug/dump/safetensors.h"
#include "debug/text/json.h"

// What a file says, taken as the type that is wanted. All throw UsageError, which names the entry,
// where it is missing or of another type.
namespace lanescope {

/// The members of one JSON object, which outlives this. `where`: what errors call the object.
class Members {
 public:
  Members(const Json& object, std::string where);

  /// A whole number from 0 to `most`.
  std::int64_t integer(const char* key,
                       std::int64_t most = std::numeric_limits<std::int64_t>::max()) const;
  /// The same, up to 2^20.
  int small(const char* key) const;
  bool boolean(const char* key) const;
  std::string text(const char* key) const;
  /// Two numbers in an array.
  Range range(const char* key) const;

 private:
  const Json& at(const char* key) const;
  std::int64_t integer_of(const Json& value, const char* key, std::int64_t most) const;
  [[noreturn]] void fail(const char* key, const std::string& what) const;

  const Json& object_;
  std::string where_;
};

/// The strings of a file's `__metadata__`, which outlives this.
class Strings {
 public:
  explicit Strings(const SafetensorsMetadata& metadata) : metadata_(metadata) {}

  bool has(const std::string& key) const;
  const std::string& text(const char* key) const;
  /// Fit to print; `lines`: ends of lines stay.
  std::string shown(const char* key, bool lines = false) const;
  /// The text, which must be one of these.
  std::string one_of(const char* key, const char* first, const char* second) const;
  /// A whole number from 0 to 2^64 − 1.
  std::uint64_t number(const char* key) const;
  /// The same, up to `most`.
  int number(const char* key, int most) const;
  /// What the text is as JSON, of at most 64 KiB.
  Json json(const char* key) const;

 private:
  const SafetensorsMetadata& metadata_;
};

}  // namespace lanescope
