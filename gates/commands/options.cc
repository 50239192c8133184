#include "gates/commands/options.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

namespace lanescope {
namespace {

// What is wrong with an option's text, or nothing.

/// An empty text would pass for an option that is not given.
std::string check_not_empty(const std::string& text) {
  return text.empty() ? "is empty: give it a value, or leave it out" : "";
}

/// Which no range of CLI11 refuses.
std::string check_not_nan(const std::string& text) {
  double value = 0;
  const bool is_nan = CLI::detail::lexical_cast(text, value) && std::isnan(value);
  return is_nan ? "'" + text + "' is no number" : "";
}

}  // namespace

Option Option::required() {
  option_->required();
  return *this;
}

Option Option::check(std::string (*wrong)(const std::string& text)) {
  option_->check(wrong);
  return *this;
}

template <class Number>
Option Option::between(Number least, Number most) {
  option_->check(CLI::Range(least, most));
  if constexpr (std::is_floating_point_v<Number>) option_->check(check_not_nan);
  return *this;
}
template Option Option::between(int, int);
template Option Option::between(double, double);

Option Option::needs(const Option& other) {
  option_->needs(other.option_);
  return *this;
}

Option Option::one_each_time() {
  option_->allow_extra_args(false);
  return *this;
}

Option Option::suggest(std::vector<std::string> values, const char* file_ending) {
  suggestions_[option_] = {std::move(values), file_ending};
  return *this;
}

template <class Value>
Option Options::add(const char* names, Value& value, const char* about) {
  return {command_.add_option(names, value, about)->check(check_not_empty), suggestions_};
}
template Option Options::add(const char*, std::string&, const char*);
template Option Options::add(const char*, std::vector<std::string>&, const char*);
template Option Options::add(const char*, int&, const char*);
template Option Options::add(const char*, std::int64_t&, const char*);
template Option Options::add(const char*, std::uint64_t&, const char*);
template Option Options::add(const char*, std::optional<std::int64_t>&, const char*);
template Option Options::add(const char*, std::optional<double>&, const char*);

void Options::add_command(const char* name, std::vector<std::string>& words, const char* about) {
  command_.add_option(name, words, about)->required();
  command_.positionals_at_end();
}

Option Options::add_flag(const char* names, bool& value, const char* about) {
  return {command_.add_flag(names, value, about)->disable_flag_override(), suggestions_};
}

Option Options::add_choice(const char* names, const std::function<void(const std::string&)>& read,
                           const char* values, const char* about) {
  return {command_.add_option_function<std::string>(names, read, about)->type_name(values),
          suggestions_};
}

std::vector<std::string> Options::given() const {
  std::vector<std::string> names;
  for (const CLI::Option* option : std::as_const(command_).get_options()) {
    if (option->count() > 0) names.push_back(option->get_name());
  }
  return names;
}

}  // namespace lanescope
