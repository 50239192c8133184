// What the machine counts of an instruction: costs of accesses, waits, barriers.

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "debug/ptx/notes.h"
#include "debug/ptx/tally.h"
#include "tests/support/catch.h"
#include "tests/support/ptx_kernel.h"

using namespace lanescope;
using Catch::Matchers::ContainsSubstring;

namespace {

std::array<std::uint64_t, 32> lane_addresses(
    const std::function<std::uint64_t(std::uint64_t)>& of) {
  std::array<std::uint64_t, 32> at{};
  for (std::size_t lane = 0; lane < 32; ++lane) at[lane] = of(lane);
  return at;
}

struct Tallied {
  ptx::Program program;
  ptx::Tally tally;
  std::vector<std::string> waits() const { return ptx::wait_notes(tally, program); }
  std::vector<std::string> accesses() const { return ptx::access_notes(tally, program); }
};

/// 64 lanes; %rd1: a word of each in global memory, %r9: in the shared array `box`.
Tallied tally_of(const std::string& body) {
  PtxKernel kernel(ptx_module(
      ".shared .align 16 .b8 box[8192]; .reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %rd<16>;\n"
      "mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [p0]; mul.wide.u32 %rd2, %r0, 4; add.s64 %rd1, "
      "%rd0, %rd2; shl.b32 %r9, %r0, 2; mov.u32 %r8, box; add.u32 %r9, %r9, %r8;\n" +
          body + "ret;",
      1));
  std::vector<std::uint32_t> memory(4096 + 16);
  auto* at = memory.data();
  while (reinterpret_cast<std::uintptr_t>(at) % 64 != 0) ++at;
  kernel.use(memory);
  Tallied done;
  kernel.grid.threads[0] = 64;
  kernel.grid.tally = &done.tally;
  kernel.grid.tallies_accesses = true;
  kernel.run({address(at)});
  done.program = kernel.program();
  return done;
}

}  // namespace

TEST_CASE("ptx tally: wavefronts are half of the cycles that an H200 takes", "[ptx]") {
  // One warp that does nothing but ld.volatile.shared: cycles for each, less what is left of one.
  struct Timed {
    std::size_t bytes;
    std::uint64_t stride;
    int cycles;
  };
  constexpr Timed timed[] = {{4, 4, 8},   {4, 8, 16},   {4, 12, 8},  {4, 16, 32}, {4, 20, 8},
                             {4, 32, 64}, {8, 2, 8},    {8, 4, 16},  {8, 6, 8},   {8, 8, 32},
                             {8, 12, 16}, {8, 16, 64},  {16, 2, 16}, {16, 4, 32}, {16, 6, 16},
                             {16, 8, 64}, {16, 12, 32}, {16, 16, 64}};
  for (const auto& [bytes, stride, cycles] : timed) {
    INFO(bytes << " bytes, every " << stride << "th");
    const auto cost = ptx::shared_cost(
        ~0u, bytes, lane_addresses([&](auto lane) { return lane * stride * bytes; }));
    CHECK(2 * cost.taken == cycles);
  }
  // Three and five words of a bank, drawn at random.
  const auto one_word = lane_addresses([](auto) { return 12; });
  CHECK(ptx::shared_cost(~0u, 4, one_word).taken == 1);
  CHECK(ptx::shared_cost(1u << 7, 4, one_word).taken == 1);
  CHECK(ptx::shared_cost(0x1f, 4, lane_addresses([](auto lane) { return 128 * lane; })).taken == 5);
}

TEST_CASE("ptx tally: sectors of global memory", "[ptx]") {
  const auto cost = [](std::size_t bytes, std::uint64_t stride, std::uint64_t begin) {
    return ptx::global_cost(~0u, bytes, lane_addresses([&](auto i) { return begin + i * stride; }));
  };
  CHECK(cost(4, 4, 0).taken == 4);
  CHECK(cost(4, 4, 0).needed == 4);
  CHECK(cost(4, 4, 16).taken == 5);
  CHECK(cost(4, 0, 0).taken == 1);
  CHECK(cost(4, 0, 0).needed == 1);
  CHECK(cost(4, 128, 0).taken == 32);
  CHECK(cost(4, 128, 0).needed == 4);
  CHECK(cost(16, 16, 0).taken == 16);
}

TEST_CASE("ptx tally: costly lines are told, those that cost what they must are not", "[ptx]") {
  const Tallied good =
      tally_of("st.shared.u32 [%r9], %r0; ld.shared.u32 %r1, [%r9]; st.global.u32 [%rd1], %r1;");
  CHECK(good.accesses().empty());
  const Tallied bad = tally_of(
      "shl.b32 %r3, %r0, 7; add.u32 %r3, %r3, %r8; and.b32 %r3, %r3, 0xfff; st.shared.u32 [%r9], "
      "%r0;\nmul.lo.u32 %r4, %r0, 64; and.b32 %r4, %r4, 0x7ff; add.u32 %r4, %r4, %r8; "
      "ld.shared.u32 %r1, [%r4];\nmul.wide.u32 %rd4, %r0, 256; add.s64 %rd4, %rd0, %rd4; "
      "st.global.u32 [%rd4], %r1;");
  const auto notes = bad.accesses();
  REQUIRE(notes.size() == 2);
  CHECK_THAT(notes[0], ContainsSubstring("uncoalesced: st.global.u32 at test.ptx:") &&
                           ContainsSubstring("32 sectors of 32 bytes per access, and 4 would do; "
                                             "2 accesses of warps"));
  CHECK_THAT(notes[1], ContainsSubstring("bank conflicts: ld.shared.u32 at test.ptx:") &&
                           ContainsSubstring("16 wavefronts per access, and 1 would do"));
  // ldmatrix: eight rows of 16 bytes at once.
  const std::string load = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [%r5];";
  const auto rows = [&](const std::string& bytes) {
    return tally_of("and.b32 %r5, %r0, 31; mul.lo.u32 %r5, %r5, " + bytes +
                    "; add.u32 %r5, %r5, %r8;" + load)
        .accesses();
  };
  CHECK(rows("16").empty());
  CHECK(rows("80").empty());
  REQUIRE(rows("128").size() == 1);
  CHECK_THAT(rows("128")[0], ContainsSubstring("32 wavefronts per access, and 4 would do"));
}

TEST_CASE("ptx tally: waits that wait for nothing, barriers that open without exited lanes",
          "[ptx]") {
  const std::string copy = "cp.async.ca.shared.global [%r9], [%rd1], 4; cp.async.commit_group;\n";
  CHECK(tally_of(copy + "cp.async.wait_group 0;").waits().empty());
  const auto dead = tally_of(copy + "cp.async.wait_group 1;\ncp.async.wait_all;").waits();
  REQUIRE(dead.size() == 1);
  CHECK_THAT(dead[0], ContainsSubstring("dead wait: cp.async.wait_group at test.ptx:") &&
                          ContainsSubstring("ran 2 times, and never had anything to wait for"));
  // In one of the warps there is something.
  CHECK(tally_of("setp.lt.u32 %p1, %r0, 32; @%p1 cp.async.ca.shared.global [%r9], [%rd1], 4;\n"
                 "cp.async.wait_all;")
            .waits()
            .empty());
  CHECK(tally_of("bar.sync 0;").waits().empty());
  const auto crossed = tally_of(
                           "setp.ge.u32 %p1, %r0, 32; @%p1 bra SECOND;\nbar.sync 0;\nbar.sync 0;\n"
                           "bra END;\nSECOND:\nbar.sync 0;\nbar.sync 0;\nEND:\nbar.sync 0;")
                           .waits();
  REQUIRE(crossed.size() == 1);
  CHECK_THAT(crossed[0],
             ContainsSubstring("barrier: some warps waited in bar.sync at test.ptx:8 when") &&
                 ContainsSubstring("others in bar.sync at test.ptx:12: the first such in 1 block"));
  for (const char* limit : {"32", "40"}) {
    const auto opened =
        tally_of("setp.ge.u32 %p1, %r0, " + std::string(limit) + "; @%p1 ret;\nbar.sync 0;")
            .waits();
    REQUIRE(opened.size() == 1);
    CHECK_THAT(opened[0], ContainsSubstring("barrier: bar.sync at test.ptx:") &&
                              ContainsSubstring("in block 0 for " + std::string(limit) + " of 64"));
  }
}
