#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "debug/ptx/exec_wish.h"
#include "debug/ptx/runtime_entry.h"
#include "debug/text/json.h"
#include "debug/text/text.h"
#include "gates/build/module_build.h"
#include "gates/commands/command.h"
#include "gates/commands/log.h"
#include "gates/commands/shared_options.h"
#include "gates/process/child.h"

extern char** environ;

namespace lanescope {
namespace {

struct Execution {
  std::vector<std::string> words;  ///< the program and its arguments
  int threads = 0;
  std::uint64_t schedule = 0;
  std::string arch;
  std::optional<double> timeout_seconds;
  bool accesses = false;
  std::string slice;  ///< ALLOCATION+BYTE[:BYTES]
};

/// "3+128:2": 2 bytes from byte 128 of the third allocation on. Throws UsageError.
void read_slice(const std::string& text, ptx::ExecWish& wish) {
  unsigned long long of = 0, offset = 0, bytes = 4;
  int end = 0;
  const char* at = text.c_str();
  bool whole = std::sscanf(at, "%llu+%llu%n", &of, &offset, &end) == 2;
  if (whole && at[end] == ':') {
    int more = 0;
    whole = std::sscanf(at + end, ":%llu%n", &bytes, &more) == 1;
    end += more;
  }
  constexpr unsigned long long most_bytes = 4096;
  if (!whole || at[end] != '\0' || of == 0 || bytes == 0 || bytes > most_bytes) {
    throw UsageError(
        "--slice takes ALLOCATION+BYTE or ALLOCATION+BYTE:BYTES, like 3+128:2, and "
        "at most 4096 bytes, not " +
        printable(text));
  }
  wish.slice_of = static_cast<std::int64_t>(of);
  wish.slice_offset = offset;
  wish.slice_bytes = bytes;
}

/// What the machine's runtime wrote into the file of the session.
struct Tally {
  bool has_modules = false, refused = false;
  int launches = 0;
  int infinite = 0;  ///< launches that made a NaN or stored an infinity, and no more was found
  ptx::Work work;
  std::vector<std::string> findings;  ///< launches in which something was found, as JSON
};

Tally read_tally(const std::string& path) {
  Tally tally;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.empty()) continue;
    const auto event = static_cast<ptx::ExecEvent>(line[0]);
    if (event == ptx::ExecEvent::module) {
      tally.has_modules = true;
      continue;
    }
    if (event == ptx::ExecEvent::work) {
      std::istringstream(line.substr(1)) >> tally.work.instructions >> tally.work.cpu_seconds;
      continue;
    }
    ++tally.launches;
    tally.infinite += event == ptx::ExecEvent::infinite;
    if (event == ptx::ExecEvent::clean || event == ptx::ExecEvent::infinite) continue;
    tally.refused = tally.refused || event == ptx::ExecEvent::refused;
    tally.findings.push_back(line.substr(1));
  }
  return tally;
}

/// Throws UsageError where posix_spawnp will not find the program: before its runtime is built,
/// which takes long.
void demand_program(const std::string& name) {
  std::vector<std::string> files;
  if (const char* path = std::getenv("PATH"); path && name.find('/') == name.npos) {
    std::istringstream folders(path);
    for (std::string folder; std::getline(folders, folder, ':');)
      files.push_back(folder + "/" + name);
  } else {
    files = {name};
  }
  errno = ENOENT;
  for (const std::string& file : files) {
    if (access(file.c_str(), X_OK) == 0) return;
  }
  throw UsageError("cannot start " + name + ": " + std::strerror(errno));
}

/// A file under a name that LD_PRELOAD takes, which has blanks and colons between its names:
/// `path`, or where it holds one, the file as this process has it open.
class Preloaded {
 public:
  explicit Preloaded(const std::string& path) : name_(path) {
    if (path.find_first_of(" \t\n:") == path.npos) return;
    file_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file_ < 0) throw EnvironmentError("cannot open " + path + ": " + std::strerror(errno));
    name_ = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(file_);
  }
  Preloaded(const Preloaded&) = delete;
  Preloaded& operator=(const Preloaded&) = delete;
  ~Preloaded() {
    if (file_ >= 0) close(file_);
  }
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  int file_ = -1;
};

/// The library, and the driver's beside it, go before all others, so that neither a path in the
/// program nor CUDA's own hides it. Returns the status that waitpid gives.
int run_to_end(const std::vector<std::string>& words, const std::string& library,
               const std::string& wish) {
  std::vector<std::string> variables = {std::string(ptx::exec_variable) + "=" + wish};
  const Preloaded runtime(library);
  const Preloaded driver(std::filesystem::path(library).replace_filename(ptx::driver_library));
  std::string preload = "LD_PRELOAD=" + runtime.name() + ":" + driver.name();
  for (char** variable = environ; *variable; ++variable) {
    const std::string text = *variable;
    if (text.starts_with("LD_PRELOAD=")) {
      preload += ":" + text.substr(std::strlen("LD_PRELOAD="));
    } else {
      variables.push_back(text);
    }
  }
  variables.push_back(preload);
  const auto pointers = [](const std::vector<std::string>& texts) {
    std::vector<char*> list;
    for (const std::string& text : texts) list.push_back(const_cast<char*>(text.c_str()));
    list.push_back(nullptr);
    return list;
  };
  pid_t child = 0;
  const int error = posix_spawnp(&child, words[0].c_str(), nullptr, nullptr, pointers(words).data(),
                                 pointers(variables).data());
  if (error != 0) throw UsageError("cannot start " + words[0] + ": " + std::strerror(error));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

/// How the program ended, for people.
std::string end_of(int status) {
  if (WIFSIGNALED(status)) return "the program was ended by " + signal_text(WTERMSIG(status));
  return "the program's exit code: " + std::to_string(WEXITSTATUS(status));
}

/// ", 1.23 M warp instructions in 0.5 CPU-s"
std::string work_text(const ptx::Work& work) {
  if (work.instructions == 0) return "";
  char text[80];
  std::snprintf(text, sizeof text, "; %.3g M warp instructions in %.3g CPU-s",
                static_cast<double>(work.instructions) * 1e-6, work.cpu_seconds);
  return text;
}

std::string summary_of(const Tally& tally, int status) {
  std::string text = std::to_string(tally.launches) +
                     (tally.launches == 1 ? " launch" : " launches") + " checked, ";
  const std::string clean =
      tally.infinite > 0 ? "nothing found but numbers that are not finite" : "nothing found";
  text += tally.findings.empty() ? clean : std::to_string(tally.findings.size()) + " with findings";
  return text + "; " + end_of(status) + work_text(tally.work);
}

/// Of a program that ended by a signal what shells say.
int own_code(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

ExitCode execute(const Execution& wish, const Output& output) {
  demand_program(wish.words[0]);
  ptx::ExecWish session;
  if (!wish.slice.empty()) read_slice(wish.slice, session);
  const std::string library = build_machine_runtime().string();
  const int file = memfd_create("exec", MFD_CLOEXEC);
  if (file < 0) throw EnvironmentError("no memory for what is found");
  const std::string path = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(file);
  session.workers = wish.threads;
  session.schedule = wish.schedule;
  if (wish.timeout_seconds) session.timeout_seconds = *wish.timeout_seconds;
  if (!wish.arch.empty()) session.rules = &parse_rules(wish.arch);
  session.speaks = !output.json;
  session.accesses = wish.accesses;
  session.file = path;
  const int status = run_to_end(wish.words, library, session.text());
  const Tally tally = read_tally(path);
  close(file);
  if (!tally.has_modules) {
    log::warn(wish.words[0] +
              " had no CUDA module: nothing was checked. Build it with nvcc -cudart shared, whose "
              "default is to link the runtime in, and with PTX (-arch=compute_90); " +
              end_of(status));
  }
  if (output.json) {
    std::string text = "[";
    for (const std::string& launch : tally.findings) text += (text == "[" ? "" : ",") + launch;
    std::fprintf(stderr, "{\"schema\":%d,\"launches\":%s]}\n", json_schema, text.c_str());
  } else if (tally.has_modules) {
    log::info(summary_of(tally, status));
  }
  if (tally.refused || !tally.has_modules) return ExitCode::usage;
  return tally.findings.empty() ? static_cast<ExitCode>(own_code(status)) : ExitCode::diverged;
}

}  // namespace

Action exec_command(Options& options) {
  const auto wish = std::make_shared<Execution>();
  options.add_command("program", wish->words, "the program and its arguments");
  add_threads(options, wish->threads);
  add_machine_options(options, wish->arch, wish->schedule);
  options
      .add("--timeout", wish->timeout_seconds, "seconds that a kernel may take to end a block [30]")
      .between(0.1, 1e6);
  options.add_flag("--accesses", wish->accesses,
                   "tell of bank conflicts, uncoalesced accesses and dead waits, line by line");
  options.add("--slice", wish->slice,
              "ALLOCATION+BYTE[:BYTES]: tell what these bytes of the n-th allocation came through");
  return [wish](const Output& output) { return execute(*wish, output); };
}

}  // namespace lanescope
