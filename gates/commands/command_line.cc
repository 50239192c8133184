#include "gates/commands/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <deque>
#include <utility>

#include "debug/text/json.h"
#include "gates/build/this_build.h"
#include "gates/commands/parser_parts.h"

namespace lanescope {
namespace {

/// A command and what it has declared.
struct Declared {
  const char* name;
  CLI::App* parser;
  Options options;
  Action action;
};

std::deque<Declared> declare(std::span<const NamedCommand> commands,
                             const std::vector<std::string>& arguments, Suggestions& suggestions,
                             CLI::App& app) {
  std::deque<Declared> declared;  // which leaves each where it is
  for (const auto& [name, about, declare_options] : commands) {
    CLI::App* parser = app.add_subcommand(name, about);
    if (!declare_options) continue;
    Declared& own =
        declared.emplace_back(Declared{name, parser, Options(*parser, arguments, suggestions), {}});
    own.action = declare_options(own.options);
  }
  return declared;
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
  app.set_version_flag("--version", this_build::version());
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
      names_of(commands_of(app)), ""};
  app.footer(exit_codes_text());  // not of the commands, which would take it over

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    const std::vector<std::string> words = plain_words(arguments);
    const std::vector<std::string> known = names_of(commands_of(app));
    if (!words.empty() && std::find(known.begin(), known.end(), words.front()) == known.end()) {
      throw UsageError(no_command(words.front(), known));
    }
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    throw UsageError(wrong_with(app, error, arguments));
  }
  request.json = format == "json";
  for (const Declared& command : declared) {
    if (!command.parser->parsed()) continue;
    request.command = command.name;
    request.action = command.action;
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
