// What a marked PTX text becomes for a GPU: run as it is, the machine leaves the same slots as with
// the markers themselves, and the sums that ptxas contracts are written as what it makes of them.

#include "debug/ptx/rewrite_markers.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "debug/ptx/contraction.h"
#include "debug/ptx/marker_run.h"
#include "tests/support/catch.h"
#include "tests/support/ptx_kernel.h"

using namespace lanescope;

namespace {

constexpr int rows = 8, cols = 32, blocks = 6, tiles = 3;

/// The slots of s and m, shown or given, as a run has them.
struct SlotsOfRun {
  explicit SlotsOfRun(int element) {
    place(SiteId::s, cols, element, false);
    place(SiteId::m, 1, element, true);
    run.heads = 3;
    run.q_tiles = 2;
    run.row_tiles = blocks;
    run.br = rows;
  }
  void place(SiteId id, int site_cols, int element, bool of_lanes) {
    MarkerRun::OfSite& site = run.sites[static_cast<std::size_t>(id)];
    site.shown = {nullptr, {1, blocks, 0, tiles - 1, 0, 1, 0, 32}, rows, site_cols, element, true,
                  of_lanes};
    auto& own = values[of_lanes ? 1 : 0];
    const std::int64_t count = site.shown.count() * (blocks - 1) * (tiles - 1);
    own.assign(static_cast<std::size_t>(count * element), std::byte{0xb1});
    site.shown.base = own.data();
    auto& threads = holders[of_lanes ? 1 : 0];
    threads.assign(static_cast<std::size_t>(site.shown.count()), -1);
    site.holders = threads.data();
  }
  using MarkerRun = ptx::MarkerRun;
  MarkerRun run;
  std::vector<std::byte> values[2];
  std::vector<std::int16_t> holders[2];
};

std::string kernel_of(const std::string& body) {
  return ptx_module(
      ".reg .f32 %f<8>; .reg .b32 %r<12>; .reg .b16 %h<4>; .reg .b64 %rd<4>; .reg .pred %p<4>;\n"
      "mov.u32 %r0, 0; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ctaid.y;\n"
      "and.b32 %r4, %r1, 31; shr.u32 %r5, %r1, 5; ld.param.u64 %rd1, [p0]; mov.u32 %r6, 0;\n"
      "LOOP: mad.lo.u32 %r7, %r1, 3, %r6; mad.lo.u32 %r7, %r2, 1000, %r7; cvt.rn.f32.u32 %f1, "
      "%r7;\n" +
          body +
          "\nadd.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, 3; @%p1 bra LOOP;\n"
          "mad.lo.u32 %r8, %r3, 2, %r2; mul.lo.u32 %r8, %r8, 256; add.u32 %r8, %r8, %r1;\n"
          "mul.wide.u32 %rd2, %r8, 4; add.s64 %rd1, %rd1, %rd2; st.global.f32 [%rd1], %f1; ret;",
      1);
}

void run_kernel(PtxKernel& kernel, std::vector<float>& out) {
  kernel.grid.blocks = {2, 3, 1};
  kernel.grid.threads = {256, 1, 1};
  kernel.use(out);
  kernel.run({address(out.data())});
}

/// Runs the body with its markers, and rewritten; what both leave must be the same.
void check_same(const std::string& body, int element = 4, bool injects = false) {
  SlotsOfRun direct(element), written(element);
  std::vector<float> out(6 * 256), out_written(6 * 256);
  for (SlotsOfRun* slots : {&direct, &written}) {
    if (!injects) continue;
    for (std::size_t i = 0; i < slots->values[0].size(); ++i) {
      slots->values[0][i] = static_cast<std::byte>(i * 37 % 64);
    }
    auto& site = slots->run.sites[static_cast<std::size_t>(SiteId::s)];
    site.given = site.shown;
    site.shown.base = nullptr;
    slots->run.injects = true;
  }
  {
    PtxKernel kernel(kernel_of(body));
    kernel.grid.markers = &direct.run;
    run_kernel(kernel, out);
  }
  ptx::MarkerBuffers buffers;
  std::vector<std::uint64_t> addresses;
  const auto add = [&](std::size_t i, auto& memory) {
    const auto* begin = reinterpret_cast<const std::byte*>(memory.data());
    buffers[i] = {begin, static_cast<std::int64_t>(memory.size() * sizeof memory[0])};
    addresses.push_back(address(begin));
  };
  add(0, written.values[0]);
  add(1, written.values[1]);
  add(2, written.holders[0]);
  add(3, written.holders[1]);
  const ptx::Module module = ptx::parse(kernel_of(body), "test.ptx");
  PtxKernel kernel(ptx::rewrite_markers(module, written.run, buffers), "kernel",
                   {address(addresses.data())});
  kernel.use(addresses);
  kernel.use(written.values[0]);
  kernel.use(written.values[1]);
  kernel.use(written.holders[0]);
  kernel.use(written.holders[1]);
  run_kernel(kernel, out_written);
  for (int i = 0; i < 2; ++i) {
    CHECK(direct.values[i] == written.values[i]);
    CHECK(direct.holders[i] == written.holders[i]);
  }
  CHECK(out == out_written);
  const bool changed = injects ? out[300] != 1
                               : direct.values[0] != SlotsOfRun(element).values[0] ||
                                     direct.values[1] != SlotsOfRun(element).values[1];
  CHECK(changed);
}

std::string rewritten(const std::string& body) {
  const ptx::Module module = ptx::parse(kernel_of(body), "test.ptx");
  return ptx::rewrite_markers(module, {}, {});
}

}  // namespace

TEST_CASE("rewritten markers: values go where the machine puts them", "[ptx][marker]") {
  check_same("// lanescope trace s f32 %r6, %r5, %r4, %f1\n");
  check_same("// lanescope trace m f32 %r6, %r5, %r0, %f1\n");
  check_same("and.b32 %r9, %r4, 30;\n// lanescope trace s b16x2 %r6, %r5, %r9, %r7\n", 2);
  check_same("cvt.u16.u32 %h1, %r7;\n// lanescope trace m b16 %r6, %r5, %r0, %h1\n", 2);
  check_same("sub.s32 %r9, %r4, 3;\n// lanescope trace s f32 %r6, %r5, %r9, %f1\n");
  check_same(
      "setp.lt.u32 %p2, %r1, 77; @%p2 bra SKIP;\n"
      "// lanescope trace s f32 %r6, %r5, %r4, %f1\nSKIP:\n");
}

TEST_CASE("rewritten markers: row tiles that a marker names", "[ptx][marker]") {
  check_same("// lanescope row_tile %r0, %r3, %r2\n// lanescope trace s f32 %r6, %r5, %r4, %f1\n");
  check_same(
      "sub.s32 %r9, 2, %r3;\n// lanescope row_tile %r0, %r9, %r2\n"
      "// lanescope trace m f32 %r6, %r5, %r0, %f1\n");
}

TEST_CASE("rewritten markers: tiles in shared memory", "[ptx][marker]") {
  const std::string store =
      ".shared .align 16 .b8 mem[2048];\n"
      "mov.u32 %r9, mem; mad.lo.u32 %r10, %r5, 40, %r4; mad.lo.u32 %r10, %r10, 4, %r9;\n"
      "st.shared.f32 [%r10], %f1; bar.sync 0;\n";
  const std::string rows = "// lanescope tile s f32 %r6, %r9, 40, 1, 0, 0, 0\n";
  check_same(store + rows + "bar.sync 0;\n");
  check_same(store + "// lanescope tile s f32 %r6, %r9, 1, 8, 16, 300, 131586\nbar.sync 0;\n");
  check_same(store + "setp.gt.u32 %p2, %r4, 4; @%p2 bra SKIP;\n" + rows +
             "SKIP: bar.sync 0; // lanescope phase pv\n");
}

TEST_CASE("rewritten markers: values that the run gives", "[ptx][marker]") {
  check_same("// lanescope inject s f32 %r6, %r5, %r4, %f1\n", 4, true);
  check_same(
      "and.b32 %r9, %r4, 30;\n// lanescope inject s b16x2 %r6, %r5, %r9, %r7\ncvt.rn.f32.u32 %f1, "
      "%r7;\n",
      2, true);
}

TEST_CASE("rewritten markers: sums are contracted as ptxas does without them", "[ptx][marker]") {
  const std::string text = rewritten(
      "mul.f32 %f2, %f1, %f1;\n// lanescope trace s f32 %r6, %r5, %r4, %f2\n"
      "add.f32 %f3, %f2, %f1;\nmul.f32 %f4, %f1, %f3;\nst.global.f32 [%rd1], %f4;\n"
      "sub.ftz.f32 %f5, %f4, %f1;\nadd.rn.f32 %f6, %f5, %f5;\n");
  CHECK(text.find("fma.rn.f32 %f3, %f1, %f1, %f1;") != text.npos);
  CHECK(text.find("mul.rn.f32 %f4, %f1, %f3;") != text.npos);
  CHECK(text.find("sub.rn.ftz.f32 %f5, %f4, %f1;") != text.npos);
  CHECK(text.find("add.rn.f32 %f6, %f5, %f5;") != text.npos);
  CHECK(ptx::find_contractions(ptx::parse(text, "test.ptx").functions[0]).empty());
  const std::string negated = rewritten(
      "mul.f32 %f2, %f1, 0f40490FDB;\nsub.f32 %f3, %f1, %f2;\n"
      "mul.f32 %f4, %f3, %f3;\nsub.f32 %f5, %f4, %f3;\n");
  CHECK(negated.find("neg.f32 %ls_f0, %f1; fma.rn.f32 %f3, %ls_f0, 0f40490FDB, %f1;") !=
        negated.npos);
  CHECK(negated.find("neg.f32 %ls_f1, %f3; fma.rn.f32 %f5, %f3, %f3, %ls_f1;") != negated.npos);
}

TEST_CASE("rewritten markers: what cannot be rewritten is refused", "[ptx][marker]") {
  CHECK_THROWS_WITH(rewritten("mul.f32 %f2, %f1, %f1; add.f32 %f3, %f2, %f1;\n"),
                    Catch::Matchers::ContainsSubstring("shares its line with others"));
  const std::string function =
      ".version 8.5\n.target sm_90\n.address_size 64\n.func f()\n{\n.reg .b32 %r<4>;\n"
      "// lanescope row_tile %r1, %r2, %r3\nret;\n}\n";
  CHECK_THROWS_WITH(ptx::rewrite_markers(ptx::parse(function, "test.ptx"), {}, {}),
                    Catch::Matchers::ContainsSubstring("f has markers and is no kernel"));
}
