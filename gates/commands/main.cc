#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <string_view>

#include "debug/report/suggested_command.h"
#include "debug/text/json.h"
#include "debug/text/progress.h"
#include "gates/build/ninja.h"
#include "gates/commands/command_line.h"
#include "gates/commands/log.h"
#include "gates/commands/whole_program.h"

namespace {

using namespace lanescope;

Style terminal_style() {
  Style style;
  style.colour = isatty(STDOUT_FILENO) && !std::getenv("NO_COLOR");
  winsize window{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0) {
    style.width = window.ws_col;
    style.height = window.ws_row;
  }
  return style;
}

/// Whether what goes to stderr can be drawn over.
bool terminal_draws_lines() {
  const char* kind = std::getenv("TERM");
  return isatty(STDERR_FILENO) && kind && std::string_view(kind) != "dumb";
}

void set_up_build(bool quiet) {
  if (quiet) build_quietly();
  Progress::show(!quiet && terminal_draws_lines());
}

ExitCode run(const Request& request) {
  log::set_up(request.verbose, request.quiet);
  set_up_build(request.quiet);
  const ExitCode code = request.action({request.json, terminal_style()});
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    throw EnvironmentError(
        "the result could not be written to stdout: is the disk full, or does nobody "
        "read it?");
  }
  dup2(STDERR_FILENO, STDOUT_FILENO);  // what a module prints at its end is no result
  return code;
}

/// Says what went wrong, and returns the exit code.
int fail(ExitCode code, const std::string& text, bool json) {
  log::error(text);
  const int number = static_cast<int>(code);
  if (json) {
    const Json error = {{"error", {{"code", number}, {"message", text}}}};
    std::puts(document_text(error).c_str());
  }
  return number;
}

/// A file is mapped while it is read (map_file): of one that becomes shorter meanwhile, the rest is
/// not there. Nothing but this is safe in a handler.
void say_file_shrank(int) {
  constexpr std::string_view words =
      "error: a file became shorter while it was read: is something writing it? Try again\n";
  const ssize_t written = ::write(STDERR_FILENO, words.data(), words.size());
  ::_exit(static_cast<int>(written < 0 ? ExitCode::environment : ExitCode::usage));
}

}  // namespace

int main(int argc, char** argv) {
  set_program(argc > 0 ? argv[0] : "lanescope",
              std::filesystem::read_symlink("/proc/self/exe").native());
  signal(SIGXFSZ, SIG_IGN);  // a write beyond `ulimit -f` fails, and that is said
  signal(SIGBUS, say_file_shrank);
  bool json = asks_for_json(argc, argv);
  try {
    if (needs_whole_program(argc, argv)) {
      set_up_build(std::any_of(argv, argv + argc, [](const std::string_view word) {
        return word == "-q" || word == "--quiet";
      }));
      become_whole_program(argv);
    }
    return read_command_line(argc, argv, commands(), [&](const Request& request) {
      json = request.json;  // some of the arguments may be those of the program that `exec` runs
      return run(request);
    });
  } catch (const Error& error) {
    return fail(error.code(), error.what(), json);
  } catch (const std::bad_alloc&) {
    return fail(ExitCode::environment,
                "out of memory: take a smaller --shape, or narrow the trace with --where", json);
  } catch (const std::exception& error) {
    return fail(ExitCode::environment, std::string("unexpected: ") + error.what(), json);
  }
}
