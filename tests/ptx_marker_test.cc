// Markers: comments of a PTX text that name values. What the machine stores and takes at them, and
// that nothing else comes of them.

#include <cstdint>
#include <string>
#include <vector>

#include "debug/ptx/contraction.h"
#include "debug/ptx/control_flow.h"
#include "debug/ptx/marker_run.h"
#include "reference/marker_words.h"
#include "reference/tile_layout.h"
#include "tests/support/catch.h"
#include "tests/support/ptx_kernel.h"

using namespace lanescope;

namespace {

const std::string marked_registers =
    ".reg .f32 %f<8>; .reg .b32 %r<8>; .reg .b16 %h<4>; .reg .b64 %rd<4>; .reg .pred %p<4>;\n"
    "mov.u32 %r1, %tid.x; mov.u32 %r2, 0; mov.u32 %r3, 1; ld.param.u64 %rd1, [p0];\n"
    "cvt.rn.f32.u32 %f1, %r1;\n";

/// A run of one warp whose site s, and m, of tiles of 2 x 32, are stored, or given.
struct Marked {
  explicit Marked(const std::string& body)
      : kernel(ptx_module(marked_registers + body + "\nret;", 1)) {
    place(SiteId::s, 2, 32, false);
    place(SiteId::m, 2, 1, true);
    run.heads = run.row_tiles = 4;
    run.q_tiles = 1;
    run.br = 2;
    kernel.grid.markers = &run;
    kernel.grid.blocks[0] = 4;
  }
  void place(SiteId id, int rows, int cols, bool of_lanes) {
    auto& site = run.sites[static_cast<std::size_t>(id)];
    auto& slots = site.shown;
    slots.rows = rows;
    slots.cols = cols;
    slots.element = 4;
    slots.per_tile = true;
    slots.of_lanes = of_lanes;
    slots.window = {0, 4, 0, 2, 0, 1, 0, 32};
    auto& own = values[static_cast<std::size_t>(id)];
    own.assign(static_cast<std::size_t>(slots.count()) * 8, poison32);
    slots.base = reinterpret_cast<std::byte*>(own.data());
    auto& holders = threads[static_cast<std::size_t>(id)];
    holders.assign(static_cast<std::size_t>(slots.count()), -1);
    site.holders = holders.data();
  }
  float value(SiteId id, int block, int tile, int row, int col, int lane = 0) {
    const auto& slots = run.sites[static_cast<std::size_t>(id)].shown;
    float number = 0;
    std::memcpy(&number, slots.find(block, tile, row, col, lane), sizeof number);
    return number;
  }
  bool is_written(SiteId id, int block, int tile, int row, int col, int lane = 0) {
    const float number = value(id, block, tile, row, col, lane);
    std::uint32_t bits = 0;
    std::memcpy(&bits, &number, sizeof bits);
    return bits != poison32;
  }
  void start() {
    kernel.use(out);
    kernel.run({address(out.data())});
  }

  PtxKernel kernel;
  ptx::MarkerRun run;
  std::vector<std::uint32_t> values[site_id_count];
  std::vector<std::int16_t> threads[site_id_count];
  std::vector<float> out = std::vector<float>(32);
};

const std::string store_result =
    "mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, %rd2; "
    "st.global.f32 [%rd1], %f1;";

}  // namespace

TEST_CASE("marker: words are those of the header, and nothing else", "[ptx][marker]") {
  const auto marker = [](std::string_view text) { return take_marker(text); };
  using enum Marker::Kind;
  using enum Marker::Form;
  CHECK(marker("lanescope trace s f32 %r1, %r2, %r3, %f1") == Marker{trace, SiteId::s, f32});
  CHECK(marker("lanescope inject alpha b16x2 %r1") == Marker{inject, SiteId::alpha, b16x2});
  CHECK(marker("lanescope trace qk f32 %r1") == Marker{trace, SiteId::s, f32, ScoreUnit::raw});
  CHECK(marker("lanescope inject m_prev_base_e f32 %r1") ==
        Marker{inject, SiteId::m_prev, f32, ScoreUnit::base_e});
  CHECK(marker("lanescope tile k_smem b16 %r1") == Marker{tile, SiteId::k_smem, b16});
  CHECK(marker("lanescope phase pv") == Marker{phase, SiteId::s, f32, {}, Stage::pv});
  CHECK(marker("lanescope row_tile %r1, %r2, %r3").value().kind == row_tile);
  for (const char* text :
       {"lanescope trace", "lanescope trace s", "lanescope trace x f32 %r1",
        "lanescope trace s f64 %r1", "lanescope tile s b16x2 %r1", "lanescope phase",
        "lanescope phase combine", "lanescope trace p_raw f32 %r1", "lanescope traces s f32 %r1",
        "lanescope trace o_final f32 %r1", "lanescopes trace s f32 %r1"}) {
    CHECK_FALSE(marker(text).has_value());
  }
}

TEST_CASE("marker: each lane stores its value where it says", "[ptx][marker]") {
  Marked marked("// lanescope trace s f32 %r2, %r3, %r1, %f1");
  marked.start();
  for (int lane = 0; lane < 32; ++lane) {
    CHECK(marked.value(SiteId::s, 3, 0, 1, lane) == static_cast<float>(lane));
    CHECK_FALSE(marked.is_written(SiteId::s, 3, 0, 0, lane));
    CHECK_FALSE(marked.is_written(SiteId::s, 3, 1, 1, lane));
    CHECK(marked.threads[static_cast<int>(SiteId::s)][static_cast<std::size_t>(32 + lane)] == lane);
  }
}

TEST_CASE("marker: lanes that hold the same value of a row have slots of their own",
          "[ptx][marker]") {
  Marked marked("// lanescope trace m f32 %r2, %r3, %r2, %f1");
  marked.start();
  for (int lane = 0; lane < 32; ++lane) {
    CHECK(marked.value(SiteId::m, 0, 0, 1, 0, lane) == static_cast<float>(lane));
    CHECK_FALSE(marked.is_written(SiteId::m, 0, 0, 0, 0, lane));
  }
}

TEST_CASE("marker: in divergent code active lanes alone store", "[ptx][marker]") {
  Marked marked(
      "setp.lt.u32 %p1, %r1, 5; @!%p1 bra L;\n"
      "// lanescope trace s f32 %r2, %r2, %r1, %f1\n L:");
  marked.start();
  for (int lane = 0; lane < 32; ++lane) {
    CHECK(marked.is_written(SiteId::s, 0, 0, 0, lane) == (lane < 5));
  }
}

TEST_CASE("marker: what is no element, or of no tile, is passed over", "[ptx][marker]") {
  Marked marked(
      "mov.u32 %r4, -1; mov.u32 %r5, 2;\n"
      "// lanescope trace s f32 %r2, %r4, %r1, %f1\n"
      "// lanescope trace s f32 %r5, %r2, %r1, %f1\n"
      "// lanescope trace s f32 %r4, %r2, %r1, %f1");
  marked.start();
  for (const std::uint32_t bits : marked.values[static_cast<int>(SiteId::s)]) {
    REQUIRE(bits == poison32);
  }
}

TEST_CASE("marker: a place outside of the tile ends the block and says which", "[ptx][marker]") {
  Marked marked("mov.u32 %r5, 2;\n// lanescope trace s f32 %r2, %r5, %r1, %f1");
  CHECK_THROWS_WITH(marked.start(), Catch::Matchers::ContainsSubstring(
                                        "row 2, column 0 of s, and a tile has 2 x 32"));
}

TEST_CASE("marker: which row tile a block computes", "[ptx][marker]") {
  Marked marked(
      "mov.u32 %r4, %ctaid.x; sub.s32 %r5, 3, %r4;\n"
      "// lanescope row_tile %r2, %r5, %r2\n"
      "cvt.rn.f32.u32 %f1, %r4;\n// lanescope trace s f32 %r2, %r2, %r1, %f1");
  marked.start();
  for (int block = 0; block < 4; ++block) {
    CHECK(marked.value(SiteId::s, block, 0, 0, 7) == static_cast<float>(3 - block));
  }
  Marked outside("mov.u32 %r4, 4;\n// lanescope row_tile %r2, %r4, %r2");
  CHECK_THROWS_WITH(outside.start(),
                    Catch::Matchers::ContainsSubstring("the problem has 4 row tiles"));
  Marked fewer("// lanescope trace s f32 %r2, %r2, %r1, %f1");
  fewer.kernel.grid.blocks[0] = 3;
  CHECK_THROWS_WITH(fewer.start(), Catch::Matchers::ContainsSubstring("launched with 3 blocks"));
}

TEST_CASE("marker: two values of 16 bits in a register", "[ptx][marker]") {
  Marked marked(
      "shl.b32 %r4, %r1, 1; and.b32 %r4, %r4, 31;\n"
      "mov.u32 %r5, 0x40003c00;\n"  // 1 below, 2 above
      "// lanescope trace s b16x2 %r2, %r3, %r4, %r5");
  marked.run.sites[static_cast<int>(SiteId::s)].shown.element = 2;
  marked.start();
  const auto* bits =
      reinterpret_cast<const std::uint16_t*>(marked.values[static_cast<int>(SiteId::s)].data());
  for (int col = 0; col < 32; ++col) CHECK(bits[32 + col] == (col % 2 == 0 ? 0x3c00 : 0x4000));
  CHECK(bits[0] == poison16);
}

TEST_CASE("marker: a value is replaced where the run gives it, and stays else", "[ptx][marker]") {
  const std::string body = "// lanescope inject s f32 %r2, %r3, %r1, %f1\n" + store_result;
  Marked untouched(body);
  untouched.start();
  Marked given(body);
  auto& site = given.run.sites[static_cast<int>(SiteId::s)];
  site.given = site.shown;
  for (std::uint32_t& bits : given.values[static_cast<int>(SiteId::s)]) bits = 0x42280000;  // 42
  given.start();
  for (std::size_t lane = 0; lane < 32; ++lane) {
    CHECK(untouched.out[lane] == static_cast<float>(lane));
    CHECK(given.out[lane] == 42);
  }
}

TEST_CASE("marker: a tile in shared memory goes to its slots, however it lies", "[ptx][marker]") {
  const struct {
    const char* operands;  // row, col, panel, panel stride, swizzle
    TileLayout layout;
  } cases[] = {{"40, 1, 0, 0, 0", {40, 1, 0, 0, 0}},
               {"1, 3, 0, 0, 0", {1, 3, 0, 0, 0}},
               {"8, 1, 8, 16, 0", {8, 1, 8, 16, 0}},
               {"32, 1, 0, 0, 131330", {32, 1, 0, 0, 2 | 1 << 8 | 2 << 16}}};
  for (const auto& [operands, layout] : cases) {
    std::string body =
        ".shared .align 16 .b8 mem[1024];\n"
        "mov.u32 %r4, mem; add.u32 %r4, %r4, 64;\n";
    // One lane writes 100 + its number to every element's place.
    for (int i = 0; i < 64; ++i) {
      const std::string at = std::to_string(4 * layout.offset(i / 32, i % 32));
      body +=
          "mov.b32 %f2, " + std::to_string(100 + i) + ".0; st.shared.f32 [%r4+" + at + "], %f2;\n";
    }
    Marked marked(body + "// lanescope tile s f32 %r3, %r4, " + operands);
    marked.start();
    for (int i = 0; i < 64; ++i) {
      CHECK(marked.value(SiteId::s, 2, 1, i / 32, i % 32) == static_cast<float>(100 + i));
      CHECK_FALSE(marked.is_written(SiteId::s, 2, 0, i / 32, i % 32));
    }
  }
  Marked outside(
      ".shared .align 16 .b8 mem[64];\nmov.u32 %r4, mem;\n"
      "// lanescope tile s f32 %r2, %r4, 32, 1, 0, 0, 0");
  CHECK_THROWS_WITH(outside.start(), Catch::Matchers::ContainsSubstring(
                                         "row 0, column 16 of s at byte 64 of shared memory"));
}

TEST_CASE("marker: CuTe's swizzles", "[ptx][marker]") {
  // Swizzle<3, 3, 3>: 8 rows of 64 elements of 16 bits; in row r the 16 bytes c are those at c ^ r.
  const TileLayout layout = {64, 1, 0, 0, 3 | 3 << 8 | 3 << 16};
  for (int row = 0; row < 16; ++row) {
    for (int col = 0; col < 64; ++col) {
      CHECK(layout.offset(row, col) == row * 64 + (col / 8 ^ row % 8) * 8 + col % 8);
    }
  }
}

TEST_CASE("marker: which stage code is of", "[ptx][marker]") {
  const std::string body =
      "add.u32 %r4, %r1, 1;\n"                                            // no marker leads here
      "L:\n// lanescope phase qk\nadd.u32 %r4, %r4, 1;\n"                 // qk
      "setp.lt.u32 %p1, %r4, 50; @%p1 bra M;\n"                           // qk
      "// lanescope phase softmax\nadd.u32 %r4, %r4, 3;\n"                // softmax
      "M: add.u32 %r4, %r4, 5;\nsetp.lt.u32 %p1, %r4, 90; @%p1 bra L;\n"  // both
      "// lanescope phase epilogue\nadd.u32 %r4, %r4, 7;\n";
  const PtxKernel kernel(ptx_module(marked_registers + body + "\nret;", 1));
  std::vector<std::string> stages;
  const ptx::Program& program = kernel.program();
  for (std::uint32_t i = 0; i < program.code.size(); ++i) {
    if (program.origins[i].opcode == "add.u32") stages.push_back(program.stage_of(i));
  }
  CHECK(stages ==
        std::vector<std::string>{"", " in qk", " in softmax", " in qk or softmax", " in epilogue"});
}

TEST_CASE("marker: what computes a value is seen through copies", "[ptx][marker]") {
  const std::string text =
      ptx_module(marked_registers +
                     "mul.rn.f32 %f2, %f1, %f1;\nsetp.lt.u32 %p1, %r1, 5;\n@%p1 bra L;\n"
                     "ex2.approx.f32 %f2, %f1;\nL: mov.f32 %f3, %f2;\n"
                     "// lanescope inject s f32 %r2, %r2, %r1, %f3\n"
                     "mov.f32 %f4, %f3;\n// lanescope trace s f32 %r2, %r2, %r1, %f4\nret;",
                 1);
  const ptx::Module module = ptx::parse(text, "test.ptx");
  const ptx::Function& function = module.functions[0];
  const auto trace = static_cast<std::uint32_t>(function.statements.size()) - 2;
  std::vector<std::string> opcodes;
  const int traced = function.statements[trace].operands[3].index;
  for (const ptx::Definition& found : ptx::definitions_of(function, trace, traced)) {
    opcodes.emplace_back(function.statements[found.statement].opcode);
  }
  CHECK(opcodes == std::vector<std::string>{"mul.rn.f32", "ex2.approx.f32"});
}

TEST_CASE("marker: an accumulator of a product in flight is no value yet", "[ptx][marker]") {
  const auto load = [](const std::string& before, const std::string& behind) {
    std::string accumulators;
    for (int i = 0; i < 4; ++i) accumulators += (i > 0 ? ", %a" : "%a") + std::to_string(i);
    const std::string product =
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {" + accumulators +
        "}, %rd1, %rd2, %p1, 1, 1, 0, 0;\nwgmma.commit_group.sync.aligned;\n";
    std::string text = ptx_module(
        marked_registers + ".reg .f32 %a<4>;\n" + before + product + behind + "\nret;", 1);
    text.replace(text.find("sm_90"), 5, "sm_90a");
    return PtxKernel(text);
  };
  const std::string marker = "// lanescope trace s f32 %r2, %r2, %r1, %a1\n";
  const std::string wait = "wgmma.wait_group.sync.aligned ";
  const auto in_flight = Catch::Matchers::ContainsSubstring("that is still in flight");
  CHECK_THROWS_WITH(load("", marker + wait + "0;"), in_flight);
  CHECK_THROWS_WITH(load("", wait + "1;\n" + marker), in_flight);
  CHECK_THROWS_WITH(load("", "mov.f32 %f1, %a1;\n// lanescope trace s f32 %r2, %r2, %r1, %f1\n"),
                    in_flight);
  CHECK_THROWS_WITH(load("L:\n" + marker, "setp.lt.u32 %p1, %r1, 5; @%p1 bra L;\n"), in_flight);
  CHECK_NOTHROW(load(marker, wait + "0;\n" + marker));
  CHECK_NOTHROW(load("", "wgmma.commit_group.sync.aligned;\n" + wait + "1;\n" + marker));
}

TEST_CASE("marker: ptxas does not see them, so sums are contracted as without", "[ptx][marker]") {
  const std::string sum = "mul.f32 %f2, %f1, %f1;\n@add.f32 %f3, %f2, %f1;\n" + store_result;
  const auto contractions = [&](const std::string& marker, bool injects) {
    std::string body = marked_registers + sum;
    body.replace(body.find('@'), 1, marker);
    const ptx::Module module = ptx::parse(ptx_module(body + " ret;", 1), "test.ptx");
    return ptx::find_contractions(module.functions[0], injects).size();
  };
  const std::string trace = "// lanescope trace s f32 %r2, %r2, %r1, %f2\n";
  const std::string inject = "// lanescope inject s f32 %r2, %r2, %r1, %f2\n";
  CHECK(contractions("", false) == 1);
  CHECK(contractions(trace, false) == 1);
  CHECK(contractions(trace, true) == 1);
  CHECK(contractions(inject, false) == 1);
  CHECK(contractions(inject, true) == 0);  // the sum takes what stands there then
}

TEST_CASE("marker: one that cannot be is refused with its line", "[ptx][marker]") {
  const struct {
    const char* text;
    const char* says;
  } cases[] = {
      {"// lanescope trace x f32 %r2, %r2, %r1, %f1", "test.ptx:8: there is no marker"},
      {"// lanescope trace s f32 %r2, %r2, %f1", "it has 3 operands, and takes 4"},
      {"// lanescope trace s f32 %r2, %r2, %r1, %h1", "has 16 bits, where .b32 is taken"},
      {"// lanescope trace s b16 %r2, %r2, %r1, %f1", "has 32 bits, where .b16 is taken"},
      {"// lanescope trace s f32 %r2, %r2, %r1, %f99", "there is no register %f99"},
      {"// lanescope trace s f32 %r2, %r2, %r1, %f1 %f2", "goes on behind its values"},
      {"// lanescope inject s f32 %r2, %r2, %r1, 0f00000000", "a register is expected"},
  };
  for (const auto& [text, says] : cases) {
    CHECK_THROWS_WITH(PtxKernel(ptx_module(marked_registers + text + "\nret;", 1)),
                      Catch::Matchers::ContainsSubstring(says));
  }
}
