#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "debug/text/json.h"
#include "gates/commands/options.h"

// What options.cc, command_line.cc and its help and errors share: all that knows CLI11.

namespace lanescope {

std::vector<const CLI::App*> commands_of(const CLI::App& app);
std::vector<std::string> names_of(const std::vector<const CLI::App*>& commands);
/// All options of a command, in the order of its help: those without a name first.
std::vector<const CLI::Option*> options_of(const CLI::App& command);
/// "-o" and "--output".
std::vector<std::string> names_of(const CLI::Option& option);

/// That `word` is none of `commands`.
std::string no_command(const std::string& word, const std::vector<std::string>& commands);
/// What is wrong with the command line, and what there is.
std::string wrong_with(const CLI::App& app, const CLI::ParseError& error,
                       const std::vector<std::string>& arguments);

/// `command` empty: of the program. Throws UsageError where there is no such command.
std::string help_text(const CLI::App& app, const std::string& command);
std::string exit_codes_text();
Json table_of(const CLI::App& command, const Suggestions& suggestions);
/// All commands and options, for programs: {version, about, options, commands: [{command, about,
/// options: [{names, positional, takes_value, repeats, required, about, values, file_ending}]}],
/// exit_codes: [{code, meaning}]}.
Json table_of_all(const CLI::App& app, const Suggestions& suggestions);

}  // namespace lanescope
