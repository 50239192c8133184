#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>

#include "reference/inputs.h"
#include "tests/support/catch.h"
#include "tests/support/diagnosed.h"
#include "tests/support/synthetic_dump.h"
#include "tests/support/verdict.h"

namespace lanescope {
namespace {

using Catch::Matchers::ContainsSubstring;
using testing::causal;
using testing::Fault;
using testing::ragged;
using testing::report_of;
using testing::Setup;
using testing::synthetic_dump;
using testing::verdict;

TEST_CASE("judge: a right kernel matches, whatever its arithmetic, gate, type and shape") {
  std::map<std::string, double> ratios;
  const auto holds = [&](const Setup& setup, const std::string& kind) {
    const DiffReport report = diff_against_reference(synthetic_dump(setup));
    INFO(kind << " " << setup.gate << " " << setup.input << " " << name_of(setup.dtype) << " "
              << setup.arch << " len_q " << setup.problem.len_q << " len_kv "
              << setup.problem.len_kv);
    for (const SiteReport& site : report.sites) {
      INFO(name_of(site.site) << " judgement " << static_cast<int>(site.judgement) << " failed "
                              << site.failed << " ratio " << site.max_error_over_bound);
      CHECK(site.failed == 0);
      CHECK(site.compared > 0);
      double& ratio = ratios[kind + " " + name_of(site.site) +
                             (site.judgement == Judgement::local ? " local" : " chain")];
      ratio = std::max(ratio, site.max_error_over_bound);
    }
    CHECK(report.match);
    CHECK(report.warnings.empty());
  };
  for (const std::string& input : input_kinds()) {
    for (const std::string gate : {"qk_only", "softmax_only", "pv_only", "fused"}) {
      for (const Problem& problem : {ragged, causal}) {
        Setup setup{.problem = problem, .gate = gate, .input = input};
        holds(setup, "f16");
        setup.dtype = ElementType::bf16;
        holds(setup, "bf16");
        setup.dtype = ElementType::f16;
        setup.products = Products::fp32_fma;
        holds(setup, "fma");
      }
    }
    for (const std::string arch : {"sm_70", "sm_75", "sm_80", "sm_89", "sm_100"}) {
      Setup setup{.problem = causal, .input = input, .arch = arch};
      holds(setup, arch);
    }
  }
  // Few queries, many keys; more queries than keys (the first rows see none); a single element.
  for (const Problem& problem :
       {Problem{1, 4, 2, 5, 100, 64, true}, Problem{1, 1, 1, 80, 20, 16, true},
        Problem{1, 1, 1, 1, 1, 4, false}}) {
    holds({.problem = problem}, "odd shapes");
  }

  // A bound that the errors never come near to would hide bugs; this prints how near they come.
  if (std::getenv("LANESCOPE_PRINT_RATIOS")) {
    for (const auto& [name, ratio] : ratios) std::cout << name << " " << ratio << "\n";
  }
  for (const auto& [name, ratio] : ratios) {
    const bool exact = name.find("smem") != std::string::npos ||
                       name.find("local") != std::string::npos || name.starts_with("odd");
    INFO(name);
    if (!exact) CHECK(ratio > 0.005);
  }
}

TEST_CASE("judge: planted bugs are found in the stage and tile where they are", "[quick]") {
  const std::map<Fault, std::string> expected{
      {Fault::wrong_scale, "qk s local tile 0 row 0"},
      {Fault::stale_maximum, "softmax m local tile 0 row 0"},
      {Fault::missing_rescale, "pv o local tile 1"},
      {Fault::dropped_key, "pv o local tile 1"},
      {Fault::l_twice, "epilogue o_final local tile -1 row 0"},
  };
  for (const Products products : {Products::tensor_core, Products::fp32_fma}) {
    for (const auto& [fault, first] : expected) {
      Setup setup{.problem = ragged, .products = products, .fault = fault};
      INFO(first);
      CHECK_THAT(verdict(synthetic_dump(setup)), ContainsSubstring(first));
      setup.traced = false;  // the outputs alone show it, too
      CHECK_THAT(verdict(synthetic_dump(setup)), ContainsSubstring("epilogue o_final chain"));
    }
  }
}

TEST_CASE("judge: an isolated stage shows its own bug and no other's") {
  const auto of = [](const std::string& gate, Fault fault) {
    return verdict(synthetic_dump({.problem = ragged, .gate = gate, .fault = fault}));
  };
  CHECK_THAT(of("qk_only", Fault::wrong_scale), ContainsSubstring("qk s local"));
  CHECK(of("qk_only", Fault::missing_rescale) == "match");
  CHECK_THAT(of("softmax_only", Fault::stale_maximum), ContainsSubstring("softmax m local"));
  CHECK(of("softmax_only", Fault::wrong_scale) == "match");
  CHECK_THAT(of("pv_only", Fault::missing_rescale), ContainsSubstring("pv o local"));
  CHECK(of("pv_only", Fault::stale_maximum) == "match");
}

TEST_CASE("judge: rows of a loaded tile beyond the end may hold any number") {
  const std::int64_t tile = (ragged.len_kv - 1) / Setup{}.bc;
  const auto verdict_with = [&](SiteId id, std::int64_t owed, double value) {
    Dump dump = synthetic_dump({.problem = ragged});
    const reference::Array held = testing::held(dump, id, 0, tile, dump.info.bc);
    testing::change(dump, id, 0, tile,
                    [&](int row, int col) { return row >= owed ? value : held(row, col); });
    return verdict(dump);
  };
  const std::int64_t keys = ragged.len_kv - tile * Setup{}.bc;
  for (const SiteId id : {SiteId::k_smem, SiteId::v_smem}) {
    INFO(name_of(id));
    CHECK(verdict_with(id, keys, 3) == "match");
    CHECK_THAT(verdict_with(id, keys, std::numeric_limits<double>::infinity()),
               ContainsSubstring(name_of(id)));
    CHECK_THAT(verdict_with(id, keys - 1, 3), ContainsSubstring(name_of(id)));
  }
}

TEST_CASE("judge: of rows that see no key nobody reads Q, so anything may lie there") {
  const auto verdict_with = [](std::int64_t block) {
    Dump dump = synthetic_dump({.problem = {1, 1, 1, 64, 32, 32, true}});
    testing::change(dump, SiteId::q_smem, block, 0, [](int, int) { return 3.0; });
    return verdict(dump);
  };
  CHECK(verdict_with(0) == "match");
  CHECK_THAT(verdict_with(1), ContainsSubstring("q_smem"));
}

TEST_CASE("judge: a bug upstream is not blamed on the stages downstream") {
  Dump dump = synthetic_dump({.problem = ragged, .fault = Fault::wrong_scale});
  const DiffReport report = diff_against_reference(dump);
  CHECK(report_of(report, SiteId::s, Judgement::local)->failed > 0);
  for (const SiteId id : {SiteId::m, SiteId::alpha, SiteId::p, SiteId::l, SiteId::o}) {
    INFO(name_of(id));
    CHECK(report_of(report, id, Judgement::local)->failed == 0);
    CHECK(report_of(report, id, Judgement::chain)->failed > 0);
  }
  CHECK(report_of(report, SiteId::o_final, Judgement::local)->failed == 0);
}

}  // namespace
}  // namespace lanescope
