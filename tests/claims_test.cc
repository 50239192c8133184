// What a dump says of itself is checked against what it holds.

#include "tests/support/catch.h"
#include "tests/support/synthetic_dump.h"
#include "tests/support/verdict.h"

namespace lanescope {
namespace {

using Catch::Matchers::ContainsSubstring;
using testing::synthetic_dump;

std::string contradiction(const Dump& dump) {
  const DiffReport report = diff_against_reference(dump);
  if (report.contradictions.empty()) return report.match ? "match" : "";
  CHECK_FALSE(report.match);
  CHECK_FALSE(report.unsettled);
  return report.contradictions.front();
}

Dump clean() {
  Dump dump = synthetic_dump({.problem = testing::ragged});
  dump.info.kernel = "mma";
  dump.info.device = "SIMT machine (Hopper rules)";
  dump.info.module = "mma.fused.f16.d32.32x32.sim";
  return dump;
}

TEST_CASE("claims: what is true of a dump is no contradiction") {
  CHECK(contradiction(clean()) == "match");
  Dump dump = clean();
  dump.info.module += ".untraced";
  CHECK(contradiction(dump) == "match");
  dump.info.module = "/tmp/mine.so";
  CHECK(contradiction(dump) == "match");
}

TEST_CASE("claims: another seed, kind of inputs, kernel, gate, or machine is one") {
  Dump dump = clean();
  dump.info.seed = 1;
  CHECK_THAT(contradiction(dump), ContainsSubstring("--input random --seed 1"));
  dump = clean();
  dump.info.input = "rising";
  CHECK_THAT(contradiction(dump), ContainsSubstring("--input rising"));
  dump = clean();
  dump.info.input_hash = "0123456789abcdef";
  CHECK_THAT(contradiction(dump), ContainsSubstring("hash"));
  dump = clean();
  dump.info.kernel = "scalar";
  CHECK_THAT(contradiction(dump), ContainsSubstring("mma.fused"));
  dump = clean();
  dump.info.arch = "sm_80";
  CHECK_THAT(contradiction(dump), ContainsSubstring("Hopper rules"));
  dump = clean();
  dump.info.backend = "cuda";
  CHECK_THAT(contradiction(dump), ContainsSubstring("makes mma.fused.f16.d32.32x32.cuda"));
  dump = clean();
  dump.info.module.clear();
  dump.info.gate = "softmax_only";
  CHECK_THAT(contradiction(dump), ContainsSubstring("is no part of the gate softmax_only"));
}

TEST_CASE("claims: what nothing can prove is listed") {
  Dump dump = clean();
  dump.info.input = "/tmp/mine.safetensors";
  const std::vector<std::string> claims = unchecked_claims(dump.info);
  REQUIRE(claims.size() == 4);
  CHECK(claims[0] == "kernel mma");
  CHECK_THAT(claims[1], ContainsSubstring("SIMT machine"));
  CHECK_THAT(claims[2], ContainsSubstring("sm_90"));
  CHECK(claims[3] == "input /tmp/mine.safetensors");
}

}  // namespace
}  // namespace lanescope
