// Kernels given as PTX under the memory checker.

#include <string>
#include <vector>

#include "debug/simt/checker.h"
#include "tests/support/catch.h"
#include "tests/support/ptx_kernel.h"

using namespace lanescope;
using simt::Kind;

namespace {

/// Runs 64 lanes on an output of a word each, in %rd1, and on a shared array `box`; %r9: the lane's
/// element of it.
std::vector<simt::Finding> findings_of(const std::string& body) {
  PtxKernel kernel(ptx_module(
      ".shared .align 16 .b8 box[1024]; .reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %rd<16>;\n"
      "mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [p0]; mul.wide.u32 %rd2, %r0, 4; add.s64 %rd1, "
      "%rd0, %rd2;\n"
      "shl.b32 %r9, %r0, 2; mov.u32 %r8, box; add.u32 %r9, %r9, %r8;\n" +
          body,
      1));
  constexpr std::size_t guard = simt::guard_bytes;
  std::vector<std::byte> memory(2 * guard + 64 * 4 + 64);
  auto* out = memory.data() + guard + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64);
  simt::Checker checker;
  checker.watch({{"out", out, 256, simt::Region::Use::output, 4, false}});
  kernel.use(memory);
  kernel.grid.checker = &checker;
  kernel.grid.threads[0] = 64;
  kernel.run({address(out)});
  return checker.findings();
}

std::vector<Kind> kinds_of(const std::string& body) {
  std::vector<Kind> kinds;
  for (const simt::Finding& finding : findings_of(body)) kinds.push_back(finding.kind);
  return kinds;
}

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
