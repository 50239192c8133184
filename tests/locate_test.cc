// What locate says: of every planted bug, and of the clean kernels.

#include "gates/run/locate.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>

#include "debug/causes/detectors.h"
#include "debug/dump/dump_metadata.h"
#include "debug/judge/judge.h"
#include "gates/build/module_catalogue.h"
#include "gates/run/far_head.h"
#include "gates/run/first_nan.h"
#include "gates/run/locate_dependence.h"
#include "gates/run/locate_far.h"
#include "gates/run/locate_memory.h"
#include "gates/run/sightings.h"
#include "gates/run/source_place.h"
#include "gates/run/tell_fault.h"
#include "reference/inputs.h"
#include "tests/specimens.h"
#include "tests/support/catch.h"
#include "tests/support/diagnosed.h"
#include "tests/support/verdict.h"

namespace lanescope {
namespace {

using testing::diagnosis_of;
using testing::joined;
using testing::named;

TEST_CASE("locate: a race of two lanes is of the stage whose function does both accesses") {
  const auto line_of = [](Stage stage, int more) {
    const std::string place = source_places("scalar", stage, SiteId::o)[0];
    const std::size_t colon = place.find(':');
    return place.substr(0, colon + 1) + std::to_string(std::atoi(&place[colon + 1]) + more);
  };
  const std::string first = line_of(Stage::softmax, 2), second = line_of(Stage::softmax, 5);
  CHECK(stage_of_lines("scalar", {first, second}) == Stage::softmax);
  CHECK_FALSE(stage_of_lines("scalar", {first, line_of(Stage::pv, 2)}));
  CHECK_FALSE(stage_of_lines("scalar", {"kernels/scalar.h:1"}));
  CHECK_FALSE(stage_of_lines("scalar", {"nowhere"}));
  Diagnosis race;
  race.first.emplace();
  race.first->stage = Stage::qk;
  race.cause = Cause::race;
  race.memory.emplace_back();
  race.memory[0].access_line = first;
  race.memory[0].earlier_line = second;
  place_race("scalar", race);
  CHECK(race.stage() == Stage::softmax);
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
  // A stage of the parts that it does not call is not its own: then, what lies before the seam.
  CHECK_THAT(source_places("wgmma", Stage::qk, SiteId::s)[0],
             Catch::Matchers::Matches("kernels/parts/wgmma_steps\\.h:[0-9]+-[0-9]+"));
  CHECK_THAT(source_places("splitk", Stage::combine, SiteId::o_final)[0],
             Catch::Matchers::Matches("kernels/splitk\\.h:[0-9]+-[0-9]+ \\(combine\\)"));
  CHECK(source_places("nothing", Stage::pv, SiteId::o).empty());
}

TEST_CASE("locate: functions that mask scores, and leave tiles of them out") {
  const std::vector<std::string> places = mask_places("wgmma");
  const char* const names[] = {"whole_tiles", "seen_tiles", "mask_scores"};
  REQUIRE(places.size() == std::size(names));
  for (std::size_t i = 0; i < places.size(); ++i) {
    const std::string lines = "kernels/parts/wgmma_stages\\.h:[0-9]+-[0-9]+ \\(";
    CHECK_THAT(places[i], Catch::Matchers::Matches(lines + names[i] + "\\)"));
  }
  // One that has its mask where the scores are made has no other.
  CHECK(mask_places("scalar").empty());
}

TEST_CASE("locate: a power of two that is infinite says more than the nearest rounding") {
  Location location;
  location.diagnosis.emplace();
  Diagnosis& values = *location.diagnosis;
  values.first.emplace();
  values.first->site = SiteId::o_final;
  values.first->stage = Stage::qk;
  values.cause = Cause::precision_lost;
  RunOptions failed;
  failed.shape = "s=64,skv=32";
  tell_origin(failed, location);
  CHECK(values.cause == Cause::precision_lost);
  location.nan.kind = simt::NanOrigin::Kind::exponential;
  tell_origin(failed, location);
  CHECK(values.cause == Cause::overflow);
  CHECK(values.first->stage == Stage::softmax);
  CHECK_FALSE(values.certain);
  CHECK(location.source.empty());
  location.nan.line = "/tmp/k.cu:93";
  // Zero by zero is that of an empty sum where there are such rows.
  location.nan.kind = simt::NanOrigin::Kind::division;
  for (const bool causal : {false, true}) {
    values.cause = Cause::non_finite;
    failed.causal = causal;
    tell_origin(failed, location);
    CHECK(values.cause == (causal ? Cause::divided_by_zero : Cause::non_finite));
  }
  CHECK(location.source == std::vector<std::string>{"/tmp/k.cu:93"});
}

TEST_CASE("locate: the first NaN comes after the access that the memory checker found") {
  Location location;
  Diagnosis& read = location.diagnosis.emplace();
  read.first.emplace();
  read.first->site = SiteId::o_final;
  read.first->stage = Stage::load;
  read.first->got = std::numeric_limits<double>::quiet_NaN();
  read.cause = Cause::missing_wait;
  read.memory.emplace_back();
  location.nan.kind = simt::NanOrigin::Kind::other;
  location.nan.stage = Stage::qk;
  location.nan.line = "/tmp/k.cu:93";
  location.first_nan = {"first NaN: mma at /tmp/k.cu:93"};
  RunOptions failed;
  failed.shape = "s=64";
  tell_origin(failed, location);
  CHECK((read.cause == Cause::missing_wait && read.first->stage == Stage::load));
  CHECK(location.source.empty());
  CHECK(read.evidence == location.first_nan);
}

TEST_CASE("locate: an infinity of finite numbers comes before the NaN that is made of it") {
  const auto named = [](const std::string& infinity) {
    Location location;
    Diagnosis& values = location.diagnosis.emplace();
    values.first.emplace();
    values.first->site = SiteId::o_final;
    values.first->got = std::numeric_limits<double>::quiet_NaN();
    values.cause = Cause::non_finite;
    location.nan.kind = simt::NanOrigin::Kind::other;
    location.nan.stage = Stage::epilogue;
    location.nan.line = "/tmp/k.cu:93";
    location.first_nan = {"first NaN: mul.f32 at k.cu:93 in epilogue of inf, 0", infinity};
    RunOptions failed;
    failed.shape = "s=64";
    tell_origin(failed, location);
    return std::string(name_of(values.first->stage)) + " " + name_of(values.cause);
  };
  CHECK(named("first infinity: mul.f32 at k.cu:55 in softmax of 3e+24, 8e+37") ==
        "softmax overflow");
  CHECK(named("first infinity: mul.f32 at k.cu:55 in softmax of inf, 2") == "epilogue non_finite");
  CHECK(named("first infinity: rcp.f32 at k.cu:55 in softmax of 0") == "epilogue non_finite");
  CHECK(named("first infinity: mul.f32 at k.cu:55 in qk of -3e+38, 2") == "epilogue non_finite");
}

TEST_CASE("locate: what a kernel is not made for is a limit, and no fault") {
  Location location;
  location.runs = {{"k.so fused --shape s=64", "causal", true},
                   {"k.so fused --shape h=32768", "the last head", false}};
  location.runs.back().limit = true;
  location.limits = {"all indices are of 32 bits"};
  const std::string text = location_text(location, Style{});
  CHECK_THAT(text, Catch::Matchers::ContainsSubstring("  limit      all indices are of 32 bits"));
  CHECK_THAT(text, Catch::Matchers::ContainsSubstring("clean: 1 runs match the reference"));
  CHECK_THAT(text, !Catch::Matchers::ContainsSubstring("diverged"));
  const std::string json = location_json(location);
  CHECK_THAT(json, Catch::Matchers::ContainsSubstring("\"verdict\": \"clean\""));
  CHECK_THAT(json, Catch::Matchers::ContainsSubstring("\"limit\": true"));
}

TEST_CASE("locate: scores that are lacking because their rows of K were never read are load's") {
  Sightings seen;
  seen.scores = {.needed = 1000, .seen = 800, .lines = {"k.cu:50"}, .least = 32};
  seen.queries = 10;
  seen.keys = 1000;
  CHECK_FALSE(seen.lacks_rows());
  seen.unread_k = 200;
  CHECK(seen.lacks_rows());
  CHECK(seen.stage() == Stage::load);
  seen.unread_k = 100;  // of the other scores the rows were read
  CHECK_FALSE(seen.lacks_rows());
  CHECK(seen.stage() == Stage::qk);
}

TEST_CASE("locate: who should have stored what was never written, though its weights were made") {
  Sightings seen;
  seen.scores = seen.weights = {.needed = 1000, .seen = 1000, .lines = {"k.cu:50"}, .least = 32};
  CHECK(seen.storing_stage() == Stage::epilogue);
  seen.combines = true;
  CHECK(seen.storing_stage() == Stage::combine);
  seen.weights.seen = 0;
  CHECK_FALSE(seen.storing_stage());
}

TEST_CASE("locate: the shortest option that the wrong runs have in common") {
  const RunTraits plain{"--shape s=64", {}, true}, causal{"--causal", {"--causal"}, true};
  const RunTraits ragged{"--shape s=70", {"ragged", "several"}, true};
  RunTraits both{"--shape s=70 --causal", {"--causal", "ragged", "several"}, false};
  CHECK(dependence_text({plain, causal, ragged, both}) ==
        "wrong with --causal and ragged, right otherwise, in 4 runs");
  RunTraits wrong_ragged = ragged;
  wrong_ragged.match = false;
  CHECK(dependence_text({plain, causal, wrong_ragged, both}) ==
        "wrong with ragged, right without, in 4 runs");
  const RunTraits also{"--seed 1", {}, false};
  CHECK(dependence_text({plain, causal, also, both}) ==
        "right with --shape s=64, wrong with --seed 1");
  const RunTraits short_keys{"mma fused --shape b=1,s=64,d=64", {}, true};
  const RunTraits long_keys{"mma fused --shape b=1,s=64,skv=192,d=64", {}, false};
  CHECK(dependence_text({short_keys, long_keys}) == "wrong with --shape skv=192, right without");
  CHECK(dependence_text({plain, causal}).empty());
  // What a run lacks tells as well.
  const RunTraits fails{"--shape s=70", {"ragged"}, false};
  CHECK(dependence_text({fails, causal}) == "right with --causal, wrong without, in 2 runs");
  RunTraits causal_ragged = both;
  causal_ragged.match = true;
  CHECK(dependence_text({plain, causal, wrong_ragged, causal_ragged}) ==
        "wrong without --causal and with ragged, right otherwise, in 4 runs");
  RunTraits wrong_causal = causal;
  wrong_causal.match = false;
  CHECK(dependence_text({plain, wrong_causal, wrong_ragged, both}) ==
        "wrong with --causal or with ragged, right otherwise, in 4 runs");
  // No rule of two: the two runs that are most alike.
  const RunTraits rising{"--input rising", {"ragged", "several", "rising"}, true};
  const RunTraits seed{"--seed 1", {"seeded"}, false};
  CHECK(dependence_text({plain, wrong_ragged, rising, seed}) ==
        "right with rising, wrong without, all else alike");
}

TEST_CASE("locate: the last head of tensors beyond 2^32 elements is as it is alone") {
  for (const char* kernel : {"scalar", "mma", "splitk", "wgmma"}) {
    RunOptions options;
    options.kernel = kernel;
    options.gate = name_of(Gate::fused);
    options.backend = "sim";
    for (const FarSide side : {FarSide::heads, FarSide::query_heads, FarSide::queries}) {
      const std::optional<FarHead> far = run_far_head(options, side);
      REQUIRE(far);
      INFO(kernel << ": " << far->fault << ", " << far->differing << " of " << far->compared);
      CHECK(far->problem.queries() * far->problem.d > std::int64_t{1} << 32);
      CHECK(far->right());
      CHECK(far->compared >= 16 * 64);
    }
  }
}

TEST_CASE("locate: no number that parts give may be of parts that nobody wrote") {
  Diagnosis diagnosis;
  diagnosis.cause = Cause::overflow;
  diagnosis.first.emplace();
  diagnosis.first->stage = Stage::combine;
  diagnosis.first->got = 1;
  CHECK_FALSE(may_be_of_nothing(diagnosis));
  diagnosis.first->got = std::numeric_limits<double>::quiet_NaN();
  CHECK(may_be_of_nothing(diagnosis));
}

TEST_CASE("locate: whose index is too narrow, the partials of the last rows tell") {
  FarHead far;
  far.compared = far.differing = 1024;
  far.partials = {1, 2, 3};
  CHECK(overflow_of(far, FarSide::heads, false).first->stage == Stage::load);
  far.partials_hold = true;
  for (const bool queries_hold : {false, true}) {
    const Diagnosis diagnosis = overflow_of(far, FarSide::heads, queries_hold);
    CHECK(diagnosis.first->stage == Stage::combine);
    CHECK(diagnosis.first->site == SiteId::o_final);
  }
  far.partials_hold = false;
  far.partials.back() = poison32;
  CHECK(overflow_of(far, FarSide::heads, false).first->stage == Stage::epilogue);
}

TEST_CASE("locate: every planted bug by stage, site and cause", "[slow]") {
  REQUIRE(testing::all_specimens().size() >= 25);
  for (const testing::Specimen& specimen : testing::all_specimens()) {
    RunOptions options;
    options.kernel = specimen.kernel;
    options.specimen = specimen.name;
    options.backend = "sim";
    if (specimen.cause == "hang") options.timeout_seconds = 1;
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
    if (!specimen.of_memory) continue;
    REQUIRE_FALSE(location.diagnosis->memory.empty());
    const CheckReport::Item& item = location.diagnosis->memory.front();
    const std::string source = "kernels/";
    CHECK(item.access_line.substr(0, source.size()) == source);
    constexpr std::array findings_of_two = {"race",
                                            "wrong_phase",
                                            "missing_wait",
                                            "written_twice",
                                            "operand_overwritten",
                                            "missing_proxy_fence",
                                            "register_in_flight",
                                            "missing_register_fence",
                                            "double_arrival",
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
TEST_CASE("locate: two faults are named as two") {
  RunOptions options;
  options.kernel = "mma";
  options.specimen = "two_faults";
  options.backend = "sim";
  const Location location = locate(options);
  REQUIRE(location.diagnosis);
  CHECK(named(*location.diagnosis) == "softmax p permuted");
  REQUIRE(location.others.size() == 1);
  CHECK(named(location.others[0]) == "epilogue lse wrong_base");
  // One fault is one, though what follows from it is wrong in three sites.
  options.specimen = "rescale_dropped_mma";
  CHECK(locate(options).others.empty());
}

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

}  // namespace
}  // namespace lanescope
