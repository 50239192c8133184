#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "debug/dump/dump.h"
#include "debug/judge/verdict_change.h"
#include "debug/text/json.h"
#include "gates/build/compile_errors.h"
#include "gates/build/module_catalogue.h"
#include "gates/build/module_file.h"
#include "gates/build/source_watch.h"
#include "gates/build/this_build.h"
#include "gates/commands/command.h"
#include "gates/commands/log.h"
#include "gates/commands/shared_options.h"
#include "gates/module/launch_description.h"
#include "gates/process/program.h"

namespace lanescope {
namespace {

namespace fs = std::filesystem;

struct WatchOptions {
  RunOptions run;
  std::vector<std::string> arguments;  ///< of the `diff --format json` that is run each time
};
/// A file descriptor that becomes readable when the user wants to end: Ctrl-C, or a signal.
int stop_descriptor() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, signal);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  const int descriptor = signalfd(-1, &signals, SFD_CLOEXEC);
  if (descriptor < 0) throw EnvironmentError("cannot wait for signals");
  return descriptor;
}

/// Sources of the program that are in no module: the launcher's ninja builds it again.
std::vector<fs::path> program_sources(const std::vector<fs::path>& of_module) {
  std::vector<fs::path> sources;
  for (const char* folder : {"debug", "gates", "reference"}) {
    std::error_code error;
    for (fs::recursive_directory_iterator it(fs::path(this_build::source_root()) / folder, error),
         end;
         !error && it != end; it.increment(error)) {
      const fs::path& path = it->path();
      if (path.extension() != ".cc" && path.extension() != ".h") continue;
      if (std::find(of_module.begin(), of_module.end(), path) == of_module.end()) {
        sources.push_back(path);
      }
    }
  }
  std::sort(sources.begin(), sources.end());
  return sources;
}

std::string name_below_root(const fs::path& file) {
  const fs::path below = file.lexically_relative(this_build::source_root());
  return below.empty() || below.native().starts_with("..") ? file.string() : below.string();
}

class Watch {
 public:
  Watch(const WatchOptions& options, const Output& output)
      : output_(output), stop_(stop_descriptor()) {
    const char* ninja = std::getenv("LANESCOPE_NINJA");
    if (ninja != nullptr) ninja_ = ninja;
    diff_ = {fs::read_symlink("/proc/self/exe").string()};
    diff_.insert(diff_.end(), options.arguments.begin(), options.arguments.end());
    const RunOptions& run = options.run;
    if (is_module_path(run.kernel)) {
      sources_ = {fs::absolute(run.kernel)};
      if (is_ptx_path(run.kernel)) sources_.push_back(launch_description_path(sources_[0]));
      return;
    }
    demand_kernel(run.kernel);
    sources_ = sources_of(run.specimen.empty() ? run.kernel : run.kernel + "+" + run.specimen);
    program_ = program_sources(sources_);
  }
  ~Watch() { ::close(stop_); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  ExitCode follow() {
    std::vector<fs::path> files = sources_;
    files.insert(files.end(), program_.begin(), program_.end());
    SourceWatch watch(files);
    if (ninja_.empty()) {
      log::warn("not run by the launcher ./lanescope: nothing is built, only run again");
    }
    ExitCode code = run({});
    if (code != ExitCode::ok) return code;  // what no edit of a source will mend
    while (!stopped_) {
      const std::vector<fs::path> changed = watch.wait(stop_);
      if (changed.empty()) break;
      run(changed);
    }
    return ExitCode::ok;
  }

 private:
  void say(const std::string& text) {
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }

  /// Builds and diffs once, and says what came of it. Not ok: the run itself is impossible.
  ExitCode run(const std::vector<fs::path>& changed) {
    Json names = Json::array();
    for (const fs::path& file : changed) names.push_back(name_below_root(file));
    ++runs_;
    if (!output_.json) {
      std::string text = "run " + std::to_string(runs_) + ":";
      if (changed.empty()) text += " " + std::to_string(sources_.size()) + " sources";
      for (const Json& name : names) text += " " + name.text();
      say(coloured(text, Colour::bold, output_.style) + "\n");
    }
    const auto begin = std::chrono::steady_clock::now();
    std::string error = rebuild_program(changed);
    Json report;
    if (error.empty() && !stopped_) {
      const ProgramOutcome outcome = run_program(diff_, stop_);
      stopped_ |= outcome.stopped;
      if (stopped_) return ExitCode::ok;
      report = Json::parse(outcome.out).value_or(nullptr);
      if (!report.is_object() || report.contains("error")) {
        report = nullptr;
        error = words_of(outcome);
        const bool usage = outcome.code >= 0 && compile_errors(outcome.err).empty();
        if (runs_ == 1 && usage && outcome.code > 1) {
          std::fputs(error.c_str(), stderr);
          return static_cast<ExitCode>(outcome.code);
        }
      }
    }
    if (stopped_) return ExitCode::ok;
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    tell(names, report, error, seconds.count());
    if (!report.is_null()) last_ = report;
    return ExitCode::ok;
  }

  /// The compiler's words where the program does not build.
  std::string rebuild_program(const std::vector<fs::path>& changed) {
    const auto ours = std::find_if(changed.begin(), changed.end(), [&](const fs::path& file) {
      const std::string name = name_below_root(file);
      return name.starts_with("debug/") || name.starts_with("gates/") ||
             name.starts_with("reference/");
    });
    if (ours == changed.end()) return {};
    const std::string name = name_below_root(*ours);
    if (ninja_.empty()) {
      log::warn(name + " may be part of lanescope itself: build it again, ninja -C " +
                this_build::build_root() + " gates/lanescope");
      return {};
    }
    const ProgramOutcome built =
        run_program({ninja_, "-C", this_build::build_root(), "gates/lanescope"}, stop_);
    stopped_ |= built.stopped;
    if (stopped_) return {};
    if (built.code != 0) return "lanescope itself does not build\n" + words_of(built);
    if (built.out.find("no work to do") == built.out.npos) {
      log::info(name + " is part of lanescope itself, which was built again");
    }
    return {};
  }

  static std::string words_of(const ProgramOutcome& outcome) {
    std::string errors = compile_errors(outcome.out + outcome.err);
    if (!errors.empty()) return errors;
    errors = outcome.err;
    if (outcome.code < 0) errors += std::string("ended by ") + strsignal(outcome.signal) + "\n";
    return errors.empty() ? "it said nothing\n" : errors;
  }

  void tell(const Json& changed, const Json& report, const std::string& error, double seconds) {
    if (output_.json) {
      Json line = {{"run", runs_}, {"changed", changed}};
      line.update(report.is_null() ? Json{{"verdict", "error"}, {"error", error}}
                                   : verdict_change(last_, report));
      say(document_text(line, -1) + "\n");
      return;
    }
    char time[32];
    std::snprintf(time, sizeof time, "  (%.1f s)\n", seconds);
    std::string text = report.is_null() ? error + coloured("no verdict", Colour::red, output_.style)
                                        : change_text(verdict_change(last_, report), output_.style);
    if (text.ends_with('\n')) text.pop_back();
    say(text + time);
  }

  const Output& output_;
  std::vector<std::string> diff_;  ///< the command that is run again and again
  std::vector<fs::path> sources_, program_;
  std::string ninja_;  ///< empty: nothing is built
  Json last_;          ///< of the last run that came to a verdict
  int stop_, runs_ = 0;
  bool stopped_ = false;
};

/// The arguments of a `watch` as those of the `diff` that it runs.
std::vector<std::string> diff_arguments(std::vector<std::string> arguments) {
  *std::find(arguments.begin(), arguments.end(), "watch") = "diff";
  arguments.insert(arguments.end(), {"--format", "json"});
  return arguments;
}

}  // namespace

Action watch_command(Options& options) {
  const auto watch = std::make_shared<WatchOptions>();
  add_kernel(options, watch->run.kernel);
  add_gate(options, watch->run.gate).required();
  add_run_options(options, watch->run);
  return [watch, &options](const Output& output) {
    watch->arguments = diff_arguments(options.arguments());
    return Watch(*watch, output).follow();
  };
}

/// Runs `diff` now and whenever a source has been saved, and says what changed; until Ctrl-C.
}  // namespace lanescope
