#include "gates/commands/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <optional>
#include <type_traits>
#include <utility>

#include "debug/text/json.h"
#include "debug/text/nearest.h"
#include "debug/text/text.h"
#include "gates/declared_modules.h"

// All that knows CLI11.

namespace lanescope {
namespace {

struct ExitCodeMeaning {
  ExitCode code;
  const char* meaning;
};
constexpr ExitCodeMeaning exit_codes[] = {
    {ExitCode::ok, "all holds"},
    {ExitCode::diverged, "a value diverged, is unsettled, or a check failed"},
    {ExitCode::usage, "wrong usage or unreadable input, a source that does not compile included"},
    {ExitCode::environment, "the machine lacks something: a device, memory, a package"},
    {ExitCode::mismatch, "a dump and a build do not belong together"},
};

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
  return {command_.add_flag(names, value, about), suggestions_};
}

Option Options::add_choice(const char* names, const std::function<void(const std::string&)>& read,
                           const char* values, const char* about) {
  return {command_.add_option_function<std::string>(names, read, about)->type_name(values),
          suggestions_};
}

Options Options::one_of(const char* name) {
  CLI::Option_group* group = command_.add_option_group(name);
  group->require_option(1);
  return {*group, arguments_, suggestions_};
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
                             const std::vector<std::string>& arguments, Suggestions& suggestions,
                             CLI::App& app) {
  std::deque<Declared> declared;  // which leaves each where it is
  for (const auto& [name, command] : commands) {
    const Command definition = command();
    CLI::App* parser = app.add_subcommand(name, definition.about);
    Declared& own =
        declared.emplace_back(Declared{parser, Options(*parser, arguments, suggestions), {}});
    own.action = definition.declare(own.options);
  }
  return declared;
}

/// The commands of `app`, and the nameless groups of options of one.
std::vector<const CLI::App*> parts_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::vector<std::string> names_of(const std::vector<const CLI::App*>& commands) {
  std::vector<std::string> names;
  for (const CLI::App* command : commands) names.push_back(command->get_name());
  return names;
}

/// All options of a command, in the order of its help: those without a name first.
std::vector<const CLI::Option*> options_of(const CLI::App& command) {
  std::vector<const CLI::Option*> options;
  const auto take = [&](const CLI::App& from) {
    for (const CLI::Option* option : from.get_options()) {
      if (std::find(options.begin(), options.end(), option) == options.end()) {
        options.push_back(option);
      }
    }
  };
  take(command);
  for (const CLI::App* group : parts_of(command)) {
    if (group->get_name().empty()) take(*group);
  }
  std::stable_partition(options.begin(), options.end(),
                        [](const CLI::Option* option) { return option->get_positional(); });
  return options;
}

std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

/// Of what is no option, did the user mean one?
std::string near_option(const CLI::App& app, const std::string& wrong) {
  std::vector<std::string> names;
  const auto take = [&](const CLI::App& command) {
    for (const CLI::Option* option : options_of(command)) {
      for (const std::string& name : names_of(*option)) names.push_back(name);
    }
  };
  for (const CLI::App* command : app.get_subcommands()) take(*command);
  take(app);
  return wrong.starts_with("--") ? did_you_mean(wrong.substr(0, wrong.find('=')), names) : "";
}

std::string no_command(const std::string& word, const std::vector<std::string>& commands) {
  return "there is no command '" + printable(word) + "'" + did_you_mean(word, commands) +
         "; commands: " + listed(commands);
}

/// The first word that stands where a command is wanted; empty where there is none.
std::string word_for_command(const std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--format") {
      ++i;
    } else if (!arguments[i].starts_with("-")) {
      return arguments[i];
    }
  }
  return {};
}

/// The first option of the arguments, of which none is a command, that the program does not have.
std::string unknown_option(const CLI::App& app, const std::vector<std::string>& arguments) {
  const std::string first = arguments.empty() ? "" : arguments.front();
  const std::string name = first.substr(0, first.find('='));
  if (!name.starts_with("-") || app.get_option_no_throw(name) != nullptr) return {};
  return name;
}

/// What is wrong with the command line, and what there is.
std::string wrong_with(const CLI::App& app, const CLI::ParseError& error,
                       const std::vector<std::string>& arguments) {
  if (!app.get_subcommands().empty()) {
    std::string words = error.what();
    if (const auto* extras = dynamic_cast<const CLI::ExtrasError*>(&error)) {
      words = extras->what();
      words += near_option(app, words.substr(words.rfind(' ') + 1));
    }
    const std::string command = app.get_subcommands().front()->get_name();
    return command + ": " + words + "; `lanescope help " + command + "` has its options";
  }
  const std::vector<std::string> commands = names_of(parts_of(app));
  const std::string option = unknown_option(app, arguments);
  if (!option.empty()) {
    return "there is no option " + printable(option) + near_option(app, option) +
           "; `lanescope help` has those of all commands, which stand before or behind one";
  }
  const std::string word = word_for_command(arguments);
  if (!word.empty()) return no_command(word, commands);
  if (dynamic_cast<const CLI::RequiredError*>(&error)) {
    return "which command? There is: " + listed(commands) + "; `lanescope help` says what they do";
  }
  return std::string(error.what()) + "; `lanescope help` has the options";
}

Json table_of(const CLI::Option& option, const Suggestions& suggestions) {
  const bool takes_value = option.get_items_expected_max() > 0;
  const bool positional = option.get_positional();
  const auto suggested = suggestions.find(&option);
  const Suggested none;
  const Suggested& own = suggested == suggestions.end() ? none : suggested->second;
  return {{"names", positional ? Json(std::vector{option.get_name(true)}) : Json(names_of(option))},
          {"positional", positional},
          {"takes_value", takes_value},
          {"repeats", option.get_items_expected_max() > 1},
          {"required", option.get_required()},
          {"about", option.get_description()},
          {"values", own.values},
          {"file_ending", own.file_ending.empty() ? Json() : Json(own.file_ending)}};
}

Json table_of(const CLI::App& command, const Suggestions& suggestions) {
  Json options = Json::array();
  for (const CLI::Option* option : options_of(command)) {
    options.push_back(table_of(*option, suggestions));
  }
  return {
      {"command", command.get_name()}, {"about", command.get_description()}, {"options", options}};
}

/// All commands and options, for programs: {version, about, options, commands: [{command, about,
/// options: [{names, positional, takes_value, repeats, required, about, values, file_ending}]}],
/// exit_codes: [{code, meaning}]}.
Json table_of_all(const CLI::App& app, const Suggestions& suggestions) {
  Json all = {{"version", LANESCOPE_VERSION}};
  all.update(table_of(app, suggestions));
  all["commands"] = Json::array();
  for (const CLI::App* command : parts_of(app)) {
    all["commands"].push_back(table_of(*command, suggestions));
  }
  all["exit_codes"] = Json::array();
  for (const auto& [code, meaning] : exit_codes) {
    all["exit_codes"].push_back({{"code", static_cast<int>(code)}, {"meaning", meaning}});
  }
  return all;
}

/// `command` empty: of the program.
std::string help_text(const CLI::App& app, const std::string& command) {
  if (command.empty()) {
    return app.get_formatter()->make_help(&app, app.get_name(), CLI::AppFormatMode::Normal);
  }
  for (const CLI::App* known : parts_of(app)) {
    if (known->get_name() == command) return known->help(app.get_name());
  }
  throw UsageError("help: " + no_command(command, names_of(parts_of(app))));
}

std::string exit_codes_text() {
  std::string text = "Exit codes:\n";
  for (const auto& [code, meaning] : exit_codes) {
    text += "  " + std::to_string(static_cast<int>(code)) + "  " + meaning + "\n";
  }
  return text;
}

}  // namespace

bool asks_for_json(int argc, char** argv) {
  bool json = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--format" && i + 1 < argc) json = std::string_view(argv[++i]) == "json";
    if (word.starts_with("--format=")) json = word == "--format=json";
  }
  return json;
}

int read_command_line(int argc, char** argv, std::span<const NamedCommand> commands,
                      const std::function<ExitCode(const Request&)>& run) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  CLI::App app{"A lab for fused attention kernels: build one stage, diff its intermediates"};
  app.name("lanescope");
  app.set_version_flag("--version", LANESCOPE_VERSION);
  app.require_subcommand(1);
  app.fallthrough();

  Request request;
  Suggestions suggestions;
  std::string format = "text", explained;
  app.add_flag("-v,--verbose", request.verbose, "say more on stderr");
  app.add_flag("-q,--quiet", request.quiet, "say only errors on stderr");
  suggestions[app.add_option("--format", format, "text or json")
                  ->check(CLI::IsMember({"text", "json"}))
                  ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)] = {{"text", "json"}, ""};
  const std::deque<Declared> declared = declare(commands, arguments, suggestions, app);
  CLI::App* help = app.add_subcommand("help", "what a command does, and its options");
  suggestions[help->add_option("command", explained, "one of them; without it, all")] = {
      names_of(parts_of(app)), ""};
  app.footer(exit_codes_text());  // not of the commands, which would take it over

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    const std::string word = word_for_command(arguments);
    const std::vector<std::string> known = names_of(parts_of(app));
    if (!word.empty() && std::find(known.begin(), known.end(), word) == known.end()) {
      throw UsageError(no_command(word, known));
    }
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    throw UsageError(wrong_with(app, error, arguments));
  }
  request.json = format == "json";
  for (const Declared& command : declared) {
    if (command.parser->parsed()) request.action = command.action;
  }
  if (help->parsed()) {
    request.action = [&](const Output& output) {
      const std::string text = help_text(app, explained);
      if (output.json) {
        const CLI::App* command = explained.empty() ? nullptr : app.get_subcommand(explained);
        std::puts(document_text(command ? table_of(*command, suggestions)
                                        : table_of_all(app, suggestions))
                      .c_str());
      } else {
        std::fputs(text.c_str(), stdout);
      }
      return ExitCode::ok;
    };
  }
  return static_cast<int>(run(request));
}

}  // namespace lanescope
