#include <algorithm>

#include "gates/build/this_build.h"
#include "gates/commands/parser_parts.h"
#include "reference/error.h"

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

}  // namespace

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::vector<std::string> names_of(const std::vector<const CLI::App*>& commands) {
  std::vector<std::string> names;
  for (const CLI::App* command : commands) names.push_back(command->get_name());
  return names;
}

std::vector<const CLI::Option*> options_of(const CLI::App& command) {
  std::vector<const CLI::Option*> options = command.get_options();
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

namespace {

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

}  // namespace

Json table_of(const CLI::App& command, const Suggestions& suggestions) {
  Json options = Json::array();
  for (const CLI::Option* option : options_of(command)) {
    options.push_back(table_of(*option, suggestions));
  }
  return {
      {"command", command.get_name()}, {"about", command.get_description()}, {"options", options}};
}

Json table_of_all(const CLI::App& app, const Suggestions& suggestions) {
  Json all = {{"version", this_build::version()}};
  all.update(table_of(app, suggestions));
  all["commands"] = Json::array();
  for (const CLI::App* command : commands_of(app)) {
    all["commands"].push_back(table_of(*command, suggestions));
  }
  all["exit_codes"] = Json::array();
  for (const auto& [code, meaning] : exit_codes) {
    all["exit_codes"].push_back({{"code", static_cast<int>(code)}, {"meaning", meaning}});
  }
  return all;
}

std::string help_text(const CLI::App& app, const std::string& command) {
  if (command.empty()) {
    return app.get_formatter()->make_help(&app, app.get_name(), CLI::AppFormatMode::Normal);
  }
  for (const CLI::App* known : commands_of(app)) {
    if (known->get_name() == command) return known->help(app.get_name());
  }
  throw UsageError("help: " + no_command(command, names_of(commands_of(app))));
}

std::string exit_codes_text() {
  std::string text = "Exit codes:\n";
  for (const auto& [code, meaning] : exit_codes) {
    text += "  " + std::to_string(static_cast<int>(code)) + "  " + meaning + "\n";
  }
  return text;
}

}  // namespace lanescope
