// What a value came through, followed back.

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "debug/ptx/slice.h"
#include "debug/ptx/tensor_map.h"
#include "tests/support/catch.h"
#include "tests/support/ptx_kernel.h"

using namespace lanescope;
using Catch::Matchers::ContainsSubstring;

namespace {

struct Sliced {
  ptx::Slice slice;
  std::string text;
  bool has(const std::string& part) const { return text.find(part) != text.npos; }
};

/// Two warps; %rd0: an output of a word for each, %rd3: as many words of input and, 3584 bytes
/// behind, a tensor map of the first 64 of them, %rd1 and %rd4: the lane's own of both, `box` an
/// array in shared memory, %r9: the lane's word of it; p2: the number of the launch. The slice is
/// of the output's `word`-th.
Sliced sliced(const std::string& body, std::size_t word, std::uint32_t blocks = 1,
              std::uint32_t threads = 64, int launches = 1) {
  PtxKernel kernel(ptx_module(
      ".shared .align 16 .b8 box[4096]; .reg .pred %p<8>; .reg .b32 %r<32>; .reg .b16 %h<8>;\n"
      ".reg .f32 %f<32>; .reg .b64 %rd<16>;\n"
      "mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [p0]; ld.param.u64 %rd3, [p1];\n"
      "mul.wide.u32 %rd2, %r0, 4; add.s64 %rd1, %rd0, %rd2; add.s64 %rd4, %rd3, %rd2;\n"
      "shl.b32 %r9, %r0, 2; mov.u32 %r8, box; add.u32 %r9, %r9, %r8;\n" +
          body + "ret;",
      3));
  std::vector<std::uint32_t> out(256), in(1024);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = std::bit_cast<std::uint32_t>(1.5f);
  ptx::TensorMapBytes map;  // of four rows of 16 words of the input, behind its 3584th byte
  map.base = address(in.data());
  map.element_bytes = 4;
  map.rank = 2;
  map.type = 7;  // f32
  map.size[0] = 16;
  map.size[1] = 4;
  map.stride[0] = 64;
  map.box[0] = 16;
  map.box[1] = 8;
  std::memcpy(&in[3584 / 4], &map, sizeof map);
  kernel.use(out);
  kernel.use(in);
  ptx::SliceWish wish{reinterpret_cast<const std::byte*>(&out[word]), 4};
  kernel.grid.threads[0] = threads;
  kernel.grid.blocks[0] = blocks;
  kernel.grid.slice = &wish;
  ptx::History history;
  kernel.grid.history = &history;
  // The program stays whose it is.
  const std::shared_ptr<const ptx::Program> program(std::shared_ptr<void>(), &kernel.program());
  for (int launch = 0; launch < launches; ++launch) {
    history.begin_launch(program);
    kernel.run({address(out.data()), address(in.data()), static_cast<std::uint64_t>(launch)});
  }
  Sliced result{wish.found, ""};
  for (const std::string& note : ptx::slice_notes(wish.found)) result.text += note + "\n";
  return result;
}

const std::string load_word = "ld.global.f32 %f1, [%rd4];\n",
                  store_word = "st.global.f32 [%rd1], %f9;\n";

}  // namespace

TEST_CASE("ptx slice: what a value came through, and nothing else", "[ptx]") {
  const Sliced own = sliced(load_word +
                                "add.f32 %f2, %f1, %f1;\n"
                                "mul.f32 %f3, %f1, %f1;\n"
                                "sub.f32 %f9, %f2, 0f3F800000;\n" +
                                store_word,
                            40);
  INFO(own.text);
  REQUIRE(own.slice.lines.size() == 4);
  CHECK_THAT(own.slice.lines[0].line, ContainsSubstring("test.ptx:"));
  CHECK(own.slice.lines[0].instructions[0].opcode == "st.global.f32");
  CHECK(own.slice.lines[1].value == "2");
  CHECK(own.slice.lines[2].value == "3");
  CHECK(own.slice.lines[3].instructions[0].opcode == "ld.global.f32");
  for (const auto& line : own.slice.lines) {
    REQUIRE(line.lanes.size() == 1);
    CHECK(line.lanes[0].warp == 1);
    CHECK(line.lanes[0].lanes == 1u << 8);
  }
  CHECK_FALSE(own.has("mul.f32"));
  CHECK(own.has("from 4 bytes of a buffer of the test, between byte 160 and 163"));
  // What it was before it was overwritten says nothing.
  CHECK_FALSE(
      sliced(load_word + "add.f32 %f9, %f1, %f1; mov.f32 %f9, 0f00000000;\n" + store_word, 3)
          .has("ld.global"));
  // Nobody wrote it.
  CHECK(sliced(load_word, 3).slice.lines.empty());
}

TEST_CASE("ptx slice: a loop is a line, with how often it ran", "[ptx]") {
  const Sliced sum = sliced(
      "mov.f32 %f9, 0f00000000; mov.u32 %r1, 0;\n"
      "L: ld.global.f32 %f1, [%rd4];\nadd.f32 %f9, %f9, %f1;\nadd.u32 %r1, %r1, 1; setp.lt.u32 "
      "%p1, %r1, 5; @%p1 bra L;\n" +
          store_word,
      0);
  INFO(sum.text);
  CHECK(sum.has("add.f32 x 5; last 7.5; warp 0, lanes 0"));
  CHECK(sum.has("ld.global.f32 x 5"));
  CHECK_FALSE(sum.has("setp"));
}

TEST_CASE("ptx slice: through shared memory and other lanes", "[ptx]") {
  // Lane i of the other warp.
  const Sliced other =
      sliced(load_word +
                 "mul.f32 %f2, %f1, %f1;\nst.shared.f32 [%r9], %f2;\nbar.sync 0;\n"
                 "xor.b32 %r3, %r0, 32; shl.b32 %r3, %r3, 2; add.u32 %r3, %r3, %r8;\n"
                 "ld.shared.f32 %f9, [%r3];\n" +
                 store_word,
             5);
  INFO(other.text);
  REQUIRE(other.slice.lines.size() == 5);
  CHECK(other.slice.lines[1].lanes[0].warp == 0);
  CHECK(other.slice.lines[2].lanes[0].warp == 1);
  CHECK(other.slice.lines[2].lanes[0].lanes == 1u << 5);
  CHECK(other.has("between byte 148 and 151"));
  // A butterfly: all lanes of the warp.
  std::string sums = load_word + "mov.b32 %r1, %f1;\n";
  for (const char* distance : {"16", "8", "4", "2", "1"}) {
    sums += "shfl.sync.bfly.b32 %r2, %r1, " + std::string(distance) +
            ", 31, -1;\nmov.b32 %f2, %r2; mov.b32 %f3, %r1; add.f32 %f9, %f2, %f3; mov.b32 %r1, "
            "%f9;\n";
  }
  const Sliced all = sliced(sums + store_word, 7);
  CHECK(all.slice.lines.back().lanes[0].lanes == ~0u);
  CHECK(all.has("from 128 bytes"));
  // A copy that is under way until it is waited for; half of it is zeroes.
  const Sliced copied = sliced(
      "shl.b32 %r3, %r0, 4; add.u32 %r3, %r3, %r8; mul.wide.u32 %rd5, %r0, 16;\n"
      "add.s64 %rd5, %rd3, %rd5; mov.u32 %r4, 8; cp.async.cg.shared.global [%r3], [%rd5], 16, "
      "%r4;\ncp.async.wait_all;\nld.shared.v4.f32 {%f1, %f2, %f3, %f4}, [%r3];\n"
      "add.f32 %f9, %f2, %f4;\n" +
          store_word,
      2);
  INFO(copied.text);
  CHECK(copied.has("cp.async.cg.shared.global"));
  CHECK(copied.has("from 4 bytes of a buffer of the test, between byte 36 and 39"));
  CHECK(copied.slice.sources.size() == 1);
}

TEST_CASE("ptx slice: of a choice the side that was taken", "[ptx]") {
  const std::string choose = load_word +
                             "add.f32 %f2, %f1, %f1;\nmul.f32 %f3, %f1, %f1;\n"
                             "setp.lt.u32 %p1, %r0, 8; selp.f32 %f9, %f2, %f3, %p1;\n" +
                             store_word;
  CHECK(sliced(choose, 7).has("add.f32"));
  CHECK_FALSE(sliced(choose, 7).has("mul.f32"));
  CHECK(sliced(choose, 8).has("mul.f32"));
  CHECK_FALSE(sliced(choose, 8).has("add.f32"));
}

TEST_CASE("ptx slice: an element of a product is of a row and a column", "[ptx]") {
  // a: the lane's own word in all four registers; element (3, 5): lane 14, its second.
  const Sliced product = sliced(
      "ld.global.u32 %r1, [%rd4]; mov.u32 %r2, %r1; mov.u32 %r3, %r1; mov.u32 %r4, %r1;\n"
      "ld.global.u32 %r5, [%rd4]; mov.u32 %r6, 0;\nmov.f32 %f0, 0f00000000;\n"
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, "
      "%r4}, {%r5, %r6}, {%f0, %f0, %f0, %f0};\nmov.f32 %f9, %f2;\n" +
          store_word,
      14);
  INFO(product.text);
  const auto& lines = product.slice.lines;
  const auto of = [&](const std::string& opcode) {
    return *std::find_if(lines.begin(), lines.end(),
                         [&](const auto& line) { return line.instructions[0].opcode == opcode; });
  };
  CHECK(of("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32").lanes[0].lanes == 1u << 14);
  // Row 3 of a lies in lanes 12 to 15, column 5 of b in 20 to 23.
  bool row = false, column = false;
  for (const auto& line : lines) {
    for (const auto& lanes : line.lanes) {
      row = row || lanes.lanes == 0xf000u;
      column = column || lanes.lanes == 0xf00000u;
    }
  }
  CHECK(row);
  CHECK(column);
}

namespace {

/// The first thread brings the input's first bytes to `box`; all wait for them.
std::string bring(const std::string& bytes) {
  return "add.u32 %r10, %r8, 4088; setp.eq.u32 %p1, %r0, 0;\n"
         "@%p1 mbarrier.init.shared::cta.b64 [%r10], 1; @%p1 "
         "fence.mbarrier_init.release.cluster;\nbar.sync 0;\n"
         "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r10], " +
         bytes +
         ";\n@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r8], "
         "[%rd3], " +
         bytes +
         ", [%r10];\nW: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r10], 0;\n@%p2 bra D;\n"
         "bra W;\nD:\n";
}

}  // namespace

TEST_CASE("ptx slice: through bulk copies, there and back", "[ptx]") {
  const std::string twice = "ld.shared.f32 %f1, [%r9];\nadd.f32 %f9, %f1, %f1;\n";
  const Sliced in = sliced(bring("256") + twice + store_word, 5);
  INFO(in.text);
  CHECK(in.has("cp.async.bulk.shared::cluster"));
  CHECK(in.has("from 4 bytes of a buffer of the test, between byte 20 and 23"));
  CHECK(in.slice.sources.size() == 1);
  CHECK(in.slice.not_followed.empty());
  const std::string back = "st.shared.f32 [%r9], %f9;\nfence.proxy.async;\nbar.sync 0;\n@%p1 ";
  const std::string wait = "@%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group 0;\n";
  const Sliced out =
      sliced(bring("256") + twice + back +
                 "cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r8], 256;\n" + wait,
             40);
  INFO(out.text);
  CHECK(out.slice.lines.at(0).instructions.at(0).opcode ==
        "cp.async.bulk.global.shared::cta.bulk_group");
  CHECK(out.has("st.shared.f32"));
  CHECK(out.has("from 4 bytes of a buffer of the test, between byte 160 and 163"));
  // A sum counts with what lay there.
  const Sliced sum = sliced(
      "st.global.f32 [%rd1], 0f3F800000;\nbar.sync 0;\n" + bring("256") + twice + back +
          "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%rd0], [%r8], 256;\n" + wait,
      40);
  INFO(sum.text);
  CHECK(sum.has("st.global.f32"));
  CHECK(sum.has("st.shared.f32"));
}

TEST_CASE("ptx slice: tensors, their sums, and zeroes outside of them", "[ptx]") {
  // A box of 8 rows of 16 words; the tensor has 4.
  const std::string at = "add.u64 %rd5, %rd3, 3584; mov.u32 %r12, 0;\n";
  const std::string in =
      at +
      "add.u32 %r10, %r8, 4088; setp.eq.u32 %p1, %r0, 0;\n"
      "@%p1 mbarrier.init.shared::cta.b64 [%r10], 1; @%p1 fence.mbarrier_init.release.cluster;\n"
      "bar.sync 0;\n@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r10], 512;\n"
      "@%p1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r8], "
      "[%rd5, {%r12, %r12}], [%r10];\n"
      "W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r10], 0;\n@%p2 bra D; bra W;\nD:\n"
      "ld.shared.f32 %f1, [%r9]; add.f32 %f9, %f1, %f1;\n";
  const Sliced inside = sliced(in + store_word, 50, 1, 128),
               outside = sliced(in + store_word, 80, 1, 128);
  INFO(inside.text << outside.text);
  CHECK(inside.has("from 4 bytes of a buffer of the test, between byte 200 and 203"));
  CHECK(inside.has("cp.async.bulk.tensor.2d.shared::cluster"));
  CHECK(outside.has("cp.async.bulk.tensor.2d.shared::cluster"));
  CHECK(outside.slice.sources.empty());
  CHECK(outside.slice.not_followed.empty());
  // Added to what another word of the input left there.
  const std::string sum = at +
                          "st.global.f32 [%rd4], 0f3F800000;\nst.shared.f32 [%r9], 0f40000000;\n"
                          "fence.proxy.async; bar.sync 0; setp.eq.u32 %p1, %r0, 0;\n"
                          "@%p1 cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group "
                          "[%rd5, {%r12, %r12}], [%r8];\n@%p1 cp.async.bulk.commit_group; "
                          "@%p1 cp.async.bulk.wait_group 0;\nbar.sync 0;\n"
                          "ld.global.f32 %f9, [%rd4];\n";
  const Sliced both = sliced(sum + store_word, 60);
  INFO(both.text);
  CHECK(both.has("cp.reduce.async.bulk.tensor"));
  CHECK(both.has("st.shared.f32"));
  const auto is_store = [](const auto& line) {
    return line.instructions[0].opcode == "st.global.f32";
  };
  CHECK(std::count_if(both.slice.lines.begin(), both.slice.lines.end(), is_store) == 2);
  const auto copy = std::find_if(both.slice.lines.begin(), both.slice.lines.end(), [](auto& line) {
    return line.instructions[0].opcode.starts_with("cp.reduce");
  });
  REQUIRE(copy != both.slice.lines.end());
  REQUIRE(copy->lanes.size() == 1);
  CHECK(copy->lanes[0].lanes == 1);  // the thread that issued it
}

TEST_CASE("ptx slice: a product of a warpgroup is of a row and a column", "[ptx]") {
  // 64 rows of 32 bytes and 8 of B behind them; element (20, 3) lies in lane 17 of warp 1.
  const std::string product =
      bring("2304") +
      "shr.u32 %r11, %r8, 4; cvt.u64.u32 %rd7, %r11; or.b64 %rd7, %rd7, 0x1000080000;\n"
      "add.u64 %rd8, %rd7, 128; setp.ne.u32 %p3, 0, 0;\nwgmma.fence.sync.aligned;\n"
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd7, %rd8, %p3, 1, "
      "1, 0, 0;\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n"
      "mov.f32 %f9, %f1;\n" +
      store_word;
  const Sliced one = sliced(product, 49, 1, 128);
  INFO(one.text);
  CHECK(one.has("wgmma.mma_async"));
  CHECK(one.has("from 64 bytes of a buffer of the test, between byte 576 and 2239"));
  CHECK(one.slice.not_followed.empty());
}

TEST_CASE("ptx slice: what a product of a warpgroup adds to, and where its operands lie", "[ptx]") {
  const std::string before =
      bring("2304") +
      "shr.u32 %r11, %r8, 4; cvt.u64.u32 %rd7, %r11; or.b64 %rd7, %rd7, 0x1000080000;\n"
      "add.u64 %rd8, %rd7, 128; setp.eq.u32 %p3, 0, 0;\n";
  const std::string after = "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n";
  const auto of = [&](const std::string& prepare, const std::string& product,
                      const std::string& keep) {
    return sliced(before + prepare + "wgmma.fence.sync.aligned;\nwgmma.mma_async.sync.aligned." +
                      product + ";\n" + after + keep + store_word,
                  49, 1, 128);
  };
  const auto lanes_of = [](const Sliced& sliced, const std::string& opcode) {
    for (const auto& line : sliced.slice.lines) {
      if (line.instructions[0].opcode == opcode) return line.lanes.at(0).lanes;
    }
    return 0u;
  };
  // Element (20, 3), which lane 17 of warp 1 holds in its second register.
  const Sliced sum = of("ld.global.f32 %f1, [%rd4];\n",
                        "m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd7, %rd8, %p3, 1, 1, 0, 0",
                        "mov.f32 %f9, %f1;\n");
  INFO(sum.text);
  CHECK(lanes_of(sum, "ld.global.f32") == 1u << 17);
  const Sliced first = of("setp.ne.u32 %p3, 0, 0; ld.global.f32 %f1, [%rd4];\n",
                          "m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd7, %rd8, %p3, 1, 1, 0, 0",
                          "mov.f32 %f9, %f1;\n");
  CHECK(lanes_of(first, "ld.global.f32") == 0);
  // A from registers: row 4 of the warp's 16 lies in the first and third of lanes 16 to 19.
  const Sliced registers = of(
      "ld.global.u32 %r20, [%rd4];\nmov.u32 %r21, %r0;\nmov.u32 %r22, %r20;\nmov.u32 %r23, %r0;\n",
      "m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, {%r20, %r21, %r22, %r23}, %rd8, %p3, 1, 1, 0",
      "mov.f32 %f9, %f1;\n");
  INFO(registers.text);
  CHECK(lanes_of(registers, "ld.global.u32") == 0xfu << 16);
  CHECK_FALSE(registers.has("mov.u32 x 2"));
  // Sums in f16: columns 2 and 3 in one register, so two rows of B.
  const Sliced halves =
      of("mov.u32 %r20, 0; mov.u32 %r21, 0;\n",
         "m64n8k16.f16.f16.f16 {%r20, %r21}, %rd7, %rd8, %p3, 1, 1, 0, 0", "mov.b32 %f9, %r20;\n");
  INFO(halves.text);
  CHECK(halves.has("from 96 bytes of a buffer of the test"));
  // B transposed: column 3 is one element of each of 16 rows of 16 bytes.
  const Sliced turned =
      of("", "m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd7, %rd8, %p3, 1, 1, 0, 1",
         "mov.f32 %f9, %f1;\n");
  INFO(turned.text);
  CHECK(turned.has("from 64 bytes of a buffer of the test"));
  CHECK_FALSE(turned.has("between byte 576 and 2239"));
  // A likewise: row 20 is one of 8 in the third column of chunks.
  const Sliced lying =
      of("", "m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd7, %rd8, %p3, 1, 1, 1, 0",
         "mov.f32 %f9, %f1;\n");
  INFO(lying.text);
  CHECK(lying.has("from 64 bytes of a buffer of the test"));
  CHECK_FALSE(lying.has("between byte 576 and 2239"));
}

TEST_CASE("ptx slice: of several blocks the first that wrote it", "[ptx]") {
  const Sliced last = sliced("mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, 2;\n" + load_word +
                                 "add.f32 %f9, %f1, %f1;\n@%p1 " + store_word,
                             0, 4);
  CHECK(last.slice.block == 2);
}

TEST_CASE("ptx slice: through what another block stored", "[ptx]") {
  // Block 0 stores, block 1 waits for it and adds.
  const std::string wait_for_first =
      "mov.u32 %r1, %ctaid.x; setp.ne.u32 %p1, %r1, 0; @%p1 bra B;\n"
      "ld.global.f32 %f1, [%rd4];\nmul.f32 %f2, %f1, %f1;\nst.global.f32 [%rd1+512], %f2;\n"
      "bar.sync 0; setp.eq.u32 %p2, %r0, 0; @%p2 st.release.gpu.global.u32 [%rd0+1020], 1;\n"
      "ret;\n"
      "B: ld.acquire.gpu.global.u32 %r2, [%rd0+1020]; setp.ne.u32 %p2, %r2, 1; @%p2 bra B;\n"
      "ld.global.f32 %f3, [%rd1+512];\nadd.f32 %f9, %f3, %f3;\n";
  // What comes there later says nothing.
  const std::string after = store_word +
                            "bar.sync 0; mov.f32 %f4, 0f00000000;\n"
                            "st.global.f32 [%rd1+512], %f4;\n";
  const Sliced both = sliced(wait_for_first + after, 7, 2);
  INFO(both.text);
  CHECK(both.slice.block == 1);
  REQUIRE(both.slice.earlier.size() == 1);
  CHECK(both.slice.earlier[0].block == 0);
  CHECK(both.slice.earlier[0].launch == 1);
  CHECK(both.has("stored before by block 0 of kernel, launch 1:"));
  CHECK(both.has("mul.f32; last 2.25; warp 0, lanes 7"));
  CHECK(both.has("add.f32; last 4.5; warp 0, lanes 7"));
  CHECK(both.has("from 4 bytes of a buffer of the test, between byte 28 and 31"));
}

TEST_CASE("ptx slice: through what a launch before stored", "[ptx]") {
  // The first launch stores squares behind, the second stores what it finds there.
  const std::string two =
      "ld.param.u64 %rd5, [p2]; setp.ne.u64 %p1, %rd5, 0; @%p1 bra S;\n"
      "ld.global.f32 %f1, [%rd4];\nmul.f32 %f2, %f1, %f1;\nst.global.f32 [%rd1+512], %f2;\n"
      "ret;\nS: ld.global.f32 %f9, [%rd1+512];\n";
  const Sliced last = sliced(two + store_word, 3, 1, 64, 2);
  INFO(last.text);
  REQUIRE(last.slice.earlier.size() == 1);
  CHECK(last.slice.earlier[0].launch == 1);
  CHECK(last.has("mul.f32; last 2.25; warp 0, lanes 3"));
  CHECK(last.has("from 4 bytes of a buffer of the test, between byte 12 and 15"));
  // Shared memory of a block before is not the block's.
  const std::string left =
      "ld.param.u64 %rd5, [p2]; setp.ne.u64 %p1, %rd5, 0; @%p1 bra S;\n"
      "ld.global.f32 %f1, [%rd4];\nst.shared.f32 [%r9], %f1;\nret;\n"
      "S: ld.shared.f32 %f9, [%r9];\n";
  CHECK(sliced(left + store_word, 3, 1, 64, 2).slice.earlier.empty());
}

TEST_CASE("ptx slice: blocks that did the same are told together", "[ptx]") {
  ptx::Slice slice;
  slice.earlier = {{1, 3, "partial", {{"x.cu:6", {{"st.global.f32", 1}}, {{0, 8}}, "2"}}},
                   {1, 2, "partial", {{"x.cu:6", {{"st.global.f32", 1}}, {{0, 8}}, "2"}}},
                   {1, 1, "partial", {{"x.cu:6", {{"st.global.f32", 1}}, {{0, 8}}, "4"}}}};
  const std::vector<std::string> notes = ptx::slice_notes(slice);
  REQUIRE(notes.size() == 4);
  CHECK(notes[0] == "stored before by blocks 3, 2 of partial, launch 1:");
  CHECK(notes[1] == "x.cu:6: st.global.f32; last 2; warp 0, lanes 3");
  CHECK(notes[2] == "stored before by block 1 of partial, launch 1:");
}
