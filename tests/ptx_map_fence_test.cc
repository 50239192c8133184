// Tensor maps that a kernel makes, and the fences between their writer and the copies by them.

#include <string>

#include "tests/support/catch.h"
#include "tests/support/ptx_hopper.h"

namespace lanescope::ptx_hopper::map_fence_test {
namespace {

/// The first warp, in %p2, has a copy of the tensor map in shared memory, at %rd5, whose address
/// the first thread sets once more; %rd6: where it is to lie in global memory.
const std::string make =
    "setp.lt.u32 %p2, %r0, 32; cvt.u64.u32 %rd5, %r8; add.u64 %rd5, %rd5, 1024;\n"
    "add.u64 %rd6, %rd0, 2048; add.s64 %rd7, %rd4, %rd2; add.u32 %r12, %r7, 1024;\n"
    "@%p2 ld.global.u32 %r11, [%rd7]; @%p2 st.shared.u32 [%r12], %r11; bar.sync 0;\n"
    "@%p0 tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%rd5], %rd3; bar.sync 0;\n";
const std::string publish =
    "@%p2 tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned "
    "[%rd6], [%rd5], 128;\n";
const std::string acquire = "@%p2 fence.proxy.tensormap::generic.acquire.gpu [%rd6], 128;\n";
const std::string release = "fence.proxy.tensormap::generic.release.gpu;\n";
const std::string replace =
    "@%p0 tensormap.replace.tile.global_address.global.b1024.b64 [%rd6], %rd3;\n";
const std::string meet = "bar.sync 0;\n";
const std::string copy_in = "mov.u32 %r10, 0;\n" + init("1") + expect("512");
const std::string copy =
    "@%p0 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
    "[%r8], [%rd6, {%r10, %r10}], [%r9];\n" +
    wait + read_back;

Result copied(const std::string& before, std::uint32_t blocks = 1) {
  const Result result = run(copy_in + make + before + copy, true, 0, {}, blocks);
  INFO(before);
  CHECK(result.fault.empty());
  CHECK(result.out[127] == 227);
  return result;
}

bool is_clean(const std::string& before, std::uint32_t blocks = 1) {
  return copied(before, blocks).kinds.empty();
}
bool is_found(const std::string& before, std::uint32_t blocks = 1) {
  return copied(before, blocks).found(Kind::missing_map_fence);
}

}  // namespace

TEST_CASE("ptx map fence: a copy comes behind an acquire of its map", "[ptx]") {
  CHECK(is_clean(publish + acquire));
  CHECK(is_found(publish));
  CHECK(is_found(publish + "fence.proxy.async;\n"));
  // Of another address, or of what the map was before.
  CHECK(is_found(publish + "add.u64 %rd7, %rd6, 128;\n"
                           "@%p2 fence.proxy.tensormap::generic.acquire.gpu [%rd7], 128;\n"));
  CHECK(is_found(publish + acquire + publish));
  CHECK(is_clean(publish + acquire + publish + acquire));
  // Another warp does, which the copy is behind or not.
  const std::string by_second =
      "setp.ge.u32 %p4, %r0, 96;\n@%p4 fence.proxy.tensormap::generic.acquire.gpu [%rd6], 128;\n";
  CHECK(is_clean(publish + meet + by_second + meet));
  CHECK(is_found(publish + meet + by_second));
  CHECK(is_found(publish + by_second + meet));
}

TEST_CASE("ptx map fence: what is replaced in global memory is released", "[ptx]") {
  CHECK(is_clean(publish + replace + release + acquire));
  CHECK(is_found(publish + replace + acquire));
  CHECK(is_found(publish + release + replace + acquire));
  CHECK(is_found(publish + replace + release));
  const std::string by_second = "setp.ge.u32 %p4, %r0, 96;\n@%p4 " + release;
  CHECK(is_clean(publish + replace + meet + by_second + meet + acquire));
  CHECK(is_found(publish + replace + by_second + meet + acquire));
}

TEST_CASE("ptx map fence: each block of a cluster acquires it", "[ptx]") {
  const std::string first = "mov.u32 %r14, %cluster_ctarank; setp.eq.and.u32 %p2, %r14, 0, %p2;\n",
                    all = "setp.lt.u32 %p2, %r0, 32;\n",
                    meet_all =
                        "barrier.cluster.arrive.release.aligned; "
                        "barrier.cluster.wait.acquire.aligned;\n";
  CHECK(is_clean(first + publish + meet_all + all + acquire, 2));
  CHECK(is_found(first + publish + acquire + meet_all, 2));
  CHECK(is_found(first + publish + all + acquire + meet_all, 2));
}

}  // namespace lanescope::ptx_hopper::map_fence_test
