#include <algorithm>

#include "debug/text/nearest.h"
#include "debug/text/text.h"
#include "gates/commands/command_line.h"
#include "gates/commands/parser_parts.h"

namespace lanescope {
namespace {

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

/// The first option of the arguments, of which none is a command, that the program does not have.
std::string unknown_option(const CLI::App& app, const std::vector<std::string>& arguments) {
  const std::string first = arguments.empty() ? "" : arguments.front();
  const std::string name = first.substr(0, first.find('='));
  if (!name.starts_with("-") || app.get_option_no_throw(name) != nullptr) return {};
  return name;
}

/// That an option which takes one value has several; empty where none has.
std::string given_twice(const CLI::App& command) {
  for (const CLI::Option* option : options_of(command)) {
    const std::vector<std::string>& values = option->results();
    const bool takes_one = option->get_items_expected_max() == 1;
    if (!takes_one || option->get_positional() || values.size() < 2) continue;
    return option->get_name() + " is given " + std::to_string(values.size()) + " times (" +
           printable(listed(values)) + "): give it once";
  }
  return {};
}

/// That an option which takes a value has none, or one that takes none has one; empty where that
/// is not so.
std::string wrong_count(const CLI::App& command, const std::vector<std::string>& arguments) {
  for (const CLI::Option* option : options_of(command)) {
    for (const std::string& name : names_of(*option)) {
      const bool takes_value = option->get_items_expected_max() > 0;
      if (takes_value && !arguments.empty() && arguments.back() == name) {
        return name + " takes a value: " + option->get_description();
      }
      const auto has_value = [&](const std::string& word) { return word.starts_with(name + "="); };
      if (!takes_value && std::any_of(arguments.begin(), arguments.end(), has_value)) {
        return name + " takes no value";
      }
    }
  }
  return {};
}

/// What is wrong with the options of `command`.
std::string wrong_with(const CLI::App& app, const CLI::App& command, const CLI::ParseError& error,
                       const std::vector<std::string>& arguments) {
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error)) {
    for (const std::string& words : {given_twice(command), wrong_count(command, arguments)}) {
      if (!words.empty()) return words;
    }
  }
  std::string words = error.what();
  if (dynamic_cast<const CLI::ExtrasError*>(&error)) {
    words += near_option(app, words.substr(words.rfind(' ') + 1));
  }
  return words;
}

}  // namespace

std::string no_command(const std::string& word, const std::vector<std::string>& commands) {
  return "there is no command '" + printable(word) + "'" + did_you_mean(word, commands) +
         "; commands: " + listed(commands);
}

std::vector<std::string> plain_words(const std::vector<std::string>& arguments) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--format") {
      ++i;
    } else if (!arguments[i].empty() && !arguments[i].starts_with("-")) {
      words.push_back(arguments[i]);
    }
  }
  return words;
}

std::string wrong_with(const CLI::App& app, const CLI::ParseError& error,
                       const std::vector<std::string>& arguments) {
  if (!app.get_subcommands().empty()) {
    const CLI::App& command = *app.get_subcommands().front();
    const std::string& name = command.get_name();
    return name + ": " + wrong_with(app, command, error, arguments) + "; `lanescope help " + name +
           "` has its options";
  }
  const std::vector<std::string> commands = names_of(commands_of(app));
  const std::string option = unknown_option(app, arguments);
  if (!option.empty()) {
    return "there is no option " + printable(option) + near_option(app, option) +
           "; `lanescope help` has those of all commands, which stand before or behind one";
  }
  const std::vector<std::string> words = plain_words(arguments);
  if (!words.empty()) return no_command(words.front(), commands);
  if (dynamic_cast<const CLI::RequiredError*>(&error)) {
    return "which command? There is: " + listed(commands) + "; `lanescope help` says what they do";
  }
  return std::string(error.what()) + "; `lanescope help` has the options";
}

}  // namespace lanescope
