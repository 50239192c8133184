#include "debug/text/json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "debug/text/text.h"

namespace lanescope {
namespace {

constexpr std::size_t deepest = 256;

/// What the parser finds, handed on.
class Adapter : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Adapter(JsonEvents& events) : events_(events) {}

  bool null() override { return events_.null(), true; }
  bool boolean(bool value) override { return events_.boolean(value), true; }
  bool number_unsigned(number_unsigned_t value) override { return events_.whole(value), true; }
  bool number_integer(number_integer_t value) override { return events_.negative(value), true; }
  bool number_float(number_float_t value, const string_t& text) override {
    return events_.real(value, text), true;
  }
  bool string(string_t& text) override { return events_.string(text), true; }
  bool start_object(std::size_t) override { return events_.begin_object(), true; }
  bool key(string_t& text) override { return events_.key(text), true; }
  bool end_object() override { return events_.end_object(), true; }
  bool start_array(std::size_t) override { return events_.begin_array(), true; }
  bool end_array() override { return events_.end_array(), true; }
  bool binary(binary_t&) override { return false; }  // there is none in a text
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    wrong_at_ = position;
    return false;
  }
  std::optional<std::size_t> wrong_at() const { return wrong_at_; }

 private:
  JsonEvents& events_;
  std::optional<std::size_t> wrong_at_;
};

struct TooDeep {};
struct Twin {
  std::string name;
};

/// Builds a value from what it is told.
class Builder : public JsonEvents {
 public:
  void null() override { put(nullptr); }
  void boolean(bool value) override { put(value); }
  void whole(std::uint64_t value) override { put(value); }
  void negative(std::int64_t value) override { put(value); }
  void real(double value, const std::string&) override { put(value); }
  void string(std::string& text) override { put(std::move(text)); }
  void begin_object() override { enter(Json::Object{}); }
  void key(std::string& text) override {
    if (open_.back().contains(text)) throw Twin{text};
    keys_.back() = std::move(text);
  }
  void end_object() override { leave(); }
  void begin_array() override { enter(Json::Array{}); }
  void end_array() override { leave(); }
  Json take() { return std::move(whole_); }

 private:
  void put(Json value) {
    if (open_.empty()) {
      whole_ = std::move(value);
    } else if (open_.back().is_array()) {
      open_.back().push_back(std::move(value));
    } else {
      open_.back()[keys_.back()] = std::move(value);
    }
  }
  template <class Container>
  void enter(Container container) {
    if (open_.size() == deepest) throw TooDeep();
    open_.push_back(Json::of(std::move(container)));
    keys_.emplace_back();
  }
  void leave() {
    Json done = std::move(open_.back());
    open_.pop_back();
    keys_.pop_back();
    put(std::move(done));
  }

  Json whole_;
  std::vector<Json> open_;         ///< the arrays and objects that have not ended
  std::vector<std::string> keys_;  ///< of each, the member at hand
};

/// A string or a number as JSON has it.
std::string leaf_text(const nlohmann::json& leaf) {
  return leaf.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

Json::Json(std::initializer_list<Json> list) {
  const auto is_member = [](const Json& entry) {
    return entry.is_array() && entry.size() == 2 && entry[0].is_string();
  };
  if (!std::all_of(list.begin(), list.end(), is_member)) {
    value_ = Array(list);
    return;
  }
  value_ = Object();
  for (const Json& entry : list) (*this)[entry[0].text()] = entry[1];
}

Json Json::of(Array elements) {
  Json json;
  json.value_ = std::move(elements);
  return json;
}

Json Json::of(Object members) {
  Json json;
  json.value_ = std::move(members);
  return json;
}

std::optional<Json> Json::parse(std::string_view text, std::string* twin) {
  Builder builder;
  try {
    if (read_json(text, builder)) return std::nullopt;
  } catch (const TooDeep&) {
    return std::nullopt;
  } catch (const Twin& found) {
    if (twin) *twin = found.name;
    return std::nullopt;
  }
  return builder.take();
}

std::string Json::dump(int indent) const {
  std::string text;
  write(text, indent, 0);
  return text;
}

void Json::write(std::string& text, int indent, int level) const {
  const auto line = [&](int depth) {
    if (indent < 0) return;
    text += '\n';
    text.append(static_cast<std::size_t>(indent) * static_cast<std::size_t>(depth), ' ');
  };
  const auto list = [&](char open, char close, const auto& entries, const auto& write_entry) {
    text += open;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) text += ',';
      line(level + 1);
      write_entry(entries[i]);
    }
    if (!entries.empty()) line(level);
    text += close;
  };
  if (is_null()) {
    text += "null";
  } else if (is_boolean()) {
    text += boolean() ? "true" : "false";
  } else if (const auto* integer = std::get_if<std::int64_t>(&value_)) {
    text += std::to_string(*integer);
  } else if (const auto* whole = std::get_if<std::uint64_t>(&value_)) {
    text += std::to_string(*whole);
  } else if (const auto* real = std::get_if<double>(&value_)) {
    text += leaf_text(*real);
  } else if (is_string()) {
    text += leaf_text(this->text());
  } else if (is_array()) {
    list('[', ']', std::get<Array>(value_),
         [&](const Json& entry) { entry.write(text, indent, level + 1); });
  } else {
    list('{', '}', std::get<Object>(value_), [&](const auto& member) {
      text += leaf_text(member.first) + (indent < 0 ? ":" : ": ");
      member.second.write(text, indent, level + 1);
    });
  }
}

std::int64_t Json::integer() const {
  if (const auto* whole = std::get_if<std::uint64_t>(&value_)) {
    return static_cast<std::int64_t>(*whole);
  }
  return std::get<std::int64_t>(value_);
}

const Json* Json::find(std::string_view key) const {
  for (const auto& [name, value] : std::get<Object>(value_)) {
    if (name == key) return &value;
  }
  return nullptr;
}

const Json& Json::operator[](std::string_view key) const {
  if (const Json* member = find(key)) return *member;
  throw std::out_of_range("JSON without '" + std::string(key) + "'");
}

Json& Json::operator[](std::string_view key) {
  if (is_null()) value_ = Object();
  auto& members = std::get<Object>(value_);
  for (auto& [name, value] : members) {
    if (name == key) return value;
  }
  return members.emplace_back(key, nullptr).second;
}

void Json::update(const Json& other) {
  for (const auto& [name, value] : std::get<Object>(other.value_)) (*this)[name] = value;
}

std::optional<std::size_t> read_json(std::string_view text, JsonEvents& events) {
  // The parser would take a zero byte for the end.
  if (const std::size_t zero = text.find('\0'); zero != text.npos) return zero + 1;
  Adapter adapter(events);
  nlohmann::json::sax_parse(text.begin(), text.end(), &adapter);
  return adapter.wrong_at();
}

std::string document_text(const Json& object, int indent) {
  Json document = {{"schema", json_schema}};
  document.update(object);
  return document.dump(indent);
}

Json number_json(double value) {
  if (std::isfinite(value)) return value;
  return number_text(value, 1);
}

Json index_json(std::int64_t index) { return index < 0 ? Json() : Json(index); }

Json shape_json(const Problem& problem) {
  return {{"batch", problem.batch},  {"heads", problem.heads},   {"heads_kv", problem.heads_kv},
          {"len_q", problem.len_q},  {"len_kv", problem.len_kv}, {"d", problem.d},
          {"causal", problem.causal}};
}

}  // namespace lanescope
