#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "debug/judge/verdict_change.h"
#include "debug/text/json.h"
#include "gates/build/compile_errors.h"
#include "gates/build/source_watch.h"
#include "gates/process/program.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"

namespace lanescope {
namespace {

using Catch::Matchers::ContainsSubstring;
using testing::write_bytes;

/// A descriptor that becomes readable when `stop` is called.
struct StopPipe {
  int ends[2];
  StopPipe() { REQUIRE(pipe(ends) == 0); }
  StopPipe(const StopPipe&) = delete;
  StopPipe& operator=(const StopPipe&) = delete;
  ~StopPipe() { close(ends[0]), close(ends[1]); }
  void stop() const { REQUIRE(write(ends[1], "x", 1) == 1); }
};

TEST_CASE("watch: a file that is rewritten, replaced or saved several times is one change") {
  const testing::TemporaryFolder folder;
  const auto a = folder / "a.h", b = folder / "b.h", other = folder / "other.h";
  write_bytes(a, "1");
  write_bytes(b, "1");
  SourceWatch watch({a, b});
  const StopPipe stop;
  using Paths = std::vector<std::filesystem::path>;

  std::ofstream(a) << "in place";
  CHECK(watch.wait(stop.ends[0]) == Paths{a});
  std::thread saves([&] {
    for (int i = 0; i < 5; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      write_bytes(other, "new " + std::to_string(i));
      std::filesystem::rename(other, i % 2 ? a : b);
    }
  });
  CHECK(watch.wait(stop.ends[0]) == Paths{a, b});
  saves.join();
  write_bytes(other, "not followed");
  write_bytes(a, "new 3");  // as it was
  stop.stop();
  CHECK(watch.wait(stop.ends[0]).empty());
}

TEST_CASE("watch: a program's words, codes and end") {
  const StopPipe stop;
  const ProgramOutcome outcome =
      run_program({"sh", "-c", "echo out; echo err >&2; exit 3"}, stop.ends[0]);
  CHECK(outcome.code == 3);
  CHECK(outcome.out == "out\n");
  CHECK(outcome.err == "err\n");
  CHECK(run_program({"sh", "-c", "kill -SEGV $$"}, stop.ends[0]).signal == SIGSEGV);
  CHECK_THROWS_AS(run_program({"no-such-program-at-all"}, stop.ends[0]), EnvironmentError);

  stop.stop();
  const auto begin = std::chrono::steady_clock::now();
  CHECK(run_program({"sh", "-c", "trap '' INT; sleep 100 & sleep 100"}, stop.ends[0]).stopped);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(30));
}

TEST_CASE("watch: of what a build says, the errors and their places") {
  CHECK(compile_errors("[1/2] Compiling\nfile.h:1:2: error: as a word of the program\n").empty());
  const std::string gcc =
      "FAILED: gates/x.o\ng++ -I.. -c x\nIn file included from ../gates/module_sim.cc:1:\n"
      "../kernels/mma.h:7:3: error: 'foo' was not declared\n    7 |   foo\n      |   ^~~\n"
      "../kernels/mma.h:8:1: note: suggested alternative\n";
  CHECK(compile_errors(gcc) ==
        "kernels/mma.h:7:3: error: 'foo' was not declared\n    7 |   foo\n      |   ^~~\n");
  CHECK(
      compile_errors(
          "FAILED: x\n\x1b[01m\x1b[Ka.h:1:2:\x1b[m\x1b[K \x1b[01;31m\x1b[Kerror: \x1b[m\x1b[Kno\n")
          .ends_with("a.h:1:2: error: no\n"));
  std::string many = gcc;
  for (int i = 0; i < 4; ++i) many += "../kernels/mma.h:9:1: error: more\n";
  CHECK_THAT(compile_errors(many), ContainsSubstring("more\nand 2 more errors\n"));
  CHECK_THAT(
      compile_errors("FAILED: x.so\nnvcc ...\nkernels/mma.h(12): error: identifier \"foo\"\n"),
      ContainsSubstring("mma.h:12: error: identifier \"foo\"\n"));
  CHECK_THAT(compile_errors("FAILED: x.so\nsomething else went wrong\n"),
             ContainsSubstring("something else went wrong"));
}

Json report_of(std::int64_t m_failed, std::int64_t p_failed) {
  const auto site = [](const char* name, std::int64_t failed) {
    return Json{{"site", name},
                {"stage", "softmax"},
                {"judgement", "local"},
                {"compared", 64},
                {"failed", failed}};
  };
  Json first;
  if (m_failed + p_failed > 0) {
    first = {{"stage", "softmax"},
             {"site", m_failed > 0 ? "m" : "p"},
             {"judgement", "local"},
             {"tile", 1},
             {"block", 0},
             {"warp", nullptr},
             {"lane", nullptr},
             {"reg", nullptr},
             {"row", 3},
             {"col", 0}};
  }
  return {{"verdict", first.is_null() ? "match" : "diverged"},
          {"first", first},
          {"sites", {site("m", m_failed), site("p", p_failed)}},
          {"warnings", Json::array()}};
}

TEST_CASE("watch: what changed from one verdict to the next", "[quick]") {
  const auto text = [](const Json& before, const Json& now) {
    return change_text(verdict_change(before, now), {});
  };
  CHECK(text(nullptr, report_of(0, 0)) == "match\n");
  CHECK(text(report_of(0, 0), report_of(5, 0)) ==
        "  newly wrong  softmax / m  local  5 of 64, was 0\n"
        "diverged: softmax / m (local), tile 1, block 0, row 3, column 0\n");
  CHECK(text(report_of(5, 7), report_of(0, 7)) ==
        "  newly right  softmax / m  local  0 of 64, was 5\n"
        "  still wrong  softmax / p  local  7 of 64\n"
        "  first divergence moved from softmax / m (local), tile 1, block 0, row 3, column 0 to "
        "softmax / p (local), tile 1, block 0, row 3, column 0\n"
        "diverged: softmax / p (local), tile 1, block 0, row 3, column 0\n");
  CHECK_THAT(text(report_of(5, 0), report_of(0, 0)), ContainsSubstring(" to nothing\nmatch\n"));
  Json unsettled = report_of(0, 0);
  unsettled["verdict"] = "unsettled";
  CHECK(text(report_of(0, 0), unsettled) == "unsettled\n");
  CHECK_THROWS_AS(text(nullptr, Json{{"verdict", 1}}), Error);  // of a program of another version
}

}  // namespace
}  // namespace lanescope
