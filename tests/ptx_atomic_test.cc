// atom and red of vectors: each element for itself.

#include <bit>
#include <set>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/ptx_hopper.h"

namespace lanescope::ptx_hopper::atomic_test {
namespace {

using Catch::Matchers::ContainsSubstring;

using Words = std::vector<std::uint32_t>;

std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }

/// %r1 to %r4 hold these bits, %f1 to %f4 1 to 4, %h1 to %h8 1 to 8 in f16.
std::string numbers(const std::string& a, const std::string& b = "0", const std::string& c = "0",
                    const std::string& d = "0") {
  std::string text = ".reg .b16 %h<9>; .reg .f32 %g<9>;\n";
  for (int i = 1; i <= 8; ++i) {
    const std::string n = std::to_string(i);
    text += "mov.f32 %g" + n + ", " + n + ".0; cvt.rn.f16.f32 %h" + n + ", %g" + n + ";\n";
    if (i <= 4) text += "mov.f32 %f" + n + ", " + n + ".0;\n";
  }
  return text + "mov.u32 %r1, " + a + "; mov.u32 %r2, " + b + "; mov.u32 %r3, " + c +
         "; mov.u32 %r4, " + d + ";\n";
}

/// The first words of the output behind a red of all 128 threads, or of one.
std::vector<std::uint32_t> after(const std::string& given, const std::string& red) {
  const Result result = run(given + red, true);
  INFO(red << result.fault);
  CHECK(result.fault.empty());
  CHECK(result.kinds.empty());
  return {result.out.begin(), result.out.begin() + 4};
}

}  // namespace

TEST_CASE("ptx atomic: vectors in global memory", "[ptx]") {
  const std::string none = numbers("0");
  CHECK(after(none, "red.global.add.v4.f32 [%rd0], {%f1, %f2, %f3, %f4};\n") ==
        Words{bits(128), bits(256), bits(384), bits(512)});
  CHECK(after(none, "red.relaxed.gpu.global.v2.f32.add [%rd0+8], {%f1, 0f40000000};\n") ==
        Words{0, 0, bits(128), bits(256)});
  CHECK(after(none, "red.add.v2.f32 [%rd0], {%f4, %f4};\n") == Words{bits(512), bits(512), 0, 0});
  CHECK(after(none, "red.global.add.noftz.v4.f16 [%rd0], {%h1, %h2, %h3, %h4};\n") ==
        Words{0x5c005800, 0x60005e00, 0, 0});  // 128, 256; 384, 512
  CHECK(after(none,
              "@%p0 red.global.add.noftz.v8.f16 [%rd0], {%h1, %h2, %h3, %h4, %h5, %h6, %h7, "
              "%h8};\n") == Words{0x40003c00, 0x44004200, 0x46004500, 0x48004700});
  const std::string packed = numbers("0x3c004000", "0x44003c00", "0xc0003800", "0x3c003c00");
  CHECK(after(packed, "@%p0 red.global.add.noftz.v4.f16x2 [%rd0], {%r1, %r2, %r3, %r4};\n") ==
        Words{0x3c004000, 0x44003c00, 0xc0003800, 0x3c003c00});
  CHECK(after(packed, "red.global.min.noftz.v2.f16x2 [%rd0], {%r3, %r1};\n") ==
        Words{0xc0000000, 0, 0, 0});
  CHECK(after(numbers("0x3f80c000", "0x4000bf80"),
              "red.global.max.noftz.v2.bf16x2 [%rd0], {%r1, %r2};\n") ==
        Words{0x3f800000, 0x40000000, 0, 0});
  CHECK(after(numbers("0x3f804000", "0"),
              "red.global.add.noftz.v2.bf16x2.L2::cache_hint [%rd0], {%r1, %r2}, %rd4;\n") ==
        Words{0x43004380, 0, 0, 0});
  // What is subnormal counts as zero in .f32, and stays in halves.
  CHECK(after(none, "@%p0 red.global.add.v2.f32 [%rd0], {0f00000001, %f1};\n") ==
        Words{0, bits(1), 0, 0});
  CHECK(after(numbers("0x00010001"), "@%p0 red.global.add.noftz.v2.f16x2 [%rd0], {%r1, %r1};\n") ==
        Words{0x00010001, 0x00010001, 0, 0});
}

TEST_CASE("ptx atomic: what was there comes back by elements", "[ptx]") {
  const Result result =
      run(numbers("0") +
              "atom.global.v2.f32.add {%f5, %f6}, [%rd0+4080], {%f1, %f2};\n"
              "cvt.rzi.u32.f32 %r1, %f5; cvt.rzi.u32.f32 %r2, %f6; mad.lo.u32 %r1, %r2, 1000, "
              "%r1;\nst.global.u32 [%rd1], %r1;\n",
          true);
  CHECK(result.fault.empty());
  CHECK(result.kinds.empty());
  std::set<std::uint32_t> seen;
  for (std::uint32_t i = 0; i < 128; ++i) {
    const std::uint32_t old = result.out[i] % 1000;
    CHECK(result.out[i] / 1000 == 2 * old);
    seen.insert(old);
  }
  CHECK(seen.size() == 128);
}

TEST_CASE("ptx atomic: what is wrong with a vector is said", "[ptx]") {
  const auto fault = [](const std::string& body, bool checked = false) {
    return run(numbers("0") + body, checked).fault;
  };
  CHECK_THAT(fault("red.global.add.v4.f32 [%rd0+8], {%f1, %f2, %f3, %f4};\n"),
             ContainsSubstring("a multiple of 16"));
  CHECK(run(numbers("0") + "red.global.add.v4.f32 [%rd0+8], {%f1, %f2, %f3, %f4};\n", true)
            .found(Kind::misaligned));
  CHECK_THAT(fault("cvt.u64.u32 %rd6, %r8; cvta.shared.u64 %rd6, %rd6;\n"
                   "red.add.v2.f32 [%rd6], {%f1, %f2};\n"),
             ContainsSubstring("this is shared memory"));
  CHECK_THAT(fault("red.shared.add.v2.f32 [%r8], {%f1, %f2};\n"),
             ContainsSubstring("in global memory alone"));
  CHECK_THAT(fault("red.global.min.v2.f32 [%rd0], {%f1, %f2};\n"), ContainsSubstring("only .add"));
  CHECK_THAT(fault("red.global.add.v8.f32 [%rd0], {%f1, %f2, %f3, %f4, %f1, %f2, %f3, %f4};\n"),
             ContainsSubstring("vectors are of .f32"));
  CHECK_THAT(fault("red.global.add.v2.u32 [%rd0], {%r1, %r2};\n"),
             ContainsSubstring("vectors are of .f32"));
  CHECK_THAT(fault("red.global.add.v4.f32 [%rd0], {%f1, %f2};\n"),
             ContainsSubstring("2 registers for 4 elements"));
  CHECK_THAT(fault("multimem.red.relaxed.gpu.global.add.u32 [%rd0], %r1;\n"),
             ContainsSubstring("memory that several GPUs share"));
  // A plain access beside the atomic one, of any element.
  CHECK(run(numbers("0") + "setp.eq.u32 %p2, %r0, 64; add.u64 %rd6, %rd0, 12;\n"
                           "@%p2 st.global.u32 [%rd6], %r0;\n"
                           "red.global.add.v4.f32 [%rd0], {%f1, %f2, %f3, %f4};\n",
            true)
            .found(Kind::race));
}

/// So many words that a kernel of one thread in each of `blocks` leaves at [p0]; a word that it may
/// count in is at [p1].
Words left_by(const std::string& body, std::uint32_t blocks, std::uint32_t words) {
  Words memory(words + 1);
  PtxKernel kernel(ptx_module(body, 2));
  kernel.use(memory);
  kernel.grid.threads[0] = 1;
  kernel.grid.blocks[0] = blocks;
  kernel.grid.workers = 8;
  kernel.run({address(memory.data()), address(memory.data() + words)});
  memory.pop_back();
  return memory;
}

TEST_CASE("ptx atomic: blocks that meet come in their order, however many workers there are",
          "[ptx]") {
  constexpr std::uint32_t blocks = 64, tickets = 100;
  // Each draws so many tickets, and leaves its last one.
  const std::string body =
      ".reg .pred %p<2>; .reg .b32 %r<8>; .reg .b64 %rd<4>;\n"
      "ld.param.u64 %rd0, [p0]; ld.param.u64 %rd1, [p1]; mov.u32 %r0, %ctaid.x; mov.u32 %r1, 0;\n"
      "L: atom.global.add.u32 %r2, [%rd1], 1; add.u32 %r1, %r1, 1; setp.lt.u32 %p0, %r1, 100;\n"
      "@%p0 bra L; mul.wide.u32 %rd2, %r0, 4; add.s64 %rd2, %rd0, %rd2;\n"
      "st.global.u32 [%rd2], %r2;\nret;";
  const Words memory = left_by(body, blocks, blocks);
  for (std::uint32_t block = 0; block < blocks; ++block) {
    CHECK(memory[block] == (block + 1) * tickets - 1);
  }
}

TEST_CASE("ptx atomic: blocks that take items as they come take them by turns", "[ptx]") {
  constexpr std::uint32_t items = 7, blocks = 16;
  // An item takes more than a turn; who takes it leaves its own number there.
  const std::string body =
      ".reg .pred %p<3>; .reg .b32 %r<8>; .reg .b64 %rd<4>;\n"
      "ld.param.u64 %rd0, [p0]; ld.param.u64 %rd1, [p1]; mov.u32 %r0, %ctaid.x;\n"
      "L: atom.global.add.u32 %r2, [%rd1], 1; setp.ge.u32 %p0, %r2, 7; @%p0 bra E; mov.u32 %r1, "
      "0;\n"
      "W: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 1000; @%p1 bra W;\n"
      "mul.wide.u32 %rd2, %r2, 4; add.s64 %rd2, %rd0, %rd2; st.global.u32 [%rd2], %r0; bra L;\n"
      "E: ret;";
  CHECK(left_by(body, blocks, items) == Words{0, 1, 2, 0, 1, 2, 0});
}

TEST_CASE("ptx atomic: blocks that count themselves once do not come in their order", "[ptx]") {
  const std::string body =
      ".reg .b32 %r<4>; .reg .b64 %rd<4>;\n"
      "ld.param.u64 %rd0, [p0]; ld.param.u64 %rd1, [p1]; mov.u32 %r0, %ctaid.x;\n"
      "atom.global.inc.u32 %r2, [%rd1], 9; mul.wide.u32 %rd2, %r0, 4; add.s64 %rd2, %rd0, %rd2;\n"
      "st.global.u32 [%rd2], %r2; ret;";
  CHECK(left_by(body, 5, 5) == Words{0, 3, 1, 4, 2});
}

}  // namespace lanescope::ptx_hopper::atomic_test
