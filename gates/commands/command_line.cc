#include "gates/commands/command_line.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <optional>
#include <type_traits>
#include <utility>

#include "gates/declared_modules.h"

// All that knows CLI11.

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

template <class Value>
Option Options::add(const char* names, Value& value, const char* about) {
  return Option(command_.add_option(names, value, about)->check(check_not_empty));
}
template Option Options::add(const char*, std::string&, const char*);
template Option Options::add(const char*, std::vector<std::string>&, const char*);
template Option Options::add(const char*, int&, const char*);
template Option Options::add(const char*, std::int64_t&, const char*);
template Option Options::add(const char*, std::uint64_t&, const char*);
template Option Options::add(const char*, std::optional<std::int64_t>&, const char*);
template Option Options::add(const char*, std::optional<double>&, const char*);

Option Options::add_flag(const char* names, bool& value, const char* about) {
  return Option(command_.add_flag(names, value, about));
}

void Options::add_choice(const char* names, const std::function<void(const std::string&)>& read,
                         const char* values, const char* about) {
  command_.add_option_function<std::string>(names, read, about)->type_name(values);
}

Options Options::one_of(const char* name) {
  CLI::Option_group* group = command_.add_option_group(name);
  group->require_option(1);
  return {*group, arguments_};
}

std::vector<std::string> Options::given() const {
  std::vector<std::string> names;
  for (const CLI::Option* option : std::as_const(command_).get_options()) {
    if (option->count() > 0) names.push_back(option->get_name());
  }
  return names;
}

namespace {

/// A command and what it has declared.
struct Declared {
  CLI::App* parser;
  Options options;
  Action action;
};

std::deque<Declared> declare(std::span<const NamedCommand> commands,
                             const std::vector<std::string>& arguments, CLI::App& app) {
  std::deque<Declared> declared;  // which leaves each where it is
  for (const auto& [name, command] : commands) {
    const Command definition = command();
    CLI::App* parser = app.add_subcommand(name, definition.about);
    Declared& own = declared.emplace_back(Declared{parser, Options(*parser, arguments), {}});
    own.action = definition.declare(own.options);
  }
  return declared;
}

/// What CLI11 says, and for want of a command, which there are.
void say_what_is_wrong(const CLI::App& app, const CLI::ParseError& error) {
  app.exit(error);
  if (!app.get_subcommands().empty()) return;
  std::string names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names += " " + command->get_name();
  }
  std::fprintf(stderr, "Subcommands:%s\n", names.c_str());
}

}  // namespace

int read_command_line(int argc, char** argv, std::span<const NamedCommand> commands,
                      const std::function<ExitCode(const Request&)>& run) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  CLI::App app{"A lab for fused attention kernels: build one stage, diff its intermediates"};
  app.name("lanescope");
  app.set_version_flag("--version", LANESCOPE_VERSION);
  app.require_subcommand(1);
  app.fallthrough();

  Request request;
  std::string format = "text";
  app.add_flag("-v,--verbose", request.verbose, "say more on stderr");
  app.add_flag("-q,--quiet", request.quiet, "say only errors on stderr");
  app.add_option("--format", format, "text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  const std::deque<Declared> declared = declare(commands, arguments, app);

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    say_what_is_wrong(app, error);
    return static_cast<int>(ExitCode::usage);
  }
  request.json = format == "json";
  for (const Declared& command : declared) {
    if (command.parser->parsed()) request.action = command.action;
  }
  return static_cast<int>(run(request));
}

}  // namespace lanescope
