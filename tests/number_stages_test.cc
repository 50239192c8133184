// In which stages the code of attention without markers is, by what becomes of its numbers.

#include "debug/ptx/number_stages.h"

#include <string>
#include <vector>

#include "debug/ptx/parser.h"
#include "reference/site.h"
#include "tests/support/catch.h"
#include "tests/support/ptx_kernel.h"

using namespace lanescope;

namespace {

const std::string registers =
    ".reg .f32 %f<24>; .reg .b32 %r<8>; .reg .b16 %h<4>; .reg .b64 %rd<4>; .reg .pred %p<4>;\n"
    "mov.u32 %r1, %tid.x; mov.u32 %r2, 0; mov.u32 %r3, 1; ld.param.u64 %rd1, [p0];\n"
    "cvt.rn.f32.u32 %f1, %r1;\n";

/// The stages of the statements whose opcode begins with one of `opcodes`, "-" where there is none.
std::string stages_of(const std::string& body, const std::vector<std::string>& opcodes) {
  const std::string text = ptx_module(registers + body + "\nret;", 1);
  const ptx::Module module = ptx::parse(text, "test.ptx");
  const auto stages = ptx::stages_by_numbers(module.functions[0]);
  std::string all;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    for (const std::string& opcode : opcodes) {
      if (!module.functions[0].statements[i].opcode.starts_with(opcode)) continue;
      std::string own;
      for (int stage = 0; stage <= static_cast<int>(Stage::combine); ++stage) {
        if (stages[i] >> stage & 1) own += name_of(static_cast<Stage>(stage));
      }
      all += (all.empty() ? "" : " ") + (own.empty() ? "-" : own);
      break;
    }
  }
  return all;
}

}  // namespace

TEST_CASE("number stages: what a store to shared memory holds", "[ptx]") {
  const auto stage_of = [](const std::string& body) {
    const std::string text = ptx_module(registers + body + "\nret;", 1);
    const ptx::Module module = ptx::parse(text, "test.ptx");
    const auto stages = ptx::stages_by_numbers(module.functions[0]);
    return static_cast<int>(stages[stages.size() - 2]);
  };
  const int load = 1 << static_cast<int>(Stage::load);
  const int softmax = 1 << static_cast<int>(Stage::softmax);
  CHECK(stage_of("ld.global.nc.u16 %h1, [%rd1]; cvt.f32.f16 %f2, %h1; mul.f32 %f3, %f2, 0f3F000000;"
                 "st.shared.f32 [%r1], %f3;") == load);
  CHECK(stage_of("mov.u32 %r4, 0; setp.lt.u32 %p1, %r1, 5; @%p1 ld.global.u32 %r4, [%rd1];"
                 "st.shared.b32 [%r1], %r4;") == load);
  CHECK(stage_of("cp.async.cg.shared.global [%r1], [%rd1], 16;") == load);
  // The item that one thread draws for all.
  CHECK(stage_of("atom.global.add.u32 %r4, [%rd1], 1; st.shared.u32 [%r1], %r4;") == load);
  CHECK(stage_of("atom.global.add.u32 %r4, [%rd1], 1; mov.u32 %r2, %nctaid.x;"
                 "add.u32 %r4, %r4, %r2; st.shared.u32 [%r1], %r4;") == load);
  CHECK(stage_of("atom.shared.add.u32 %r4, [%r1], 1; st.shared.u32 [%r1], %r4;") == 0);
  CHECK(stage_of("ex2.approx.f32 %f2, %f1; mul.f32 %f3, %f2, %f2; cvt.rn.f16.f32 %h1, %f3;"
                 "st.shared.b16 [%r1], %h1;") == softmax);
  // Sums may be of any stage, and so may what comes from shared memory itself.
  CHECK(stage_of("ld.global.f32 %f2, [%rd1]; add.f32 %f3, %f2, %f1; st.shared.f32 [%r1], %f3;") ==
        0);
  CHECK(stage_of("ld.shared.f32 %f2, [%r1]; st.shared.f32 [%r1], %f2;") == 0);
  CHECK(stage_of("mov.f32 %f2, 0f00000000; st.shared.f32 [%r1], %f2;") == 0);
  CHECK(stage_of("ld.global.f32 %f2, [%rd1]; st.global.f32 [%rd1], %f2;") == 0);
}

TEST_CASE("number stages: what becomes of a number that is read", "[ptx]") {
  const auto reads_of = [](const std::string& body) {
    const std::string text = ptx_module(registers + body + "\nret;", 1);
    const ptx::Module module = ptx::parse(text, "test.ptx");
    const auto stages = ptx::stages_by_numbers(module.functions[0]);
    std::vector<int> read;
    for (std::size_t i = 0; i < stages.size(); ++i) {
      const std::string_view opcode = module.functions[0].statements[i].opcode;
      if (opcode.starts_with("ld.") && opcode.find("param") == opcode.npos) {
        read.push_back(stages[i]);
      }
    }
    return read;
  };
  const int qk = 1 << static_cast<int>(Stage::qk), pv = 1 << static_cast<int>(Stage::pv);
  const int softmax = 1 << static_cast<int>(Stage::softmax);
  const std::string q = "ld.global.f32 %f1, [%rd1];", k = "ld.shared.f32 %f2, [%r1];";
  const std::string store = "st.global.f32 [%rd1], %f3;";
  const std::string weigh =
      "ld.shared.f32 %f6, [%r1]; mul.f32 %f7, %f5, %f6; st.global.f32 [%rd1], %f7;";
  const std::string power =
      "max.f32 %f4, %f3, %f4; sub.f32 %f4, %f3, %f4; ex2.approx.f32 %f5, %f4;";
  const std::string product = "fma.rn.f32 %f3, %f1, %f2, %f3;";
  const std::string scaled = "mul.f32 %f3, %f3, 0f3E000000;";
  CHECK(reads_of(q + k + product + scaled + power) == std::vector{qk, qk});
  CHECK(reads_of("ld.shared.f32 %f3, [%r1];" + scaled + power) == std::vector{softmax});
  CHECK(reads_of(q + k + product + power + weigh) == std::vector{qk, qk, pv});
  // Sums of values may be staged in shared memory.
  const int epilogue = 1 << static_cast<int>(Stage::epilogue);
  CHECK(reads_of(q + k + product + power +
                 "ld.shared.f32 %f6, [%r1]; mul.f32 %f7, %f5, %f6; st.shared.f32 [%r1], %f7;"
                 "ld.shared.f32 %f8, [%r1]; st.global.f32 [%rd1], %f8;") ==
        std::vector{qk, qk, pv, epilogue});
  // Of a product alone it may be either.
  CHECK(reads_of(q + k + product + store) == std::vector{0, 0});
  // What weighs sums and multiplies no inputs is a combine pass, all of it.
  const int combine = 1 << static_cast<int>(Stage::combine);
  CHECK(reads_of("ld.global.f32 %f3, [%rd1];" + power + weigh) == std::vector{combine, combine});
  // Its weights may go through shared memory, and the log-sum-exps that they are made of; sums of
  // them alone are a softmax, and where scores lie in local memory, it is attention.
  const std::string keep_weight =
      power + "st.shared.f32 [%r1], %f5; ld.shared.f32 %f6, [%r1]; ld.global.f32 %f7, [%rd1];";
  const std::string weigh_it = "fma.rn.f32 %f8, %f6, %f7, %f8; st.global.f32 [%rd1], %f8;";
  CHECK(reads_of("ld.global.f32 %f3, [%rd1];" + keep_weight + weigh_it) ==
        std::vector{combine, combine, combine});
  CHECK(reads_of("ld.shared.f32 %f3, [%r1];" + keep_weight + weigh_it) ==
        std::vector{combine, combine, combine});
  CHECK(reads_of("ld.global.f32 %f3, [%rd1];" + keep_weight +
                 "add.f32 %f8, %f6, %f8; st.global.f32 [%rd1], %f8;")[0] == (softmax | combine));
  CHECK(reads_of("ld.local.f32 %f3, [%rd1];" + keep_weight + weigh_it)[0] == softmax);
  // Scores and weights may come through shared memory.
  CHECK(reads_of(q + k +
                 "mul.f32 %f10, %f1, %f2; st.shared.f32 [%r1], %f10; ld.shared.f32 %f3, [%r1];" +
                 power +
                 "st.shared.f32 [%r1], %f5; ld.shared.f32 %f6, [%r1]; ld.global.f32 %f7, [%rd1];"
                 "fma.rn.f32 %f8, %f6, %f7, %f8; st.shared.f32 [%r1], %f8;"
                 "ld.shared.f32 %f9, [%r1]; st.global.f32 [%rd1], %f9;")
            .back() == epilogue);
  CHECK(reads_of(q + k +
                 "fma.rn.f32 %f10, %f1, %f2, %f10; st.shared.f32 [%r1], %f10;"
                 "ld.shared.f32 %f3, [%r1];" +
                 power + weigh) == std::vector{qk, qk, softmax, pv});
  // expf multiplies a power of two with an exponent that it makes of a part of its argument.
  CHECK(reads_of("ld.global.f32 %f3, [%rd1]; mov.b32 %r2, %f3; shl.b32 %r3, %r2, 23;"
                 "mov.b32 %f6, %r3;" +
                 power + "mul.f32 %f7, %f5, %f6; st.global.f32 [%rd1], %f7;") ==
        std::vector{softmax | combine});
  // Weights that are summed up in shared memory and taken to another maximum are no values.
  CHECK(reads_of(q + k + "mul.f32 %f10, %f1, %f2; st.shared.f32 [%r1], %f10;" +
                 "ld.shared.f32 %f3, [%r1];" + power +
                 "ld.shared.f32 %f6, [%r1]; add.f32 %f8, %f8, %f6; fma.rn.f32 %f9, %f8, %f5, %f9;"
                 "st.global.f32 [%rd1], %f9; rcp.approx.f32 %f7, %f9; st.global.f32 [%rd1], %f7;")
            .back() == softmax);
  // A number that says where others lie is none of them.
  CHECK(reads_of("ld.global.u32 %r1, [%rd1]; ld.shared.f32 %f3, [%r1];" + power) ==
        std::vector{0, softmax});
}

TEST_CASE("number stages: an integer in shared memory that says where tiles are") {
  const std::string scores =
      "ld.shared.f32 %f2, [%r1]; ld.shared.f32 %f3, [%r1+128]; mul.f32 %f4, %f2, %f3;"
      "ex2.approx.f32 %f5, %f4; ";
  const std::string tile = "ld.global.nc.u16 %h1, [%rd2]; st.shared.b16 [%r1], %h1;";
  const std::string item = "ld.shared.u32 %r2, [%r3]; shl.b32 %r4, %r2, 6; add.s32 %r5, %r4, %r1;";
  const std::string at = "mul.wide.s32 %rd3, %r5, 2; add.s64 %rd2, %rd1, %rd3;";
  CHECK(stages_of(scores + item + at + tile, {"ld.shared.u32"}) == "load");
  CHECK(stages_of(scores + item + at + "cp.async.cg.shared.global [%r1], [%rd2], 16;",
                  {"ld.shared.u32"}) == "load");
  // Where results are stored says nothing of tiles.
  CHECK(stages_of(scores + item + at + "st.global.f32 [%rd2], %f5;", {"ld.shared.u32"}) == "-");
  CHECK(stages_of(scores + item + "setp.lt.s32 %p1, %r5, 8;", {"ld.shared.u32"}) == "-");
}

TEST_CASE("number stages: arithmetic, from the scores to the quotient") {
  const std::string scores =
      "ld.global.u16 %h1, [%rd1]; cvt.f32.f16 %f2, %h1; ld.global.u16 %h2, [%rd1];"
      "cvt.f32.f16 %f3, %h2; mul.f32 %f4, %f2, %f3; mul.f32 %f5, %f4, 0f3E000000;";
  const std::string softmax =
      "max.f32 %f6, %f5, %f7; sub.f32 %f8, %f5, %f6; ex2.approx.f32 %f9, %f8;"
      "sub.f32 %f10, %f7, %f6; ex2.approx.f32 %f11, %f10; fma.rn.f32 %f12, %f12, %f11, %f9;";
  const std::string pv =
      "mul.f32 %f13, %f13, %f11; ld.global.u16 %h3, [%rd1]; cvt.f32.f16 %f14, %h3;"
      "fma.rn.f32 %f13, %f9, %f14, %f13;";
  const std::string epilogue =
      "rcp.approx.f32 %f15, %f12; mul.f32 %f16, %f13, %f15; st.global.f32 [%rd1], %f16;"
      "lg2.approx.f32 %f17, %f12; add.f32 %f18, %f17, %f7; st.global.f32 [%rd1], %f18;";
  const std::vector<std::string> all = {"mul", "max", "sub", "ex2", "fma",
                                        "rcp", "lg2", "add", "st"};
  CHECK(stages_of(scores + softmax + pv + epilogue, all) ==
        "qk qk softmax softmax softmax softmax softmax softmax pv pv epilogue epilogue epilogue "
        "epilogue epilogue epilogue");
}

TEST_CASE("number stages: O is rescaled in pv, whatever its registers held in the item before") {
  const std::string scores =
      "NEXT: ld.global.f32 %f2, [%rd1]; ld.shared.f32 %f3, [%r1]; mul.f32 %f4, %f2, %f3;"
      "max.f32 %f6, %f4, %f7; sub.f32 %f8, %f4, %f6; ex2.approx.f32 %f9, %f8;"
      "fma.rn.f32 %f12, %f12, %f9, %f9; ";
  const std::string pv =
      "mul.f32 %f13, %f13, %f9; ld.shared.f32 %f14, [%r1]; fma.rn.f32 %f13, %f9, %f14, %f13; ";
  const std::string epilogue =
      "rcp.approx.f32 %f15, %f12; mul.f32 %f13, %f13, %f15; st.global.f32 [%rd1], %f13;"
      "@%p1 bra NEXT;";
  CHECK(stages_of(scores + pv + epilogue, {"mul"}) == "qk pv epilogue");
}

TEST_CASE("number stages: what goes to other blocks of the cluster is put together there") {
  const std::string scores =
      "ld.global.f32 %f2, [%rd1]; ld.shared.f32 %f3, [%r1]; mul.f32 %f4, %f2, %f3;"
      "max.f32 %f6, %f4, %f7; sub.f32 %f8, %f4, %f6; ex2.approx.f32 %f9, %f8;"
      "add.f32 %f12, %f12, %f9; ";
  const std::string send =
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%r1], {%f6, %f12}, "
      "[%r2];";
  CHECK(stages_of(scores + send, {"st.async"}) == "combine");
  CHECK(stages_of("ld.global.f32 %f2, [%rd1]; mov.f32 %f6, %f2; mov.f32 %f12, %f2;" + send,
                  {"st.async"}) == "-");
  // A store to where another block's memory begins, and to the block's own.
  const std::string sum = "ld.shared.f32 %f13, [%r1]; fma.rn.f32 %f14, %f9, %f13, %f14;",
                    store = "st.shared::cluster.f32 [%r3], %f14;";
  CHECK(stages_of(scores + sum + "mapa.shared::cluster.u32 %r3, %r1, %r2;" + store, {"st"}) ==
        "combine");
  CHECK(stages_of(scores + sum + "mov.u32 %r3, %r1;" + store, {"st"}) != "combine");
}

TEST_CASE("number stages: products of matrices, and the barriers of what fills their tiles") {
  const std::string mma = "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 ";
  const std::string body =
      "mbarrier.init.shared.b64 [%r1], 1; cp.async.cg.shared.global [%r1], [%rd1], 16;"
      "cp.async.wait_group 0; bar.sync 0;" +
      mma + "{%f2, %f3, %f4, %f5}, {%r4, %r5}, {%r6}, {%f2, %f3, %f4, %f5};" +
      "max.f32 %f6, %f2, %f3; sub.f32 %f7, %f2, %f6; ex2.approx.f32 %f8, %f7;"
      "cvt.rn.f16x2.f32 %r7, %f8, %f8;" +
      mma + "{%f10, %f11, %f12, %f13}, {%r7, %r7}, {%r6}, {%f10, %f11, %f12, %f13};" +
      "st.global.f32 [%rd1], %f10;";
  CHECK(stages_of(body, {"mbarrier", "cp.async", "bar", "mma", "cvt.rn.f16x2", "st"}) ==
        "load load load load qk softmax pv epilogue");
}

TEST_CASE("number stages: a barrier behind which another part begins is of that part") {
  const std::string attention =
      "ld.global.f32 %f2, [%rd1]; ld.shared.f32 %f3, [%r1]; mul.f32 %f4, %f2, %f3;"
      "ex2.approx.f32 %f5, %f4; ld.shared.f32 %f6, [%r1]; fma.rn.f32 %f7, %f5, %f6, %f7;"
      "rcp.rn.f32 %f8, %f5; mul.f32 %f9, %f7, %f8; st.global.f32 [%rd1], %f9;";
  const std::string copy = "cp.async.cg.shared.global [%r1], [%rd1], 16;";
  CHECK(stages_of(attention + "ret; bar.sync 1, 160;" + copy, {"st", "bar", "cp.async"}) ==
        "epilogue load load");
  CHECK(stages_of(attention + "@%p1 bra A; A: bar.sync 1, 160;" + copy, {"bar"}) == "epilogue");
  CHECK(stages_of(copy + "bar.sync 1, 160;" + attention, {"bar"}) == "load");
  // Who takes turns at products does so behind a wait that is complete.
  const std::string waits = "mbarrier.try_wait.parity.shared.b64 %p1, [%r1], %r2;";
  CHECK(stages_of(copy + waits + "bar.sync 1, 256;" + attention, {"bar"}) == "qk");
  CHECK(stages_of(copy + waits + "bar.sync 0;" + attention, {"bar"}) == "load");
}

TEST_CASE("number stages: weighed sums on their way through shared memory") {
  const std::string weigh =
      "ld.global.f32 %f2, [%rd1]; ld.shared.f32 %f3, [%r1]; mul.f32 %f4, %f2, %f3;"
      "ex2.approx.f32 %f5, %f4; ld.shared.f32 %f6, [%r1]; fma.rn.f32 %f7, %f5, %f6, %f7;";
  CHECK(stages_of(weigh + "st.shared.f32 [%r1], %f7;", {"fma", "st.shared"}) == "pv pv");
  CHECK(stages_of(weigh + "rcp.rn.f32 %f8, %f5; mul.f32 %f9, %f7, %f8; st.shared.f32 [%r1], %f9;",
                  {"fma", "st.shared"}) == "pv epilogue");
  CHECK(stages_of(weigh + "rcp.rn.f32 %f8, %f5; mul.f32 %f9, %f7, %f8; cvt.rn.f16x2.f32 %r2, %f9,"
                          "%f9; stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r1], {%r2, %r2};",
                  {"fma", "stmatrix"}) == "pv epilogue");
}

TEST_CASE("number stages: results of other blocks of the cluster meet in combine") {
  const std::string scores =
      "ld.global.f32 %f2, [%rd1]; ld.shared.f32 %f3, [%r1]; mul.f32 %f4, %f2, %f3;"
      "ex2.approx.f32 %f5, %f4;";
  const std::string weigh =
      "ld.f32 %f6, [%rd2]; fma.rn.f32 %f7, %f5, %f6, %f7;"
      "st.global.f32 [%rd1], %f7;";
  CHECK(stages_of(scores + "mapa.u64 %rd2, %rd1, %r2;" + weigh, {"ld.f32"}) == "combine");
  CHECK(stages_of(scores + "mov.u64 %rd2, %rd1;" + weigh, {"ld.f32"}) == "pv");
}

TEST_CASE("number stages: a maximum that is stored is softmax's where tiles follow") {
  const std::string tile =
      "ld.global.f32 %f2, [%rd1]; ld.shared.f32 %f3, [%r1]; mul.f32 %f4, %f2, %f3;"
      "max.f32 %f5, %f4, %f5; sub.f32 %f6, %f4, %f5; ex2.approx.f32 %f7, %f6;"
      "ld.shared.f32 %f8, [%r1]; fma.rn.f32 %f9, %f7, %f8, %f9; st.global.f32 [%rd1], %f9;";
  const std::string store = "st.global.f32 [%rd1+4], %f5;";
  CHECK(stages_of(tile + store, {"st"}) == "epilogue epilogue");
  CHECK(stages_of("NEXT:" + tile + store + "@%p1 bra NEXT;", {"st"}) == "epilogue softmax");
}

TEST_CASE("number stages: scores of another kernel whose maximum is taken in shared memory") {
  const std::string read = "ld.global.f32 %f1, [%rd1]; st.shared.f32 [%r1], %f1;";
  const std::string maximum =
      "ld.global.f32 %f1, [%rd1]; max.f32 %f2, %f1, %f2; st.shared.f32 [%r1], %f2;";
  const std::string rest =
      "ld.global.f32 %f3, [%rd1+4]; ld.shared.f32 %f4, [%r1]; sub.f32 %f5, %f3, %f4;"
      "ex2.approx.f32 %f6, %f5; st.global.f32 [%rd1+4], %f6;"
      "ld.global.f32 %f8, [%rd1+4]; ld.global.u16 %h1, [%rd1+8]; cvt.f32.f16 %f7, %h1;"
      "fma.rn.f32 %f9, %f8, %f7, %f9; st.global.f32 [%rd1], %f9;";
  CHECK(stages_of(maximum + rest, {"ld.global"}) == "softmax softmax pv pv");
  CHECK(stages_of(read + rest, {"ld.global"}) == "load softmax pv pv");
}

TEST_CASE("number stages: an input that is stored as it was read is kept for later") {
  const std::string tile =
      "ld.global.f32 %f2, [%rd1]; ld.shared.f32 %f3, [%r1]; mul.f32 %f4, %f2, %f3;"
      "ex2.approx.f32 %f7, %f4; fma.rn.f32 %f9, %f7, %f3, %f9; st.global.f32 [%rd1], %f9;";
  CHECK(stages_of(tile + "st.global.f32 [%rd1+4], %f2;", {"st"}) == "epilogue load");
  CHECK(stages_of(tile + "st.global.f32 [%rd1+4], %f3;", {"st"}) == "epilogue epilogue");
}

TEST_CASE("number stages: a bulk copy out of shared memory takes O along") {
  const std::string scores =
      "ld.global.f32 %f2, [%rd1]; ld.shared.f32 %f3, [%r1]; mul.f32 %f4, %f2, %f3;"
      "ex2.approx.f32 %f5, %f4;";
  for (const std::string copy : {"cp.async.bulk.global.shared::cta.bulk_group",
                                 "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32"}) {
    CHECK(stages_of(scores + copy + " [%rd1], [%r1], 128;", {copy}) == "epilogue");
  }
}

TEST_CASE("number stages: an accumulator one of whose registers holds another number, too") {
  // The zero that O begins with is that of the sum, too.
  CHECK(stages_of("mov.f32 %f10, 0f00000000; mov.f32 %f11, %f10; mov.f32 %f12, %f10;"
                  "mov.f32 %f13, %f10; mov.f32 %f14, %f10; ldmatrix.sync.aligned.m8n8.x2.trans."
                  "shared.b16 {%r4, %r5}, [%r1]; ex2.approx.f32 %f2, %f1; add.f32 %f14, %f14, %f2;"
                  "cvt.rn.f16x2.f32 %r6, %f2, %f2;"
                  "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f10, %f11, %f12, %f13},"
                  "{%r6, %r6, %r6, %r6}, {%r4, %r5}, {%f10, %f11, %f12, %f13};"
                  "rcp.approx.f32 %f15, %f14; mul.f32 %f16, %f10, %f15; mul.f32 %f17, %f11, %f15;"
                  "mul.f32 %f18, %f12, %f15; mul.f32 %f19, %f13, %f15; st.global.f32 [%rd1], %f16;"
                  "st.global.f32 [%rd1+4], %f17; st.global.f32 [%rd1+8], %f18;"
                  "st.global.f32 [%rd1+12], %f19;",
                  {"mma"}) == "pv");
}

TEST_CASE("number stages: wmma whose results go through shared memory, by its order") {
  const std::string fragment = "{%r4, %r4, %r4, %r4, %r4, %r4, %r4, %r4}";
  const std::string sums = "{%f10, %f11, %f12, %f13, %f14, %f15, %f16, %f17}";
  const std::string product = "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 " + fragment +
                              ", [%r1], %r2; wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 " +
                              sums + ", " + fragment + ", " + fragment + ", " + sums +
                              "; wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%r1], " +
                              sums + ", %r2;";
  const std::string power =
      "ld.shared.f32 %f2, [%r1]; ex2.approx.f32 %f3, %f2;"
      "st.shared.f32 [%r1], %f3;";
  CHECK(stages_of(product + power + product, {"wmma"}) == "qk qk qk pv pv pv");
  // O that is brought to the next maximum between the two, by what expf makes of a number.
  const std::string rescale =
      "ld.shared.f32 %f7, [%r1]; mul.f32 %f8, %f7, %f7; st.shared.f32 [%r1], %f8;";
  CHECK(stages_of(product + power + rescale + product + rescale, {"ld.shared", "st.shared"}) ==
        "softmax softmax pv pv - -");
  // One that stands between powers may be either.
  CHECK(stages_of(product + power + product + power, {"wmma"}) == "qk qk qk - - -");
  CHECK(stages_of(product + product, {"wmma"}) == "- - - - - -");
}

TEST_CASE("number stages: a power of e, whose exponent is made of two parts") {
  const std::string power =
      "ld.shared.f32 %f2, [%r1]; add.f32 %f3, %f2, %f2; mov.b32 %r4, %f3; shl.b32 %r5, %r4, 23;"
      "mov.b32 %f4, %r5; ex2.approx.f32 %f5, %f3; mul.f32 %f6, %f5, %f4;"
      "st.shared.f32 [%r1], %f6;";
  CHECK(stages_of(power, {"st.shared"}) == "softmax");
}

TEST_CASE("number stages: kernels that do a part of attention each") {
  const std::string s = "ld.global.f32 %f2, [%rd1];";
  CHECK(stages_of(s + "max.f32 %f3, %f2, %f4; sub.f32 %f5, %f2, %f3; ex2.approx.f32 %f6, %f5;"
                      "add.f32 %f7, %f7, %f6; div.rn.f32 %f8, %f6, %f7; st.global.f32 [%rd1], %f8;",
                  {"ld.global", "div", "st"}) == "softmaxcombine softmax softmax");
  CHECK(stages_of(s + "ld.global.u16 %h1, [%rd1]; cvt.f32.f16 %f3, %h1;"
                      "fma.rn.f32 %f4, %f2, %f3, %f4; st.global.f32 [%rd1], %f4;",
                  {"ld.global", "fma", "st"}) == "pv pv pv pv");
  CHECK(stages_of("ld.global.u16 %h1, [%rd1]; st.global.u16 [%rd1], %h1;", {"ld.global", "st"}) ==
        "- -");
}
