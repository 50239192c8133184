// Hopper's asynchronous instructions in kernels given as PTX: what they do, what stops them, and
// what the memory checker says of them.

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "debug/ptx/tensor_map.h"
#include "debug/simt/checker.h"
#include "debug/simt/machine.h"
#include "reference/error.h"
#include "tests/support/catch.h"
#include "tests/support/ptx_kernel.h"

using namespace lanescope;
using Catch::Matchers::ContainsSubstring;
using simt::Kind;

namespace {

/// The address of its word of the output in %rd1, of the input in %rd3, of a tensor map in %rd4; of
/// shared memory `box` in %r8, of an mbarrier in %r9; the first thread in %p0.
const std::string begin =
    ".shared .align 1024 .b8 box[8192]; .shared .align 8 .b64 bar;\n"
    ".reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %rd<16>; .reg .f32 %f<16>;\n"
    "mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [p0]; ld.param.u64 %rd3, [p1]; ld.param.u64 %rd4, "
    "[p2];\n"
    "mul.wide.u32 %rd2, %r0, 4; add.s64 %rd1, %rd0, %rd2; mov.u32 %r8, box; mov.u32 %r9, bar;\n"
    "setp.eq.u32 %p0, %r0, 0; shl.b32 %r7, %r0, 2; add.u32 %r7, %r7, %r8;\n";

std::string init(const std::string& count) {
  return "@%p0 mbarrier.init.shared::cta.b64 [%r9], " + count +
         ";\n@%p0 fence.mbarrier_init.release.cluster;\nbar.sync 0;\n";
}
std::string expect(const std::string& bytes) {
  return "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r9], " + bytes + ";\n";
}
const std::string wait =
    "W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r9], 0;\n@%p1 bra D; bra W;\nD:\n";
const std::string load =
    "@%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r8], [%rd3], 512, "
    "[%r9];\n";
const std::string read_back = "ld.shared.u32 %r1, [%r7]; st.global.u32 [%rd1], %r1;\n";

struct Result {
  std::vector<std::uint32_t> out;
  std::vector<Kind> kinds;
  std::string fault;

  bool found(Kind kind) const { return std::count(kinds.begin(), kinds.end(), kind) > 0; }
};

/// 128 threads; the input's words are 100, 101, ..., unless they are given.
Result run(const std::string& body, bool checked = false, std::uint64_t schedule = 0,
           std::vector<std::uint32_t> words = {}) {
  constexpr std::size_t count = 1024, guard = simt::guard_bytes;
  if (words.empty()) {
    for (std::uint32_t i = 0; i < count; ++i) words.push_back(100 + i);
  }
  std::vector<std::byte> memory(4 * guard + 3 * count * 4);
  auto* aligned =
      memory.data() + guard + 128 - reinterpret_cast<std::uintptr_t>(memory.data()) % 128;
  auto* in = aligned;
  auto* out = aligned + count * 4 + guard;
  auto* map = out + count * 4 + guard;
  std::memcpy(in, words.data(), words.size() * 4);
  // 16 words of a row, of 20 rows; a box is 16 by 8.
  ptx::TensorMapBytes tensor;
  tensor.base = reinterpret_cast<std::uint64_t>(in);
  tensor.element_bytes = 4;
  tensor.rank = 2;
  tensor.size[0] = 16;
  tensor.size[1] = 20;
  tensor.stride[0] = 64;
  tensor.box[0] = 16;
  tensor.box[1] = 8;
  std::memcpy(map, &tensor, sizeof tensor);
  Result result;
  simt::Checker checker;
  checker.watch({{"out", out, count * 4, simt::Region::Use::output, 4, false},
                 {"in", in, count * 4, simt::Region::Use::input, 4, false},
                 {"map", map, 128, simt::Region::Use::input, 4, false}});
  try {
    PtxKernel kernel(ptx_module(begin + body + "ret;", 3));
    kernel.use(memory);
    if (checked) kernel.grid.checker = &checker;
    kernel.grid.threads[0] = 128;
    kernel.grid.schedule = schedule;
    kernel.run({address(out), address(in), address(map)});
  } catch (const simt::Fault& fault) {
    result.fault = fault.what();
  } catch (const UsageError& error) {
    result.fault = error.what();
  }
  result.out.resize(count);
  std::memcpy(result.out.data(), out, count * 4);
  for (const simt::Finding& finding : checker.findings()) result.kinds.push_back(finding.kind);
  return result;
}

}  // namespace

TEST_CASE("ptx hopper: an mbarrier has phases, counts and bytes", "[ptx]") {
  const std::string arrive = "mbarrier.arrive.shared::cta.b64 %rd5, [%r9];\n";
  const std::string store = "mov.u32 %r1, 7; st.global.u32 [%rd1], %r1;\n";
  for (const std::uint64_t schedule : {0, 1, 2}) {
    const Result all = run(init("128") + arrive + wait + store, true, schedule);
    CHECK(all.fault.empty());
    CHECK(all.kinds.empty());
    CHECK(all.out[127] == 7);
    // By the state that the arrival left, and in the generic address space.
    const std::string generic =
        "mov.u64 %rd6, bar; cvta.shared.u64 %rd6, %rd6;\nmbarrier.arrive.b64 %rd5, [%rd6];\n"
        "W: mbarrier.test_wait.b64 %p1, [%rd6], %rd5;\n@!%p1 bra W;\n";
    CHECK(run(init("128") + generic + store, true, schedule).kinds.empty());
    // One arrival of 128, and the phase after.
    const std::string many =
        "@%p0 mbarrier.arrive.shared::cta.b64 %rd5, [%r9], 128;\n" + wait + arrive +
        "V: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r9], 1, 1000;\n@!%p1 bra V;\n" + store;
    const Result two = run(init("128") + many, true, schedule);
    CHECK(two.fault.empty());
    CHECK(two.out[5] == 7);
  }
  const std::string again = "@%p0 mbarrier.inval.shared::cta.b64 [%r9];\n" + init("1");
  CHECK(run(init("4") + again + store).fault.empty());
  CHECK_THAT(run(init("4") + init("4") + store).fault,
             ContainsSubstring("it is initialised a second time"));
}

TEST_CASE("ptx hopper: who waits in vain is told for what", "[ptx]") {
  const std::string arrive = "mbarrier.arrive.shared::cta.b64 _, [%r9];\n";
  CHECK_THAT(run(init("129") + arrive + wait).fault,
             ContainsSubstring("deadlock") &&
                 ContainsSubstring("wait in mbarrier.try_wait.parity.shared::cta.b64") &&
                 ContainsSubstring("phase 0 (parity 0) 128 of 129 arrivals have come: threads "
                                   "0-127 at test.ptx:"));
  CHECK_THAT(run(init("1") + expect("1024") + load + wait).fault,
             ContainsSubstring("1 of 1 arrivals and 512 of 1024 expected bytes have come"));
  CHECK_THAT(run(wait).fault, ContainsSubstring("is no mbarrier"));
  CHECK_THAT(run(init("1") + arrive + wait).fault,
             ContainsSubstring("one arrival too many") || ContainsSubstring("deadlock"));
  CHECK_THAT(run("bar.sync 1, 160;\n").fault,
             ContainsSubstring("for barrier 1: 128 of 160 threads have come"));
  CHECK_THAT(
      run("setmaxnreg.inc.sync.aligned.u32 256; setmaxnreg.inc.sync.aligned.u32 256;\n").fault,
      !ContainsSubstring("deadlock"));
  CHECK_THAT(run("setmaxnreg.inc.sync.aligned.u32 100;\n").fault,
             ContainsSubstring("100 is no multiple of 8"));
}

TEST_CASE("ptx hopper: bulk copies bring bytes and take them away", "[ptx]") {
  const std::string store =
      "add.u32 %r1, %r1, 1; st.shared.u32 [%r7], %r1; fence.proxy.async.shared::cta; bar.sync 0;\n"
      "@%p0 cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r8], 512;\n"
      "@%p0 cp.async.bulk.commit_group; @%p0 cp.async.bulk.wait_group.read 0;\n";
  for (const std::uint64_t schedule : {0, 1, 2, 3}) {
    const Result right = run(init("1") + expect("512") + load + wait +
                                 "ld.shared.u32 %r1, [%r7];\n" + "bar.sync 0;\n" + store,
                             true, schedule);
    CHECK(right.fault.empty());
    CHECK(right.kinds.empty());
    for (std::uint32_t i = 0; i < 128; ++i) REQUIRE(right.out[i] == 101 + i);
  }
  CHECK_THAT(run(init("1") + expect("512") +
                 "@%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r8], "
                 "[%rd3], 500, [%r9];\n")
                 .fault,
             ContainsSubstring("must be multiples of 16"));
  CHECK_THAT(run(init("1") + "add.u64 %rd3, %rd3, 1048576;\n" + expect("512") + load).fault,
             ContainsSubstring("cp.async.bulk") && ContainsSubstring("address"));
}

TEST_CASE("ptx hopper: tensor copies fill with zeroes what lies outside", "[ptx]") {
  const std::string copy =
      "@%p0 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::"
      "cache_hint [%r8], [%rd4, {%r10, %r11}], [%r9], %rd4;\n";
  const auto from = [&](int row) {
    return init("1") + "prefetch.tensormap [%rd4]; mov.u32 %r10, 0; mov.u32 %r11, " +
           std::to_string(row) + ";\n" + expect("512") + copy + wait + read_back;
  };
  for (const std::uint64_t schedule : {0, 1}) {
    const Result inside = run(from(3), true, schedule);
    CHECK(inside.fault.empty());
    CHECK(inside.kinds.empty());
    CHECK(inside.out[0] == 100 + 3 * 16);
    CHECK(inside.out[127] == 100 + 3 * 16 + 127);
    const Result partly = run(from(16), true, schedule);
    CHECK(partly.kinds.empty());
    CHECK(partly.out[63] == 100 + 16 * 16 + 63);
    CHECK(partly.out[64] == 0);
    CHECK(run(from(-8), true, schedule).out[64] == 0);
  }
  CHECK_THAT(run("mov.u64 %rd4, %rd3;\n" + from(0)).fault,
             ContainsSubstring("not what cuTensorMapEncodeTiled wrote"));
  CHECK_THAT(run("add.u32 %r8, %r8, 8;\n" + from(0)).fault, ContainsSubstring("misaligned"));
  CHECK_THAT(run("add.u32 %r8, %r8, 8000;\n" + from(0)).fault,
             ContainsSubstring("leaves the block's shared memory"));
  CHECK_THAT(run("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%r8], [%rd4, {%r10, %r11}], [%r9];\n")
                 .fault,
             ContainsSubstring("2 coordinates for a tensor of 3 dimensions"));
  CHECK_THAT(
      run("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd0], [%r8], 16;\n").fault,
      ContainsSubstring("not executed: copies that reduce"));
}

TEST_CASE("ptx hopper: the memory checker knows the asynchronous proxy", "[ptx]") {
  const std::string no_fence = "@%p0 mbarrier.init.shared::cta.b64 [%r9], 1;\nbar.sync 0;\n";
  const std::string one = init("1");
  CHECK(run(one + expect("512") + load + wait + read_back, true).kinds.empty());
  CHECK(
      run(no_fence + expect("512") + load + wait + read_back, true).found(Kind::unfenced_barrier));
  CHECK(run(one + expect("512") + load + read_back, true).found(Kind::missing_wait));
  const std::string halves =
      "@%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r8], [%rd3], 256, "
      "[%r9];\n@%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r8+256], "
      "[%rd3+256], 256, [%r9];\n";
  CHECK(run(one + expect("512") + halves + wait + read_back, true).kinds.empty());
  CHECK(run(one + expect("256") + halves + wait + read_back, true).found(Kind::wrong_expect_tx));
  CHECK(
      run("st.shared.u32 [%r7], %r0; bar.sync 0;\n" + one + expect("512") + load + wait + read_back,
          true)
          .found(Kind::missing_proxy_fence));
  CHECK(run("st.shared.u32 [%r7], %r0; fence.proxy.async; bar.sync 0;\n" + one + expect("512") +
                load + wait + read_back,
            true)
            .kinds.empty());
  CHECK(run(one + "@%p0 st.shared.u32 [%r9], %r0;\n", true).found(Kind::barrier_overwritten));
  const std::string out =
      "st.shared.u32 [%r7], %r0; fence.proxy.async; bar.sync 0;\n"
      "@%p0 cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r8], 512;\n"
      "@%p0 cp.async.bulk.commit_group;\n";
  const std::string done = "@%p0 cp.async.bulk.wait_group 0;\n";
  CHECK(run(out + done, true).kinds.empty());
  CHECK(run(out, true).found(Kind::unfinished_copy));
  CHECK(run(out + "bar.sync 0; st.shared.u32 [%r7], %r0;\n" + done, true)
            .found(Kind::operand_overwritten));
  // bar.arrive hands on what was done before it, and learns nothing.
  const std::string half = "setp.lt.u32 %p2, %r0, 64; xor.b32 %r6, %r7, 256;\n";
  const std::string hand_over =
      half + "@%p2 st.shared.u32 [%r7], %r0;\n@%p2 bar.arrive 1, 128;\n@!%p2 bar.sync 1, 128;\n";
  CHECK(run(hand_over + "@!%p2 ld.shared.u32 %r1, [%r6];\n", true).kinds.empty());
  const Result taken = run(half +
                               "@!%p2 st.shared.u32 [%r7], %r0;\n@%p2 bar.arrive 1, 128;\n"
                               "@!%p2 bar.sync 1, 128;\n@%p2 ld.shared.u32 %r1, [%r6];\n",
                           true);
  CHECK((taken.found(Kind::race) || taken.found(Kind::race_with_read)));
}

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
std::vector<std::uint32_t> tiles(F&& element) {
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
  const auto f16 = tiles<std::uint16_t>([&](int row, int k) { return halves[number(row, k)]; });
  const auto e4m3 = tiles<std::uint8_t>([&](int row, int k) { return bytes[number(row, k)]; });
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

TEST_CASE("ptx hopper: what is not executed is refused by name", "[ptx]") {
  const auto refusal = [](const std::string& types, const std::string& tail) {
    return run(product(types, tail)).fault;
  };
  CHECK_THAT(refusal("k16.f16.f16.f16", "1, 1, 0, 0"), ContainsSubstring("accumulators of f16"));
  CHECK_THAT(refusal("k8.f32.tf32.tf32", "1, 1"), ContainsSubstring("of these types"));
  CHECK_THAT(refusal("k32.f32.e4m3.e5m2", "1, 1"), ContainsSubstring("of these types"));
  CHECK_THAT(refusal("k32.f32.f16.f16", "1, 1, 0, 0"), ContainsSubstring("not known bit for bit"));
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
  CHECK_THAT(run("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r9];\n").fault,
             ContainsSubstring("copies that arrive at an mbarrier"));
}
