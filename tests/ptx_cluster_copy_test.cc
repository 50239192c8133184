// What blocks of a cluster put into each other's shared memory to complete on an mbarrier there:
// st.async, red.async and bulk copies.

#include <string>

#include "tests/support/catch.h"
#include "tests/support/ptx_hopper.h"

namespace lanescope::ptx_hopper::cluster_copy_test {
namespace {

using Catch::Matchers::ContainsSubstring;

/// The block's rank in %r10, that of the next in %r11; %rd1 is the word of the thread among those
/// of all blocks. In the next block: the thread's word of the box in %r20, the mbarrier in %r21,
/// the box in %r22, and what lies 1024 bytes behind its begin in %r23.
const std::string begin_of_cluster =
    "mov.u32 %r10, %cluster_ctarank; mov.u32 %r12, %cluster_nctarank; add.u32 %r11, %r10, 1;\n"
    "rem.u32 %r11, %r11, %r12; mul.wide.u32 %rd2, %r10, 512; add.s64 %rd1, %rd1, %rd2;\n"
    "mapa.shared::cluster.u32 %r20, %r7, %r11; mapa.shared::cluster.u32 %r21, %r9, %r11;\n"
    "mapa.shared::cluster.u32 %r22, %r8, %r11; add.u32 %r23, %r22, 1024;\n";
const std::string meet =
    "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;\n";
/// 1000 · rank + thread, in %r1.
const std::string number = "mad.lo.u32 %r1, %r10, 1000, %r0;\n";
const std::string ready = init("1") + expect("512") + meet;

Result run_cluster(const std::string& body, std::uint32_t blocks = 2, std::uint64_t schedule = 0) {
  return run(begin_of_cluster + body, true, schedule, {}, blocks);
}

/// Each block has the numbers of the one before it.
void check_words_of_previous(const Result& result, std::uint32_t blocks, std::uint32_t more = 0) {
  CHECK(result.fault.empty());
  CHECK(result.kinds.empty());
  for (std::uint32_t block = 0; block < blocks; ++block) {
    for (std::uint32_t i = 0; i < 128; ++i) {
      REQUIRE(result.out[128 * block + i] == (block + blocks - 1) % blocks * 1000 + i + more);
    }
  }
}

const std::string complete = ".shared::cluster.mbarrier::complete_tx::bytes";
const std::string store = number + "st.async.weak" + complete + ".b32 [%r20], %r1, [%r21];\n";

std::string reduce(const std::string& operation, const std::string& value = "1") {
  return "red.async.relaxed.cluster" + complete + "." + operation + " [%r22], " + value +
         ", [%r21];\n";
}

/// The box to the next block, 1024 bytes behind its begin.
std::string send(const std::string& opcode = "cp.async.bulk.shared::cluster.shared::cta") {
  const std::size_t operation = opcode.find("bytes");
  const std::string name =
      operation != std::string::npos ? opcode : opcode + ".mbarrier::complete_tx::bytes";
  return "@%p0 " + name + " [%r23], [%r8], 512, [%r21];\n";
}
const std::string fill = number + "st.shared.u32 [%r7], %r1;\n";
const std::string fence = "fence.proxy.async;\n";
const std::string read_sent = "ld.shared.u32 %r1, [%r7+1024]; st.global.u32 [%rd1], %r1;\n";

}  // namespace

TEST_CASE("ptx cluster copy: st.async stores into another block", "[ptx]") {
  for (const std::uint32_t blocks : {2u, 4u}) {
    for (const std::uint64_t schedule : {0, 1, 2, 3}) {
      INFO(blocks << " blocks, schedule " << schedule);
      check_words_of_previous(
          run_cluster(ready + store + wait + read_back + meet, blocks, schedule), blocks);
      // By vectors, at an offset, and by generic addresses.
      const std::string words =
          number +
          "add.u32 %r2, %r1, 1; add.u32 %r3, %r1, 2; add.u32 %r4, %r1, 3; and.b32 %r5, %r0, 3;\n"
          "setp.eq.u32 %p2, %r5, 0; add.u32 %r6, %r20, -64;\n@%p2 st.async" +
          complete + ".v4.u32 [%r6+64], {%r1, %r2, %r3, %r4}, [%r21];\n";
      check_words_of_previous(
          run_cluster(ready + words + wait + read_back + meet, blocks, schedule), blocks);
      const std::string generic =
          number +
          "cvt.u64.u32 %rd6, %r7; cvta.shared.u64 %rd6, %rd6; mapa.u64 %rd6, %rd6, %r11;\n"
          "cvt.u64.u32 %rd7, %r9; cvta.shared.u64 %rd7, %rd7; mapa.u64 %rd7, %rd7, %r11;\n"
          "st.async.mbarrier::complete_tx::bytes.u32 [%rd6], %r1, [%rd7];\n";
      check_words_of_previous(
          run_cluster(ready + generic + wait + read_back + meet, blocks, schedule), blocks);
    }
  }
  // Elements of 64 bits, into the block's own memory too.
  const Result wide = run_cluster(
      init("1") + "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r9], 16;\n" + meet +
      "mov.u64 %rd6, 0x1122334455667788; mapa.shared::cluster.u32 %r2, %r8, %r10;\n"
      "mapa.shared::cluster.u32 %r3, %r9, %r10;\n@%p0 st.async.weak" +
      complete + ".v2.b64 [%r2], {%rd6, 7}, [%r3];\n" + wait +
      "ld.shared.u32 %r1, [%r8+4]; ld.shared.u32 %r2, [%r8+8]; add.u32 %r1, %r1, %r2;\n"
      "st.global.u32 [%rd1], %r1;\n" +
      meet);
  CHECK(wide.fault.empty());
  CHECK(wide.kinds.empty());
  CHECK(wide.out[200] == 0x11223344 + 7);
}

TEST_CASE("ptx cluster copy: what signals a plain store of another block's memory", "[ptx]") {
  const std::string plain = number + "st.shared::cluster.u32 [%r20+1024], %r1;\n",
                    both = init("1") + expect("512") + meet + plain + store,
                    arrive = "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r21];\n",
                    by_all = init("128") + meet + plain;
  for (const std::uint64_t schedule : {0, 1, 2, 3}) {
    INFO("schedule " << schedule);
    check_words_of_previous(run_cluster(by_all + arrive + wait + read_sent + meet, 2, schedule), 2);
    // What arrives with the asynchronous store says nothing of the plain one.
    CHECK(run_cluster(both + wait + read_sent + meet, 2, schedule).found(Kind::race));
    check_words_of_previous(run_cluster(both + wait + meet + read_sent + meet, 2, schedule), 2);
    // Nor does an arrival that orders nothing there, unless a fence does.
    for (const char* const weak : {"", ".release.cta", ".relaxed.cluster"}) {
      const std::string weakly =
          std::string("mbarrier.arrive") + weak + ".shared::cluster.b64 _, [%r21];\n";
      INFO(weakly);
      CHECK(run_cluster(by_all + weakly + wait + read_sent + meet, 2, schedule).found(Kind::race));
      check_words_of_previous(
          run_cluster(by_all + "fence.acq_rel.cluster;\n" + weakly + wait + read_sent + meet, 2,
                      schedule),
          2);
      // A tile that was read is given back like that.
      const std::string give_back = init("128") + fill + meet +
                                    "ld.shared::cluster.u32 %r1, [%r20];\n" + weakly + wait +
                                    "st.shared.u32 [%r7], 7;\nst.global.u32 [%rd1], %r1;\n";
      CHECK(run_cluster(give_back + meet, 2, schedule).kinds.empty());
    }
  }
}

TEST_CASE("ptx cluster copy: what is wrong with a st.async is said", "[ptx]") {
  // A barrier of the cluster waits for no asynchronous store.
  CHECK(run_cluster(ready + store + meet + read_back + wait + meet).found(Kind::missing_wait));
  CHECK(run_cluster(ready + store + read_back + wait + meet).found(Kind::missing_wait));
  // Nothing orders the next block's accesses before it.
  CHECK(run_cluster(fill + ready + "ld.shared.u32 %r2, [%r7];\n" + store + wait + meet)
            .found(Kind::race));
  CHECK(run_cluster(fill + ready + store + wait + meet).kinds.empty());
  CHECK(run_cluster(init("1") + expect("256") + meet + store + wait + read_back + meet)
            .found(Kind::wrong_expect_tx));
  CHECK_THAT(run_cluster(init("1") + expect("516") + meet + store + wait + meet).fault,
             ContainsSubstring("512 of 516 expected bytes have come"));
  CHECK(run_cluster(ready + store + meet).found(Kind::unfinished_copy));
  CHECK_THAT(
      run_cluster(ready + "setp.eq.u32 %p2, %r10, 0; @%p2 bra E;\nbar.sync 0;\n" + store + "E:\n")
          .fault,
      ContainsSubstring("the block of rank 0 has exited"));
  CHECK_THAT(
      run_cluster(ready + number + "st.async" + complete + ".b32 [%r20], %r1, [%r9];\n").fault,
      ContainsSubstring("its mbarrier lie in different blocks of the cluster"));
  CHECK_THAT(run_cluster(store).fault, ContainsSubstring("st.async") &&
                                           ContainsSubstring("a thread of another block") &&
                                           ContainsSubstring("is no mbarrier"));
  CHECK_THAT(run_cluster(ready + store, 1).fault, ContainsSubstring("alone in its cluster"));
  CHECK_THAT(
      run_cluster(ready + "st.async" + complete + ".v2.b32 [%r20+4], {%r1, %r1}, [%r21];\n").fault,
      ContainsSubstring("misaligned address: a multiple of 8"));
  CHECK_THAT(run_cluster("st.async.weak" + complete +
                         ".v4.b64 [%r20], {%rd1, %rd1, %rd1, %rd1}, "
                         "[%r21];\n")
                 .fault,
             ContainsSubstring("16 bytes at most"));
  CHECK_THAT(run_cluster("st.async.release.gpu.global.b32 [%rd1], %r1;\n").fault,
             ContainsSubstring("before sm_100"));
  // It is of the generic proxy, as what a lane stores: a bulk copy of it needs a fence.
  const std::string out =
      "bar.sync 0;\n@%p0 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r8], 512;\n"
      "@%p0 cp.async.bulk.commit_group; @%p0 cp.async.bulk.wait_group 0;\n";
  CHECK(run_cluster(ready + store + wait + out + meet).found(Kind::missing_proxy_fence));
  check_words_of_previous(run_cluster(ready + store + wait + fence + out + meet), 2);
}

TEST_CASE("ptx cluster copy: red.async updates what lies in another block", "[ptx]") {
  const std::string zero = "@%p0 st.shared.u32 [%r8], 0;\n";
  const std::string first = "ld.shared.u32 %r1, [%r8]; st.global.u32 [%rd1], %r1;\n";
  for (const std::uint32_t blocks : {2u, 4u}) {
    for (const std::uint64_t schedule : {0, 1, 2, 3}) {
      const Result sums =
          run_cluster(zero + ready + reduce("add.u32") + wait + first + meet, blocks, schedule);
      CHECK(sums.fault.empty());
      CHECK(sums.kinds.empty());
      CHECK(sums.out[128 * (blocks - 1) + 5] == 128);
    }
  }
  const auto made = [&](const std::string& operation, const std::string& value) {
    const Result result = run_cluster("@%p0 st.shared.u32 [%r8], 100;\n" + ready +
                                      reduce(operation, value) + wait + first + meet);
    CHECK(result.fault.empty());
    CHECK(result.kinds.empty());
    return result.out[0];
  };
  CHECK(made("min.s32", "-3") == static_cast<std::uint32_t>(-3));
  CHECK(made("min.u32", "-3") == 100);
  CHECK(made("max.u32", "%r0") == 127);
  CHECK(made("inc.u32", "150") == (100 + 128) % 151);
  CHECK(made("dec.u32", "150") == 100 + 151 - 128);
  CHECK(made("and.b32", "36") == 36);
  CHECK(made("or.b32", "%r0") == 127);
  CHECK(made("xor.b32", "1") == 100);
  // What nobody wrote; what a thread of the block itself does to it; who does not wait.
  CHECK(run_cluster(ready + reduce("add.u32") + wait + meet).found(Kind::uninitialised_read));
  CHECK(run_cluster(zero + ready + zero + reduce("add.u32") + wait + meet).found(Kind::race));
  CHECK(run_cluster(zero + ready + reduce("add.u32") + meet + first + wait + meet)
            .found(Kind::missing_wait));
  CHECK_THAT(run_cluster(zero + ready + "red.async.relaxed.cluster" + complete +
                         ".add.u32 [%r8], 1, [%r9];\n")
                 .fault,
             ContainsSubstring("the block's own shared memory"));
  CHECK_THAT(run_cluster(reduce("add.f32")).fault, ContainsSubstring("for .u32, .s32 and .u64"));
  CHECK_THAT(run_cluster(reduce("min.u64")).fault, ContainsSubstring("for .u32 and .s32"));
}

TEST_CASE("ptx cluster copy: bulk copies go from block to block", "[ptx]") {
  for (const std::uint32_t blocks : {2u, 4u}) {
    for (const std::uint64_t schedule : {0, 1, 2, 3}) {
      INFO(blocks << " blocks, schedule " << schedule);
      check_words_of_previous(
          run_cluster(fill + fence + ready + send() + wait + read_sent + meet, blocks, schedule),
          blocks);
      const std::string add =
          "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32";
      check_words_of_previous(run_cluster(fill + "st.shared.u32 [%r7+1024], 5;\n" + fence + ready +
                                              send(add) + wait + read_sent + meet,
                                          blocks, schedule),
                              blocks, 5);
      // The tile may be filled again once the cluster has met behind the wait.
      const Result twice = run_cluster(
          fill + fence + ready + send() + wait + read_sent + meet + fill, blocks, schedule);
      CHECK(twice.kinds.empty());
      // Or once the block that has it has said so.
      const Result told = run_cluster(
          "@%p0 mbarrier.init.shared::cta.b64 [%r8+2048], 1;\n" + fill + fence + ready + send() +
              wait + "add.u32 %r2, %r10, %r12; sub.u32 %r2, %r2, 1; rem.u32 %r2, %r2, %r12;\n" +
              "mapa.shared::cluster.u32 %r2, %r8, %r2; bar.sync 0;\n"
              "@%p0 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r2+2048];\n"
              "V: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r8+2048], 0;\n@!%p1 bra V;\n" +
              fill + meet,
          blocks, schedule);
      CHECK(told.fault.empty());
      CHECK(told.kinds.empty());
    }
  }
}

TEST_CASE("ptx cluster copy: what is wrong with a copy from block to block is said", "[ptx]") {
  const std::string right = fill + fence + ready + send();
  CHECK(run_cluster(fill + ready + send() + wait + read_sent + meet)
            .found(Kind::missing_proxy_fence));
  CHECK(run_cluster(ready + send() + wait + read_sent + meet).found(Kind::uninitialised_read));
  // Who has waited for what was sent to it knows nothing of what it has sent.
  CHECK(run_cluster(right + wait + fill + meet).found(Kind::operand_overwritten));
  const std::string fill_last = "setp.eq.u32 %p2, %r10, 1; @%p2 st.shared.u32 [%r7], 7;\n";
  CHECK(run_cluster(right + wait + fill_last + meet).found(Kind::operand_overwritten));
  CHECK(run_cluster(right + fill + wait + read_sent + meet).found(Kind::operand_overwritten));
  CHECK(run_cluster(right + meet + read_sent + wait + meet).found(Kind::missing_wait));
  CHECK(run_cluster(right + "st.shared.u32 [%r7+1024], 1;\n" + wait + meet).found(Kind::race));
  CHECK(run_cluster(right + meet).found(Kind::unfinished_copy));
  const std::string no_fence = "@%p0 mbarrier.init.shared::cta.b64 [%r9], 1;\nbar.sync 0;\n";
  CHECK(run_cluster(fill + fence + no_fence + expect("512") +
                    "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;\n" +
                    send() + wait + meet)
            .found(Kind::unfenced_barrier));
  // The sender exits while its tile is being read.
  const std::string only_last =
      "setp.eq.u32 %p2, %r10, 0; @%p2 bra W;\n" + send() + "ret;\n" + wait + read_sent;
  const Result gone = run_cluster(fill + fence + ready + only_last);
  CHECK(gone.fault.empty());
  CHECK(gone.found(Kind::unfinished_copy));
  const std::string with_end =
      "setp.eq.u32 %p2, %r10, 0; @%p2 bra W;\n" + send() + "bra E;\n" + wait + read_sent + "E:\n";
  CHECK(run_cluster(fill + fence + ready + with_end + meet).kinds.empty());
  const std::string update =
      "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.";
  CHECK(run_cluster(fill + fence + ready + send(update + "add.u32") + wait + read_sent + meet)
            .found(Kind::uninitialised_read));
  CHECK_THAT(run_cluster(send(update + "add.s64")).fault,
             ContainsSubstring("for .u32, .s32 and .u64"));
  CHECK_THAT(run_cluster(send(update + "and.b64")).fault, ContainsSubstring("for .b32"));
  CHECK_THAT(run_cluster(fill + fence + ready +
                         "@%p0 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::"
                         "bytes [%r8+1024], [%r8], 512, [%r9];\n")
                 .fault,
             ContainsSubstring("the block's own shared memory"));
  CHECK_THAT(run_cluster(fill + fence + ready +
                         "@%p0 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::"
                         "bytes [%r23], [%r8+4], 512, [%r21];\n")
                 .fault,
             ContainsSubstring("must be multiples of 16"));
  CHECK_THAT(run_cluster(fill + fence + ready +
                         "@%p0 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::"
                         "bytes [%r23], [%r8+8000], 512, [%r21];\n")
                 .fault,
             ContainsSubstring("shared memory"));
  CHECK_THAT(
      run_cluster("cp.async.bulk.shared::cta.shared::cta.mbarrier::complete_tx::bytes [%r23], "
                  "[%r8], 512, [%r21];\n")
          .fault,
      ContainsSubstring("from .shared::cta to .shared::cluster"));
}

}  // namespace lanescope::ptx_hopper::cluster_copy_test
