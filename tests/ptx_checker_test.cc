// Kernels given as PTX under the memory checker.

#include <algorithm>
#include <string>
#include <vector>

#include "debug/ptx/area_shadow.h"
#include "debug/simt/checker.h"
#include "tests/support/catch.h"
#include "tests/support/checked_ptx.h"

using namespace lanescope;
using simt::Kind;

namespace {

using testing::findings_of;
using testing::kinds_of;

}  // namespace

TEST_CASE("ptx: the memory checker finds what is wrong, and nothing in what is right", "[ptx]") {
  const std::string write = "st.shared.u32 [%r9], %r0;\n";
  const std::string read_other =
      "xor.b32 %r7, %r0, 32; shl.b32 %r7, %r7, 2; add.u32 %r7, %r7, %r8; ld.shared.u32 %r1, "
      "[%r7];\n";
  const std::string store = "st.global.u32 [%rd1], %r1; ret;";
  CHECK(kinds_of(write + "bar.sync 0;\n" + read_other + store).empty());
  const auto race = kinds_of(write + read_other + store);
  REQUIRE_FALSE(race.empty());
  for (const Kind kind : race) CHECK((kind == Kind::race || kind == Kind::race_with_read));
  // A barrier of the warp orders its lanes and no others.
  const std::string read_near =
      "xor.b32 %r7, %r0, 1; shl.b32 %r7, %r7, 2; add.u32 %r7, %r7, %r8; ld.shared.u32 %r1, "
      "[%r7];\n";
  CHECK(kinds_of(write + "bar.warp.sync -1;\n" + read_near + store).empty());
  CHECK_FALSE(kinds_of(write + read_near + store).empty());
  CHECK_FALSE(kinds_of(write + "bar.warp.sync -1;\n" + read_other + store).empty());
  // Nor does a shuffle order what was written before it; but what was read is over.
  const std::string shuffle = "shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;\n";
  const std::string overwrite = "st.shared.u32 [%r9], %r2;\n";
  CHECK_FALSE(kinds_of(write + "mov.u32 %r1, 1;" + shuffle + read_near + store).empty());
  const std::string read = write + "bar.warp.sync -1;\n" + read_near;
  CHECK(kinds_of(read + shuffle + overwrite + store).empty());
  CHECK_FALSE(kinds_of(read + "mov.u32 %r2, 7;" + overwrite + store).empty());
  CHECK(kinds_of(read_near + store) == std::vector{Kind::uninitialised_read});
  CHECK(kinds_of("mov.u32 %r1, 1; st.global.u32 [%rd1+256], %r1; ret;") ==
        std::vector{Kind::out_of_bounds});
}

TEST_CASE("ptx: an asynchronous copy must be waited for", "[ptx]") {
  const std::string copy =
      "mov.u32 %r1, 7; st.global.u32 [%rd1], %r1; cp.async.ca.shared.global [%r9], [%rd1], 4;\n"
      "cp.async.commit_group;\n";
  const std::string use = "ld.shared.u32 %r2, [%r9]; st.global.u32 [%rd1], %r2; ret;";
  CHECK(kinds_of(copy + "cp.async.wait_group 0;\n" + use).empty());
  CHECK(kinds_of(copy + "cp.async.wait_group 1;\n" + use) == std::vector{Kind::missing_wait});
  CHECK(kinds_of(copy + use) == std::vector{Kind::missing_wait});
}

TEST_CASE("ptx: a register that was never written is found where it is used", "[ptx]") {
  CHECK(kinds_of("st.global.u32 [%rd1], %r5; ret;") == std::vector{Kind::uninitialised_register});
  // Computed with, it is so still; what nobody uses is no fault.
  CHECK(kinds_of("add.u32 %r6, %r5, 1; mov.u32 %r7, %r6; st.global.u32 [%rd1], %r7; ret;") ==
        std::vector{Kind::uninitialised_register});
  CHECK(kinds_of("add.u32 %r6, %r5, 1; st.global.u32 [%rd1], %r0; ret;").empty());
  // Lane by lane.
  const auto some =
      findings_of("setp.lt.u32 %p1, %r0, 40; @%p1 mov.u32 %r5, 3; st.global.u32 [%rd1], %r5; ret;");
  REQUIRE(some.size() == 1);
  CHECK(some[0].access.thread == 40);
}

TEST_CASE("ptx: what nobody wrote is told of where it is used", "[ptx]") {
  const std::string half = "setp.lt.u32 %p1, %r0, 32; @%p1 st.shared.u32 [%r9], %r0;\n";
  const std::string load = "ld.shared.u32 %r1, [%r9]; cvt.rn.f32.u32 %r2, %r1;\n";
  const std::string store = "st.global.u32 [%rd1], %r3; ret;";
  // A tail is read and computed with, then masked.
  CHECK(kinds_of(half + load + "selp.b32 %r3, %r2, 0, %p1;\n" + store).empty());
  CHECK(kinds_of(half + load + "mov.u32 %r3, 0; @%p1 mov.u32 %r3, %r2;\n" + store).empty());
  CHECK(kinds_of(half + load + "mov.u32 %r3, %r2; @%p1 " + store).empty());
  const auto used = findings_of(half + load + "add.u32 %r3, %r2, 1;\n" + store);
  REQUIRE(used.size() == 1);
  CHECK(used[0].kind == Kind::uninitialised_read);
  CHECK(used[0].access.thread == 32);
  CHECK_FALSE(used[0].access.write);
  CHECK(used[0].used.thread == 32);
  CHECK(used[0].used.write);
  CHECK(used[0].used.place > used[0].access.place);
  // Lanes that ran in step race, and some read what nobody wrote: that does not follow.
  const auto kinds = kinds_of(
      "and.b32 %r4, %r0, 1; setp.eq.u32 %p1, %r4, 0; @%p1 st.shared.u32 [%r9], %r0;\n"
      "xor.b32 %r5, %r9, 4; ld.shared.u32 %r1, [%r5]; add.u32 %r3, %r1, 1;\n" +
      store);
  CHECK(std::count(kinds.begin(), kinds.end(), Kind::uninitialised_read) == 1);
  CHECK(std::count(kinds.begin(), kinds.end(), Kind::race) == 1);
  // How many such bytes lie side by side.
  CHECK(used[0].unwritten.bytes == 64);
  const auto padding = findings_of(
      "st.shared.u32 [%r9], %r0; st.shared.u32 [%r9+260], %r0;\n"
      "bar.sync 0; ld.shared.u32 %r3, [%r9+4];\n" +
      store);
  REQUIRE(padding.size() == 1);
  CHECK((padding[0].unwritten.bytes == 4 && padding[0].unwritten.beside == 64));
  // As an address, in a loop, in an atomic.
  CHECK(kinds_of("st.global.u32 [%rd1], %r0;\n" + half + load +
                 "mul.wide.u32 %rd3, %r1, 0; add.s64 %rd3, %rd3, %rd1;\n" +
                 "ld.global.u32 %r3, [%rd3]; ret;") == std::vector{Kind::uninitialised_read});
  CHECK(kinds_of(half + load + "L: setp.eq.u32 %p2, %r1, 77; @%p2 bra L; ret;") ==
        std::vector{Kind::uninitialised_read});
  CHECK(kinds_of(half + load + "atom.global.add.u32 %r3, [%rd1], %r2; ret;").front() ==
        Kind::uninitialised_read);
}

TEST_CASE("ptx: of a register that is half unwritten the other half is used", "[ptx]") {
  // Compilers compute with two halves at once where they need one.
  const std::string joined = "cvt.u16.u32 %h1, %r0; mov.b32 %r5, {%h1, %h2};\n";
  const std::string twice = "add.f16x2 %r6, %r5, %r5; mov.b32 %r7, %r6;\n";
  const std::string parted = "mov.b32 {%h3, %h4}, %r7;\n";
  const auto store = [](const std::string& half) {
    return "st.global.u16 [%rd1], " + half + "; ret;";
  };
  const std::vector unassigned{Kind::uninitialised_register};
  CHECK(kinds_of(joined + twice + parted + store("%h3")).empty());
  CHECK(kinds_of(joined + twice + "mov.b32 {%h3, _}, %r7;\n" + store("%h3")).empty());
  CHECK(kinds_of(joined + twice + parted + store("%h4")) == unassigned);
  CHECK(kinds_of(joined + twice + "mov.b32 {_, %h4}, %r7;\n" + store("%h4")) == unassigned);
  CHECK(kinds_of(joined + twice + "st.global.u32 [%rd1], %r7; ret;") == unassigned);
  CHECK(kinds_of(joined + "mul.lo.u32 %r7, %r5, 3;\n" + parted + store("%h3")) == unassigned);
  // The halves cross over.
  const std::string crossed = "mov.b32 {%h5, %h6}, %r5; mov.b32 %r7, {%h6, %h5};\n";
  CHECK(kinds_of(joined + crossed + parted + store("%h4")).empty());
  CHECK(kinds_of(joined + crossed + parted + store("%h3")) == unassigned);
  // From memory, and through it.
  const std::string loaded =
      "cvt.u16.u32 %h1, %r0; st.shared.u16 [%r9+2], %h1;\n"
      "ld.shared.u32 %r7, [%r9];\n";
  const std::string passed = "st.shared.u32 [%r9+256], %r7; ld.shared.u32 %r7, [%r9+256];\n";
  for (const std::string& way : {std::string(), passed}) {
    CHECK(kinds_of(loaded + way + parted + store("%h4")).empty());
    CHECK(kinds_of(loaded + way + parted + store("%h3")) == std::vector{Kind::uninitialised_read});
  }
  // Of 64 bits, by a conversion, a shift and memory.
  const std::string wide = "mov.b64 %rd3, {%r0, %r15}; mov.b64 %rd4, %rd3;\n";
  const std::string shifted = "shr.u64 %rd4, %rd4, 32;\n", cut = "cvt.u32.u64 %r7, %rd4;\n";
  const std::string stored = "st.global.u32 [%rd1], %r7; ret;";
  CHECK(kinds_of(wide + cut + stored).empty());
  CHECK(kinds_of(wide + shifted + cut + stored) == unassigned);
  CHECK(kinds_of("mov.b64 %rd4, {%r15, %r0};\n" + cut + stored) == unassigned);
  CHECK(kinds_of("mov.b64 %rd4, {%r15, %r0};\n" + shifted + cut + stored).empty());
  CHECK(kinds_of("mov.b64 %rd4, {0, %r15};\n" + cut + stored).empty());
  CHECK(kinds_of("mov.b64 %rd4, {0, %r15};\n" + shifted + cut + stored) == unassigned);
  const std::string through =
      "add.u32 %r10, %r9, %r9; sub.u32 %r10, %r10, %r8;\n"
      "st.shared.u64 [%r10+256], %rd3; ld.shared.u64 %rd4, [%r10+256];\n";
  CHECK(kinds_of(wide + through + cut + stored).empty());
  CHECK(kinds_of(wide + through + shifted + cut + stored) == unassigned);
  // A lane that had nothing of it before.
  CHECK(
      kinds_of("setp.lt.u32 %p1, %r0, 40; cvt.u16.u32 %h1, %r0;\n@%p1 mov.b32 %r5, {%h1, %h2};\n" +
               twice + parted + store("%h3")) == unassigned);
}

TEST_CASE("ptx: what nobody wrote is followed through branches, lanes and shared memory", "[ptx]") {
  const std::string half = "setp.lt.u32 %p1, %r0, 32; @%p1 st.shared.u32 [%r9], %r0;\n";
  const std::string load = "ld.shared.u32 %r1, [%r9];\n";
  const std::string store = "st.global.u32 [%rd1], %r3; ret;";
  const std::string both =
      "setp.eq.u32 %p2, %r1, 0; mov.u32 %r4, 1; @%p2 bra ELSE;\n"
      "div.u32 %r4, 100, 3; bra END; ELSE: mov.u32 %r4, 2; END:\n";
  CHECK(kinds_of(half + load + both + "selp.b32 %r3, %r4, 0, %p1;\n" + store).empty());
  CHECK(kinds_of(half + load + both + "mov.u32 %r3, 7;\n" + store).empty());
  CHECK(kinds_of(half + load + both + "mov.u32 %r3, %r4;\n" + store) ==
        std::vector{Kind::uninitialised_read});
  CHECK(kinds_of(half + load +
                 "setp.eq.u32 %p2, %r1, 0; @%p2 bra END;\n"
                 "st.global.u32 [%rd1], %r0; END: ret;") == std::vector{Kind::uninitialised_read});
  // Lanes 0 and 1 of a warp have it, the others have not.
  const std::string some = "setp.gt.u32 %p1, %r0, 1; @%p1 st.shared.u32 [%r9], %r0;\n" + load;
  const auto shuffled = [&](const std::string& distance) {
    return some + "shfl.sync.bfly.b32 %r2, %r1, " + distance +
           ", 31, -1; setp.gt.u32 %p2, %r0, 1; selp.b32 %r3, %r2, 0, %p2;\n" + store;
  };
  CHECK(kinds_of(shuffled("1")).empty());
  CHECK(kinds_of(shuffled("2")) == std::vector{Kind::uninitialised_read});
  // Stored to shared memory it is so still.
  const std::string passed =
      half + load + "st.shared.u32 [%r9+256], %r1; ld.shared.u32 %r3, [%r9+256];\n";
  CHECK(kinds_of(passed + store) == std::vector{Kind::uninitialised_read});
  CHECK(kinds_of(passed + "@%p1 " + store).empty());
  CHECK(kinds_of(half + load + "st.shared.u32 [%r9], %r1; st.shared.u32 [%r9], %r0;\n" +
                 "ld.shared.u32 %r3, [%r9];\n" + store)
            .empty());
}

TEST_CASE("ptx: what a shuffle has of a lane that takes no part may not be used", "[ptx]") {
  // Four lanes a row, eight lanes left: those of the last row read beyond it, and nobody asks.
  const auto sum = [](const std::string& last) {
    return "and.b32 %r5, %r0, 31; setp.ge.u32 %p1, %r5, 8; @%p1 ret;\n"
           "shfl.sync.down.b32 %r1, %r0, 2, 31, 0xff; add.u32 %r2, %r0, %r1;\n"
           "shfl.sync.down.b32 %r1, %r2, 1, 31, 0xff; add.u32 %r2, %r2, %r1;\n"
           "and.b32 %r5, %r0, " +
           last + "; setp.eq.u32 %p2, %r5, 0; @%p2 st.global.u32 [%rd1], %r2; ret;";
  };
  CHECK(kinds_of(sum("3")).empty());
  const auto used = findings_of(sum("1"));
  REQUIRE(used.size() == 1);
  CHECK(used[0].kind == Kind::absent_lane);
  CHECK(used[0].used.thread == 6);
  CHECK(used[0].used.place > used[0].access.place);
}

TEST_CASE("ptx: matrices that are stored hold what nobody wrote of their registers", "[ptx]") {
  // Of each warp the upper 16 lanes have it: rows 4 to 7 of a matrix; columns 4 to 7 of its
  // transpose.
  const std::string registers =
      "and.b32 %r10, %r0, 31; setp.lt.u32 %p1, %r10, 16; @%p1 st.shared.u32 [%r9], %r0;\n"
      "ld.shared.u32 %r1, [%r9]; bar.warp.sync -1;\n";
  // Lane i of eight has the address of row i, 512 bytes from the registers' own.
  const std::string rows =
      "and.b32 %r11, %r0, 32; shl.b32 %r11, %r11, 2; add.u32 %r11, %r11, %r8;\n"
      "and.b32 %r12, %r10, 7; shl.b32 %r12, %r12, 4; add.u32 %r12, %r12, %r11;\n";
  const auto stored = [](const std::string& how) {
    return "stmatrix.sync.aligned.m8n8.x1" + how + ".shared.b16 [%r12+512], {%r1};\n" +
           "bar.warp.sync -1; shl.b32 %r13, %r10, 2; add.u32 %r13, %r13, %r11;\n"
           "ld.shared.u32 %r3, [%r13+512];\n";
  };
  const std::string write = "st.global.u32 [%rd1], %r3; ret;";
  const std::vector found{Kind::uninitialised_read};
  CHECK(kinds_of(registers + rows + stored("") + "ret;").empty());
  CHECK(kinds_of(registers + rows + stored("") + "@%p1 " + write).empty());
  CHECK(kinds_of(registers + rows + stored("") + "@!%p1 " + write) == found);
  const std::string columns = "and.b32 %r14, %r10, 2; setp.eq.u32 %p2, %r14, 0;\n";
  CHECK(kinds_of(registers + rows + stored(".trans") + columns + "@%p2 " + write).empty());
  CHECK(kinds_of(registers + rows + stored(".trans") + columns + "@!%p2 " + write) == found);
}

TEST_CASE("ptx: a product is unwritten in the rows and columns of what is", "[ptx]") {
  // Rows 8 to 15 of a lie in a1 and a3; b is written.
  const std::string a =
      "setp.ge.u32 %p1, %r0, 0; mov.u32 %r1, 0; mov.u32 %r3, 0;\n"
      "ld.shared.u32 %r2, [%r9]; mov.u32 %r4, %r2; mov.u32 %r5, 0;\n";
  const std::string product =
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r10, %r11, %r12, %r13}, {%r1, %r2, %r3, "
      "%r4}, {%r5, %r6}, {%r14, %r14, %r14, %r14};\n";
  const std::string zeroes = "mov.u32 %r6, 0; mov.u32 %r14, 0;\n";
  const auto stores = [](const char* reg) {
    return "st.global.u32 [%rd1], %r" + std::string(reg) + "; ret;";
  };
  CHECK(kinds_of(a + zeroes + product + stores("10")).empty());
  CHECK(kinds_of(a + zeroes + product + stores("12")) == std::vector{Kind::uninitialised_read});
  // A column of b: lanes 0 to 3 hold column 0, which goes to lanes 0, 4, 8, ...
  const std::string b =
      "mov.u32 %r1, 0; mov.u32 %r2, 0; mov.u32 %r3, 0; mov.u32 %r4, 0;\n"
      "and.b32 %r20, %r0, 31; setp.gt.u32 %p1, %r20, 3; @%p1 st.shared.u32 [%r9], "
      "%r0; ld.shared.u32 %r5, [%r9]; mov.u32 %r6, 0; mov.u32 %r14, 0;\n";
  CHECK(
      kinds_of(b + product + "and.b32 %r21, %r0, 3; setp.ne.u32 %p2, %r21, 0; @%p2 " + stores("10"))
          .empty());
  CHECK(kinds_of(b + product + stores("11")).empty());
  CHECK(kinds_of(b + product + stores("10")) == std::vector{Kind::uninitialised_read});
}

TEST_CASE("ptx: a product of wmma is unwritten in the rows and columns of what is", "[ptx]") {
  // Rows 0 to 7 of a 16×16 tile of halves are written, by the first warp.
  const std::string tile =
      "setp.ge.u32 %p1, %r0, 32; @%p1 ret; mov.u32 %r1, 0;\n"
      "shl.b32 %r2, %r0, 3; add.u32 %r2, %r2, %r8; st.shared.v2.u32 [%r2], {%r1, %r1};\n"
      "mov.u32 %r3, 16; bar.warp.sync 0xffffffff;\n";
  const std::string a = "{%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17}";
  const std::string zeroes = "{%r1, %r1, %r1, %r1, %r1, %r1, %r1, %r1}";
  const std::string d = "{%r20, %r21, %r22, %r23, %r24, %r25, %r26, %r27}";
  const auto product = [&](const std::string& part, const char* form) {
    const bool is_a = part == "a";
    return tile + "wmma.load." + part + ".sync.aligned." + form + ".m16n16k16.shared.f16 " + a +
           ", [%r8], %r3;\nwmma.mma.sync.aligned.row." + (is_a ? "col" : form) +
           ".m16n16k16.f32.f32 " + d + ", " + (is_a ? a : zeroes) + ", " + (is_a ? zeroes : a) +
           ", " + zeroes + ";\n";
  };
  // An accumulator's registers 0, 1, 4 and 5 are of rows 0 to 7; 4 to 7 of columns 8 to 15.
  const auto stores = [](const char* reg) {
    return "st.global.u32 [%rd1], %r" + std::string(reg) + "; ret;";
  };
  const std::vector found{Kind::uninitialised_read};
  for (const char* of_rows : {"20", "21", "24", "25"}) {
    CHECK(kinds_of(product("a", "row") + stores(of_rows)).empty());
  }
  CHECK(kinds_of(product("a", "row") + stores("22")) == found);
  CHECK(kinds_of(product("b", "col") + stores("22")).empty());
  CHECK(kinds_of(product("b", "col") + stores("24")) == found);
  // Of sums of f16 registers 0 and 2 are of rows 0 to 7.
  const std::string halves = "{%r20, %r21, %r22, %r23}";
  const auto in_halves = [&](const std::string& text) {
    const std::size_t at = text.find(".f32.f32 " + d);
    return text.substr(0, at) + ".f16.f16 " + halves + ", " + a + ", " + zeroes +
           ", {%r1, %r1, %r1, %r1};\n";
  };
  for (const char* of_rows : {"20", "22"}) {
    CHECK(kinds_of(in_halves(product("a", "row")) + stores(of_rows)).empty());
  }
  for (const char* of_others : {"21", "23"}) {
    CHECK(kinds_of(in_halves(product("a", "row")) + stores(of_others)) == found);
  }
  // Through shared memory, and in a store of the fragment to the output.
  const std::string through =
      "bar.warp.sync 0xffffffff; wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%r8], " + d +
      ", %r3;\nbar.warp.sync 0xffffffff;\n";
  CHECK(
      kinds_of(product("a", "row") + through + "ld.shared.u32 %r5, [%r8]; " + stores("5")).empty());
  CHECK(kinds_of(product("a", "row") + through + "ld.shared.u32 %r5, [%r8+512]; " + stores("5")) ==
        found);
}

TEST_CASE("ptx: a product makes no NaN of what nobody wrote, or reads", "[ptx]") {
  const auto makes_nan = [](const std::string& a, const std::string& d) {
    ptx::NumbersMade numbers;
    findings_of(a +
                    "mov.u32 %r5, 0x3c003c00; mov.u32 %r14, 0;\n"
                    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 " +
                    d +
                    ", {%r1, %r1, %r1, %r1}, {%r5, %r5}, {%r14, %r14, %r14, %r14};\n"
                    "mov.u32 %r1, 0; st.global.u32 [%rd1], %r1; ret;",
                &numbers);
    return numbers.nan.block >= 0;
  };
  const std::string all = "{%r10, %r11, %r12, %r13}", none = "{_, _, _, _}";
  CHECK(makes_nan("mov.u32 %r1, 0x7c00fc00;\n", all));
  CHECK_FALSE(makes_nan("mov.u32 %r1, 0x7c00fc00;\n", none));
  CHECK_FALSE(makes_nan("ld.shared.u32 %r1, [%r9];\n", all));
}

TEST_CASE("ptx: what nobody wrote is followed through local memory", "[ptx]") {
  const auto kept = [](const std::string& between, const std::string& from) {
    return kinds_of(
        ".local .align 8 .b32 kept[4];\nld.shared.u32 %r1, [%r9]; st.local.u32 [kept], "
        "%r1; mov.u32 %r2, 7; st.local.u32 [kept+4], %r2;\n" +
        between + "ld.local.u32 %r3, [kept" + from +
        "];\nadd.u32 %r3, %r3, 1; st.global.u32 [%rd1], %r3; ret;");
  };
  CHECK(kept("", "") == std::vector{Kind::uninitialised_read});
  CHECK(kept("", "+4").empty());
  CHECK(kept("st.local.u32 [kept], %r2;\n", "").empty());
  CHECK(kept("st.local.u32 [kept+4], %r1;\n", "+4") == std::vector{Kind::uninitialised_read});
}

TEST_CASE("ptx: of NaNs, the first that is stored", "[ptx]") {
  // Two differences of infinities: one in %r10, one in %r11.
  const auto operand = [](const std::string& stored) {
    ptx::NumbersMade numbers;
    findings_of(
        "mov.b32 %r12, 0x7f800000; mov.b32 %r13, 0xff800000;\n"
        "add.f32 %r10, %r12, %r13;\nsub.f32 %r11, %r12, %r12;\n" +
            stored + "ret;",
        &numbers);
    CHECK(numbers.nan.count == 2);
    CHECK(numbers.nan_leaves == !stored.empty());
    return numbers.nan.operands[1];
  };
  CHECK(operand("st.global.f32 [%rd1], %r10;\n") < 0);
  CHECK(operand("st.global.f32 [%rd1], %r11;\n") > 0);
  CHECK(operand("mul.f32 %r11, %r11, %r12; st.global.f32 [%rd1], %r11;\n") > 0);
  CHECK(operand("") < 0);
}

TEST_CASE("ptx: lanes of a store that round one number differently do not race", "[ptx]") {
  // Warp w at word w: its lanes' numbers are `first`, and `second` of the odd ones.
  const auto kinds_with = [](const std::string& first, const std::string& second,
                             const std::string& opcode = "st.shared.b32") {
    return kinds_of("and.b32 %r1, %r0, 1; setp.eq.u32 %p1, %r1, 0; selp.b32 %r2, " + first + ", " +
                    second +
                    ", %p1;\nshr.u32 %r3, %r0, 5; shl.b32 %r3, %r3, 2; add.u32 %r3, %r3, "
                    "%r8;\n" +
                    opcode + " [%r3], %r2;\nst.global.u32 [%rd1], %r0; ret;");
  };
  CHECK(kinds_with("0x3f800000", "0x3f800001").empty());
  CHECK(kinds_with("0xbf7fffff", "0xbf800003").empty());
  // Other numbers, others' signs, what is no number, whole numbers.
  CHECK(kinds_with("0x3f800000", "0x3f810000") == std::vector{Kind::race});
  CHECK(kinds_with("0x3f800000", "0xbf800000") == std::vector{Kind::race});
  CHECK(kinds_with("0x7f800000", "0x7f800001") == std::vector{Kind::race});
  CHECK(kinds_with("15", "16") == std::vector{Kind::race});
  // Of two warps, and of two stores.
  CHECK_FALSE(kinds_of("add.u32 %r2, %r0, 0x3f800000; st.shared.b32 [%r8], %r2; st.global.u32 "
                       "[%rd1], %r0; ret;")
                  .empty());
  CHECK_FALSE(kinds_of("and.b32 %r1, %r0, 1; setp.eq.u32 %p1, %r1, 0; mov.u32 %r2, 0x3f800000; "
                       "mov.u32 %r3, 0x3f800001;\n"
                       "@%p1 st.shared.b32 [%r8], %r2; @!%p1 st.shared.b32 [%r8], %r3; "
                       "st.global.u32 [%rd1], %r0; ret;")
                  .empty());
}

TEST_CASE("ptx: warps that store the same matrix do not race", "[ptx]") {
  const auto kinds_with = [](const std::string& value) {
    return kinds_of("mov.u32 %r1, " + value +
                    ";\nand.b32 %r3, %r0, 7; shl.b32 %r3, %r3, 4; add.u32 "
                    "%r3, %r3, %r8;\nstmatrix.sync.aligned.m8n8.x1.shared.b16 [%r3], {%r1};\n"
                    "st.global.u32 [%rd1], %r0; ret;");
  };
  CHECK(kinds_with("7").empty());
  CHECK(kinds_with("%warpid") == std::vector{Kind::race});
  const auto kinds_of_sums = [](const std::string& value) {
    return kinds_of(
        ".reg .f32 %f<2>;\nmov.b32 %r1, " + value +
        "; mov.b32 %f0, %r1;\n"
        "wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%r8], {%f0, %f0, %f0, %f0, "
        "%f0, %f0, %f0, %f0}, 16;\nst.global.u32 [%rd1], %r0; ret;");
  };
  CHECK(kinds_of_sums("0x3f800000").empty());
  CHECK(kinds_of_sums("%warpid") == std::vector{Kind::race});
}

TEST_CASE("ptx: lanes that write the same bytes do not race", "[ptx]") {
  const std::string end = "bar.sync 0; ld.shared.u32 %r1, [%r8]; st.global.u32 [%rd1], %r1; ret;";
  CHECK(kinds_of("mov.u32 %r1, 5; st.shared.u32 [%r8], %r1;\n" + end).empty());
  CHECK(kinds_of("st.shared.u32 [%r8], %r0;\n" + end) == std::vector{Kind::race});
  // The same of an output.
  CHECK(kinds_of("mov.u32 %r1, 5; st.global.u32 [%rd0], %r1; ret;").empty());
  CHECK(kinds_of("st.global.u32 [%rd0], %r0; ret;") == std::vector{Kind::race});
  // But over a copy that is under way.
  CHECK_FALSE(kinds_of("mov.u32 %r1, 7; st.global.u32 [%rd1], %r1; st.shared.u32 [%r9], %r1;\n"
                       "bar.sync 0; setp.eq.u32 %p1, %r0, 0; setp.eq.u32 %p2, %r0, 32;\n"
                       "@%p1 cp.async.ca.shared.global [%r8], [%rd0], 4;\n"
                       "@%p2 st.shared.u32 [%r8], %r1;\ncp.async.wait_all;\n" +
                       end)
                  .empty());
}

TEST_CASE(
    "ptx: of an area of global memory, what a lane read before a shuffle may be overwritten") {
  const auto overwrite = [](int reader, bool exchanges, bool writes_first) {
    simt::Clocks clocks(64);
    ptx::AreaShadow area(64, true);
    ptx::BlockOrder order;
    ptx::AreaShadow::Held held;
    area.begin_launch();
    const auto enter = [&](int thread, bool write) {
      return area
          .enter(0, 4,
                 {write,
                  false,
                  false,
                  false,
                  0,
                  0,
                  false,
                  {clocks.now(thread), 1},
                  clocks.past(thread)},
                 order, held)
          .kind;
    };
    REQUIRE(enter(reader, writes_first) == Kind::none);
    if (exchanges) clocks.exchange(0);
    return enter(1, true);
  };
  CHECK(overwrite(0, true, false) == Kind::none);
  CHECK(overwrite(0, false, false) == Kind::race_with_read);
  CHECK(overwrite(32, true, false) == Kind::race_with_read);  // of another warp
  CHECK(overwrite(0, true, true) == Kind::race);              // nor is what it wrote
}
