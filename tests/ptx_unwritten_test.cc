// What the memory checker says of reads of what nobody wrote, beside where they are.

#include <string>

#include "tests/support/catch.h"
#include "tests/support/checked_ptx.h"

namespace lanescope {
namespace {

/// What is found first, a read of shared memory.
simt::Finding found_in(const std::string& body) {
  const auto findings = testing::findings_of(body + "st.global.u32 [%rd1], %r2; ret;");
  REQUIRE_FALSE(findings.empty());
  CHECK(findings[0].kind == simt::Kind::uninitialised_read);
  CHECK(findings[0].region == simt::shared_region);
  return findings[0];
}

}  // namespace

TEST_CASE("ptx: who adds to what nobody wrote stores the sum there", "[ptx]") {
  const std::string sum = "ld.shared.u32 %r1, [%r9]; add.u32 %r2, %r1, %r0;\n";
  CHECK(found_in(sum + "st.shared.u32 [%r9], %r2;\n").updates);
  // By way of another register.
  CHECK(found_in(sum + "mul.lo.u32 %r3, %r2, 3; mov.u32 %r2, %r3; st.shared.u32 [%r9], %r2;\n")
            .updates);
  CHECK_FALSE(found_in(sum).updates);
  CHECK_FALSE(found_in(sum + "st.shared.u32 [%r9+256], %r2;\n").updates);
  // What is stored there has nothing of it.
  CHECK_FALSE(found_in(sum + "st.shared.u32 [%r9], %r0;\n").updates);
  // Another lane's place.
  const std::string next = "xor.b32 %r7, %r9, 4; bar.warp.sync -1;\n";
  CHECK_FALSE(found_in(sum + next + "st.shared.u32 [%r7], %r2;\n").updates);
  const std::string shuffled = "shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;\n";
  CHECK_FALSE(found_in(sum + shuffled + next + "st.shared.u32 [%r7], %r2;\n").updates);
}

TEST_CASE("ptx: an atomic adds to what nobody wrote", "[ptx]") {
  const std::string own = "mov.u32 %r2, 1; st.global.u32 [%rd1], %r2; ret;";
  for (const std::string add :
       {"red.shared.add.u32 [%r9], 1;\n", "atom.shared.inc.u32 %r3, [%r9], 7;\n",
        "atom.shared.cas.b32 %r3, [%r9], 0, 1;\n"}) {
    INFO(add);
    const auto findings = testing::findings_of(add + own);
    REQUIRE(findings.size() == 1);
    CHECK(findings[0].kind == simt::Kind::uninitialised_read);
    CHECK(findings[0].updates);
    CHECK(testing::findings_of("st.shared.u32 [%r9], %r0;\n" + add + own).empty());
  }
  // An exchange leaves what it brings; what it took away is nobody's.
  const std::string exchange = "atom.shared.exch.b32 %r2, [%r9], 5;\n";
  CHECK(testing::findings_of(exchange + "ld.shared.u32 %r3, [%r9]; mov.u32 %r2, %r3;\n" + own)
            .empty());
  CHECK_FALSE(found_in(exchange).updates);
}

TEST_CASE("ptx: threads that left before the first barrier of their block", "[ptx]") {
  const std::string some = "setp.ge.u32 %p1, %r0, 48;\n", leave = "@%p1 ret;\n";
  const std::string read = "ld.shared.u32 %r2, [%r9];\n", meet = "bar.sync 0;\n";
  CHECK(found_in(some + leave + meet + read).left_early == 16);
  CHECK(found_in(some + leave + meet + meet + read).left_early == 16);
  CHECK(found_in(some + meet + leave + meet + read).left_early == 0);
  CHECK(found_in(meet + read).left_early == 0);
  // Where there is no barrier, until now.
  CHECK(found_in("setp.lt.u32 %p1, %r0, 8;\n" + leave + read).left_early == 8);
}

}  // namespace lanescope
