#include "debug/judge/diff.h"

#include <limits>
#include <string>
#include <vector>

#include "debug/dump/site_slots.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
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
using testing::slot_index;
using testing::synthetic_dump;
using testing::tensor_of;
using testing::verdict;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

const std::vector<SiteId> fused_sites{SiteId::q_smem, SiteId::k_smem, SiteId::v_smem, SiteId::s,
                                      SiteId::m_prev, SiteId::m,      SiteId::alpha,  SiteId::p,
                                      SiteId::l,      SiteId::o};

TEST_CASE("diff: a NaN, a zero, an unwritten slot and a value past its bound fail in every site",
          "[quick]") {
  const Dump good = synthetic_dump({.problem = causal});
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
    Dump dump = synthetic_dump({.problem = ragged, .traced = false});
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
  Dump dump = synthetic_dump({.problem = ragged, .input = "counting"});
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

  dump = synthetic_dump({.problem = ragged});
  const std::int64_t third = slot_index(dump, SiteId::m, 0, 0, 17, 0, 2);
  tensor_of(dump, SiteId::m).set(third, tensor_of(dump, SiteId::m).at(third) + 0.25);
  const DiffReport disagreeing = diff_against_reference(dump);
  REQUIRE(disagreeing.first);
  CHECK(disagreeing.first->site == SiteId::m);
  CHECK(disagreeing.first->warp == 1);
  CHECK(disagreeing.first->lane == 6);
  CHECK(report_of(disagreeing, SiteId::m, Judgement::local)->failed == 1);
}

TEST_CASE("diff: an injected site must hold the injected bits") {
  const auto nudged = [](const std::string& gate, SiteId id) {
    Dump dump = synthetic_dump({.problem = ragged, .gate = gate});
    Tensor& tensor = tensor_of(dump, id);
    const std::int64_t index = slot_index(dump, id, 0, 1, 2, 0);
    tensor.set(index, tensor.at(index) * (1 + 0x1p-10));
    return verdict(dump);
  };
  CHECK(nudged("softmax_only", SiteId::s) == "qk s local tile 1 row 2 col 0");
  CHECK(nudged("pv_only", SiteId::p) == "softmax p local tile 1 row 2 col 0");
  CHECK(nudged("pv_only", SiteId::alpha) == "softmax alpha local tile 1 row 2 col 0");
}

TEST_CASE("diff: shared memory behind the end may hold any number, query rows there anything") {
  const Dump good = synthetic_dump({.problem = ragged});
  Dump dump = good;
  tensor_of(dump, SiteId::k_smem).set(slot_index(dump, SiteId::k_smem, 0, 2, 10, 3), 1e-3);
  CHECK(verdict(dump) == "match");  // a key that is masked
  tensor_of(dump, SiteId::k_smem).set(slot_index(dump, SiteId::k_smem, 0, 2, 10, 3), nan);
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
  Dump dump = synthetic_dump({.problem = causal});
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
  Dump partly = synthetic_dump({.problem = causal});
  tensor_of(partly, SiteId::m).set(m.first(0, 1), tensor_of(partly, SiteId::m).at(m.first(0, 0)));
  CHECK(report_of(diff_against_reference(partly), SiteId::m, Judgement::chain)->unwritten ==
        m.count() - 1);
}

TEST_CASE("diff: a narrowed dump is judged as far as it goes") {
  Setup setup{.problem = Problem{1, 2, 2, 70, 130, 32, false}, .blocks = {1, 4}, .tiles = {1, 3}};
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
  const Dump dump = synthetic_dump({.problem = ragged, .fault = Fault::dropped_key});
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
  Dump dump = synthetic_dump({.problem = ragged});
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
  Dump dump = synthetic_dump({.problem = ragged, .gate = "qk_only"});
  dump.info.incomplete = "the device stopped answering";
  DiffReport report = diff_against_reference(dump);
  CHECK_FALSE(report.match);
  REQUIRE(report.warnings.size() == 1);
  CHECK_THAT(report.warnings[0], ContainsSubstring("stopped answering"));

  dump = synthetic_dump({.problem = ragged, .traced = false});
  std::erase_if(dump.tensors, [](const Dump::Entry& entry) { return entry.name == "lse"; });
  report = diff_against_reference(dump);
  CHECK_FALSE(report.match);
  CHECK_FALSE(report.first);

  for (Dump::Entry& entry : dump.tensors) {
    if (entry.name == "v") entry.tensor.set(5, nan);
  }
  report = diff_against_reference(dump);
  CHECK_FALSE(report.match);
  CHECK(report.warnings.size() == 2);        // a NaN, no lse
  CHECK(report.contradictions.size() == 2);  // another hash, and not what the kind and seed give
  CHECK_THAT(report.warnings[0], ContainsSubstring("input v holds 1 NaN"));

  std::erase_if(dump.tensors, [](const Dump::Entry& entry) { return entry.name == "o_final"; });
  CHECK_THAT(testing::usage_error([&] { diff_against_reference(dump); }),
             ContainsSubstring("nothing to judge"));
  dump.info.gate = "combine_only";
  CHECK_THAT(testing::usage_error([&] { diff_against_reference(dump); }),
             ContainsSubstring("combine_only"));
}

TEST_CASE("diff: NaN in the inputs must come out as the same NaN") {
  Setup setup{.problem = ragged};
  Dump dump = synthetic_dump(setup);
  REQUIRE(diff_against_reference(dump).match);
  for (Dump::Entry& entry : dump.tensors) {
    if (entry.name == "v") entry.tensor.set(7, nan);  // key 0, column 7
  }
  CHECK_THAT(verdict(dump), ContainsSubstring("load v_smem local tile 0 row 0 col 7"));
}

}  // namespace
}  // namespace lanescope
