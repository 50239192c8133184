// Clusters of blocks in kernels given as PTX: the shared memory of the others, their barrier and
// mbarriers, and copies to several of them.

#include <string>

#include "tests/support/catch.h"
#include "tests/support/ptx_hopper.h"

using namespace lanescope;
using namespace lanescope::ptx_hopper;
using Catch::Matchers::ContainsSubstring;

namespace {

/// The block's rank in %r10, that of the next in %r11; %rd1 is the word of the thread among those
/// of all blocks.
const std::string ranks =
    "mov.u32 %r10, %cluster_ctarank; mov.u32 %r12, %cluster_nctarank; add.u32 %r11, %r10, 1;\n"
    "rem.u32 %r11, %r11, %r12; mul.wide.u32 %rd2, %r10, 512; add.s64 %rd1, %rd1, %rd2;\n";
const std::string meet =
    "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;\n";
/// 1000 · rank + thread in each word of the own box.
const std::string fill = "mad.lo.u32 %r1, %r10, 1000, %r0; st.shared.u32 [%r7], %r1;\n";

Result run_cluster(const std::string& body, std::uint32_t blocks, bool checked = true,
                   std::uint64_t schedule = 0) {
  return run(ranks + body, checked, schedule, {}, blocks);
}

void check_words_of_next(const Result& result, std::uint32_t blocks) {
  CHECK(result.fault.empty());
  CHECK(result.kinds.empty());
  for (std::uint32_t block = 0; block < blocks; ++block) {
    for (std::uint32_t i = 0; i < 128; ++i) {
      REQUIRE(result.out[128 * block + i] == (block + 1) % blocks * 1000 + i);
    }
  }
}

}  // namespace

TEST_CASE("ptx cluster: blocks read and write the shared memory of others", "[ptx]") {
  const std::string write_out = "st.global.u32 [%rd1], %r1;\n";
  for (const std::uint32_t blocks : {1u, 2u, 4u}) {
    for (const std::uint64_t schedule : {0, 1, 2}) {
      INFO(blocks << " blocks, schedule " << schedule);
      check_words_of_next(
          run_cluster(fill + meet +
                          "mapa.shared::cluster.u32 %r2, %r7, %r11; ld.shared::cluster.u32 %r1, "
                          "[%r2];\n" +
                          write_out + meet,
                      blocks, true, schedule),
          blocks);
      // By generic addresses; the next block's word is written here.
      check_words_of_next(
          run_cluster("mad.lo.u32 %r1, %r11, 1000, %r0; cvt.u64.u32 %rd6, %r7; cvta.shared.u64 "
                      "%rd6, %rd6;\nmapa.u64 %rd7, %rd6, %r10; mov.u32 %r1, 0;\n" +
                          fill +
                          "add.u32 %r13, %r12, %r10; sub.u32 %r13, %r13, 1; rem.u32 %r13, %r13, "
                          "%r12;\nmapa.u64 %rd7, %rd6, %r13;\n" +
                          meet + "st.u32 [%rd7+1024], %r1;\n" + meet +
                          "ld.shared.u32 %r1, [%r7+1024];\n" + write_out,
                      blocks, true, schedule),
          blocks);
    }
  }
  const Result sums =
      run_cluster("@%p0 st.shared.u32 [%r8], 0;\n" + meet +
                      "mov.u32 %r2, 0; mapa.shared::cluster.u32 %r2, %r8, %r2;\n"
                      "atom.shared::cluster.add.u32 %r3, [%r2], 1;\n" +
                      meet + "ld.shared.u32 %r1, [%r8];\nst.global.u32 [%rd1], %r1;\n",
                  4);
  CHECK(sums.kinds.empty());
  CHECK(sums.out[0] == 512);
  CHECK(sums.out[128] == 0);
}

TEST_CASE("ptx cluster: special registers say where a block is in it", "[ptx]") {
  const Result ranks_of = run_cluster(
      "mov.u32 %r1, %cluster_ctaid.x; mov.u32 %r2, %cluster_nctaid.x; mad.lo.u32 %r1, %r2, 10, "
      "%r1;\nmov.u32 %r2, %clusterid.x; mad.lo.u32 %r1, %r2, 100, %r1; mov.u32 %r2, "
      "%nclusterid.x;\nmad.lo.u32 %r1, %r2, 1000, %r1; st.global.u32 [%rd1], %r1;\n"
      "mapa.shared::cluster.u32 %r2, %r8, %r11; getctarank.shared::cluster.u32 %r3, %r2;\n"
      "setp.ne.u32 %p2, %r3, %r11; @%p2 trap;\n",
      4);
  CHECK(ranks_of.fault.empty());
  for (std::uint32_t block = 0; block < 4; ++block)
    CHECK(ranks_of.out[128 * block] == 1040 + block);
}

TEST_CASE("ptx cluster: an mbarrier takes arrivals of other blocks", "[ptx]") {
  // Every thread of both blocks arrives at the barrier of block 0, whose threads wait.
  const std::string arrive =
      "mov.u32 %r2, 0; mapa.shared::cluster.u32 %r3, %r9, %r2;\n"
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r3];\n";
  const std::string wait_at_first = "setp.ne.u32 %p3, %r10, 0; @%p3 bra E;\n" + wait + "E:\n";
  for (const std::uint64_t schedule : {0, 1, 2, 3}) {
    const Result right = run_cluster(
        init("256") + meet + fill + arrive + wait_at_first + "st.global.u32 [%rd1], %r10;\n" + meet,
        2, true, schedule);
    CHECK(right.fault.empty());
    CHECK(right.kinds.empty());
    CHECK(right.out[128] == 1);
  }
  // A block may end when it has waited for all of them, with a barrier of the cluster or without.
  CHECK(run_cluster(init("256") + meet + arrive + wait_at_first, 2).fault.empty());
  // Here block 0 takes so long that block 1 has arrived before it ends, which nothing says. With a
  // schedule, a thread of block 0 may arrive behind all others.
  const std::string linger =
      "setp.ne.u32 %p3, %r10, 0; @%p3 bra E; mov.u32 %r13, 0;\n"
      "T: add.u32 %r13, %r13, 1; setp.lt.u32 %p4, %r13, 200000; @%p4 bra T;\nE:\n";
  CHECK_THAT(run_cluster(init("256") + meet + arrive + linger, 2, true).fault,
             ContainsSubstring("exits while block 1 of its cluster may still arrive at its "
                               "mbarriers, mbarrier.arrive"));
  CHECK_THAT(run_cluster(init("257") + meet + arrive + wait_at_first + meet, 2).fault,
             ContainsSubstring("deadlock") && ContainsSubstring("256 of 257 arrivals"));
}

TEST_CASE("ptx cluster: a multicast brings the same bytes to several blocks", "[ptx]") {
  const std::string expect_all = "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r9], 512;\n";
  const auto from_first = [](const std::string& mask) {
    return "setp.eq.u32 %p2, %r10, 0; and.pred %p2, %p2, %p0; mov.u32 %r4, 0;\n"
           "@%p2 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes."
           "multicast::cluster [%r8], [%rd4, {%r4, %r4}], [%r9], " +
           mask + ";\n";
  };
  for (const std::uint64_t schedule : {0, 1, 2, 3}) {
    const Result right = run_cluster(".reg .b16 %h<2>; mov.u16 %h0, 3;\n" + init("1") + expect_all +
                                         meet + from_first("%h0") + wait + read_back + meet,
                                     2, true, schedule);
    CHECK(right.fault.empty());
    CHECK(right.kinds.empty());
    for (std::uint32_t i = 0; i < 256; ++i) REQUIRE(right.out[i] == 100 + i % 128);
  }
  CHECK_THAT(run_cluster(init("1") + expect_all + meet + from_first("1") + wait + meet, 2).fault,
             ContainsSubstring("deadlock") && ContainsSubstring("0 of 512 expected bytes"));
  CHECK_THAT(run_cluster(init("1") + expect_all + meet + from_first("7") + wait + meet, 2).fault,
             ContainsSubstring("names rank 2 of a cluster of 2"));
  // Both blocks bring it to both, in one phase: nobody knows which of them came last.
  const std::string expect_twice =
      "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r9], 1024;\n";
  const std::string from_both =
      "mov.u32 %r4, 0; @%p0 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::"
      "bytes.multicast::cluster [%r8], [%rd4, {%r4, %r4}], [%r9], 3;\n";
  for (const std::uint64_t schedule : {0, 1, 2, 3}) {
    const Result both = run_cluster(
        init("1") + expect_twice + meet + from_both + wait + read_back + meet, 2, true, schedule);
    CHECK(both.fault.empty());
    CHECK(both.found(Kind::copies_overlap));
  }
  // Who reads without waiting reads early.
  const Result early = run_cluster(
      init("1") + expect_all + meet + from_first("3") + read_back + wait + meet, 2, true);
  CHECK(!early.kinds.empty());
}

TEST_CASE("ptx cluster: a multicast comes behind what other blocks read of the one before",
          "[ptx]") {
  const std::string expect = "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r9], 512;\n",
                    own = "bar.sync 0;\n",
                    send =
                        "setp.eq.u32 %p2, %r10, 0; and.pred %p2, %p2, %p0; mov.u32 %r4, 0;\n"
                        "@%p2 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::"
                        "complete_tx::bytes.multicast::cluster [%r8], [%rd4, {%r4, %r4}], [%r9], "
                        "3;\n",
                    wait_again =
                        "V: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r9], 1;\n"
                        "@%p1 bra C; bra V;\nC:\n";
  // The second multicast goes out behind `between`, in which the blocks use the first one's bytes.
  const auto twice = [&](const std::string& before, const std::string& between,
                         std::uint64_t schedule) {
    return run_cluster(before + init("1") + expect + meet + send + wait + between + send +
                           wait_again + read_back + meet,
                       2, true, schedule);
  };
  const std::string read = read_back + own + expect;
  // A product of ones with B, 8 rows without swizzle, in two parts: its end is waited for apart.
  const std::string descriptor =
      "shr.u32 %r16, %r8, 4; cvt.u64.u32 %rd8, %r16; or.b64 %rd8, %rd8, 0x1000080000;\n"
      "mov.u32 %r20, 0x3c003c00; setp.ne.u32 %p3, 0, 0;\n";
  const std::string product =
      "wgmma.fence.sync.aligned;\n"
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, {%r20, %r20, %r20, "
      "%r20}, %rd8, %p3, 1, 1, 0;\nwgmma.commit_group.sync.aligned;\n" +
      expect;
  const std::string end_of_product = "wgmma.wait_group.sync.aligned 0;\n";
  for (const std::uint64_t schedule : {0, 1, 2, 3}) {
    INFO("schedule " << schedule);
    const Result right = twice("", read + meet, schedule);
    CHECK(right.fault.empty());
    CHECK(right.told.clean());
    // What the product takes is no tile of the tensor: of its layout there may be something to say.
    CHECK_FALSE(
        twice(descriptor, product + end_of_product + own + meet, schedule).found(Kind::race));
    // It is heard of before the product has ended.
    CHECK(twice(descriptor, product + meet + end_of_product + own, schedule).found(Kind::race));
  }
  // Of the other block the sender has not heard since; it may read still.
  CHECK(twice("", read, 0).found(Kind::race));
  CHECK(twice(descriptor, product + end_of_product + own, 0).found(Kind::race));
}

TEST_CASE("ptx cluster: another block uses an mbarrier behind its initialisation", "[ptx]") {
  const std::string arrive =
      "mov.u32 %r2, 0; mapa.shared::cluster.u32 %r3, %r9, %r2;\n"
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r3];\n";
  CHECK(run_cluster(init("256") + meet + arrive + meet, 2).kinds.empty());
  // The block's own barrier orders the block alone.
  CHECK(run_cluster(init("256") + arrive + meet, 2).found(Kind::race));
}

// Measured on an H200: block 1 of a cluster has its variables from 0x1000400 on.
TEST_CASE("ptx cluster: a block's own addresses have its rank, as others have them", "[ptx]") {
  const Result result = run_cluster(
      "mapa.shared::cluster.u32 %r2, %r8, %r10; getctarank.shared::cluster.u32 %r3, %r8;\n"
      "sub.u32 %r2, %r2, %r8; shl.b32 %r3, %r3, 1; add.u32 %r2, %r2, %r3; shr.u32 %r4, %r8, 24;\n"
      "add.u32 %r2, %r2, %r4; st.global.u32 [%rd1], %r2;\n" +
          meet,
      4);
  CHECK(result.fault.empty());
  for (std::uint32_t block = 0; block < 4; ++block) CHECK(result.out[128 * block] == 3 * block);
}

TEST_CASE("ptx cluster: the rank of a block in a matrix descriptor", "[ptx]") {
  // A product of ones with 8 rows of B without swizzle, whose halves lie side by side.
  const auto product = [](const std::string& cut) {
    return "setp.lt.u32 %p2, %r0, 64; @%p2 st.shared.u32 [%r7], %r0;\n"
           "fence.proxy.async; bar.sync 0;\n" +
           cut +
           "cvt.u64.u32 %rd8, %r16; or.b64 %rd8, %rd8, 0x1000080000;\n"
           "mov.u32 %r20, 0x3c003c00; setp.ne.u32 %p3, 0, 0;\n"
           "wgmma.fence.sync.aligned;\n"
           "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, {%r20, %r20, "
           "%r20, %r20}, %rd8, %p3, 1, 1, 0;\nwgmma.commit_group.sync.aligned;\n"
           "wgmma.wait_group.sync.aligned 0;\n" +
           meet;
  };
  const Result right =
      run_cluster(product("and.b32 %r16, %r8, 0x3ffff; shr.u32 %r16, %r16, 4;\n"), 2);
  CHECK(right.fault.empty());
  CHECK_FALSE(right.found(Kind::rank_in_descriptor));
  CHECK(run_cluster(product("shr.u32 %r16, %r8, 4;\n"), 2).found(Kind::rank_in_descriptor));
  CHECK_FALSE(run_cluster(product("shr.u32 %r16, %r8, 4;\n"), 1).found(Kind::rank_in_descriptor));
}

TEST_CASE("ptx cluster: clusters of a cooperative grid wait for each other", "[ptx]") {
  // Each block leaves the index of its neighbour in the cluster, and takes what the block of the
  // same rank in the other cluster left.
  const std::string exchange =
      "mov.u32 %r13, %ctaid.x; st.shared.u32 [%r7], %r13; mov.u32 %r10, %cluster_ctarank;\n"
      "xor.b32 %r11, %r10, 1; mapa.shared::cluster.u32 %r2, %r7, %r11;\n" +
      meet +
      "ld.shared::cluster.u32 %r14, [%r2]; mul.wide.u32 %rd6, %r13, 4; add.s64 %rd6, %rd0, %rd6;\n"
      "@%p0 st.global.u32 [%rd6+2560], %r14;\n" +
      meet +
      "@%p0 red.release.gpu.global.add.u32 [%rd0+3584], 1;\n"
      "G: ld.acquire.gpu.global.u32 %r15, [%rd0+3584]; setp.lt.u32 %p3, %r15, 4; @%p3 bra G;\n"
      "xor.b32 %r16, %r13, 2; mul.wide.u32 %rd7, %r16, 4; add.s64 %rd7, %rd0, %rd7;\n"
      "ld.global.u32 %r17, [%rd7+2560]; @%p0 st.global.u32 [%rd6], %r17;\n";
  for (const std::uint64_t schedule : {0, 1, 2}) {
    const Result result = run(exchange, false, schedule, {}, 2, 0, 2);
    INFO("schedule " << schedule);
    CHECK(result.fault.empty());
    for (std::uint32_t block = 0; block < 4; ++block) CHECK(result.out[block] == (block ^ 2 ^ 1));
  }
}

TEST_CASE("ptx cluster: what is wrong is said", "[ptx]") {
  CHECK_THAT(run_cluster("mapa.shared::cluster.u32 %r2, %r8, 5;\n", 2).fault,
             ContainsSubstring("rank 5 of a cluster of 2 blocks"));
  CHECK_THAT(run_cluster("mapa.shared::cluster.u32 %r2, %r8, %r11; ld.shared::cluster.u32 %r1, "
                         "[%r2+65536];\n",
                         2)
                 .fault,
             ContainsSubstring("outside of the shared memory of the block of rank 1"));
  CHECK_THAT(run_cluster("barrier.cluster.wait.aligned;\n", 2).fault,
             ContainsSubstring("waits without barrier.cluster.arrive"));
  CHECK_THAT(
      run_cluster("barrier.cluster.arrive.aligned; barrier.cluster.arrive.aligned;\n", 2).fault,
      ContainsSubstring("comes a second time"));
  CHECK_THAT(run_cluster(
                 "setp.eq.u32 %p2, %r10, 0; @%p2 bar.sync 1, 256; @%p2 bra E;\n" + meet + "E:\n", 2)
                 .fault,
             ContainsSubstring("deadlock") &&
                 ContainsSubstring("for barrier 1: 128 of 256 threads have come"));
  // A block that has exited: the others may not use its memory.
  CHECK_THAT(run_cluster(fill + "setp.eq.u32 %p2, %r10, 0; @%p2 bra E;\nbar.sync 0; bar.sync 0;\n"
                                "mapa.shared::cluster.u32 %r2, %r8, %r11;\n"
                                "ld.shared::cluster.u32 %r1, [%r2];\nE:\n",
                         2)
                 .fault,
             ContainsSubstring("the block of rank 0 has exited"));
  // Here block 0 comes first, and reads what is still there.
  CHECK_THAT(run_cluster(fill + meet +
                             "setp.ne.u32 %p2, %r10, 0; @%p2 bra E;\n"
                             "mapa.shared::cluster.u32 %r2, %r8, %r11;\n"
                             "ld.shared::cluster.u32 %r1, [%r2];\nE:\n",
                         2, true)
                 .fault,
             ContainsSubstring("exits while block 0 of its cluster may still read its shared "
                               "memory, ld.shared::cluster.u32 at"));
}

TEST_CASE("ptx hopper: copies arrive at an mbarrier", "[ptx]") {
  const std::string copy =
      "add.s64 %rd3, %rd3, %rd2; cp.async.ca.shared.global [%r7], [%rd3], 4;\n";
  const std::string exchange =
      "xor.b32 %r2, %r7, 64; ld.shared.u32 %r1, [%r2]; st.global.u32 [%rd1], %r1;\n";
  const Result right =
      run(init("128") + copy + "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r9];\n" + wait +
              exchange,
          true);
  CHECK(right.fault.empty());
  CHECK(right.kinds.empty());
  CHECK(right.out[0] == 116);
  // Without .noinc it changes no count.
  const std::string both =
      "cp.async.mbarrier.arrive.shared::cta.b64 [%r9];\n"
      "mbarrier.arrive.shared::cta.b64 _, [%r9];\n";
  CHECK(run(init("128") + copy + both + wait + exchange, true).kinds.empty());
  CHECK_THAT(
      run(init("128") + copy + "cp.async.mbarrier.arrive.shared::cta.b64 [%r9];\n" + wait).fault,
      ContainsSubstring("deadlock"));
}
