// What locate says: of every planted bug, of the clean kernels, and of faults put into dumps.

#include "gates/run/locate.h"

#include <algorithm>
#include <array>
#include <functional>

#include "debug/causes/detectors.h"
#include "debug/dump/dump_metadata.h"
#include "debug/judge/judge.h"
#include "gates/build/module_catalogue.h"
#include "gates/run/locate_dependence.h"
#include "gates/run/source_place.h"
#include "reference/inputs.h"
#include "tests/specimens.h"
#include "tests/support/catch.h"
#include "tests/support/synthetic_dump.h"
#include "tests/support/verdict.h"

namespace lanescope {
namespace {

using testing::Fault;
using testing::poison;
using testing::Setup;
using testing::slot_index;
using testing::synthetic_dump;
using testing::tensor_of;

const Problem one_tile{1, 1, 1, 32, 32, 32, false};
const Problem three_tiles{1, 1, 1, 32, 96, 32, false};

Diagnosis diagnosis_of(const Dump& dump) { return diagnose(dump, diff_against_reference(dump)); }

/// "stage site cause" with "?" where it is not certain.
std::string named(const Diagnosis& diagnosis) {
  std::string text;
  if (diagnosis.first) {
    text =
        std::string(name_of(diagnosis.first->stage)) + " " + name_of(diagnosis.first->site) + " ";
  }
  return text + name_of(diagnosis.cause) + (diagnosis.certain ? "" : "?");
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

/// Calls change(row, col) -> new value for every element of a tile, of all slots that stand for it.
void change(Dump& dump, SiteId id, std::int64_t tile,
            const std::function<double(int, int)>& value) {
  const SiteSlots slots(dump, *dump.find_site(name_of(id)));
  Tensor& tensor = tensor_of(dump, id);
  for (std::int64_t slot = 0; slot < slots.count(); ++slot) {
    tensor.set(slots.first(0, tile) + slot, value(slots.row(slot), slots.col(slot)));
  }
}

reference::Array elements(const Dump& dump, SiteId id, std::int64_t tile, std::int64_t rows) {
  return SiteSlots(dump, *dump.find_site(name_of(id))).elements(0, tile, rows);
}

TEST_CASE("locate: the function of the stage, then the seam that the value passes") {
  const std::vector<std::string> places = source_places("scalar", Stage::pv, SiteId::o);
  REQUIRE(places.size() == 2);
  CHECK_THAT(places[0], Catch::Matchers::Matches("kernels/scalar\\.h:[0-9]+-[0-9]+ \\(pv\\)"));
  CHECK_THAT(places[1], Catch::Matchers::Matches("kernels/scalar\\.h:[0-9]+ \\(its seam\\)"));
  // Its stages are in the parts, and a load has no function of its name.
  CHECK_THAT(source_places("mma", Stage::softmax, SiteId::m)[0],
             Catch::Matchers::Matches("kernels/parts/mma_stages\\.h:[0-9]+-[0-9]+ \\(softmax\\)"));
  CHECK_THAT(source_places("scalar", Stage::load, SiteId::k_smem)[0],
             Catch::Matchers::Matches("kernels/scalar\\.h:[0-9]+-[0-9]+"));
  CHECK(source_places("nothing", Stage::pv, SiteId::o).empty());
}

TEST_CASE("locate: the shortest option that the wrong runs have in common") {
  const RunTraits plain{"--shape s=64", {}, true}, causal{"--causal", {"--causal"}, true};
  const RunTraits ragged{"--shape s=70", {"ragged", "several"}, true};
  RunTraits both{"--shape s=70 --causal", {"--causal", "ragged", "several"}, false};
  CHECK(dependence_text({plain, causal, ragged, both}) ==
        "wrong with --causal and ragged, right without, in 4 runs");
  RunTraits wrong_ragged = ragged;
  wrong_ragged.match = false;
  CHECK(dependence_text({plain, causal, wrong_ragged, both}) ==
        "wrong with ragged, right without, in 4 runs");
  const RunTraits also{"--seed 1", {}, false};
  CHECK(dependence_text({plain, causal, also, both}) ==
        "right with --shape s=64, wrong with --seed 1");
  CHECK(dependence_text({plain, causal}).empty());
}

TEST_CASE("locate: every planted bug by stage, site and cause") {
  REQUIRE(testing::all_specimens().size() >= 25);
  for (const testing::Specimen& specimen : testing::all_specimens()) {
    RunOptions options;
    options.kernel = specimen.kernel;
    options.specimen = specimen.name;
    options.backend = "sim";
    if (specimen.cause == "hang") options.timeout_seconds = 2;
    const Location location = locate(options);
    INFO(specimen.kernel << " " << specimen.name);
    CHECK(location.diagnosis.has_value() == (specimen.stage != "clean"));
    if (!location.diagnosis) continue;
    INFO(joined(location.diagnosis->evidence));
    if (location.diagnosis->memory.empty()) {
      REQUIRE_FALSE(location.source.empty());
      CHECK_THAT(location.source[0], Catch::Matchers::StartsWith("kernels/"));
    }
    CHECK(named(*location.diagnosis) ==
          specimen.stage + " " + specimen.site + " " + specimen.cause);
    if (testing::breaks_off(specimen)) {
      for (const Gate gate : {Gate::qk_only, Gate::softmax_only, Gate::pv_only}) {
        const bool own = gate == Gate::softmax_only;
        REQUIRE(specimen.stage == "softmax");
        CHECK_THAT(joined(location.diagnosis->evidence),
                   Catch::Matchers::ContainsSubstring(
                       std::string(name_of(gate)) +
                       (own ? " alone does not end: " : " alone ends, and matches\n")));
      }
      CHECK_THAT(joined(location.diagnosis->evidence),
                 Catch::Matchers::ContainsSubstring("kernels/" + specimen.kernel + ".h:"));
    }
    if (!specimen.finding.empty() && specimen.finding != specimen.cause &&
        testing::breaks_off(specimen)) {
      CHECK_THAT(
          joined(location.diagnosis->evidence),
          Catch::Matchers::ContainsSubstring("under the memory checker: " + specimen.finding));
    }
    if (specimen.finding != specimen.cause) continue;
    REQUIRE_FALSE(location.diagnosis->memory.empty());
    const CheckReport::Item& item = location.diagnosis->memory.front();
    const std::string source = "kernels/";
    CHECK(item.access_line.substr(0, source.size()) == source);
    constexpr std::array findings_of_two = {"race",
                                            "missing_wait",
                                            "written_twice",
                                            "operand_overwritten",
                                            "missing_proxy_fence",
                                            "barrier_overwritten"};
    const bool of_two = std::find(findings_of_two.begin(), findings_of_two.end(),
                                  specimen.finding) != findings_of_two.end();
    CHECK((item.earlier_line.substr(0, source.size()) == source) == of_two);
    CHECK(location.diagnosis->first->block >= 0);
    CHECK(location.diagnosis->first->warp >= 0);
    CHECK(location.diagnosis->first->lane >= 0);
  }
}

// The textbook specimen of an output that is never written: small enough to pass for zero.
TEST_CASE("locate: an output that is never written, its values under 0.03") {
  RunOptions options;
  options.kernel = "mma";
  options.specimen = "dead_zero_output";
  options.backend = "sim";
  options.gate = "fused";
  options.shape = "s=64,d=64";
  PreparedRun run = prepare(options);
  run.request.inputs = generate_inputs(run.request.problem, ElementType::f16, "random", 0);
  for (Tensor* tensor : {&run.request.inputs.q, &run.request.inputs.k, &run.request.inputs.v}) {
    for (std::int64_t i = 0; i < tensor->size(); ++i) tensor->set(i, 0.01 * tensor->at(i));
  }
  const Dump dump = launch(*run.module, run.module_name, run.request);
  const Diagnosis diagnosis = diagnosis_of(dump);
  CHECK(named(diagnosis) == "epilogue o_final never_written");
  double largest = 0;
  Judge(dump).judge(
      0, [&](SiteId id, std::int64_t, std::int64_t, Judgement, const reference::Bounded& want) {
        if (id == SiteId::o_final) largest = std::max(largest, want.value.abs().largest());
      });
  CHECK(largest < 0.03);
  CHECK(largest > 0);
}

TEST_CASE("locate: clean kernels are clean, whatever is run") {
  std::vector<std::pair<std::string, std::string>> kernels;
  for (const std::string& kernel : declared_kernels()) kernels.emplace_back(kernel, "");
  for (const testing::Specimen& control : testing::controls()) {
    kernels.emplace_back(control.kernel, control.name);
  }
  for (const auto& [kernel, specimen] : kernels) {
    RunOptions options;
    options.kernel = kernel;
    options.specimen = specimen;
    options.backend = "sim";
    const Location location = locate(options);
    INFO(kernel << " " << specimen);
    CHECK_FALSE(location.diagnosis);
    const auto checked = std::count_if(location.runs.begin(), location.runs.end(),
                                       [](const LocateRun& r) { return r.checked; });
    CHECK(checked >= 4);
    CHECK(std::ssize(location.runs) - checked >= 10);
    for (const LocateRun& run : location.runs) CHECK(run.match);
    const auto types = declared_dtypes(specimen.empty() ? kernel : kernel + "+" + specimen);
    for (std::size_t i = 1; i < types.size(); ++i) {
      CHECK(std::any_of(location.runs.begin(), location.runs.end(),
                        [&](const LocateRun& r) { return r.about == "inputs of " + types[i]; }));
    }
  }
}

TEST_CASE("locate: faults of an emulated kernel") {
  const std::pair<Fault, std::string> expected[] = {
      {Fault::wrong_scale, "qk s wrong_scale"},
      {Fault::stale_maximum, "softmax m never_updated"},
      {Fault::missing_rescale, "pv o not_rescaled"},
      {Fault::dropped_key, "pv o contribution_missing"},
      {Fault::l_twice, "epilogue o_final normalised_twice"},
  };
  for (const Products products : {Products::tensor_core, Products::fp32_fma}) {
    for (const auto& [fault, text] : expected) {
      const Dump dump =
          synthetic_dump({.problem = three_tiles, .products = products, .fault = fault});
      const Diagnosis diagnosis = diagnosis_of(dump);
      INFO(joined(diagnosis.evidence));
      CHECK(named(diagnosis) == text);
    }
  }
}

TEST_CASE("locate: slots that were never written, and zeros") {
  Dump dump = synthetic_dump({.problem = three_tiles});
  poison(tensor_of(dump, SiteId::alpha), slot_index(dump, SiteId::alpha, 0, 1, 3, 0));
  CHECK(named(diagnosis_of(dump)) == "softmax alpha never_written");

  dump = synthetic_dump({.problem = three_tiles});
  const auto poison_tile = [&](const DumpSite& entry, std::int64_t tile) {
    const SiteSlots slots(dump, entry);
    for (std::int64_t slot = 0; slot < slots.count(); ++slot) {
      poison(tensor_of(dump, entry.site.id), slots.first(0, tile) + slot);
    }
  };
  for (const DumpSite& entry : dump.info.sites) {
    if (entry.site.per_tile) poison_tile(entry, 2);
  }
  CHECK(named(diagnosis_of(dump)) == "load k_smem tile_skipped");

  // Q alone, and Q of a block that comes to no tile.
  dump = synthetic_dump({.problem = three_tiles});
  poison_tile(*dump.find_site("q_smem"), 0);
  CHECK(named(diagnosis_of(dump)) == "load q_smem never_written");
  for (const DumpSite& entry : dump.info.sites) {
    for (std::int64_t tile = 0; entry.site.per_tile && tile < 3; ++tile) poison_tile(entry, tile);
  }
  CHECK(named(diagnosis_of(dump)) == "load q_smem tile_skipped");

  dump = synthetic_dump({.problem = three_tiles});
  change(dump, SiteId::p, 1, [](int, int) { return 0; });
  CHECK(named(diagnosis_of(dump)) == "softmax p written_zero?");
}

TEST_CASE("locate: one lane of a row that disagrees") {
  Dump dump = synthetic_dump({.problem = three_tiles});
  tensor_of(dump, SiteId::m).set(slot_index(dump, SiteId::m, 0, 0, 5, 0, 2), 17.25);
  const Diagnosis diagnosis = diagnosis_of(dump);
  CHECK(named(diagnosis) == "softmax m lanes_disagree");
  CHECK_THAT(joined(diagnosis.evidence), Catch::Matchers::ContainsSubstring("row 5"));
  CHECK_THAT(joined(diagnosis.evidence), Catch::Matchers::ContainsSubstring("17.25"));
}

TEST_CASE("locate: the first NaN, with its operands") {
  Dump dump = synthetic_dump({.problem = {1, 1, 1, 64, 32, 32, true}, .br = 64});
  // Query 0 sees no key: alpha = 2^(-inf - -inf).
  for (int copy = 0; copy < 4; ++copy) {
    tensor_of(dump, SiteId::alpha)
        .set(slot_index(dump, SiteId::alpha, 0, 0, 0, 0, copy), std::nan(""));
  }
  const Diagnosis diagnosis = diagnosis_of(dump);
  INFO(joined(diagnosis.evidence));
  CHECK(named(diagnosis) == "softmax alpha masked_row_unguarded");
  CHECK_THAT(joined(diagnosis.evidence), Catch::Matchers::ContainsSubstring("m_prev[0] = -inf"));
}

TEST_CASE("locate: right values in wrong places") {
  const auto moved = [](SiteId id, const std::function<std::pair<int, int>(int, int)>& from) {
    Dump dump = synthetic_dump({.problem = one_tile});
    const reference::Array right = elements(dump, id, 0, 32);
    change(dump, id, 0, [&](int row, int col) {
      const auto [r, c] = from(row, col);
      return right(r, c);
    });
    return diagnosis_of(dump);
  };
  using Place = std::pair<int, int>;
  const auto check = [](const Diagnosis& diagnosis, const std::string& name,
                        const std::string& evidence) {
    CHECK(named(diagnosis) == name);
    CHECK_THAT(joined(diagnosis.evidence), Catch::Matchers::ContainsSubstring(evidence));
  };
  check(moved(SiteId::s, [](int r, int c) { return Place{r, c ^ 1}; }), "qk s permuted", "xor 1");
  check(moved(SiteId::s,
              [](int r, int c) {
                return Place{r ^ 8, c};
              }),
        "qk s permuted", "row i xor 8");
  check(moved(SiteId::s, [](int r, int c) { return Place{c, r}; }), "qk s transposed", "exchanged");
  check(moved(SiteId::q_smem,
              [](int r, int c) {
                return Place{r, c ^ ((r % 4) * 8)};
              }),
        "load q_smem permuted", "chunk");
  check(moved(SiteId::k_smem,
              [](int r, int c) {
                return Place{(r + 1) % 32, c};
              }),
        "load k_smem permuted", "row");
}

TEST_CASE("locate: no detector explains noise") {
  for (const SiteId id :
       {SiteId::k_smem, SiteId::s, SiteId::m, SiteId::alpha, SiteId::p, SiteId::l, SiteId::o}) {
    Dump dump = synthetic_dump({.problem = three_tiles});
    const reference::Array right = elements(dump, id, 1, 32);
    std::uint32_t state = 1;
    const int cols = static_cast<int>(right.cols());
    reference::Array noisy = right;
    for (int row = 0; row < right.rows(); ++row) {
      for (int col = 0; col < cols; ++col) {
        state = state * 1664525u + 1013904223u;
        noisy(row, col) += 0.25 + state / 4294967296.0;
      }
    }
    change(dump, id, 1, [&](int row, int col) { return noisy(row, col); });
    const Diagnosis diagnosis = diagnosis_of(dump);
    INFO(name_of(id) << "\n" << joined(diagnosis.evidence));
    CHECK(diagnosis.cause == Cause::unexplained);
    CHECK_FALSE(diagnosis.certain);
  }
}

TEST_CASE("locate: a broken rule of the machine is a cause by itself") {
  Dump dump = synthetic_dump({.problem = one_tile});
  dump.info.incomplete = "block 0: lanes wait at different barriers";
  const Diagnosis diagnosis = diagnosis_of(dump);
  CHECK(diagnosis.cause == Cause::machine_rule);
  CHECK(diagnosis.certain);
}

}  // namespace
}  // namespace lanescope
