// Products of warpgroups in kernels given as PTX: what they compute, what stops them, and what the
// memory checker says of them.

#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include "debug/ptx/recording.h"
#include "tests/support/catch.h"
#include "tests/support/ptx_hopper.h"

using namespace lanescope;
using namespace lanescope::ptx_hopper;
using Catch::Matchers::ContainsSubstring;

namespace {

/// A, 64 rows of 32 bytes, and B, 8 rows, without swizzle: chunks of 16 bytes, eight rows of the
/// first, then of the second. %rd7 and %rd8 are their descriptors.
const std::string operands =
    "@%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r8], [%rd3], 2304, "
    "[%r9];\n"
    "shr.u32 %r10, %r8, 4; cvt.u64.u32 %rd7, %r10; or.b64 %rd7, %rd7, 0x1000080000;\n"
    "add.u64 %rd8, %rd7, 128; setp.ne.u32 %p3, 0, 0;\n";
std::string product(const std::string& types, const std::string& tail) {
  return "wgmma.mma_async.sync.aligned.m64n8" + types + " {%f0, %f1, %f2, %f3}, %rd7, %rd8, %p3, " +
         tail + ";\n";
}
const std::string fence = "wgmma.fence.sync.aligned;\n",
                  commit = "wgmma.commit_group.sync.aligned;\n",
                  wait_all = "wgmma.wait_group.sync.aligned 0;\n";
const std::string keep =
    "mul.wide.u32 %rd9, %r0, 16; add.s64 %rd9, %rd9, %rd0;\n"
    "st.global.v4.f32 [%rd9], {%f0, %f1, %f2, %f3};\n";

/// The bytes of both operands whose 16-bit, or 8-bit, element (row, k) is element(row, k), rows of
/// B from 64 on.
template <class T, class F>
std::vector<std::uint32_t> operand_words(F&& element) {
  std::vector<std::uint32_t> words(576);
  auto* bytes = reinterpret_cast<std::byte*>(words.data());
  for (int row = 0; row < 72; ++row) {
    for (int k = 0; k < 32 / static_cast<int>(sizeof(T)); ++k) {
      const int byte = k * static_cast<int>(sizeof(T));
      const T value = element(row, k);
      std::memcpy(bytes + row / 8 * 256 + byte / 16 * 128 + row % 8 * 16 + byte % 16, &value,
                  sizeof value);
    }
  }
  return words;
}

float accumulator(const Result& result, int row, int col) {
  const int lane = row % 8 * 4 + col / 2, warp = row / 16, i = row / 8 % 2 * 2 + col % 2;
  return std::bit_cast<float>(result.out[static_cast<std::size_t>((warp * 32 + lane) * 4 + i)]);
}

}  // namespace

TEST_CASE("ptx hopper: products of warpgroups", "[ptx]") {
  // 1, 2 and −1 as f16 and as e4m3.
  const auto number = [](int row, int k) { return (row * 5 + k * 3 + row / 9) % 3; };
  static constexpr float values[] = {1, 2, -1};
  static constexpr std::uint16_t halves[] = {0x3c00, 0x4000, 0xbc00};
  static constexpr std::uint8_t bytes[] = {0x38, 0x40, 0xb8};
  const std::string before = init("1") + expect("2304") + operands + wait + fence;
  const auto check = [&](const Result& result, int depth, float sign) {
    CHECK(result.fault == "");
    CHECK(result.kinds.empty());
    for (int row = 0; row < 64; ++row) {
      for (int col = 0; col < 8; ++col) {
        float want = 0;
        for (int k = 0; k < depth; ++k)
          want += values[number(row, k)] * values[number(64 + col, k)];
        REQUIRE(accumulator(result, row, col) == sign * want);
      }
    }
  };
  const auto f16 =
      operand_words<std::uint16_t>([&](int row, int k) { return halves[number(row, k)]; });
  const auto e4m3 =
      operand_words<std::uint8_t>([&](int row, int k) { return bytes[number(row, k)]; });
  const std::string after = commit + wait_all + keep;
  for (const std::uint64_t schedule : {0, 1, 2}) {
    check(run(before + product("k16.f32.f16.f16", "1, 1, 0, 0") + after, true, schedule, f16), 16,
          1);
    check(run(before + product("k16.f32.f16.f16", "1, -1, 0, 0") + after, true, schedule, f16), 16,
          -1);
    check(run(before + product("k32.f32.e4m3.e4m3", "1, 1") + after, true, schedule, e4m3), 32, 1);
    // Twice, the second time added.
    check(run(before + product("k16.f32.f16.f16", "1, 1, 0, 0") + "setp.eq.u32 %p3, 0, 0;\n" +
                  product("k16.f32.f16.f16", "1, 1, 0, 0") + after,
              true, schedule, f16),
          16, 2);
  }
  // A from registers: ones, so that each row is the sums of B's rows.
  const Result sums = run(before + "mov.u32 %r20, 0x3c003c00;\n" + fence +
                              "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, "
                              "%f3}, {%r20, %r20, %r20, "
                              "%r20}, %rd8, %p3, 1, 1, 0;\n" +
                              after,
                          true, 0, f16);
  CHECK(sums.fault.empty());
  CHECK(sums.kinds.empty());
  float want = 0;
  for (int k = 0; k < 16; ++k) want += values[number(66, k)];
  CHECK(accumulator(sums, 40, 2) == want);
}

TEST_CASE("ptx hopper: the registers and operands of a product under way", "[ptx]") {
  const std::string before = init("1") + expect("2304") + operands + wait;
  const std::string one = product("k16.f32.f16.f16", "1, 1, 0, 0");
  CHECK(run(before + fence + one + commit + wait_all + keep, true).kinds.empty());
  CHECK(run(before + one + commit + wait_all + keep, true).found(Kind::missing_register_fence));
  CHECK(run(before + fence + one + commit + wait_all + "add.f32 %f1, %f1, %f1;\n" + one + commit +
                wait_all + keep,
            true)
            .found(Kind::missing_register_fence));
  CHECK(run(before + fence + one + commit + "add.f32 %f5, %f1, %f1;\n" + wait_all + keep, true)
            .found(Kind::register_in_flight));
  CHECK(run(before + fence + one + commit + "wgmma.wait_group.sync.aligned 1;\n" + keep, true)
            .found(Kind::register_in_flight));
  CHECK(run(before + fence + one + commit + "st.shared.u32 [%r7], %r0;\n" + wait_all + keep, true)
            .found(Kind::operand_overwritten));
  // Written by lanes, with the fence between the proxies and without.
  const std::string written = before + "st.shared.u32 [%r7], %r0;\n";
  CHECK(run(written + "bar.sync 0;\n" + fence + one + commit + wait_all + keep, true)
            .found(Kind::missing_proxy_fence));
  CHECK(run(written + "fence.proxy.async.shared::cta; bar.sync 0;\n" + fence + one + commit +
                wait_all + keep,
            true)
            .kinds.empty());
  // What cp.async brought and was waited for is seen without (debug/simt/block_checker.h); another
  // copy of the tile's first bytes, by a lane each.
  const std::string copied = before + "shl.b32 %r11, %r0, 2; add.u32 %r12, %r8, %r11;\n" +
                             "mul.wide.u32 %rd10, %r0, 4; add.s64 %rd10, %rd3, %rd10;\n" +
                             "cp.async.ca.shared.global [%r12], [%rd10], 4;\n";
  CHECK(run(copied + "cp.async.wait_all; bar.sync 0;\n" + fence + one + commit + wait_all + keep,
            true)
            .kinds.empty());
  CHECK_FALSE(
      run(copied + "bar.sync 0;\n" + fence + one + commit + wait_all + keep, true).kinds.empty());
  // A warp that does not come.
  CHECK_THAT(
      run(before + "setp.ge.u32 %p4, %r0, 96; @%p4 ret;\n" + fence + one + commit + wait_all).fault,
      ContainsSubstring("not all four warps of the warpgroup have issued"));
  CHECK_THAT(
      run(before + "cvt.u64.u32 %rd10, %r0; add.u64 %rd7, %rd7, %rd10;\n" + fence + one).fault,
      ContainsSubstring("the descriptor of B is another than lane 0's") ||
          ContainsSubstring("the descriptor of A is another than lane 0's"));
  CHECK_THAT(run(before +
                 "mov.u32 %r11, %r0; shr.u32 %r11, %r11, 5; cvt.u64.u32 %rd10, %r11; "
                 "add.u64 %rd7, %rd7, %rd10;\n" +
                 fence + one)
                 .fault,
             ContainsSubstring("different shapes or descriptors"));
  CHECK_THAT(
      run("mov.u64 %rd7, 0x3fff; mov.u64 %rd8, 0; setp.ne.u32 %p3, 0, 0;\n" + fence + one).fault,
      ContainsSubstring("an operand leaves the block's shared memory"));
}

TEST_CASE("ptx hopper: copies of registers in flight get their values in the wait", "[ptx]") {
  // Row r of A is r, row c of B is c + 1: each sum is 16·r·(c + 1).
  static constexpr std::uint16_t digits[] = {0,      0x3c00, 0x4000, 0x4200, 0x4400,
                                             0x4500, 0x4600, 0x4700, 0x4800};  // 0 to 8
  const auto words = operand_words<std::uint16_t>(
      [&](int row, int) { return digits[row < 64 ? row % 8 : row - 64 + 1]; });
  const std::string before = ".reg .b16 %h<8>;\n" + init("1") + expect("2304") + operands + wait;
  const std::string one = product("k16.f32.f16.f16", "1, 1, 0, 0");
  const std::string issued = before + fence + one + commit;
  const auto keep_these = [](const std::string& sums) {
    return "mul.wide.u32 %rd9, %r0, 16; add.s64 %rd9, %rd9, %rd0;\nst.global.v4.f32 [%rd9], {" +
           sums + "};\n";
  };
  const auto sum = [](int row, int col) { return static_cast<float>(16 * (row % 8) * (col + 1)); };
  const auto check = [&](const std::string& body, auto&& want) {
    for (const std::uint64_t schedule : {0, 1}) {
      const Result result = run(body, true, schedule, words);
      INFO(body);
      CHECK(result.fault == "");
      CHECK(result.kinds.empty());
      for (int row = 0; row < 64; ++row) {
        for (int col = 0; col < 8; ++col) REQUIRE(accumulator(result, row, col) == want(row, col));
      }
    }
  };
  const std::string copy =
      "mov.f32 %f4, %f0; mov.b32 %f5, %f1; mov.b32 %f6, %f2; mov.f32 %f7, %f3;\n";
  check(issued + copy + wait_all + keep_these("%f4, %f5, %f6, %f7"), sum);
  check(issued + copy + "mov.f32 %f8, %f4; mov.f32 %f9, %f5;\n" + wait_all +
            keep_these("%f8, %f9, %f6, %f3"),
        sum);
  // Halves, and two in one.
  check(issued + "mov.b32 {%h0, %h1}, %f0; mov.b32 {%h2, %h3}, %f1; mov.b32 %f4, {%h0, %h1};\n" +
            wait_all + "mov.b32 %f5, {%h2, %h3};\n" + keep_these("%f4, %f5, %f2, %f3"),
        sum);
  check(issued +
            "mov.b64 %rd10, {%f0, %f1}; mov.b64 %rd11, {%f2, %f3}; mov.b64 {%f4, %f5}, %rd10;\n" +
            wait_all + "mov.b64 {%f6, %f7}, %rd11;\n" + keep_these("%f4, %f5, %f6, %f7"),
        sum);
  // Sums of f16, which a compiler unpacks before the wait.
  check(
      before + fence +
          "wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {%r20, %r21}, %rd7, %rd8, %p3, 1, 1, "
          "0, 0;\n" +
          commit + "mov.b32 {%h0, %h1}, %r20; mov.b32 {%h2, %h3}, %r21;\n" + wait_all +
          "cvt.f32.f16 %f0, %h0; cvt.f32.f16 %f1, %h1; cvt.f32.f16 %f2, %h2; cvt.f32.f16 %f3, "
          "%h3;\n" +
          keep,
      sum);
  // Two that change places, a copy that is overwritten, one of some lanes.
  check(issued + "mov.f32 %f4, %f0; mov.f32 %f0, %f1; mov.f32 %f1, %f4;\n" + wait_all + keep,
        [&](int row, int col) { return sum(row, row % 16 < 8 ? col ^ 1 : col); });
  check(issued + copy + "mov.f32 %f4, 0f40A00000; add.f32 %f5, %f4, %f4;\n" + wait_all +
            keep_these("%f4, %f5, %f6, %f7"),
        [&](int row, int col) {
          return row % 16 >= 8 ? sum(row, col) : col % 2 == 0 ? 5.f : 10.f;
        });
  check(issued + "mov.f32 %f4, 0f40A00000; and.b32 %r20, %r0, 4; setp.eq.u32 %p4, %r20, 0;\n" +
            "@%p4 mov.f32 %f4, %f0;\n" + wait_all + keep_these("%f4, %f1, %f2, %f3"),
        [&](int row, int col) {
          const bool other = col % 2 == 0 && row % 16 < 8 && row % 2 == 1;
          return other ? 5.f : sum(row, col);
        });
  // A product that goes on with the copies, while the first is in flight; its own sums stay.
  const std::string on_copies =
      "setp.eq.u32 %p3, 0, 0;\nwgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f4, %f5, %f6, "
      "%f7}, %rd7, %rd8, %p3, 1, 1, 0, 0;\n";
  check(issued + copy + on_copies + commit + wait_all + keep_these("%f4, %f5, %f6, %f7"),
        [&](int row, int col) { return 2 * sum(row, col); });
  check(issued + copy + on_copies + commit + wait_all + keep, sum);
  check(issued + copy + "setp.eq.u32 %p3, 0, 0;\n" + one + commit + wait_all +
            keep_these("%f4, %f5, %f2, %f3"),
        [&](int row, int col) { return (row % 16 >= 8 ? 2 : 1) * sum(row, col); });
  // Whoever uses a copy before the wait uses a register in flight.
  for (const char* use : {"add.f32 %f9, %f4, %f4;\n", "st.shared.f32 [%r7], %f4;\n",
                          "mov.b32 {%h0, %h1}, %f4; cvt.f32.f16 %f9, %h0;\n",
                          "mov.f32 %f8, %f4; mov.f32 %f9, %f8; neg.f32 %f9, %f9;\n"}) {
    INFO(use);
    CHECK(
        run(issued + copy + use + wait_all + keep, true, 0, words).found(Kind::register_in_flight));
    CHECK(run(issued + copy + "wgmma.wait_group.sync.aligned 1;\n" + use + wait_all + keep, true, 0,
              words)
              .found(Kind::register_in_flight));
    const auto later = run(issued + copy + wait_all + "bar.sync 0;\n" + use + keep, true, 0, words);
    CHECK_FALSE(later.found(Kind::register_in_flight));
  }
}

TEST_CASE("ptx hopper: registers accessed behind the fence of their product", "[ptx]") {
  const std::string before = init("1") + expect("2304") + operands + wait;
  const std::string one = product("k16.f32.f16.f16", "1, 1, 0, 0");
  const std::string select = "selp.f32 %f0, 0f00000000, 0f3F800000, %p0;\n";
  const Result late = run(before + fence + select + one + commit + wait_all + keep, true);
  CHECK(late.fault == "");
  CHECK(late.kinds == std::vector<Kind>{Kind::late_register_access});
  CHECK(late.told.clean());
  REQUIRE(late.told.notes.size() == 1);
  CHECK_THAT(late.told.notes[0], ContainsSubstring("C7519"));
  // The fence of the group before does not count, nor does one that its registers are behind.
  CHECK(run(before + fence + one + commit + select + one + commit + wait_all + keep, true)
            .found(Kind::missing_register_fence));
  CHECK(
      run(before + fence + one + commit + wait_all + select + one + commit + wait_all + keep, true)
          .found(Kind::missing_register_fence));
  const Result mended = run(
      before + fence + one + commit + wait_all + select + fence + one + commit + wait_all + keep,
      true);
  CHECK(mended.kinds.empty());
  CHECK(mended.told.notes.empty());
}

TEST_CASE("ptx hopper: what four warps did before a product is before its reads", "[ptx]") {
  // Each warp writes a part of B, fences, and issues: no barrier is needed between the four.
  const std::string before = init("1") + expect("2304") + operands + wait;
  const std::string one = product("k16.f32.f16.f16", "1, 1, 0, 0");
  const std::string write =
      "shl.b32 %r11, %r0, 1; add.u32 %r12, %r8, %r11; mov.u32 %r13, 0;\n"
      "st.shared.u16 [%r12+2048], %r13;\n";
  const std::string proxy = "fence.proxy.async.shared::cta;\n";
  // %r13 has 32 bits, of which the lower ones are stored.
  for (const std::uint64_t schedule : {0, 1, 2}) {
    const Result right =
        run(before + "bar.sync 0;\n" + write + proxy + fence + one + commit + wait_all + keep, true,
            schedule);
    INFO(right.fault);
    CHECK(right.fault.empty());
    CHECK(right.kinds.empty());
    CHECK(accumulator(right, 20, 3) == 0);
  }
  // Not so without the fence, nor of a write behind the product.
  CHECK(run(before + "bar.sync 0;\n" + write + fence + one + commit + wait_all + keep, true)
            .found(Kind::missing_proxy_fence));
  CHECK(run(before + fence + one + commit + write + wait_all + keep, true)
            .found(Kind::operand_overwritten));
}

TEST_CASE("ptx hopper: what is not executed is refused by name", "[ptx]") {
  const auto refusal = [](const std::string& types, const std::string& tail) {
    return run(product(types, tail)).fault;
  };
  CHECK_THAT(refusal("k16.f16.bf16.bf16", "1, 1, 0, 0"), ContainsSubstring("no such product"));
  CHECK_THAT(refusal("k16.f32.tf32.tf32", "1, 1"), ContainsSubstring("no such product"));
  CHECK_THAT(refusal("k32.f32.e4m3.s8", "1, 1"), ContainsSubstring("no such product"));
  CHECK_THAT(refusal("k32.f32.s8.s8", "1, 1"), ContainsSubstring("no such product"));
  CHECK_THAT(refusal("k32.f32.e4m3", "1, 1"), ContainsSubstring("the types of A and B"));
  CHECK_THAT(refusal("k256.s32.b1.b1.and.popc", "1, 1"), ContainsSubstring("of single bits"));
  CHECK_THAT(refusal("k16.f32.f16.f16.satfinite", "1, 1, 0, 0"),
             ContainsSubstring(".satfinite is for .s32"));
  CHECK_THAT(refusal("k32.f32.f16.f16", "1, 1, 0, 0"), ContainsSubstring("this shape"));
  CHECK_THAT(refusal("k16.f32.f16.f16", "1, 2, 0, 0"), ContainsSubstring("imm-scale is 1 or -1"));
  CHECK_THAT(refusal("k16.f32.f16.f16", "1, 1, 0"), ContainsSubstring("operands"));
  CHECK_THAT(
      run("wgmma.mma_async.sync.aligned.m64n7k16.f32.f16.f16 {%f0}, %rd7, %rd8, %p3, 1, 1, 0, "
          "0;\n")
          .fault,
      ContainsSubstring("no shape m64nNkK"));
  CHECK_THAT(run("mov.u32 %r1, 1; mapa.shared::cluster.u32 %r2, %r9, %r1;\n").fault,
             ContainsSubstring("rank 1 of a cluster of one block"));
  CHECK(run("mov.u32 %r1, 0; mapa.shared::cluster.u32 %r2, %r9, %r1;\n").fault.empty());
}

TEST_CASE("ptx hopper: what is recorded of a wgmma is what it has once it is waited for", "[ptx]") {
  ptx::Program program;
  program.code.resize(1);
  program.code[0].result_count = 1;
  program.operands = {0};
  program.register_bytes = 32 * sizeof(std::uint32_t);
  std::vector<std::uint32_t> registers(32, 0xfefefefe);
  const auto held = [&] { return reinterpret_cast<const std::byte*>(registers.data()); };
  std::atomic<std::uint64_t> clock = 0;
  ptx::Recording recording;
  recording.begin(clock);
  for (int group = 0; group < 2; ++group) {
    recording.note_product({});
    recording.add(program, held(), 0, 0, ~0u);
    recording.commit_products(0);
  }
  const auto result = [&](std::size_t step) {
    return recording.result(recording.steps()[step], 0, 7);
  };
  registers.assign(32, 5);
  recording.finish_products(program, held(), 1, 0);  // of another warp
  CHECK(result(0) == 0xfefefefe);
  recording.finish_products(program, held(), 0, 1);
  CHECK(result(0) == 5);
  CHECK(result(1) == 0xfefefefe);
  registers.assign(32, 6);
  recording.finish_products(program, held(), 0, 0);
  CHECK(result(0) == 5);
  CHECK(result(1) == 6);
}
