// The SIMD video instructions of PTX: sums, extremes, differences, comparisons of bytes and halves.

#include <string>

#include "tests/support/catch.h"
#include "tests/support/ptx_kernel.h"

using namespace lanescope;
using Catch::Matchers::ContainsSubstring;

namespace {

const std::string loaded_words =
    ".reg .b32 %r<4>; .reg .b64 %d<2>;\nld.param.u64 %d0, [p0]; ld.global.v4.u32 {%r0, %r1, %r2, "
    "%r3}, [%d0];\n";

/// What an instruction makes of a, b and c, which are %r1, %r2 and %r3.
std::uint32_t video_result(const std::string& instruction, std::uint32_t a, std::uint32_t b,
                           std::uint32_t c) {
  PtxKernel kernel(
      ptx_module(loaded_words + instruction + ";\nst.global.u32 [%d0], %r0;\nret;", 1));
  std::vector<std::uint32_t> words = {0xdead, a, b, c};
  kernel.use(words);
  kernel.grid.threads = {1, 1, 1};
  kernel.run({address(words.data())});
  return words[0];
}

struct VideoCase {
  const char* instruction;
  std::uint32_t a, b, c, result;
};

}  // namespace

TEST_CASE("ptx video: halves and bytes", "[ptx]") {
  const VideoCase cases[] = {
      {"vadd2.u32.u32.u32 %r0, %r1, %r2, %r3", 0xffff0001, 0x00020003, 0, 0x00010004},
      {"vadd2.s32.s32.s32.sat %r0, %r1, %r2, %r3", 0x7fff8000, 0x0001ffff, 0, 0x7fff8000},
      {"vadd2.u32.u32.u32 %r0.h1, %r1.h03, %r2.h21, %r3", 0x00020001, 0x00040003, 9, 0x00040009},
      {"vsub4.u32.u32.u32.sat %r0, %r1, %r2, %r3", 0x01020304, 0x02020202, 0, 0x00000102},
      {"vsub4.s32.u32.u32.sat %r0.b30, %r1, %r2, %r3", 0x01020300, 0xff020280, 0x12345678,
       0x80345680},
      {"vavrg4.u32.u32.u32 %r0, %r1, %r2, %r3", 0xff010002, 0xfe020003, 0, 0xff020003},
      {"vavrg2.s32.s32.s32 %r0, %r1, %r2, %r3", 0xfffe0001, 0xffff0002, 0, 0xfffe0002},
      {"vabsdiff4.u32.u32.u32 %r0, %r1, %r2, %r3", 0x01ff1005, 0x03011004, 0, 0x02fe0001},
      {"vabsdiff4.u32.u32.u32.add %r0, %r1, %r2, %r3", 0x01ff1005, 0x03011004, 7, 0x108},
      {"vabsdiff4.s32.s32.s32.sat %r0, %r1, %r2, %r3", 0x7f808080, 0x8080ff00, 0, 0x7f007f7f},
      {"vabsdiff2.u32.s32.s32 %r0, %r1, %r2, %r3", 0x80007fff, 0x7fff8000, 0, 0xffffffff},
      {"vmin4.s32.s32.s32 %r0, %r1, %r2, %r3", 0x80017f00, 0x7f028001, 0, 0x80018000},
      {"vmax4.u32.u32.u32 %r0.b1, %r1.b7654, %r2.b3210, %r3", 0x01020304, 0x05060708, 0xaabbccdd,
       0xaabb07dd},
      {"vmin2.u32.u32.u32 %r0, %r1, %r2, %r3", 0x80000001, 0x7fff0002, 0, 0x7fff0001},
      {"vmax2.s32.s32.s32.add %r0, %r1, %r2, %r3", 0xffff0001, 0xfffe0002, 10, 11},
      {"vset4.u32.u32.ge %r0, %r1, %r2, %r3", 0x01020304, 0x02020202, 0, 0x00010101},
      {"vset2.s32.s32.lt.add %r0, %r1, %r2, %r3", 0xffff0001, 0x00010000, 40, 41}};
  for (const VideoCase& its : cases) {
    INFO(its.instruction);
    CHECK(video_result(its.instruction, its.a, its.b, its.c) == its.result);
  }
}

TEST_CASE("ptx video: parts that there are not are refused, and other instructions take none",
          "[ptx]") {
  const VideoCase wrong[] = {{"vadd2.u32.u32.u32 %r0, %r1.h14, %r2, %r3", 0, 0, 0, 0},
                             {"vadd4.u32.u32.u32 %r0, %r1.b321, %r2, %r3", 0, 0, 0, 0},
                             {"vadd4.u32.u32.u32 %r0.b4, %r1, %r2, %r3", 0, 0, 0, 0},
                             {"vadd4.u32.u32.u32 %r0, %r1, %r2", 0, 0, 0, 0},
                             {"vshl2.u32.u32.u32.clamp %r0, %r1, %r2, %r3", 0, 0, 0, 0},
                             {"add.u32 %r0, %r1.b0, %r2", 0, 0, 0, 0},
                             {"add.u32 %r0.h1, %r1, %r2", 0, 0, 0, 0},
                             {"ld.global.u32 %r0, [%d0.b0]", 0, 0, 0, 0}};
  for (const VideoCase& its : wrong) {
    INFO(its.instruction);
    CHECK_THROWS_WITH(video_result(its.instruction, 0, 0, 0), ContainsSubstring("test.ptx:"));
  }
}
