// A kernel that breaks down (tests/support/faulty_kernel.h) never takes the program down: what it
// wrote is there, with what happened to whom.

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>

#include "debug/causes/diagnose.h"
#include "debug/dump/site_slots.h"
#include "debug/judge/diff.h"
#include "debug/judge/last_sites.h"
#include "debug/report/report.h"
#include "gates/build/module_build.h"
#include "gates/process/child.h"
#include "gates/run/check.h"
#include "gates/run/run_options.h"
#include "reference/error.h"
#include "reference/parallel.h"
#include "tests/support/catch.h"
#include "tests/support/kernels.h"
#include "tests/support/verdict.h"

namespace lanescope {
namespace {

using Catch::Matchers::ContainsSubstring;

/// The faulty lane is 5 of warp 1 of block 1, at m of tile 1; there are four blocks.
PreparedRun faulty(const std::string& fault, const std::string& backend) {
  RunOptions options;
  options.kernel = build_module("../tests/faulty." + fault + "." + backend).string();
  options.gate = "fused";
  options.shape = "s=200,d=64";
  options.timeout_seconds = 2;
  return prepare(options);
}

Dump dump_of(const std::string& fault, const std::string& backend = "sim") {
  const PreparedRun run = faulty(fault, backend);
  return launch(*run.module, run.module_name, run.request);
}

bool same(const Stop& stop, Stop::Kind kind, std::int64_t block, std::int64_t warp,
          std::int64_t lane) {
  return stop.kind == kind && stop.block == block && stop.warp == warp && stop.lane == lane;
}

/// What the dump of a run that broke off in the faulty lane holds and says.
void check_what_is_left(const Dump& dump) {
  const DiffReport report = diff_against_reference(dump);
  CHECK_FALSE(report.match);
  CHECK_FALSE(report.first);  // nothing that was written is wrong
  const SiteReport* o = testing::report_of(report, SiteId::o, Judgement::chain);
  REQUIRE(o);
  CHECK(o->unwritten > 0);
  CHECK(o->compared >= o->unwritten + 64 * 64 * 4);  // all of block 0
  CHECK(o->failed == o->unwritten);
  REQUIRE(report.last_sites.size() > 1);
  const LastSite& first = report.last_sites[0];
  CHECK((first.block == 1 && first.warp == 1 && first.lane == 5));
  CHECK((first.site == SiteId::m && first.tile == 1));
  CHECK(report.last_sites[1].site == SiteId::lse);  // block 0 had ended
  const Diagnosis diagnosis = diagnose(dump, report);
  REQUIRE(diagnosis.first);
  CHECK(diagnosis.first->site == SiteId::alpha);
  CHECK(diagnosis.first->stage == Stage::softmax);
  CHECK((diagnosis.first->block == 1 && diagnosis.first->tile == 1 && diagnosis.first->lane == 5));
}

struct Breakdown {
  const char* fault;
  const char* words;
};

}  // namespace

TEST_CASE("survival: a lane that ends its process is named, and what was written is there") {
  for (const Breakdown& expected : {Breakdown{"segfault", "(SIGSEGV) at address 0x10"},
                                    {"trap", "(SIGILL)"},
                                    {"abort", "(SIGABRT)"},
                                    {"leave", "called exit(7)"},
                                    {"raise", "nobody catches: no such tile"},
                                    {"overflow_stack", "stack overflow"},
                                    {"big_frame", "stack overflow"}}) {
    INFO(expected.fault);
    const Dump dump = dump_of(expected.fault);
    CHECK_THAT(dump.info.incomplete, ContainsSubstring("block 1: lane 5 of warp 1: "));
    CHECK_THAT(dump.info.incomplete, ContainsSubstring(expected.words));
    CHECK_THAT(dump.info.incomplete, ContainsSubstring("tests/support/faulty_kernel.h:"));
    CHECK(same(dump.info.stop, Stop::Kind::crash, 1, 1, 5));
    check_what_is_left(dump);
    CHECK(diagnose(dump, diff_against_reference(dump)).cause == Cause::crash);
  }
}

TEST_CASE("survival: a process that just ends is told by its exit code") {
  const Dump dump = dump_of("leave_at_once");
  CHECK_THAT(dump.info.incomplete, ContainsSubstring("ended its process with exit code 0"));
  CHECK_THAT(dump.info.incomplete, ContainsSubstring("the last that it printed:\n"));
  CHECK_THAT(dump.info.incomplete, ContainsSubstring("  no kernel for this shape"));
  CHECK_THAT(dump.info.incomplete, ContainsSubstring("block 1: lane 5 of warp 1 was running"));
  CHECK(dump.info.stop.kind == Stop::Kind::crash);
  CHECK_FALSE(diff_against_reference(dump).match);
}

TEST_CASE("survival: a lane that never ends is stopped and named, with its line") {
  const auto begin = std::chrono::steady_clock::now();
  const Dump dump = dump_of("hang");
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  CHECK(taken.count() >= 2);
  CHECK_THAT(dump.info.incomplete, ContainsSubstring("no block ended for 2 s"));
  CHECK_THAT(dump.info.incomplete, ContainsSubstring("--timeout"));
  CHECK_THAT(dump.info.incomplete, ContainsSubstring("block 1: lane 5 of warp 1 was running, at "
                                                     "tests/support/faulty_kernel.h:"));
  CHECK(same(dump.info.stop, Stop::Kind::hang, 1, 1, 5));
  check_what_is_left(dump);
  CHECK(diagnose(dump, diff_against_reference(dump)).cause == Cause::hang);
}

TEST_CASE("survival: a lane that breaks down in the combine pass") {
  for (const auto& [fault, kind] : {std::pair{"combine_segfault", Stop::Kind::crash},
                                    std::pair{"combine_hang", Stop::Kind::hang}}) {
    INFO(fault);
    RunOptions options;
    options.kernel = build_module(std::string("../tests/faulty.") + fault + ".sim").string();
    options.gate = "fused";
    options.shape = "h=3,s=16,skv=128,d=64";
    options.splits = 2;
    options.timeout_seconds = 1;
    const PreparedRun run = prepare(options);
    const Dump dump = launch(*run.module, run.module_name, run.request);
    CHECK_THAT(dump.info.incomplete,
               ContainsSubstring("block 1 of the combine pass: lane 5 of warp 1"));
    CHECK_THAT(dump.info.incomplete, ContainsSubstring("tests/support/faulty_kernel.h:"));
    CHECK(dump.info.stop == Stop{kind, 2, 1, 5, true});
    const DiffReport report = diff_against_reference(dump);
    CHECK_FALSE(report.match);
    CHECK_FALSE(report.first);
    const auto last_of = [&](std::int64_t block) {
      return *std::find_if(report.last_sites.begin(), report.last_sites.end(),
                           [&](const LastSite& last) { return last.block == block; });
    };
    CHECK(last_of(0).site == SiteId::lse);  // of head 0, which is combined
    const std::int64_t head = 16 * 64;      // elements of o_final
    const Tensor& o = *dump.find("o_final");
    for (std::int64_t i = 0; i < head; ++i) REQUIRE_FALSE(is_unwritten(o, i));
    CHECK(last_of(1).site == SiteId::l_partial);
    CHECK(last_of(3).site == SiteId::l_partial);
    const Diagnosis diagnosis = diagnose(dump, report);
    REQUIRE(diagnosis.first);
    CHECK(diagnosis.first->stage == Stage::combine);
    CHECK(diagnosis.first->site == SiteId::o_final);
    CHECK(
        (diagnosis.first->block == 2 && diagnosis.first->warp == 1 && diagnosis.first->lane == 5));
  }
}

TEST_CASE("survival: a kernel that asks for too much memory does not starve the machine") {
  // Its process gets what is free, or what the limit of this one says: here, that the test does not
  // take all there is.
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_DATA, &before) == 0);
  const rlimit gigabyte{std::min(before.rlim_max, rlim_t{1} << 30), before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_DATA, &gigabyte) == 0);
  for (const char* fault : {"ask_too_much", "eat_all_memory"}) {
    INFO(fault);
    PreparedRun run = faulty(fault, "sim");
    run.request.timeout_seconds = 60;
    std::string words;
    try {
      launch(*run.module, run.module_name, run.request);
    } catch (const EnvironmentError& error) {
      words = error.what();
    }
    CHECK_THAT(words, ContainsSubstring("memory"));
  }
  setrlimit(RLIMIT_DATA, &before);
}

TEST_CASE("survival: a crash under the memory checker") {
  RunOptions options;
  options.kernel = build_module("../tests/faulty.abort.sim.checked").string();
  options.shape = "s=200,d=64";
  options.gate = "fused";
  const CheckReport report = check_kernel(options);
  CHECK(report.stop == Stop::Kind::crash);
  CHECK_THAT(report.fault, ContainsSubstring("block 1: lane 5 of warp 1: Aborted (SIGABRT)"));
  CHECK_FALSE(report.clean());
  CHECK_THAT(check_text(report, {}), ContainsSubstring("crash: block 1: lane 5 of warp 1"));
  CHECK_THAT(check_json(report), ContainsSubstring(R"("kind": "crash")"));
  CHECK(diagnose(report).cause == Cause::crash);
}

TEST_CASE("survival: two runs that crash leave the same words and the same bytes") {
  PreparedRun run = faulty("segfault", "sim");
  run.request.threads = 1;
  const Dump a = launch(*run.module, run.module_name, run.request);
  const Dump b = launch(*run.module, run.module_name, run.request);
  CHECK(a.info.incomplete == b.info.incomplete);
  CHECK(same_bits(diff_dumps(a, b)));
  run.request.threads = 4;
  const Dump c = launch(*run.module, run.module_name, run.request);
  CHECK(a.info.incomplete == c.info.incomplete);
}

TEST_CASE("survival: a child that dies or hangs is no more") {
  Child dies([](int) { std::abort(); });
  CHECK(dies.listen(10) == Child::Heard::end);
  CHECK(dies.end() != 0);
  Child hangs([](int) {
    for (;;) pause();
  });
  CHECK(hangs.listen(0.05) == Child::Heard::nothing);
  CHECK(hangs.end() != 0);
}

namespace {

/// Block 1 faults: what block 0 wrote, and m of tile 1 of the faulty warp's neighbours, is there.
void check_cuda(const char* fault, Stop::Kind kind, const char* words) {
  testing::on_backend("cuda", [&] {
    PreparedRun run = faulty(fault, "cuda");
    run.request.timeout_seconds = 10;  // a context takes its time
    const Dump dump = launch(*run.module, run.module_name, run.request);
    INFO(dump.info.incomplete);
    CHECK_THAT(dump.info.incomplete, ContainsSubstring(words));
    CHECK(dump.info.stop.kind == kind);
    const DiffReport report = diff_against_reference(dump);
    CHECK_FALSE(report.match);
    CHECK_FALSE(report.first);
    const SiteReport* m = testing::report_of(report, SiteId::m, Judgement::chain);
    REQUIRE(m);
    CHECK(m->unwritten < m->compared);  // something was kept
    // The process that faulted is replaced: the next run is right.
    RunOptions clean;
    clean.kernel = "scalar";
    clean.gate = "fused";
    clean.backend = "cuda";
    const PreparedRun next = prepare(clean);
    CHECK(diff_against_reference(launch(*next.module, next.module_name, next.request)).match);
  });
}

}  // namespace

TEST_CASE("survival: an illegal address on cuda") {
  check_cuda("segfault", Stop::Kind::crash, "illegal memory access");
}

TEST_CASE("survival: a trap on cuda") {
  check_cuda("trap", Stop::Kind::crash, "cudaErrorLaunchFailure");
}

TEST_CASE("survival: a kernel that never ends on cuda") {
  check_cuda("hang", Stop::Kind::hang, "did not end within 10 s");
}

}  // namespace lanescope
