#include "debug/diff.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <map>

#include "debug/error.h"
#include "debug/site_slots.h"
#include "reference/inputs.h"
#include "tests/catch.h"
#include "tests/files.h"
#include "tests/synthetic_dump.h"

namespace lanescope {
namespace {

using Catch::Matchers::ContainsSubstring;
using testing::Fault;
using testing::Setup;
using testing::slot_index;
using testing::synthetic_dump;
using testing::tensor_of;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

Problem shape(std::int64_t heads, std::int64_t heads_kv, std::int64_t len_q, std::int64_t len_kv,
              std::int64_t d, bool causal) {
  return {1, heads, heads_kv, len_q, len_kv, d, causal};
}

const Problem ragged = shape(2, 1, 40, 70, 32, false);
const Problem causal = shape(1, 1, 96, 96, 32, true);

/// First divergence as "site stage judgement tile row col", or "match".
std::string verdict(const Dump& dump) {
  const DiffReport report = diff_against_reference(dump);
  if (report.match) return "match";
  if (!report.first) return "no match";
  const Divergence& at = *report.first;
  return std::string(name_of(at.stage)) + " " + name_of(at.site) + " " +
         (at.judgement == Judgement::local ? "local" : "chain") + " tile " +
         std::to_string(at.tile) + " row " + std::to_string(at.row) + " col " +
         std::to_string(at.col);
}

const SiteReport* report_of(const DiffReport& report, SiteId id, Judgement judgement) {
  for (const SiteReport& site : report.sites) {
    if (site.site == id && site.judgement == judgement) return &site;
  }
  return nullptr;
}

const std::vector<SiteId> fused_sites{SiteId::q_smem, SiteId::k_smem, SiteId::v_smem, SiteId::s,
                                      SiteId::m_prev, SiteId::m,      SiteId::alpha,  SiteId::p,
                                      SiteId::l,      SiteId::o};

TEST_CASE("diff: a right kernel matches, whatever its arithmetic, gate, type and shape") {
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
        Setup setup{.problem = problem, .gate = gate, .input = input, .blocks = {}, .tiles = {}};
        holds(setup, "f16");
        setup.dtype = ElementType::bf16;
        holds(setup, "bf16");
        setup.dtype = ElementType::f16;
        setup.products = Products::fp32_fma;
        holds(setup, "fma");
      }
    }
    for (const std::string arch : {"sm_70", "sm_75", "sm_80", "sm_89", "sm_100"}) {
      Setup setup{.problem = causal, .input = input, .arch = arch, .blocks = {}, .tiles = {}};
      holds(setup, arch);
    }
  }
  // Few queries, many keys; more queries than keys (the first rows see none); a single element.
  for (const Problem& problem :
       {shape(4, 2, 5, 100, 64, true), shape(1, 1, 80, 20, 16, true), shape(1, 1, 1, 1, 4, false)}) {
    holds({.problem = problem, .blocks = {}, .tiles = {}}, "odd shapes");
  }

  // A bound that the errors never come near to would hide bugs; this prints how near they come.
  if (std::getenv("LANESCOPE_PRINT_RATIOS")) {
    for (const auto& [name, ratio] : ratios) std::cout << name << " " << ratio << "\n";
  }
  for (const auto& [name, ratio] : ratios) {
    const bool exact = name.find("smem") != std::string::npos ||
                       name.find("local") != std::string::npos ||
                       name.starts_with("odd");
    INFO(name);
    if (!exact) CHECK(ratio > 0.005);
  }
}

TEST_CASE("diff: planted bugs are found in the stage and tile where they are") {
  const std::map<Fault, std::string> expected{
      {Fault::wrong_scale, "qk s local tile 0 row 0"},
      {Fault::stale_maximum, "softmax m local tile 0 row 0"},
      {Fault::missing_rescale, "pv o local tile 1"},
      {Fault::dropped_key, "pv o local tile 1"},
      {Fault::l_twice, "epilogue o_final local tile -1 row 0"},
  };
  for (const Products products : {Products::tensor_core, Products::fp32_fma}) {
    for (const auto& [fault, first] : expected) {
      Setup setup{.problem = ragged, .products = products, .fault = fault, .blocks = {}, .tiles = {}};
      INFO(first);
      CHECK_THAT(verdict(synthetic_dump(setup)), ContainsSubstring(first));
      setup.traced = false;  // the outputs alone show it, too
      CHECK_THAT(verdict(synthetic_dump(setup)), ContainsSubstring("epilogue o_final chain"));
    }
  }
}

TEST_CASE("diff: an isolated stage shows its own bug and no other's") {
  const auto of = [](const std::string& gate, Fault fault) {
    return verdict(synthetic_dump(
        {.problem = ragged, .gate = gate, .fault = fault, .blocks = {}, .tiles = {}}));
  };
  CHECK_THAT(of("qk_only", Fault::wrong_scale), ContainsSubstring("qk s local"));
  CHECK(of("qk_only", Fault::missing_rescale) == "match");
  CHECK_THAT(of("softmax_only", Fault::stale_maximum), ContainsSubstring("softmax m local"));
  CHECK(of("softmax_only", Fault::wrong_scale) == "match");
  CHECK_THAT(of("pv_only", Fault::missing_rescale), ContainsSubstring("pv o local"));
  CHECK(of("pv_only", Fault::stale_maximum) == "match");
}

TEST_CASE("diff: a NaN, a zero, an unwritten slot and a value past its bound fail in every site") {
  const Dump good = synthetic_dump({.problem = causal, .blocks = {}, .tiles = {}});
  std::vector<SiteId> ids = fused_sites;
  ids.insert(ids.end(), {SiteId::o_final, SiteId::lse});
  for (const SiteId id : ids) {
    INFO(name_of(id));
    const DumpSite* entry = good.find_site(name_of(id));
    const bool vector = id == SiteId::lse || (entry && entry->site.axes == Axes::query);
    const std::int64_t col = vector ? 0 : 1;
    const std::int64_t last = good.find(name_of(id))->dims.back();
    const std::int64_t index = entry ? slot_index(good, id, 1, id == SiteId::q_smem ? 0 : 1, 3, col)
                               : id == SiteId::lse ? 35
                                                   : 35 * last + col;
    const auto broken = [&](double value) {
      Dump dump = good;
      tensor_of(dump, id).set(index, value);
      return dump;
    };
    const auto is_named = [&](const Dump& dump, bool unwritten) {
      const DiffReport report = diff_against_reference(dump);
      REQUIRE_FALSE(report.match);
      const SiteReport* site = report_of(report, id, Judgement::local);
      REQUIRE(site);
      REQUIRE(site->first);
      CHECK(site->failed == 1);
      CHECK(site->unwritten == (unwritten ? 1 : 0));
      CHECK(site->first->unwritten == unwritten);
      CHECK(site->first->block == 1);
      CHECK(site->first->row == 3);
      CHECK(site->first->col == col);
      CHECK(report.first->site == id);
      return *site;
    };
    CHECK(is_named(broken(nan), false).non_finite == 1);
    CHECK(is_named(broken(std::numeric_limits<double>::infinity()), false).non_finite == 1);
    if (id != SiteId::m && id != SiteId::m_prev) is_named(broken(0), false);
    Dump unwritten = good;
    testing::poison(tensor_of(unwritten, id), index);
    is_named(unwritten, true);

    const DiffReport report = diff_against_reference(good);
    for (const Judgement judgement : {Judgement::local, Judgement::chain}) {
      const SiteReport* site = report_of(report, id, judgement);
      if (!site || !site->worst || site->worst->bound == 0) continue;
      // Beyond the bound and, as a smaller bound may lie within it, beyond what the type rounds.
      const Divergence worst = *site->worst;
      Dump dump = good;
      Tensor& tensor = tensor_of(dump, id);
      for (std::int64_t i = 0; i < tensor.size(); ++i) {
        if (tensor.at(i) == worst.got) tensor.set(i, worst.want + 4 * worst.bound);
      }
      CHECK_FALSE(diff_against_reference(dump).match);
    }
  }
}

TEST_CASE("diff: an output that was never computed fails, though it be small") {
  for (const bool unwritten : {false, true}) {
    Dump dump = synthetic_dump({.problem = ragged, .traced = false, .blocks = {}, .tiles = {}});
    Tensor& o = tensor_of(dump, SiteId::o_final);
    for (std::int64_t i = 0; i < o.size(); ++i) {
      o.set(i, 0);
      if (unwritten) testing::poison(o, i);
    }
    const DiffReport report = diff_against_reference(dump);
    CHECK_FALSE(report.match);
    const SiteReport* site = report_of(report, SiteId::o_final, Judgement::chain);
    REQUIRE(site);
    CHECK(site->unwritten == (unwritten ? o.size() : 0));
    CHECK(site->failed > o.size() * 9 / 10);
    CHECK(report.rows.size() == 16);
  }
}

TEST_CASE("diff: lanes that hold each other's values are found, and each copy is judged") {
  Dump dump = synthetic_dump({.problem = ragged, .input = "counting", .blocks = {}, .tiles = {}});
  Tensor& s = tensor_of(dump, SiteId::s);
  const std::int64_t a = slot_index(dump, SiteId::s, 2, 1, 8, 4);
  const std::int64_t b = slot_index(dump, SiteId::s, 2, 1, 8, 6);
  const double held = s.at(a);
  s.set(a, s.at(b));
  s.set(b, held);
  const DiffReport swapped = diff_against_reference(dump);
  REQUIRE(swapped.first);
  CHECK(swapped.first->site == SiteId::s);
  CHECK(swapped.first->block == 2);
  CHECK(swapped.first->head == 1);
  CHECK(swapped.first->tile == 1);
  CHECK(swapped.first->warp == 0);
  CHECK(swapped.first->lane == 2);
  CHECK(swapped.first->reg == 2);
  CHECK(swapped.first->query == 8);
  CHECK(swapped.first->key == 36);
  CHECK(report_of(swapped, SiteId::s, Judgement::local)->failed == 2);

  dump = synthetic_dump({.problem = ragged, .blocks = {}, .tiles = {}});
  const std::int64_t third = slot_index(dump, SiteId::m, 0, 0, 17, 0, 2);
  tensor_of(dump, SiteId::m).set(third, tensor_of(dump, SiteId::m).at(third) + 0.25);
  const DiffReport disagreeing = diff_against_reference(dump);
  REQUIRE(disagreeing.first);
  CHECK(disagreeing.first->site == SiteId::m);
  CHECK(disagreeing.first->warp == 1);
  CHECK(disagreeing.first->lane == 6);
  CHECK(report_of(disagreeing, SiteId::m, Judgement::local)->failed == 1);
}

TEST_CASE("diff: a bug upstream is not blamed on the stages downstream") {
  Dump dump = synthetic_dump({.problem = ragged, .fault = Fault::wrong_scale, .blocks = {}, .tiles = {}});
  const DiffReport report = diff_against_reference(dump);
  CHECK(report_of(report, SiteId::s, Judgement::local)->failed > 0);
  for (const SiteId id : {SiteId::m, SiteId::alpha, SiteId::p, SiteId::l, SiteId::o}) {
    INFO(name_of(id));
    CHECK(report_of(report, id, Judgement::local)->failed == 0);
    CHECK(report_of(report, id, Judgement::chain)->failed > 0);
  }
  CHECK(report_of(report, SiteId::o_final, Judgement::local)->failed == 0);
}

TEST_CASE("diff: an injected site must hold the injected bits") {
  const auto nudged = [](const std::string& gate, SiteId id) {
    Dump dump = synthetic_dump({.problem = ragged, .gate = gate, .blocks = {}, .tiles = {}});
    Tensor& tensor = tensor_of(dump, id);
    const std::int64_t index = slot_index(dump, id, 0, 1, 2, 0);
    tensor.set(index, tensor.at(index) * (1 + 0x1p-10));
    return verdict(dump);
  };
  CHECK(nudged("softmax_only", SiteId::s) == "qk s local tile 1 row 2 col 0");
  CHECK(nudged("pv_only", SiteId::p) == "softmax p local tile 1 row 2 col 0");
  CHECK(nudged("pv_only", SiteId::alpha) == "softmax alpha local tile 1 row 2 col 0");
}

TEST_CASE("diff: shared memory is judged with its padding, query rows past the end are not") {
  const Dump good = synthetic_dump({.problem = ragged, .blocks = {}, .tiles = {}});
  Dump dump = good;
  tensor_of(dump, SiteId::k_smem).set(slot_index(dump, SiteId::k_smem, 0, 2, 10, 3), 1e-3);
  CHECK(verdict(dump) == "load k_smem local tile 2 row 10 col 3");
  dump = good;
  tensor_of(dump, SiteId::q_smem).set(slot_index(dump, SiteId::q_smem, 1, 0, 20, 3), nan);
  CHECK(verdict(dump) == "load q_smem local tile 0 row 20 col 3");
  dump = good;
  for (const SiteId id : {SiteId::s, SiteId::m, SiteId::p, SiteId::l, SiteId::o}) {
    tensor_of(dump, id).set(slot_index(dump, id, 1, 0, 20, 0), nan);
  }
  CHECK(verdict(dump) == "match");
}

TEST_CASE("diff: only tiles that no row of a block sees may be left out") {
  Dump dump = synthetic_dump({.problem = causal, .blocks = {}, .tiles = {}});
  const SiteSlots m(dump, *dump.find_site("m"));
  REQUIRE(m.untouched(0, 1));
  REQUIRE_FALSE(m.untouched(1, 1));
  for (std::int64_t slot = 0; slot < m.count(); ++slot) {
    testing::poison(tensor_of(dump, SiteId::m), m.first(1, 1) + slot);
  }
  const DiffReport report = diff_against_reference(dump);
  CHECK_FALSE(report.match);
  CHECK(report_of(report, SiteId::m, Judgement::local)->unwritten == m.count());
  CHECK(report.first->site == SiteId::m);

  // Written in part, it is judged as a whole.
  Dump partly = synthetic_dump({.problem = causal, .blocks = {}, .tiles = {}});
  tensor_of(partly, SiteId::m).set(m.first(0, 1), tensor_of(partly, SiteId::m).at(m.first(0, 0)));
  CHECK(report_of(diff_against_reference(partly), SiteId::m, Judgement::chain)->unwritten ==
        m.count() - 1);
}

TEST_CASE("diff: a narrowed dump is judged as far as it goes") {
  Setup setup{.problem = shape(2, 2, 70, 130, 32, false), .blocks = {1, 4}, .tiles = {1, 3}};
  const DiffReport report = diff_against_reference(synthetic_dump(setup));
  CHECK(report.match);
  CHECK(report_of(report, SiteId::s, Judgement::chain)->compared == 2 * (32 + 6 + 32) * 32);
  const SiteReport* l = report_of(report, SiteId::l, Judgement::local);
  REQUIRE(l);
  CHECK(l->compared == 4 * (32 + 6 + 32));  // tile 2 only, four lanes per row
  CHECK(report_of(report, SiteId::o_final, Judgement::chain)->compared == 2 * 70 * 32);
  CHECK(report_of(report, SiteId::o_final, Judgement::local) == nullptr);
  setup.fault = Fault::missing_rescale;
  CHECK_THAT(verdict(synthetic_dump(setup)), ContainsSubstring("pv o local tile 2"));
}

TEST_CASE("diff: the report does not depend on the number of threads") {
  const Dump dump =
      synthetic_dump({.problem = ragged, .fault = Fault::dropped_key, .blocks = {}, .tiles = {}});
  const DiffReport one = diff_against_reference(dump, 1), four = diff_against_reference(dump, 4);
  REQUIRE(one.sites.size() == four.sites.size());
  for (std::size_t i = 0; i < one.sites.size(); ++i) {
    CHECK(one.sites[i].failed == four.sites[i].failed);
    CHECK(one.sites[i].max_error_over_bound == four.sites[i].max_error_over_bound);
    CHECK(one.sites[i].worst->got == four.sites[i].worst->got);
  }
  CHECK(one.first->lane == four.first->lane);
  CHECK(one.rows[3].query == four.rows[3].query);
}

TEST_CASE("diff: the order of the data decides what is named first") {
  Dump dump = synthetic_dump({.problem = ragged, .blocks = {}, .tiles = {}});
  const auto spoil = [&](SiteId id, std::int64_t block, std::int64_t tile) {
    tensor_of(dump, id).set(slot_index(dump, id, block, tile, 0, 0), 77);
  };
  tensor_of(dump, SiteId::o_final).set(0, 77);
  CHECK_THAT(verdict(dump), ContainsSubstring("epilogue o_final local tile -1"));
  spoil(SiteId::o, 0, 2);
  CHECK_THAT(verdict(dump), ContainsSubstring("pv o local tile 2"));
  spoil(SiteId::p, 0, 2);
  CHECK_THAT(verdict(dump), ContainsSubstring("softmax p local tile 2"));
  spoil(SiteId::l, 3, 1);
  CHECK_THAT(verdict(dump), ContainsSubstring("softmax l local tile 1"));
  spoil(SiteId::q_smem, 3, 0);
  CHECK_THAT(verdict(dump), ContainsSubstring("load q_smem local tile 0"));
}

TEST_CASE("diff: what the user should know is a warning, and an unfinished run is no match") {
  Dump dump = synthetic_dump({.problem = ragged, .gate = "qk_only", .blocks = {}, .tiles = {}});
  dump.info.incomplete = "the device stopped answering";
  DiffReport report = diff_against_reference(dump);
  CHECK_FALSE(report.match);
  REQUIRE(report.warnings.size() == 1);
  CHECK_THAT(report.warnings[0], ContainsSubstring("stopped answering"));

  dump = synthetic_dump({.problem = ragged, .traced = false, .blocks = {}, .tiles = {}});
  std::erase_if(dump.tensors, [](const Dump::Entry& entry) { return entry.name == "lse"; });
  report = diff_against_reference(dump);
  CHECK_FALSE(report.match);
  CHECK_FALSE(report.first);

  for (Dump::Entry& entry : dump.tensors) {
    if (entry.name == "v") entry.tensor.set(5, nan);
  }
  report = diff_against_reference(dump);
  CHECK_FALSE(report.match);
  CHECK(report.warnings.size() == 3);  // a NaN, another hash, no lse
  CHECK_THAT(report.warnings[0], ContainsSubstring("input v holds 1 NaN"));

  std::erase_if(dump.tensors, [](const Dump::Entry& entry) { return entry.name == "o_final"; });
  CHECK_THAT(testing::usage_error([&] { diff_against_reference(dump); }),
             ContainsSubstring("nothing to judge"));
  dump.info.gate = "combine_only";
  CHECK_THAT(testing::usage_error([&] { diff_against_reference(dump); }),
             ContainsSubstring("combine_only"));
}

TEST_CASE("diff: NaN in the inputs must come out as the same NaN") {
  Setup setup{.problem = ragged, .blocks = {}, .tiles = {}};
  Dump dump = synthetic_dump(setup);
  REQUIRE(diff_against_reference(dump).match);
  for (Dump::Entry& entry : dump.tensors) {
    if (entry.name == "v") entry.tensor.set(7, nan);  // key 0, column 7
  }
  CHECK_THAT(verdict(dump), ContainsSubstring("load v_smem local tile 0 row 0 col 7"));
}

TEST_CASE("diff_dumps: the same bits, or the first place where they differ") {
  const Dump a = synthetic_dump({.problem = causal, .blocks = {}, .tiles = {}});
  for (const BitReport& report : diff_dumps(a, a)) {
    INFO(report.name);
    CHECK(report.compared > 0);
    CHECK(report.differing == 0);
  }
  const auto find = [](const std::vector<BitReport>& reports, const std::string& name) {
    return *std::find_if(reports.begin(), reports.end(),
                         [&](const BitReport& report) { return report.name == name; });
  };

  Dump b = a;
  const std::int64_t index = slot_index(a, SiteId::s, 1, 1, 9, 3);
  tensor_of(b, SiteId::s).set(index, 5);
  testing::poison(tensor_of(b, SiteId::s), index + 1);
  BitReport s = find(diff_dumps(a, b), "s");
  CHECK(s.differing == 2);
  REQUIRE(s.first);
  CHECK(s.first->got == 5);
  CHECK(s.first->want == a.find("s")->at(index));
  CHECK(s.first->block == 1);
  CHECK(s.first->tile == 1);
  CHECK(s.first->row == 9);
  CHECK(s.first->col == 3);
  CHECK(s.first->lane == 5);
  CHECK(s.first->query == 41);
  CHECK(s.first->key == 35);

  // Any NaN equals any other, but not an unwritten slot; zeros of two signs differ.
  Dump c = a;
  b = a;
  tensor_of(b, SiteId::s).set(index, nan);
  tensor_of(c, SiteId::s).set(index, -nan);
  CHECK(find(diff_dumps(b, c), "s").differing == 0);
  testing::poison(tensor_of(c, SiteId::s), index);
  CHECK(find(diff_dumps(b, c), "s").differing == 1);
  CHECK(find(diff_dumps(b, c), "s").first->unwritten);
  tensor_of(b, SiteId::s).set(index, 0.0);
  tensor_of(c, SiteId::s).set(index, -0.0);
  CHECK(find(diff_dumps(b, c), "s").differing == 1);

  const Dump outputs = synthetic_dump({.problem = causal, .traced = false, .blocks = {}, .tiles = {}});
  CHECK(find(diff_dumps(a, outputs), "o_final").differing == 0);
  CHECK(find(diff_dumps(a, outputs), "o_final").compared == 96 * 32);
  CHECK(find(diff_dumps(outputs, a), "s").compared == 0);
}

TEST_CASE("diff_dumps: dumps that do not belong together are refused") {
  const Setup setup{.problem = causal, .blocks = {}, .tiles = {}};
  const Dump a = synthetic_dump(setup);
  const auto refused = [&](const Dump& b, const std::string& why) {
    try {
      diff_dumps(a, b);
      FAIL("not refused: " << why);
    } catch (const MismatchError& error) {
      CHECK_THAT(error.what(), ContainsSubstring(why));
    }
  };
  Dump b = a;
  b.info.kernel = "another";
  refused(b, "kernel");
  b = a;
  b.info.gate = "qk_only";
  refused(b, "gate");
  b = a;
  b.info.problem.causal = false;
  refused(b, "shape");
  b = a;
  b.info.bc = 64;
  refused(b, "tile");
  b = a;
  b.info.input_hash = "0";
  refused(b, "inputs");
  b = synthetic_dump({.problem = causal, .blocks = {}, .tiles = {0, 1}});
  refused(b, "shapes");
  b = a;
  std::erase_if(b.tensors, [](const Dump::Entry& entry) {
    return entry.name != "q" && entry.name != "k" && entry.name != "v";
  });
  refused(b, "no traced site");
}

}  // namespace
}  // namespace lanescope
