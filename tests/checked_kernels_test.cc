// `check` on the kernels of the lab: clean ones are clean in every gate, planted bugs are found,
// and the order in which lanes run changes no bit.

#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "debug/judge/diff.h"
#include "gates/run/check.h"
#include "tests/specimens.h"
#include "tests/support/catch.h"
#include "tests/support/kernels.h"

using namespace lanescope;

namespace {

RunOptions options_for(const std::string& kernel, const std::string& gate) {
  RunOptions options;
  options.kernel = kernel;
  options.gate = gate;
  options.backend = "sim";
  return options;
}

}  // namespace

TEST_CASE("check: clean kernels are clean in every gate") {
  int runs = 0;
  for (const std::string& kernel : testing::all_kernels) {
    for (const Gate gate : testing::gates_of(kernel)) {
      for (const std::string& dtype : declared_dtypes(kernel)) {
        for (const bool causal : {false, true}) {
          for (const char* shape : {"s=64,d=64", "s=65,d=64", "s=1,d=64", "s=127,skv=192,d=48",
                                    "s=1,skv=300,d=64", "b=2,h=4,hkv=2,s=96,skv=70,d=64"}) {
            RunOptions options = options_for(kernel, name_of(gate));
            options.dtype = dtype;
            options.causal = causal;
            options.shape = shape;
            options.schedule = static_cast<std::uint64_t>(runs++ % 3);
            const CheckReport report = check_kernel(options);
            INFO(check_text(report, {}));
            CHECK(report.clean());
          }
        }
      }
    }
  }
  std::printf("check: %d runs of clean kernels\n", runs);
}

TEST_CASE("check: a finding in a persistent block names the item") {
  RunOptions options = options_for("wgmma+phase_not_carried", "fused");
  options.shape = "h=40,s=400,d=64";  // an H200 has room for fewer blocks than there are items
  const CheckReport report = check_kernel(options);
  INFO(check_text(report, {}));
  bool is_later_item = false;  // than the one that the block begins with
  for (const CheckReport::Item& item : report.items) {
    const simt::Progress& passed = item.finding.passed;
    is_later_item = is_later_item || passed.item > item.finding.access.block;
  }
  CHECK(is_later_item);
  CHECK(check_text(report, {}).find(" of item ") != std::string::npos);
}

TEST_CASE("check: planted bugs of memory are found, with the line", "[slow]") {
  int checked = 0;
  std::set<std::string> clean;  // kernels at the problems that show bugs of theirs
  for (const testing::Specimen& specimen : testing::all_specimens()) {
    if (specimen.finding.empty()) continue;
    RunOptions options = options_for(specimen.kernel + "+" + specimen.name, "fused");
    options.shape = specimen.shape;
    options.causal = specimen.causal;
    options.dtype = specimen.dtype;
    if (!specimen.input.empty()) options.input = specimen.input;
    for (const std::uint64_t schedule : {0, 7}) {
      options.schedule = schedule;
      const CheckReport report = check_kernel(options);
      const std::string json = check_json(report);
      INFO(json);
      std::string kind = specimen.finding;
      for (char& c : kind) c = c == '_' ? ' ' : c;
      CHECK_FALSE(report.clean());
      // With another schedule copies land at any moment: what does not wait for them may be lucky.
      const bool is_wait = specimen.finding == "missing_wait" || specimen.finding == "wrong_phase";
      const bool shows = schedule == 0 || !is_wait || specimen.kernel != "wgmma";
      if (shows) CHECK(json.find("\"kind\": \"" + kind + "\"") != std::string::npos);
      CHECK(json.find("\"kernels/") != std::string::npos);
      // The same again, with one of the schedules: of the next bug with the other.
      const bool again = (schedule == 0) == (checked % 2 == 0);
      if (again) CHECK(check_json(check_kernel(options)) == json);
    }
    options.kernel = specimen.kernel;
    ++checked;
    const auto problem = options.kernel + " " + options.shape + " " + options.dtype + " " +
                         options.input + (options.causal ? " causal" : "");
    if (clean.insert(problem).second) CHECK(check_kernel(options).clean());
  }
  CHECK(checked >= 6);
}

TEST_CASE("check: what only looks like a bug is clean") {
  for (const testing::Specimen& specimen : testing::controls()) {
    RunOptions options = options_for(specimen.kernel + "+" + specimen.name, "fused");
    options.shape = specimen.shape;
    options.causal = specimen.causal;
    const CheckReport report = check_kernel(options);
    INFO(specimen.name << "\n" << check_text(report, {}));
    CHECK(report.clean());
  }
}

TEST_CASE("check: the order of the lanes changes no bit of a clean kernel") {
  for (const std::string& kernel : testing::all_kernels) {
    RunOptions options = options_for(kernel, "fused");
    options.shape = "s=130,d=64,h=2";
    const PreparedRun run = prepare(options);
    const Dump in_order = launch(*run.module, run.module_name, run.request);
    for (const std::uint64_t schedule : {1, 2, 3}) {
      options.schedule = schedule;
      const PreparedRun permuted = prepare(options);
      for (const BitReport& report :
           diff_dumps(in_order, launch(*permuted.module, permuted.module_name, permuted.request))) {
        INFO(kernel << " schedule " << schedule << " site " << report.name);
        CHECK(report.differing == 0);
      }
    }
  }
}
