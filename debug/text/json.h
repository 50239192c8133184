#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "reference/problem.h"

namespace lanescope {

/// A JSON value. Objects keep the order in which their members came. A list in braces is an object
/// where all that stands in it are pairs of a string and a value, else an array:
///   Json at = {{"row", 3}, {"sides", {16, 8}}};
/// Access to what is not there, or of another kind, throws std::exception.
class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;

  Json() = default;
  Json(std::nullptr_t) {}
  template <std::same_as<bool> Bool>
  Json(Bool value) : value_(value) {}
  template <std::signed_integral Integer>
  Json(Integer value) : value_(std::int64_t{value}) {}
  template <std::unsigned_integral Integer>
  requires(!std::same_as<Integer, bool>) Json(Integer value) : value_(std::uint64_t{value}) {}
  Json(double value) : value_(value) {}
  Json(std::string text) : value_(std::move(text)) {}
  Json(std::string_view text) : value_(std::string(text)) {}
  Json(const char* text) : value_(std::string(text)) {}
  template <class Element>
  requires std::constructible_from<Json, Element> Json(const std::vector<Element>& elements)
      : value_(Array(elements.begin(), elements.end())) {}
  Json(std::initializer_list<Json> list);

  static Json array() { return of(Array()); }
  static Json of(Array elements);
  static Json of(Object members);

  /// What `text` says. Nothing where it is no JSON, is nested more than 256 deep, or has a member
  /// twice in one object, of which two readers may take different values: its name goes to `twin`.
  static std::optional<Json> parse(std::string_view text, std::string* twin = nullptr);
  /// As text, each level `indent` spaces further in; −1: all in one line without spaces. What is no
  /// UTF-8 in a string, a path for one, becomes U+FFFD.
  std::string dump(int indent = -1) const;

  bool is_null() const { return std::holds_alternative<std::nullptr_t>(value_); }
  bool is_boolean() const { return std::holds_alternative<bool>(value_); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }
  /// Of what was parsed: a whole number from 0 to 2^64 − 1.
  bool is_number_unsigned() const { return std::holds_alternative<std::uint64_t>(value_); }

  bool boolean() const { return std::get<bool>(value_); }
  const std::string& text() const { return std::get<std::string>(value_); }
  /// Of a whole number; one beyond 2^63 − 1 becomes negative.
  std::int64_t integer() const;

  /// Of an array.
  std::size_t size() const { return std::get<Array>(value_).size(); }
  template <std::integral Index>
  const Json& operator[](Index index) const {
    return std::get<Array>(value_).at(static_cast<std::size_t>(index));
  }
  Array::const_iterator begin() const { return std::get<Array>(value_).begin(); }
  Array::const_iterator end() const { return std::get<Array>(value_).end(); }
  void push_back(Json element) { std::get<Array>(value_).push_back(std::move(element)); }

  /// Of an object: all of it.
  const Object& members() const { return std::get<Object>(value_); }
  /// Of an object; null where there is no such member.
  const Json* find(std::string_view key) const;
  bool contains(std::string_view key) const { return find(key) != nullptr; }
  const Json& operator[](std::string_view key) const;
  const Json& operator[](const char* key) const { return (*this)[std::string_view(key)]; }
  /// Makes an object of a null, and a null member of that name where there is none.
  Json& operator[](std::string_view key);
  Json& operator[](const char* key) { return (*this)[std::string_view(key)]; }
  /// Takes all members of `other`.
  void update(const Json& other);

  friend bool operator==(const Json& a, const Json& b) = default;

 private:
  void write(std::string& text, int indent, int level) const;

  std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string, Array,
               Object>
      value_;
};

/// What stands in a JSON text, one after the other.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual void null() = 0;
  virtual void boolean(bool value) = 0;
  virtual void whole(std::uint64_t value) = 0;
  virtual void negative(std::int64_t value) = 0;
  /// Any other number; `text`: as it stands there.
  virtual void real(double value, const std::string& text) = 0;
  virtual void string(std::string& text) = 0;
  virtual void begin_object() = 0;
  virtual void key(std::string& text) = 0;
  virtual void end_object() = 0;
  virtual void begin_array() = 0;
  virtual void end_array() = 0;
};
/// Calls `events` until the end of `text`, or where it is no JSON: returns the byte at which that
/// shows, counted from 1. Builds nothing, whatever `text` holds.
std::optional<std::size_t> read_json(std::string_view text, JsonEvents& events);

/// Of what the program says with --format json: counts up where a program that reads it has to
/// change.
inline constexpr int json_schema = 1;

/// A result, as it goes to stdout: the members of `object` behind the first one, "schema".
std::string document_text(const Json& object, int indent = 2);

/// `value` as JSON. JSON has no such numbers, so those become the strings "inf", "-inf" and "nan".
Json number_json(double value);

/// `index`, or null where it is below 0: does not apply.
Json index_json(std::int64_t index);

/// {"batch", "heads", "heads_kv", "len_q", "len_kv", "d", "causal"}.
Json shape_json(const Problem& problem);

}  // namespace lanescope
