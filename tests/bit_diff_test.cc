#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "debug/judge/diff.h"
#include "reference/error.h"
#include "tests/support/catch.h"
#include "tests/support/synthetic_dump.h"
#include "tests/support/verdict.h"

namespace lanescope {
namespace {

using Catch::Matchers::ContainsSubstring;
using testing::causal;
using testing::Setup;
using testing::slot_index;
using testing::synthetic_dump;
using testing::tensor_of;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

TEST_CASE("diff_dumps: the same bits, or the first place where they differ") {
  const Dump a = synthetic_dump({.problem = causal});
  for (const BitReport& report : diff_dumps(a, a)) {
    INFO(report.name);
    CHECK(report.compared > 0);
    CHECK(report.differing == 0);
  }
  const auto find = [](const std::vector<BitReport>& reports, const std::string& name) {
    return *std::find_if(reports.begin(), reports.end(),
                         [&](const BitReport& report) { return report.name == name; });
  };

  Dump b = a;
  const std::int64_t index = slot_index(a, SiteId::s, 1, 1, 9, 3);
  tensor_of(b, SiteId::s).set(index, 5);
  testing::poison(tensor_of(b, SiteId::s), index + 1);
  BitReport s = find(diff_dumps(a, b), "s");
  CHECK(s.differing == 2);
  REQUIRE(s.first);
  CHECK(s.first->got == 5);
  CHECK(s.first->want == a.find("s")->at(index));
  CHECK(s.first->block == 1);
  CHECK(s.first->tile == 1);
  CHECK(s.first->row == 9);
  CHECK(s.first->col == 3);
  CHECK(s.first->lane == 5);
  CHECK(s.first->query == 41);
  CHECK(s.first->key == 35);

  // Any NaN equals any other, but not an unwritten slot; zeros of two signs differ.
  Dump c = a;
  b = a;
  tensor_of(b, SiteId::s).set(index, nan);
  tensor_of(c, SiteId::s).set(index, -nan);
  CHECK(find(diff_dumps(b, c), "s").differing == 0);
  testing::poison(tensor_of(c, SiteId::s), index);
  CHECK(find(diff_dumps(b, c), "s").differing == 1);
  CHECK(find(diff_dumps(b, c), "s").first->unwritten);
  tensor_of(b, SiteId::s).set(index, 0.0);
  tensor_of(c, SiteId::s).set(index, -0.0);
  CHECK(find(diff_dumps(b, c), "s").differing == 1);

  const Dump outputs = synthetic_dump({.problem = causal, .traced = false});
  CHECK(find(diff_dumps(a, outputs), "o_final").differing == 0);
  CHECK(find(diff_dumps(a, outputs), "o_final").compared == 96 * 32);
  CHECK(find(diff_dumps(outputs, a), "s").compared == 0);
}

TEST_CASE("diff_dumps: of a large tensor every difference counts") {
  const Dump a =
      synthetic_dump({.problem = {.len_q = 200, .len_kv = 200, .d = 32}, .gate = "qk_only"});
  Dump b = a;
  Tensor& s = tensor_of(b, SiteId::s);
  REQUIRE(s.size() == 7 * 7 * 32 * 32);
  const std::vector<std::int64_t> changed = {0, 16383, 16384, 40000, s.size() - 1};
  for (const std::int64_t index : changed) s.set(index, 1000);
  for (const BitReport& report : diff_dumps(a, b)) {
    CHECK(report.differing == (report.name == "s" ? std::ssize(changed) : 0));
  }
}

TEST_CASE("diff_dumps: dumps that do not belong together are refused") {
  const Setup setup{.problem = causal};
  const Dump a = synthetic_dump(setup);
  const auto refused = [&](const Dump& b, const std::string& why) {
    try {
      diff_dumps(a, b);
      FAIL("not refused: " << why);
    } catch (const MismatchError& error) {
      CHECK_THAT(error.what(), ContainsSubstring(why));
    }
  };
  Dump b = a;
  b.info.problem.causal = false;
  refused(b, "shape");
  b = a;
  b.info.input_hash = "0";
  refused(b, "inputs");
  refused(synthetic_dump({.problem = causal, .tiles = {0, 1}}), "traced tiles");
  refused(synthetic_dump({.problem = causal, .blocks = {1, 2}}), "traced blocks");
  b = a;
  tensor_of(b, SiteId::m).dims.push_back(1);
  refused(b, "shapes");
  b = a;
  std::erase_if(b.tensors, [](const Dump::Entry& entry) {
    return entry.name != "q" && entry.name != "k" && entry.name != "v";
  });
  refused(b, "no traced site");
}

}  // namespace
}  // namespace lanescope
