#include "debug/ptx/exec_session.h"

#include <cxxabi.h>
#include <fcntl.h>
#include <link.h>
#include <unistd.h>

#include <bit>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "debug/ptx/notes.h"
#include "debug/ptx/slice.h"
#include "debug/report/launch_report.h"
#include "debug/simt/checker.h"
#include "reference/error.h"
#include "reference/marker_words.h"

namespace lanescope::ptx {

namespace {

std::vector<std::string> notes_of(const Grid& grid, const Program& program, bool clean) {
  std::vector<std::string> notes;
  const auto take = [&](const std::vector<std::string>& more) {
    notes.insert(notes.end(), more.begin(), more.end());
  };
  if (grid.numbers) take(number_notes(*grid.numbers, program));
  // By themselves they are no fault: they say more of one, or are asked for.
  if (grid.tally && (!clean || grid.tallies_accesses)) take(wait_notes(*grid.tally, program));
  if (grid.tally && grid.tallies_accesses) take(access_notes(*grid.tally, program));
  if (grid.slice && !grid.slice->found.lines.empty()) {
    notes.push_back("what " + grid.slice->name + " came through, in block " +
                    std::to_string(grid.slice->found.block) + ", the last first:");
    for (const std::string& note : slice_notes(grid.slice->found)) notes.push_back("  " + note);
  }
  return notes;
}

/// "libcublas.so.13, libcudnn.so.9": those of CUDA's libraries that this process has loaded whose
/// kernels are machine code, which no CPU runs.
std::string libraries_of_kernels() {
  std::string names;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* list) {
        auto& text = *static_cast<std::string*>(list);
        const std::string name = std::filesystem::path(info->dlpi_name).filename();
        for (const char* known : {"libcublas.so", "libcudnn.so", "libcufft.so", "libcurand.so",
                                  "libcusolver.so", "libcusparse.so", "libnccl.so"}) {
          if (name.starts_with(known)) text += (text.empty() ? "" : ", ") + name;
        }
        return 0;
      },
      &names);
  return names;
}

}  // namespace

std::string readable_name(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), std::free);
  if (!text) return name;
  std::string whole = text.get();
  if (whole.starts_with("void ")) whole.erase(0, 5);
  int depth = 0;  // of template arguments
  for (std::size_t i = 0; i < whole.size(); ++i) {
    depth += whole[i] == '<' ? 1 : whole[i] == '>' ? -1 : 0;
    const bool is_anonymous = whole.compare(i, 21, "(anonymous namespace)") == 0;
    if (is_anonymous) i += 20;
    if (whole[i] == '(' && depth == 0 && !is_anonymous) return whole.substr(0, i);
  }
  return whole;
}

std::optional<ExecWish> ExecWish::parse(const std::string& text) {
  ExecWish wish;
  std::istringstream in(text);
  std::string rules;
  if (!(in >> wish.workers >> wish.schedule >> wish.timeout_seconds >> rules >> wish.speaks >>
        wish.accesses >> wish.slice_of >> wish.slice_offset >> wish.slice_bytes)) {
    return std::nullopt;
  }
  for (const simt::RuleSet& known : simt::rule_sets) {
    if (rules == known.name) wish.rules = &known;
  }
  in.ignore();
  std::getline(in, wish.file);
  return wish;
}

std::optional<ExecSession> ExecSession::open() {
  const char* text = std::getenv(exec_variable);
  std::optional<ExecWish> wish = text ? ExecWish::parse(text) : std::nullopt;
  if (!wish) return std::nullopt;
  const std::string libraries = libraries_of_kernels();
  if (wish->speaks && !libraries.empty()) {
    std::fprintf(
        stderr,
        "lanescope: %s: libraries whose kernels are machine code do not run here; what the "
        "program asks of them fails\n",
        libraries.c_str());
  }
  return ExecSession(*std::move(wish));
}

RunSettings ExecSession::settings() const {
  return {wish_.workers, wish_.schedule, nullptr, wish_.rules->tensor_core, wish_.timeout_seconds};
}

std::string ExecSession::marked_ptx() {
  std::error_code error;
  std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error || !std::filesystem::is_regular_file(path.replace_extension(".ptx"), error)) return {};
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.find("// " + std::string(marker_word)) != line.npos) return path;
  }
  return {};
}

/// Opened for each line, since the program may close what it did not open.
void ExecSession::write(ExecEvent event, const std::string& text) {
  const int file = ::open(wish_.file.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (file < 0) return;
  const std::string line = static_cast<char>(event) + text + '\n';
  [[maybe_unused]] const ssize_t written = ::write(file, line.data(), line.size());
  ::close(file);
}

std::optional<SliceWish> ExecSession::slice_in(GlobalMemory& memory) const {
  if (wish_.slice_of == 0) return std::nullopt;
  const std::string name = "allocation " + std::to_string(wish_.slice_of);
  for (const auto& [begin, area] : memory.areas()) {
    if (area.allocation != wish_.slice_of || area.freed) continue;
    if (!area.holds(begin + wish_.slice_offset, wish_.slice_bytes)) {
      throw UsageError("--slice: " + name + " has " + std::to_string(area.bytes()) + " bytes");
    }
    SliceWish wish;
    wish.begin = std::bit_cast<const std::byte*>(begin + wish_.slice_offset);
    wish.bytes = wish_.slice_bytes;
    wish.name = name + ", byte " + std::to_string(wish_.slice_offset);
    return wish;
  }
  return std::nullopt;
}

void ExecSession::note_work(const Work& work) {
  write(ExecEvent::work,
        std::to_string(work.instructions) + " " + std::to_string(work.cpu_seconds));
}

void ExecSession::note_launch(const std::string& kernel, const Grid& grid,
                              const simt::Checker& checker, const Program* program,
                              const std::string& fault, bool refused) {
  LaunchReport report;
  report.number = ++launches_;
  report.blocks = grid.blocks;
  report.threads = grid.threads;
  report.dynamic_shared = grid.dynamic_shared;
  report.found.kernel = readable_name(kernel);
  report.found.fault = fault;
  describe_findings(
      checker, [](std::int64_t) { return std::nullopt; }, report.found);
  report.notes = report.found.notes;
  if (program) {
    const std::vector<std::string> more = notes_of(grid, *program, report.clean());
    report.notes.insert(report.notes.end(), more.begin(), more.end());
  }
  if (report.clean()) {
    const bool finite = !program || !grid.numbers || number_notes(*grid.numbers, *program).empty();
    write(finite ? ExecEvent::clean : ExecEvent::infinite, {});
  } else {
    write(refused ? ExecEvent::refused : ExecEvent::finding, launch_json(report));
  }
  const std::string text = wish_.speaks ? launch_text(report, told_) : "";
  if (text.empty()) return;
  std::fflush(stdout);
  std::fputs(("lanescope: " + text).c_str(), stderr);
}

}  // namespace lanescope::ptx
