// What is said of sums that took the wrong terms.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>

#include "reference/elementary.h"
#include "tests/support/catch.h"
#include "tests/support/diagnosed.h"

namespace lanescope {
namespace {

using testing::change;
using testing::diagnosis_of;
using testing::held;
using testing::joined;
using testing::named;
using testing::synthetic_dump;
using testing::tensor_of;

const Problem single_tile{1, 1, 1, 32, 32, 32, false};

}  // namespace

TEST_CASE("locate: keys of V that are taken twice did not change places with others") {
  const auto with_keys_of_v = [](const std::function<int(int)>& from) {
    Dump dump = synthetic_dump({.problem = single_tile});
    const reference::Array p = held(dump, SiteId::p, 0, 0, 32),
                           v = held(dump, SiteId::v_smem, 0, 0, 32);
    change(dump, SiteId::o, 0, 0, [&](int row, int col) {
      double sum = 0;
      for (int key = 0; key < 32; ++key) sum += p(row, key) * v(col < 8 ? from(key) : key, col);
      return static_cast<float>(sum);
    });
    return named(diagnosis_of(dump));
  };
  CHECK(with_keys_of_v([](int key) { return std::max(key - 8, key % 8); }) ==
        "pv o operand_of_other_row");
  CHECK(with_keys_of_v([](int key) { return key ^ 8; }) == "pv o permuted");
}

TEST_CASE("locate: one lane's part of l in the place of the row's sum") {
  Dump dump = synthetic_dump({.problem = single_tile});
  const reference::Array m = held(dump, SiteId::m, 0, 0, 32), l = held(dump, SiteId::l, 0, 0, 32);
  dump.info.lane_sums = true;
  std::map<int, int> lanes;  // of each row, so far
  change(dump, SiteId::l, 0, 0,
         [&](int row, int) { return static_cast<float>(l(row) * (1 + lanes[row]++) / 10); });
  REQUIRE(lanes[5] == 4);
  for (int row = 0; row < 32; ++row) {
    tensor_of(dump, SiteId::lse).set(row, (m(row) + std::log2(l(row) * 2 / 10)) * reference::ln_2);
  }
  const Diagnosis diagnosis = diagnosis_of(dump);
  CHECK(named(diagnosis) == "epilogue lse incomplete_reduction");
  CHECK_THAT(joined(diagnosis.evidence),
             Catch::Matchers::ContainsSubstring(
                 "l is put together over lane 1 alone of the 4 lanes that hold the row"));
}

}  // namespace lanescope
