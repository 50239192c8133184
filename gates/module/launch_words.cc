#include "gates/module/launch_words.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "debug/text/text.h"
#include "reference/error.h"

namespace lanescope {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Recursive descent; each level binds tighter than the one before.
class Reader {
 public:
  Reader(std::string_view text, const LaunchWords& words) : text_(text), words_(words) {}

  double read_all() {
    const double value = read_comparison();
    skip();
    if (at_ != text_.size()) fail("'" + printable(text_.substr(at_)) + "' is not understood");
    return value;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw UsageError("\"" + printable(text_, 120) + "\": " + what);
  }
  void skip() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }
  bool accept(std::string_view mark) {
    skip();
    if (!text_.substr(at_).starts_with(mark)) return false;
    at_ += mark.size();
    return true;
  }
  void expect(std::string_view mark) {
    if (!accept(mark)) fail("'" + std::string(mark) + "' is missing");
  }

  double read_comparison() {
    const double a = read_sum();
    if (accept("==")) return a == read_sum() ? 1 : 0;
    if (accept("!=")) return a != read_sum() ? 1 : 0;
    if (accept("<=")) return a <= read_sum() ? 1 : 0;
    if (accept(">=")) return a >= read_sum() ? 1 : 0;
    if (accept("<")) return a < read_sum() ? 1 : 0;
    if (accept(">")) return a > read_sum() ? 1 : 0;
    return a;
  }
  double read_sum() {
    double a = read_product();
    while (true) {
      if (accept("+")) {
        a += read_product();
      } else if (accept("-")) {
        a -= read_product();
      } else {
        return a;
      }
    }
  }
  double read_product() {
    double a = read_one();
    while (true) {
      if (accept("*")) {
        a *= read_one();
      } else if (accept("/")) {
        a = divide(a, read_one());
      } else if (accept("%")) {
        const double b = read_one();
        if (b == 0) fail("a remainder of 0");
        a = std::fmod(a, b);
      } else {
        return a;
      }
    }
  }
  double divide(double a, double b) const {
    if (b == 0) fail("a quotient of 0");
    return a / b;
  }
  double read_one() {
    constexpr int deepest = 64;
    if (++depth_ > deepest) fail("it is nested deeper than 64");
    const double value = read_unnested();
    --depth_;
    return value;
  }
  double read_unnested() {
    if (accept("-")) return -read_one();
    if (accept("(")) {
      const double value = read_comparison();
      expect(")");
      return value;
    }
    skip();
    if (at_ < text_.size() && (is_digit(text_[at_]) || text_[at_] == '.')) return read_number();
    const std::string name = read_name();
    if (accept("(")) return read_call(name);
    const auto at = words_.numbers.find(name);
    if (at == words_.numbers.end()) fail("there is no word '" + name + "'; words: " + known());
    return at->second;
  }
  double read_number() {
    double value = 0;
    const auto [end, error] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) fail("a number is expected");
    at_ = static_cast<std::size_t>(end - text_.data());
    return value;
  }
  std::string read_name() {
    skip();
    const std::size_t begin = at_;
    while (at_ < text_.size() && (is_letter(text_[at_]) || (at_ > begin && is_digit(text_[at_])))) {
      ++at_;
    }
    if (at_ == begin) fail("a number or a word is expected");
    return std::string(text_.substr(begin, at_ - begin));
  }
  double read_call(const std::string& name) {
    if (const auto at = words_.of_words.find(name); at != words_.of_words.end()) {
      const std::string word = read_name();
      expect(",");
      const double number = read_comparison();
      expect(")");
      return at->second(word, number);
    }
    const double a = read_comparison();
    expect(",");
    const double b = read_comparison();
    expect(")");
    if (name == "cdiv") return std::ceil(divide(a, b));
    if (name == "min") return std::min(a, b);
    if (name == "max") return std::max(a, b);
    fail("there is no function '" + name + "'");
  }
  std::string known() const {
    std::string names;
    for (const auto& [name, value] : words_.numbers) names += (names.empty() ? "" : ", ") + name;
    return names;
  }

  std::string_view text_;
  const LaunchWords& words_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

double evaluate(std::string_view text, const LaunchWords& words) {
  return Reader(text, words).read_all();
}

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else if (!is_space(c) || !parts.back().empty()) {
      parts.back() += c;
    }
  }
  return parts;
}

std::pair<std::string_view, std::string_view> split_call(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  const std::size_t open = text.find('(');
  if (open == std::string_view::npos || !text.ends_with(')')) return {};
  const std::string_view name = text.substr(0, open);
  const auto in_name = [](char c) { return is_letter(c) || (c >= '0' && c <= '9'); };
  if (name.empty() || !is_letter(name.front()) || !std::ranges::all_of(name, in_name)) return {};
  return {name, text.substr(open + 1, text.size() - open - 2)};
}

}  // namespace lanescope
