// What is timed is right, how samples are summed up, and what a device could do at best.

#include "gates/measure/bench.h"

#include <cmath>

#include "debug/judge/diff.h"
#include "reference/error.h"
#include "tests/support/catch.h"
#include "tests/support/kernels.h"
#include "tests/support/synthetic_dump.h"

using namespace lanescope;
using Catch::Matchers::ContainsSubstring;

namespace {

/// An H200 as its driver describes it.
constexpr ModuleDevice h200{132, 1980000, 3201000, 6144, 62914560};

/// What `mma` leaves on sim, its module as it is timed on a GPU: without tracing.
Dump untraced_run(const char* shape) {
  RunOptions options;
  options.kernel = "mma";
  options.gate = "fused";
  options.backend = "sim";
  options.shape = shape;
  options.untraced = true;
  const PreparedRun run = prepare(options);
  return launch(*run.module, run.module_name, run.request);
}

BenchOptions options_of(const char* kernel) {
  BenchOptions options;
  options.run.kernel = kernel;
  options.run.gate = "fused";
  return options;
}

}  // namespace

TEST_CASE("bench: samples are summed up") {
  const auto summary = [](std::vector<float> samples) {
    const TimeSummary t = summarise(samples);
    return std::vector<double>{t.median, t.least, t.p90};
  };
  CHECK(summary({7}) == std::vector<double>{7, 7, 7});
  CHECK(summary({4, 1}) == std::vector<double>{2.5, 1, 4});
  CHECK(summary({9, 1, 5}) == std::vector<double>{5, 1, 9});
  CHECK(summary({10, 9, 8, 7, 6, 5, 4, 3, 2, 1}) == std::vector<double>{5.5, 1, 9});
  CHECK(summary({11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1}) == std::vector<double>{6, 1, 10});
}

TEST_CASE("bench: row tiles are spread from the first to the last") {
  using Tiles = std::vector<std::int64_t>;
  CHECK(spread(1, 8) == Tiles{0});
  CHECK(spread(3, 8) == Tiles{0, 1, 2});
  CHECK(spread(8, 8) == Tiles{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(spread(9, 8) == Tiles{0, 1, 2, 3, 4, 5, 6, 8});
  CHECK(spread(2048, 8) == Tiles{0, 292, 584, 877, 1169, 1462, 1754, 2047});
  CHECK(spread(100, 1) == Tiles{0});
}

TEST_CASE("bench: the work of a forward pass") {
  Problem p{2, 4, 2, 16, 16, 64, false};
  Work work = work_of(p, ElementType::f16);
  CHECK(work.flops == 4.0 * 2 * 4 * 16 * 16 * 64);
  CHECK(work.bytes == 2.0 * 2 * 16 * 64 * (4 + 2 + 2 + 4));
  CHECK(work_of(p, ElementType::e4m3).bytes == 2.0 * 16 * 64 * (4 + 2 + 2 + 2 * 4));
  p.causal = true;
  CHECK(work_of(p, ElementType::f16).flops == 4.0 * 2 * 4 * (16 * 17 / 2) * 64);
  p.len_kv = 20;  // query i sees i + 5 keys
  CHECK(work_of(p, ElementType::f16).flops == 4.0 * 2 * 4 * (16 * 17 / 2 + 16 * 4) * 64);
  p.len_kv = 8;  // the first 8 queries see none
  CHECK(work_of(p, ElementType::f16).flops == 4.0 * 2 * 4 * (8 * 9 / 2) * 64);
}

TEST_CASE("bench: the floor is what takes longer, the operations or the bytes") {
  const auto rates = rates_of(h200, "sm_90", Products::tensor_core);
  REQUIRE(rates);
  CHECK(rates->flops_per_second == 132 * 1.98e9 * 4096);
  CHECK(rates->bytes_per_second == 2 * 3.201e9 * 6144 / 8);
  CHECK(rates_of(h200, "sm_90a", Products::fp32_fma)->flops_per_second == 132 * 1.98e9 * 256);
  CHECK(rates_of({108, 1410000, 1215000, 5120, 0}, "sm_80", Products::tensor_core)
            ->flops_per_second == Approx(312e12).epsilon(0.001));  // as the A100's data sheet
  CHECK_FALSE(rates_of(h200, "sm_999", Products::tensor_core));
  CHECK_FALSE(rates_of(h200, "", Products::tensor_core));
  CHECK_FALSE(rates_of({132, 0, 3201000, 6144, 0}, "sm_90", Products::tensor_core));

  CHECK(floor_of({3e12, 1e9}, {1e15, 1e12}).microseconds == Approx(3000));
  CHECK_FALSE(floor_of({3e12, 1e9}, {1e15, 1e12}).is_memory);
  CHECK(floor_of({3e12, 8e9}, {1e15, 1e12}).microseconds == Approx(8000));
  CHECK(floor_of({3e12, 8e9}, {1e15, 1e12}).is_memory);
}

TEST_CASE("bench: a wrong value in a row tile that is judged is found") {
  Dump dump = untraced_run("h=3,s=256,d=64");
  const std::int64_t last = dump.info.row_tiles() - 1;
  REQUIRE(last == 11);
  CHECK(diff_row_tiles(dump, {0, 5, last}).match);
  Tensor& o = testing::tensor_of(dump, SiteId::o_final);
  const std::int64_t in_tile_5 = (5 * 64 + 63) * 64 + 7;
  o.set(in_tile_5, o.at(in_tile_5) + 0.5);
  CHECK(diff_row_tiles(dump, {0, 4, 6, last}).match);
  CHECK_FALSE(diff_row_tiles(dump, {0, 5, last}).match);
  o.set(o.size() - 1, NAN);
  const DiffReport report = diff_row_tiles(dump, {0, last});
  CHECK_FALSE(report.match);
  REQUIRE(report.first);
  CHECK(report.first->head == 2);
  CHECK(report.first->query == 255);
  CHECK(report.first->col == 63);
}

TEST_CASE("bench: two runs leave the same bits, or one bit tells them apart") {
  const Dump first = untraced_run("h=2,s=100,d=64");
  CHECK(left_same_bits(first, untraced_run("h=2,s=100,d=64")));

  for (const SiteId id : {SiteId::o_final, SiteId::lse}) {
    INFO(name_of(id));
    Dump last = first;
    Bytes& bytes = testing::tensor_of(last, id).bytes;
    for (const std::size_t at : {std::size_t{0}, bytes.size() / 2, bytes.size() - 1}) {
      bytes.data()[at] ^= std::byte{1};
      CHECK_FALSE(left_same_bits(first, last));
      bytes.data()[at] ^= std::byte{1};
      CHECK(left_same_bits(first, last));
    }
  }

  Dump a = first, b = first;
  Tensor &o_a = testing::tensor_of(a, SiteId::o_final),
         &o_b = testing::tensor_of(b, SiteId::o_final);
  o_a.set(7, NAN);
  o_b.set(7, NAN);
  CHECK(left_same_bits(a, b));
  o_b.bytes.data()[2 * 7] ^= std::byte{1};
  REQUIRE(std::isnan(o_b.at(7)));
  CHECK_FALSE(left_same_bits(a, b));
  o_a.set(7, 0.0);
  o_b.set(7, -0.0);
  CHECK_FALSE(left_same_bits(a, b));

  Dump lacks = first, renamed = first;
  std::erase_if(lacks.tensors, [](const Dump::Entry& entry) { return entry.name == "lse"; });
  REQUIRE(lacks.tensors.size() + 1 == first.tensors.size());
  CHECK_FALSE(left_same_bits(first, lacks));
  CHECK_FALSE(left_same_bits(lacks, first));
  renamed.tensors.back().name += "_";
  CHECK_FALSE(left_same_bits(first, renamed));
}

TEST_CASE("bench: sim is not timed") {
  RunOptions options;
  options.kernel = "mma";
  options.gate = "fused";
  options.backend = "sim";
  options.untraced = true;
  PreparedRun run = prepare(options);
  ModuleTiming timing{};
  timing.samples = 1;
  run.request.timing = &timing;
  CHECK_THROWS_WITH(launch(*run.module, run.module_name, run.request),
                    ContainsSubstring("only cuda modules are timed"));
  BenchOptions bench_options = options_of("mma");
  bench_options.run.backend = "sim";
  CHECK_THROWS_AS(bench(bench_options), UsageError);
}

TEST_CASE("bench: what is right is timed, what is wrong is not") {
  lanescope::testing::on_backend("cuda", [] {
    BenchOptions options = options_of("mma");
    options.presets = {"mission"};
    options.shapes = {"", "s=65,hkv=2"};
    options.repeats = 5;
    const BenchReport report = bench(options);
    CHECK(report.all_right());
    ModuleWish wish;
    wish.kernel = "mma";
    wish.backend = "cuda";
    CHECK(report.results.size() == 2 * choose_tiles(wish).size());
    for (const BenchResult& result : report.results) {
      INFO(result.module << ": " << result.fault);
      CHECK(result.samples == 5);
      CHECK(result.launches > 1);
      CHECK(result.time.least > 1);
      CHECK(result.time.least <= result.time.median);
      CHECK(result.time.median <= result.time.p90);
      REQUIRE(result.work);
      if (result.rates && !floor_of(*result.work, *result.rates).is_memory) {
        CHECK(result.time.least > floor_of(*result.work, *result.rates).microseconds);
      }
    }
    CHECK_THAT(bench_json(report), ContainsSubstring("share_of_floor"));
  });
}

TEST_CASE("bench: a report of what is right and what is wrong") {
  BenchResult right;
  right.tile = "64x64";
  right.problem = {1, 8, 8, 512, 512, 64, false};
  right.device = "NVIDIA H200";
  right.arch = "sm_90";
  right.input = "random";
  right.work = work_of(right.problem, ElementType::f16);
  right.rates = rates_of(h200, "sm_90", Products::tensor_core);
  right.l2_bytes = h200.l2_bytes;
  right.time = {10.04, 9.9, 10.2};
  right.samples = 30;
  right.launches = 200;
  right.row_tiles = 64;
  right.row_tiles_judged = 8;
  BenchResult wrong = right;
  wrong.tile = "128x64";
  wrong.fault = "it diverges from the reference: o_final is 1";
  wrong.diff_command = "lanescope diff mma fused";
  BenchReport report{"mma", "fused", {right, wrong}, {}};
  CHECK_FALSE(report.all_right());
  const std::string text = bench_text(report, {});
  CHECK_THAT(text, ContainsSubstring("b=1,h=8,s=512,d=64"));
  CHECK_THAT(text, ContainsSubstring("537 MFLOP at 1.07 PFLOP/s (tensor cores) take 0.501"));
  CHECK_THAT(text, ContainsSubstring("2.10 MB at 4.92 TB/s 0.427"));
  CHECK_THAT(text, ContainsSubstring("stay in L2"));
  CHECK_THAT(text,
             ContainsSubstring("64x64      10.04  9.900  10.20     53.5     5.0 %  30 x 200"));
  CHECK_THAT(text, ContainsSubstring("128x64 is not timed: it diverges"));
  CHECK_THAT(text, ContainsSubstring("  lanescope diff mma fused\n"));
  CHECK_THAT(bench_json(report), ContainsSubstring("\"verdict\": \"diverged\""));
}
