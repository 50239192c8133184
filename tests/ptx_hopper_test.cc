// Hopper's barriers and copies in kernels given as PTX: what they do, what stops them, and what the
// memory checker says of them.

#include "tests/support/ptx_hopper.h"

#include <string>

#include "tests/support/catch.h"

using namespace lanescope;
using namespace lanescope::ptx_hopper;
using Catch::Matchers::ContainsSubstring;

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
    CHECK(run(init("128") + many, true, schedule).kinds.empty());
    // What is suspected is told beside what is found.
    const Result raced = run(init("128") + many + "st.shared.u32 [%r8], %r0;\n", true, schedule);
    CHECK(raced.found(Kind::race));
    CHECK_FALSE(raced.found(Kind::double_arrival));
  }
  const std::string again = "@%p0 mbarrier.inval.shared::cta.b64 [%r9];\n" + init("1");
  CHECK(run(init("4") + again + store).fault.empty());
  CHECK_THAT(run(init("4") + init("4") + store).fault,
             ContainsSubstring("it is initialised a second time"));
  const std::string gone = "bar.sync 0; @%p0 mbarrier.inval.shared::cta.b64 [%r9];\n";
  for (const bool checked : {false, true}) {
    CHECK(run(init("1") + expect("512") + load + wait + gone, checked).fault.empty());
    CHECK_THAT(run(init("1") + expect("512") + load + gone, checked).fault,
               ContainsSubstring("a copy that nobody has waited for completes on it, issued by "
                                 "thread 0 at test.ptx:"));
  }
}

TEST_CASE("ptx hopper: a warp that waits alone may be overtaken by two phases", "[ptx]") {
  // In each round those below `meeting` meet, then the first thread completes a phase, and all
  // wait.
  const auto rounds = [](const std::string& meeting) {
    return init("1") + "mov.u32 %r1, 0; setp.lt.u32 %p2, %r0, " + meeting +
           ";\nL: @!%p2 bra N;\nbar.sync 1, " + meeting +
           ";\n@%p0 mbarrier.arrive.shared::cta.b64 %rd5, [%r9];\nN: and.b32 %r3, %r1, 1;\n"
           "W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r9], %r3;\n@!%p1 bra W;\n"
           "add.u32 %r1, %r1, 1; setp.lt.u32 %p3, %r1, 200; @%p3 bra L;\n";
  };
  CHECK(run(rounds("64")).fault.empty());
  for (const std::uint64_t schedule : {0, 1, 2, 3}) {
    CHECK(run(rounds("128"), false, schedule).fault.empty());
    if (schedule == 0) continue;
    CHECK_THAT(run(rounds("64"), false, schedule).fault, ContainsSubstring("deadlock"));
  }
}

TEST_CASE("ptx hopper: what Triton's compiler does with mbarriers is not its users' fault",
          "[ptx]") {
  const std::string no_fence = "@%p0 mbarrier.init.shared::cta.b64 [%r9], 1;\n";
  const std::string copy = "bar.sync 0;\n" + expect("512") + load + wait + read_back;
  const std::string of_triton = "mov.b32 %r20, global_smem;\n";
  CHECK(run(of_triton + no_fence + copy, true).kinds.empty());
  // Again before anyone used it, or overwritten where nobody does.
  CHECK(run(of_triton + no_fence + no_fence + copy, true).kinds.empty());
  CHECK(run(of_triton + no_fence + "@%p0 st.shared.u32 [%r9], %r0;\n", true).kinds.empty());
  // What is wrong for anyone stays so; an H200 does not wait for a parity of -1.
  std::string by_bool = copy;
  by_bool.replace(by_bool.find(", 0;"), 4, ", -1;");
  CHECK_THAT(run(of_triton + no_fence + by_bool).fault, ContainsSubstring("a parity is 0 or 1"));
  CHECK_THAT(run(of_triton + no_fence + copy + no_fence).fault,
             ContainsSubstring("it is initialised a second time"));
  CHECK(run(of_triton + no_fence + "bar.sync 0;\n" + expect("512") + load + read_back, true)
            .found(Kind::missing_wait));
}

TEST_CASE("ptx hopper: who waits in vain is told for what", "[ptx]") {
  const std::string arrive = "mbarrier.arrive.shared::cta.b64 _, [%r9];\n";
  // The phase that came is not the one that is waited for.
  std::string next = wait;
  next.replace(next.find(", 0;"), 4, ", 1;");
  CHECK_THAT(
      run(init("128") + arrive + "bar.sync 0;\n" + next).fault,
      ContainsSubstring("of its phase 1 (parity 1) 0 of 128 arrivals have come; in the phase "
                        "before also threads 0-127") &&
          ContainsSubstring("; nobody waited for its phase 0, which is over"));
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
}

TEST_CASE("ptx hopper: the address of a parameter has 32 bits, or 64", "[ptx]") {
  for (const char* address : {"mov.u32 %r10, p1; cvt.u64.u32 %rd5, %r10;", "mov.u64 %rd5, p1;"}) {
    const Result result = run(std::string(address) +
                              "cvta.param.u64 %rd5, %rd5; ld.u64 %rd6, [%rd5]; ld.global.u32 %r1, "
                              "[%rd6+8]; st.global.u32 [%rd1], %r1;\n");
    CHECK(result.fault.empty());
    CHECK(result.out[5] == 102);
  }
}

TEST_CASE("ptx hopper: a kernel makes a tensor map of zeroes", "[ptx]") {
  const auto field = [](const std::string& rest) {
    return "@%p0 tensormap.replace.tile." + rest + ";\n";
  };
  const std::string zeroes =
      "setp.lt.u32 %p2, %r0, 32; mov.u32 %r11, 0; add.u32 %r12, %r7, 1024;\n"
      "@%p2 st.shared.u32 [%r12], %r11; bar.sync 0; cvt.u64.u32 %rd5, %r8; add.u64 %rd6, %rd0, "
      "2048;\n";
  const std::string in_shared = ".shared::cta.b1024.b";
  const auto dimensions = [&](const std::string& elements) {
    return "mov.u32 %r13, 16; mov.u32 %r14, 8; mov.u32 %r15, 1; mov.u64 %rd7, 64;\n" +
           field("rank" + in_shared + "32 [%rd5+1024], 1") +
           field("box_dim" + in_shared + "32 [%rd5+1024], 0, %r13") +
           field("box_dim" + in_shared + "32 [%rd5+1024], 1, %r14") +
           field("global_dim" + in_shared + "32 [%rd5+1024], 0, %r13") +
           field("global_dim" + in_shared + "32 [%rd5+1024], 1, %r13") +
           field("global_stride" + in_shared + "64 [%rd5+1024], 0, %rd7") +
           field("element_stride" + in_shared + "32 [%rd5+1024], 0, %r15") + elements +
           field("swizzle_mode" + in_shared + "32 [%rd5+1024], 0");
  };
  const std::string base = field("global_address" + in_shared + "64 [%rd5+1024], %rd3");
  const std::string of_32_bits = field("elemtype" + in_shared + "32 [%rd5+1024], 2");
  const std::string publish =
      "bar.sync 0;\n@%p2 tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release."
      "gpu.sync.aligned [%rd6], [%rd5+1024], 128;\n"
      "@%p2 fence.proxy.tensormap::generic.acquire.gpu [%rd6], 128;\n";
  const std::string copy =
      "mov.u32 %r10, 0; mov.u32 %r11, 3;\n" + init("1") + expect("512") +
      "@%p0 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%r8], [%rd6, {%r10, %r11}], [%r9];\n" +
      wait + read_back;
  const Result made = run(zeroes + base + dimensions(of_32_bits) + publish + copy, true);
  CHECK(made.fault.empty());
  CHECK(made.kinds.empty());
  CHECK(made.out[0] == 100 + 3 * 16);
  CHECK(made.out[127] == 100 + 3 * 16 + 127);
  // Without a rank it has one dimension.
  const std::string of_one =
      "mov.u32 %r13, 128;\n" + field("box_dim" + in_shared + "32 [%rd5+1024], 0, %r13") +
      "mov.u32 %r13, 200;\n" + field("global_dim" + in_shared + "32 [%rd5+1024], 0, %r13") +
      of_32_bits;
  const std::string copy_of_one =
      "mov.u32 %r10, 8;\n" + init("1") + expect("512") +
      "@%p0 cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%r8], [%rd6, {%r10}], [%r9];\n" +
      wait + read_back;
  const Result one = run(zeroes + base + of_one + publish + copy_of_one, true);
  CHECK(one.fault.empty());
  CHECK(one.kinds.empty());
  CHECK(one.out[127] == 100 + 8 + 127);
  const auto fault = [&](const std::string& body) { return run(body + copy).fault; };
  CHECK_THAT(fault(zeroes + base + of_one + publish),
             ContainsSubstring("2 coordinates for a tensor map of rank 1"));
  CHECK_THAT(fault(zeroes + base + dimensions("") + publish), ContainsSubstring("have no type"));
  CHECK_THAT(fault(zeroes + field("elemtype" + in_shared + "32 [%rd5+1024], 2") + publish),
             ContainsSubstring("a box has 1 to 256 elements"));
  CHECK_THAT(fault(zeroes + field("rank" + in_shared + "32 [%rd5+1024], 5")),
             ContainsSubstring("the rank is given less one"));
  CHECK_THAT(fault(zeroes + "mov.u32 %r15, 9;\n" +
                   field("element_stride" + in_shared + "32 [%rd5+1024], 0, %r15")),
             ContainsSubstring("a step over elements is 1 to 8"));
  CHECK_THAT(fault(zeroes + field("fill_mode" + in_shared + "32 [%rd5+1024], 2")),
             ContainsSubstring("0, zeroes, or 1, NaN"));
  CHECK_THAT(fault(zeroes + field("global_address" + in_shared + "32 [%rd5+1024], %r13")),
             ContainsSubstring(".b64 is taken"));
  CHECK_THAT(fault("mov.u32 %r11, 7; st.shared.u32 [%r7+1024], %r11; bar.sync 0; "
                   "cvt.u64.u32 %rd5, %r8;\n" +
                   of_32_bits),
             ContainsSubstring("neither a tensor map nor zeroes"));
  // Of 128 bytes that nobody wrote, and of those that another lane is writing.
  CHECK(run("cvt.u64.u32 %rd5, %r8;\n" + of_32_bits, true).found(Kind::uninitialised_read));
  const std::string unfenced =
      zeroes.substr(0, zeroes.find("bar.sync")) + zeroes.substr(zeroes.find("cvt.u64"));
  CHECK(run(unfenced + of_32_bits, true).found(Kind::race));
  const std::string reads = "ld.shared.u32 %r1, [%r7+1024];\n";
  CHECK(run(zeroes + reads + "bar.sync 0;\n" + of_32_bits, true).kinds.empty());
  CHECK(run(zeroes + of_32_bits + reads, true).found(Kind::race));
}

TEST_CASE("ptx hopper: bulk copies reduce what lies in global memory", "[ptx]") {
  // Of 128 words, twice: the output holds 1000 + i, the tile i.
  const auto reduced = [](const std::string& operation, const std::string& first,
                          const std::string& tile, std::uint64_t schedule = 0) {
    const std::string reduce = "@%p0 cp.reduce.async.bulk.global.shared::cta.bulk_group." +
                               operation + " [%rd0], [%r8], 512;\n";
    return run(first + "st.global.u32 [%rd1], %r1;\n" + tile +
                   "st.shared.u32 [%r7], %r2; fence.proxy.async; bar.sync 0;\n" + reduce + reduce +
                   "@%p0 cp.async.bulk.commit_group; @%p0 cp.async.bulk.wait_group 0;\n",
               true, schedule);
  };
  const std::string first = "add.u32 %r1, %r0, 1000;\n", tile = "mov.u32 %r2, %r0;\n";
  for (const std::uint64_t schedule : {0, 1, 2}) {
    const Result sums = reduced("add.u32", first, tile, schedule);
    CHECK(sums.fault.empty());
    CHECK(sums.kinds.empty());
    for (std::uint32_t i = 0; i < 128; ++i) REQUIRE(sums.out[i] == 1000 + 3 * i);
  }
  CHECK(reduced("min.s32", first, "neg.s32 %r2, %r0;\n").out[5] == static_cast<std::uint32_t>(-5));
  CHECK(reduced("max.u32", first, "neg.s32 %r2, %r0;\n").out[5] == static_cast<std::uint32_t>(-5));
  CHECK(reduced("and.b32", first, tile).out[7] == (1007 & 7));
  CHECK(reduced("inc.u32", first, "mov.u32 %r2, 1009;\n").out[9] == 1);
  // 2^24 and twice 1: rounded each time. Halves side by side.
  CHECK(reduced("add.f32", "mov.u32 %r1, 0x4b800000;\n", "mov.u32 %r2, 0x3f800000;\n").out[3] ==
        0x4b800000);
  CHECK(
      reduced("add.noftz.f16", "mov.u32 %r1, 0x3c000001;\n", "mov.u32 %r2, 0x3c000001;\n").out[3] ==
      0x42000003);
  CHECK(reduced("add.noftz.bf16", "mov.u32 %r1, 0x3f803f80;\n", "mov.u32 %r2, 0x3f804000;\n")
            .out[3] == 0x404040a0);
  CHECK_THAT(reduced("min.f32", first, tile).fault, ContainsSubstring("of this type only .add"));
  CHECK_THAT(reduced("add.f16", first, tile).fault, ContainsSubstring(".noftz"));
  CHECK_THAT(reduced("min.noftz.f16", first, tile).fault, ContainsSubstring(".noftz"));
  CHECK_THAT(reduced("inc.s32", first, tile).fault,
             ContainsSubstring(".inc and .dec are for .u32"));
}

TEST_CASE("ptx hopper: tensor copies reduce what lies in the tensor", "[ptx]") {
  // Rows 16 to 23 of a tensor of 20: four of the box are in it. Its elements' type is none that can
  // be added, unless the map says one.
  const auto reduce = [](const std::string& operation) {
    return "mov.u32 %r1, 5; st.shared.u32 [%r7], %r1; mov.u32 %r10, 0; mov.u32 %r11, 16;\n"
           "fence.proxy.async; bar.sync 0;\n@%p0 "
           "cp.reduce.async.bulk.tensor.2d.global.shared::cta." +
           operation +
           ".tile.bulk_group [%rd4, {%r10, %r11}], [%r8];\n"
           "@%p0 cp.async.bulk.commit_group; @%p0 cp.async.bulk.wait_group 0;\nbar.sync 0;\n"
           "mul.wide.u32 %rd9, %r0, 4; add.s64 %rd9, %rd9, %rd3; ld.global.u32 %r2, [%rd9+1024];\n"
           "st.global.u32 [%rd1], %r2;\n";
  };
  for (const std::uint64_t schedule : {0, 1, 2}) {
    const Result sums = run(reduce("add"), true, schedule, {}, 1, 2);
    INFO(sums.fault);
    CHECK(sums.fault.empty());
    CHECK(sums.out[0] == 105 + 16 * 16);
    CHECK(sums.out[63] == 105 + 16 * 16 + 63);
    CHECK(sums.out[64] == 100 + 16 * 16 + 64);  // behind the tensor
  }
  CHECK(run(reduce("min"), false, 0, {}, 1, 2).out[7] == 5);
  CHECK_THAT(run(reduce("add")).fault, ContainsSubstring("no such reduction"));
  CHECK_THAT(run(reduce("min"), false, 0, {}, 1, 7).fault, ContainsSubstring("only .add"));
  CHECK_THAT(run("cp.reduce.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd4, "
                 "{%r10, %r11}], [%r8];\n")
                 .fault,
             ContainsSubstring("it names no operation"));
}

TEST_CASE("ptx hopper: reductions that there are not are refused", "[ptx]") {
  const std::string plain = "cp.reduce.async.bulk.global.shared::cta.bulk_group.",
                    tensor = "cp.reduce.async.bulk.tensor.2d.";
  const std::string to_global = "global.shared::cta.", map = " [%rd4, {%r10, %r11}], [%r8];\n";
  const std::pair<std::string, const char*> refused[] = {
      {plain + "u32 [%rd0], [%r8], 16;\n", "it names no operation"},
      {plain + "add [%rd0], [%r8], 16;\n", "it names no type"},
      {plain + "add.u16 [%rd0], [%r8], 16;\n", "not executed: of this type"},
      {plain + "and.f16 [%rd0], [%r8], 16;\n", "of this type only .add, .min and .max"},
      {plain + "max.f64 [%rd0], [%r8], 16;\n", "of this type only .add"},
      {plain + "dec.u64 [%rd0], [%r8], 16;\n", ".inc and .dec are for .u32"},
      {plain + "add.u32 [%rd0], [%r8];\n", "it has 2 operands, and takes 3"},
      {plain + "add.u32 [%rd0], [%r8], 16, %rd4;\n", "it has 4 operands, and takes 3"},
      {plain + "add.u32 [%r8], [%r8], 16;\n", "an address of global memory has 64 bits"},
      {tensor + "shared::cluster.shared::cta.add.bulk_group" + map, "but from .shared::cta to"},
      {tensor + to_global + "add.tile" + map, "but from .shared::cta to .global with .bulk_group"},
      {tensor + to_global + "add.tile.bulk_group [%rd4, {%r10}], [%r8];\n", "1 coordinates for"},
      {tensor + to_global + "add.tile.bulk_group [%rd4, {%r10, %r11}];\n", "it has 1 operands"},
      {tensor + to_global + "add.tile.bulk_group [%rd4, {%r10, %r11}], [%r8], %rd4;\n",
       "it has 3 operands, and takes 2"},
  };
  for (const auto& [body, words] : refused) {
    INFO(body);
    CHECK_THAT(run(body).fault, ContainsSubstring(words));
  }
  // How caches are to keep it changes nothing.
  const std::string hinted = "cp.reduce.async.bulk.global.shared::cta.bulk_group.L2::cache_hint.";
  CHECK(run("st.shared.u32 [%r7], %r0; fence.proxy.async; bar.sync 0;\n@%p0 " + hinted +
            "or.b32 [%rd0], [%r8], 512, %rd4;\n@%p0 cp.async.bulk.commit_group; "
            "@%p0 cp.async.bulk.wait_group 0;\n")
            .out[77] == 77);
}

TEST_CASE("ptx hopper: lanes of a warp that issue the same store do not race", "[ptx]") {
  const std::string tile =
      "st.shared.u32 [%r7], %r0; fence.proxy.async; bar.sync 0;\n"
      "setp.lt.u32 %p4, %r0, 32;\n";
  const std::string done = "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\n";
  const std::string same = "@%p4 cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r8], 512;\n";
  const Result all = run(tile + same + done, true);
  CHECK(all.fault.empty());
  CHECK(all.kinds.empty());
  CHECK(all.out[100] == 100);
  // Another part of the tile to the same place, and sums, do.
  CHECK(run(tile + "and.b32 %r10, %r0, 1; shl.b32 %r10, %r10, 8; add.u32 %r10, %r10, %r8;\n" +
                "@%p4 cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r10], 256;\n" + done,
            true)
            .found(Kind::race));
}

TEST_CASE("ptx hopper: a copy that comes before all have stored is early, not too late", "[ptx]") {
  const std::string tile = "st.shared.u32 [%r7], %r0; fence.proxy.async;\n";
  const std::string copy =
      "@%p0 cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r8], 512;\n"
      "@%p0 cp.async.bulk.commit_group;\n";
  const std::string done = "@%p0 cp.async.bulk.wait_group 0;\n";
  CHECK(run(tile + "bar.sync 0;\n" + copy + done, true).kinds.empty());
  const Result early = run(tile + copy + done, true);
  CHECK(early.found(Kind::race_with_read));
  CHECK_FALSE(early.found(Kind::operand_overwritten));
  // In a loop, the next tile may be what overwrites it.
  CHECK(run("mov.u32 %r10, 0;\nL: " + tile + "bar.sync 0;\n" + copy +
                "add.u32 %r10, %r10, 1; setp.lt.u32 %p4, %r10, 2; @%p4 bra L;\n" + done,
            true)
            .found(Kind::operand_overwritten));
}

TEST_CASE("ptx hopper: a matrix is stored once all lanes have waited for a copy", "[ptx]") {
  // Lane 5 of a warp takes away what all have stored, and waits before all store the next.
  const std::string store = "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r10], {%r0};\n";
  const auto stored_again = [&](const std::string& wait_for_it, const std::string& next) {
    return run(
        "setp.ge.u32 %p4, %r0, 32; shl.b32 %r10, %r0, 4; add.u32 %r10, %r10, %r8;\n"
        "setp.eq.u32 %p5, %r0, 5; @%p4 bra END;\n" +
            store +
            "fence.proxy.async; bar.warp.sync -1;\n"
            "@%p5 cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r8], 128;\n"
            "@%p5 cp.async.bulk.commit_group;\n" +
            wait_for_it + next + "@%p5 cp.async.bulk.wait_group 0;\nEND:\n",
        true);
  };
  const std::string waits = "@%p5 cp.async.bulk.wait_group.read 0;\n";
  CHECK(stored_again(waits, store).kinds.empty());
  CHECK(stored_again("", store).found(Kind::operand_overwritten));
  // A lane's own store waits for nobody.
  CHECK(stored_again(waits, "st.shared.u32 [%r7], %r0;\n").found(Kind::operand_overwritten));
}

TEST_CASE("ptx hopper: what a fence orders", "[ptx]") {
  const std::string copied = expect("512") + load + wait + read_back;
  // Between the first thread's mbarrier.init and the copy.
  const auto orders_init = [&](const std::string& fence) {
    const Result result = run(
        "@%p0 mbarrier.init.shared::cta.b64 [%r9], 1;\n" + fence + "bar.sync 0;\n" + copied, true);
    CHECK(result.fault.empty());
    return !result.found(Kind::unfenced_barrier);
  };
  for (const char* fence :
       {"fence.sc.gpu;\n", "fence.release.cluster;\n", "fence.proxy.async;\n", "membar.sys;\n"}) {
    INFO(fence);
    CHECK(orders_init(fence));
  }
  for (const char* fence : {"fence.sc.cta;\n", "membar.cta;\n", "fence.acquire.cluster;\n",
                            "fence.proxy.async.global;\n"}) {
    INFO(fence);
    CHECK_FALSE(orders_init(fence));
  }
  // By a thread that does not know of the init yet; and by one that does.
  const std::string other = "setp.eq.u32 %p5, %r0, 64;\n",
                    by_other = "@%p5 fence.mbarrier_init.release.cluster;\n";
  CHECK_FALSE(orders_init(other + by_other));
  CHECK(orders_init(other + "bar.sync 0;\n" + by_other));
  // Between writes to shared memory and a copy over them.
  const auto orders_writes = [&](const std::string& fence) {
    return !run("st.shared.u32 [%r7], %r0; " + fence + " bar.sync 0;\n" + init("1") + copied, true)
                .found(Kind::missing_proxy_fence);
  };
  CHECK(orders_writes("fence.proxy.async.shared::cta;"));
  CHECK_FALSE(orders_writes("fence.proxy.async.global;"));
  CHECK_FALSE(orders_writes("fence.sc.sys;"));
}

TEST_CASE("ptx hopper: the memory checker knows the asynchronous proxy", "[ptx]") {
  const std::string no_fence = "@%p0 mbarrier.init.shared::cta.b64 [%r9], 1;\nbar.sync 0;\n";
  const std::string one = init("1");
  CHECK(run(one + expect("512") + load + wait + read_back, true).kinds.empty());
  CHECK(
      run(no_fence + expect("512") + load + wait + read_back, true).found(Kind::unfenced_barrier));
  // A release of the cluster's scope orders the initialisation as its own fence does.
  const auto released = [&](const std::string& how) {
    return run("@%p0 mbarrier.init.shared::cta.b64 [%r9], 1;\n" + how + "bar.sync 0;\n" +
                   expect("512") + load + wait + read_back,
               true)
        .kinds.empty();
  };
  const std::string cluster_wait = "barrier.cluster.wait.aligned;\n";
  CHECK(released("barrier.cluster.arrive.aligned;" + cluster_wait));
  CHECK(released("fence.acq_rel.cluster;\n"));
  CHECK(released("membar.gl;\n"));
  CHECK_FALSE(released("barrier.cluster.arrive.relaxed.aligned;" + cluster_wait));
  CHECK_FALSE(released("fence.acq_rel.cta;\n"));
  CHECK(run(one + expect("512") + load + read_back, true).found(Kind::missing_wait));
  // The parity of a phase before the first: it waits for nothing.
  std::string over = wait;
  over.replace(over.find(", 0;"), 4, ", 1;");
  CHECK(run(one + expect("512") + load + over + read_back, true).found(Kind::wrong_phase));
  // A try_wait may return before the phase has completed: its result has to be looked at.
  const std::string ignored =
      "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r9], 0;\nselp.u32 %r11, 1, 0, %p1; "
      "mov.u32 %r12, %r11;\n";
  CHECK(run(one + expect("512") + load + ignored + read_back, true).found(Kind::missing_wait));
  CHECK(run(one + expect("512") + load + ignored + "setp.ne.u32 %p2, %r12, 1; @%p2 trap;\n" +
                read_back,
            true)
            .kinds.empty());
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

TEST_CASE("ptx hopper: a copy behind reads that no fence keeps before it is told, and no fault",
          "[ptx]") {
  const std::string once = init("1") + expect("512") + load + wait + read_back;
  const std::string again = expect("512") + load +
                            "V: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r9], 1;\n"
                            "@%p1 bra C; bra V;\nC:\n" +
                            read_back;
  const std::string fence = "fence.proxy.async.shared::cta;\n", barrier = "bar.sync 0;\n";
  const Result unfenced = run(once + barrier + again, true);
  CHECK(unfenced.kinds == std::vector<Kind>{Kind::unfenced_read});
  CHECK(unfenced.told.clean());
  REQUIRE(unfenced.told.notes.size() == 1);
  CHECK_THAT(unfenced.told.notes[0], ContainsSubstring("unfenced read: a copy overwrites"));
  REQUIRE(unfenced.told.unfenced_read);
  CHECK(unfenced.told.unfenced_read->finding.access.write);
  // By who has read, or by who copies.
  CHECK(run(once + fence + barrier + again, true).kinds.empty());
  CHECK(run(once + barrier + "@%p0 " + fence + again, true).kinds.empty());
}

TEST_CASE("ptx hopper: what comes to a barrier is behind its last opening", "[ptx]") {
  const std::string half = "setp.lt.u32 %p2, %r0, 64;\n", arrive = "@%p2 bar.arrive 1, 128;\n",
                    wait_1 = "@!%p2 bar.sync 1, 128;\n";
  const std::string answer = "@!%p2 bar.arrive 2, 128;\n@%p2 bar.sync 2, 128;\n";
  const auto fault = [&](const std::string& body, std::uint64_t schedule) {
    return run(half + body, true, schedule).fault;
  };
  for (const std::uint64_t schedule : {0, 1, 2, 3}) {
    INFO("schedule " << schedule);
    CHECK(fault(arrive + wait_1 + answer + arrive + wait_1, schedule).empty());
    CHECK(fault("bar.sync 1, 128;\n" + arrive + wait_1, schedule).empty());
    // Two arrivals may be for one opening.
    CHECK_THAT(fault(arrive + arrive + wait_1 + wait_1, schedule),
               ContainsSubstring("nothing orders this arrival at barrier 1 behind that of warp"));
    // One barrier for a part of the warps, and for all.
    CHECK_THAT(fault("@%p2 bar.sync 1, 64;\nbar.sync 1, 128;\n", schedule),
               ContainsSubstring("nothing orders this arrival") ||
                   ContainsSubstring("waits for 128 threads already, not 64") ||
                   ContainsSubstring("waits for 64 threads already, not 128"));
  }
}
