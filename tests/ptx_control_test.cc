// How the lanes of a warp part and meet when the machine runs PTX.

#include <string>
#include <vector>

#include "debug/simt/machine.h"
#include "tests/support/catch.h"
#include "tests/support/ptx_kernel.h"

using namespace lanescope;
using Catch::Matchers::ContainsSubstring;

namespace {

/// %tid in %r0, the address of p0 + 4 · tid in %rd1, behind it `body`.
std::string per_lane(const std::string& body) {
  return ptx_module(
      ".reg .pred %p<16>;\n.reg .b32 %r<64>;\n.reg .b64 %rd<16>;\n"
      "mov.u32 %r0, %tid.x;\nld.param.u64 %rd0, [p0];\nmul.wide.u32 %rd2, %r0, 4;\n"
      "add.s64 %rd1, %rd0, %rd2;\n" +
          body,
      1);
}

std::vector<std::uint32_t> run_body(const std::string& body, int threads = 32) {
  PtxKernel kernel(per_lane(body));
  std::vector<std::uint32_t> out(static_cast<std::size_t>(threads));
  kernel.use(out);
  kernel.grid.threads[0] = static_cast<std::uint32_t>(threads);
  kernel.run({address(out.data())});
  return out;
}

std::string fault_of(const std::string& body, int threads = 32) {
  try {
    run_body(body, threads);
  } catch (const simt::Fault& fault) {
    return fault.what();
  }
  return "no fault";
}

}  // namespace

TEST_CASE("ptx: lanes that part in a branch meet again behind it", "[ptx]") {
  const auto out = run_body(R"(
    and.b32 %r1, %r0, 1;
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra EVEN;
    mov.u32 %r2, 100;
    bra.uni JOIN;
  EVEN:
    mov.u32 %r2, 200;
  JOIN:
    activemask.b32 %r3;
    add.u32 %r4, %r2, %r3;
    st.global.u32 [%rd1], %r4;
    ret;)");
  for (std::size_t i = 0; i < 32; ++i) {
    CHECK(out[i] == (i % 2 == 0 ? 200u : 100u) + 0xffffffffu);
  }
}

TEST_CASE("ptx: each lane leaves a loop in its own turn", "[ptx]") {
  // The sum of 1 to its own number, by a loop within a loop.
  const auto out = run_body(R"(
    mov.u32 %r1, 0;
    mov.u32 %r2, 0;
  OUTER:
    setp.ge.u32 %p1, %r1, %r0;
    @%p1 bra DONE;
    add.u32 %r1, %r1, 1;
    mov.u32 %r3, 0;
  INNER:
    add.u32 %r3, %r3, 1;
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p2, %r3, %r1;
    @%p2 bra INNER;
    bra.uni OUTER;
  DONE:
    st.global.u32 [%rd1], %r2;
    ret;)");
  for (std::size_t i = 0; i < 32; ++i) CHECK(out[i] == i * (i + 1) / 2);
}

TEST_CASE("ptx: a lane that waits for another of its warp gets what it waits for", "[ptx]") {
  // Each lane spins, at a lower place than what lets it go, until the lane before has counted on.
  const auto out = run_body(R"(
    .shared .u32 turn;
    mov.u32 %r1, 0;
    setp.eq.u32 %p1, %r0, 0;
    @%p1 st.shared.u32 [turn], %r1;
    bar.warp.sync -1;
  SPIN:
    ld.volatile.shared.u32 %r2, [turn];
    setp.ne.u32 %p2, %r2, %r0;
    @%p2 bra SPIN;
    add.u32 %r3, %r2, 1;
    st.global.u32 [%rd1], %r3;
    st.volatile.shared.u32 [turn], %r3;
    ret;)");
  for (std::size_t i = 0; i < 32; ++i) CHECK(out[i] == i + 1);
}

TEST_CASE("ptx: bar.warp.sync brings together lanes that come from several places", "[ptx]") {
  const auto out = run_body(R"(
    .shared .u32 box[32];
    mov.u32 %r9, box;
    shl.b32 %r8, %r0, 2;
    add.u32 %r9, %r9, %r8;
    setp.lt.u32 %p1, %r0, 16;
    @%p1 bra LOW;
    mov.u32 %r1, 7;
    st.shared.u32 [%r9], %r1;
    bar.warp.sync -1;
    ld.shared.u32 %r2, [%r9+-64];
    bra.uni JOIN;
  LOW:
    mov.u32 %r1, 5;
    st.shared.u32 [%r9], %r1;
    bar.warp.sync -1;
    ld.shared.u32 %r2, [%r9+64];
  JOIN:
    st.global.u32 [%rd1], %r2;
    ret;)");
  for (std::size_t i = 0; i < 32; ++i) CHECK(out[i] == (i < 16 ? 7u : 5u));
}

TEST_CASE("ptx: lanes that are first at an aligned instruction wait there for the others",
          "[ptx]") {
  const auto out = run_body(R"(
    setp.lt.u32 %p1, %r0, 16;
    mov.u32 %r1, 0;
    @%p1 bra LATE;
  MEET:
    bar.sync 0;
    shfl.sync.idx.b32 %r2, %r1, 3, 31, -1;
    st.global.u32 [%rd1], %r2;
    ret;
  LATE:
    mov.u32 %r1, 9;
    bra.uni MEET;)");
  for (const std::uint32_t value : out) CHECK(value == 9);
}

TEST_CASE("ptx: shfl.sync waits for the lanes of its mask, each half for its own", "[ptx]") {
  const auto out = run_body(R"(
    setp.lt.u32 %p1, %r0, 16;
    selp.b32 %r1, 0xffff, 0xffff0000, %p1;
    and.b32 %r2, %r0, 3;
    setp.eq.u32 %p2, %r2, 3;
    @%p2 bra LATE;
    bra.uni MEET;
  LATE:
    nanosleep.u32 1;
    nanosleep.u32 1;
    bra.uni MEET;
  MEET:
    shfl.sync.bfly.b32 %r3|%p3, %r0, 15, 0x101f, %r1;
    st.global.u32 [%rd1], %r3;
    ret;)");
  for (std::uint32_t i = 0; i < 32; ++i) CHECK(out[i] == (i ^ 15u));
}

TEST_CASE("ptx: barriers meet the warps of a block, also where some have exited", "[ptx]") {
  const auto out = run_body(R"(
    .shared .u32 box[128];
    shl.b32 %r8, %r0, 2;
    mov.u32 %r9, box;
    add.u32 %r9, %r9, %r8;
    st.shared.u32 [%r9], %r0;
    setp.ge.u32 %p1, %r0, 96;
    @%p1 st.global.u32 [%rd1], %r0;
    @%p1 exit;
    bar.sync 0;
    xor.b32 %r8, %r8, 256;
    setp.ge.u32 %p2, %r8, 384;
    @%p2 xor.b32 %r8, %r8, 256;
    mov.u32 %r9, box;
    add.u32 %r9, %r9, %r8;
    ld.shared.u32 %r1, [%r9];
    st.global.u32 [%rd1], %r1;
    ret;)",
                            128);
  for (std::uint32_t i = 0; i < 96; ++i) {
    const std::uint32_t other = i ^ 64;
    CHECK(out[i] == (other >= 96 ? i : other));
  }
}

TEST_CASE("ptx: bar.red counts the predicates of the block", "[ptx]") {
  const auto out = run_body(R"(
    and.b32 %r1, %r0, 3;
    setp.eq.u32 %p1, %r1, 0;
    bar.red.popc.u32 %r2, 1, %p1;
    bar.red.and.pred %p2, 1, %p1;
    bar.red.or.pred %p3, 1, %p1;
    selp.b32 %r3, 1000, 0, %p2;
    selp.b32 %r4, 100, 0, %p3;
    add.u32 %r2, %r2, %r3;
    add.u32 %r2, %r2, %r4;
    st.global.u32 [%rd1], %r2;
    ret;)",
                            96);
  for (const std::uint32_t value : out) CHECK(value == 24 + 100);
}

TEST_CASE("ptx: functions are called, also by some lanes only", "[ptx]") {
  const std::string functions = R"(
.func (.param .b32 result) twice(.param .b32 x) {
  .reg .b32 %r<3>;
  ld.param.u32 %r1, [x];
  add.u32 %r2, %r1, %r1;
  st.param.b32 [result], %r2;
  ret;
}
)";
  PtxKernel kernel(ptx_module(R"(
    .reg .pred %p<2>; .reg .b32 %r<4>; .reg .b64 %rd<4>;
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %rd1, %r0, 4;
    ld.param.u64 %rd0, [p0];
    add.u64 %rd1, %rd0, %rd1;
    mov.u32 %r2, 1;
    setp.lt.u32 %p1, %r0, 8;
    @!%p1 bra SKIP;
    {
      .param .b32 a; .param .b32 b;
      st.param.b32 [a], %r0;
      call.uni (b), twice, (a);
      ld.param.b32 %r2, [b];
    }
  SKIP:
    st.global.u32 [%rd1], %r2;
    ret;)",
                              1, functions));
  std::vector<std::uint32_t> out(32);
  kernel.use(out);
  kernel.run({address(out.data())});
  for (std::uint32_t i = 0; i < 32; ++i) CHECK(out[i] == (i < 8 ? 2 * i : 1));
}

TEST_CASE("ptx: functions call themselves and each other, to a bounded depth", "[ptx]") {
  // fibonacci(n), which keeps n and the first result over the second call; whether n is even by
  // functions that call each other; a call in a call, without end where n is 99.
  const std::string functions = R"(
    .func (.param .b32 r) fibonacci(.param .b32 n) {
      .reg .pred %p; .reg .b32 %r<4>; ld.param.u32 %r0, [n]; mov.u32 %r3, %r0;
      setp.lt.u32 %p, %r0, 2; @%p bra DONE;
      { .param .b32 a; .param .b32 b; sub.u32 %r1, %r0, 1; st.param.b32 [a], %r1;
        call.uni (b), fibonacci, (a); ld.param.b32 %r2, [b]; }
      { .param .b32 a; .param .b32 b; sub.u32 %r1, %r0, 2; st.param.b32 [a], %r1;
        call.uni (b), fibonacci, (a); ld.param.b32 %r3, [b]; }
      add.u32 %r3, %r3, %r2;
    DONE: st.param.b32 [r], %r3; ret; }
    .func (.param .b32 r) odd(.param .b32 n);
    .func (.param .b32 r) even(.param .b32 n) {
      .reg .pred %p; .reg .b32 %r<4>; .param .b32 a; .param .b32 b; ld.param.u32 %r0, [n];
      mov.u32 %r1, 1; setp.eq.u32 %p, %r0, 0; @%p bra DONE;
      sub.u32 %r1, %r0, 1; st.param.b32 [a], %r1; call (b), odd, (a); ld.param.b32 %r1, [b];
    DONE: st.param.b32 [r], %r1; ret; }
    .func (.param .b32 r) odd(.param .b32 n) {
      .reg .pred %p; .reg .b32 %r<4>; .param .b32 a; .param .b32 b; ld.param.u32 %r0, [n];
      mov.u32 %r1, 0; setp.eq.u32 %p, %r0, 0; @%p bra DONE;
      sub.u32 %r1, %r0, 1; st.param.b32 [a], %r1; call (b), even, (a); ld.param.b32 %r1, [b];
    DONE: st.param.b32 [r], %r1; ret; }
    .func endless() { .reg .b32 %r<64>; call endless, (); ret; }
  )";
  PtxKernel kernel(ptx_module(R"(
    .reg .pred %p<2>; .reg .b32 %r<8>; .reg .b64 %d<4>; .param .b32 a; .param .b32 b;
    ld.param.u64 %d0, [p0]; mov.u32 %r0, %tid.x; mul.wide.u32 %d1, %r0, 8; add.s64 %d0, %d0, %d1;
    ld.global.u32 %r1, [%d0]; setp.eq.u32 %p0, %r1, 99; @%p0 call endless, ();
    st.param.b32 [a], %r1; call (b), fibonacci, (a); ld.param.b32 %r2, [b];
    st.param.b32 [a], %r1; call (b), even, (a); ld.param.b32 %r3, [b];
    st.global.v2.u32 [%d0], {%r2, %r3}; ret;)",
                              1, functions));
  struct alignas(8) Row {
    std::uint32_t n, even;
  };
  std::vector<Row> rows(32);
  kernel.use(rows);
  for (std::uint32_t i = 0; i < 32; ++i) rows[i] = {i % 11, 7};
  kernel.run({address(rows.data())});
  const std::uint32_t fibonacci[] = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55};
  for (std::uint32_t i = 0; i < 32; ++i) {
    INFO("lane " << i);
    CHECK(rows[i].n == fibonacci[i % 11]);
    CHECK(rows[i].even == (i % 11 + 1) % 2);
  }
  rows[5] = {99, 0};
  CHECK_THROWS_WITH(
      kernel.run({address(rows.data())}),
      ContainsSubstring("lane 5") && ContainsSubstring("a lane's stack passes 64 KiB"));
  CHECK_THROWS_WITH(PtxKernel(ptx_module("call f, (); ret;", 0,
                                         ".func f() { .local .b32 x; call f, (); ret; }\n")),
                    ContainsSubstring("it calls itself, and has variables in local memory"));
}

TEST_CASE("ptx: brx.idx sends each lane its way", "[ptx]") {
  const auto out = run_body(R"(
    rem.u32 %r1, %r0, 3;
    WAYS: .branchtargets A, B, C;
    brx.idx %r1, WAYS;
  A: mov.u32 %r2, 10; bra.uni END;
  B: mov.u32 %r2, 20; bra.uni END;
  C: mov.u32 %r2, 30;
  END:
    st.global.u32 [%rd1], %r2;
    ret;)");
  for (std::uint32_t i = 0; i < 32; ++i) CHECK(out[i] == 10 * (i % 3 + 1));
}

TEST_CASE("ptx: faults name lane, warp, instruction and line", "[ptx]") {
  CHECK_THAT(
      fault_of("st.global.u32 [%rd1+400], %r0; ret;", 64),
      Catch::Matchers::ContainsSubstring("lane 0 of warp 0, st.global.u32 at test.ptx:12") &&
          Catch::Matchers::ContainsSubstring("bytes behind the 256 of a buffer of the test"));
  CHECK_THAT(fault_of(".shared .u32 x; ld.shared.u32 %r1, [x+4]; ret;"),
             Catch::Matchers::ContainsSubstring("outside of the block's shared memory"));
  CHECK_THAT(fault_of("ld.global.u32 %r1, [%rd0+2]; ret;"),
             Catch::Matchers::ContainsSubstring("misaligned address"));
  CHECK_THAT(fault_of("trap;"), Catch::Matchers::ContainsSubstring("has trapped"));
  CHECK_THAT(fault_of("setp.lt.u32 %p1, %r0, 4; @%p1 bra X; bar.warp.sync -1; X: shfl.sync.idx.b32 "
                      "%r1, %r0, 0, 31, -1; ret;"),
             Catch::Matchers::ContainsSubstring("deadlock") &&
                 Catch::Matchers::ContainsSubstring("lanes 4-31 wait in bar.warp.sync") &&
                 Catch::Matchers::ContainsSubstring("lanes 0-3 wait in shfl.sync.idx.b32"));
  CHECK_THAT(fault_of("shfl.sync.idx.b32 %r1, %r0, 0, 31, 1; ret;"),
             Catch::Matchers::ContainsSubstring("lane 1 of warp 0") &&
                 Catch::Matchers::ContainsSubstring("not in its own mask"));
  CHECK_THAT(fault_of("setp.lt.u32 %p1, %r0, 32; @%p1 bar.sync 1, 64; ret;", 96),
             Catch::Matchers::ContainsSubstring("deadlock"));
}
