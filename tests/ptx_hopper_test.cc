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
  }
  const std::string again = "@%p0 mbarrier.inval.shared::cta.b64 [%r9];\n" + init("1");
  CHECK(run(init("4") + again + store).fault.empty());
  CHECK_THAT(run(init("4") + init("4") + store).fault,
             ContainsSubstring("it is initialised a second time"));
}

TEST_CASE("ptx hopper: who waits in vain is told for what", "[ptx]") {
  const std::string arrive = "mbarrier.arrive.shared::cta.b64 _, [%r9];\n";
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
  CHECK_THAT(
      run("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd0], [%r8], 16;\n").fault,
      ContainsSubstring("not executed: copies that reduce"));
}

TEST_CASE("ptx hopper: the memory checker knows the asynchronous proxy", "[ptx]") {
  const std::string no_fence = "@%p0 mbarrier.init.shared::cta.b64 [%r9], 1;\nbar.sync 0;\n";
  const std::string one = init("1");
  CHECK(run(one + expect("512") + load + wait + read_back, true).kinds.empty());
  CHECK(
      run(no_fence + expect("512") + load + wait + read_back, true).found(Kind::unfenced_barrier));
  CHECK(run(one + expect("512") + load + read_back, true).found(Kind::missing_wait));
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
