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

/// A tile whose O is the sum of P · V over `keys` of a row, where column col takes row `from` of V.
Diagnosis diagnosis_of_sum(const std::function<int(int row)>& keys,
                           const std::function<int(int key, int col)>& from) {
  Dump dump = synthetic_dump({.problem = single_tile});
  const reference::Array p = held(dump, SiteId::p, 0, 0, 32),
                         v = held(dump, SiteId::v_smem, 0, 0, 32);
  change(dump, SiteId::o, 0, 0, [&](int row, int col) {
    double sum = 0;
    for (int key = 0; key < keys(row); ++key) sum += p(row, key) * v(from(key, col), col);
    return static_cast<float>(sum);
  });
  return diagnosis_of(dump);
}

}  // namespace

TEST_CASE("locate: keys of V that are taken twice did not change places with others") {
  const auto with_keys_of_v = [](const std::function<int(int)>& from) {
    return named(diagnosis_of_sum([](int) { return 32; },
                                  [&](int key, int col) { return col < 8 ? from(key) : key; }));
  };
  CHECK(with_keys_of_v([](int key) { return std::max(key - 8, key % 8); }) ==
        "pv o operand_of_other_row");
  CHECK(with_keys_of_v([](int key) { return key ^ 8; }) == "pv o permuted");
}

TEST_CASE("locate: the last keys of each row are left out of O, of some rows more") {
  const auto with_ends = [](const std::function<int(int)>& end) {
    const Diagnosis diagnosis = diagnosis_of_sum(end, [](int key, int) { return key; });
    return named(diagnosis) + ": " + diagnosis.evidence.at(0);
  };
  const std::string last = "pv o contribution_missing: in the product, of each row the last ";
  CHECK(with_ends([](int row) { return row + 1; }) ==
        last + "(up to 31) of the keys that it sees are left out");
  CHECK(with_ends([](int) { return 31; }) ==
        "pv o contribution_missing: keys 31 of the tile count 0 times in o, the others once");
}

TEST_CASE(
    "locate: l that counts again in both outputs is put together twice, in O alone is a scale") {
  const auto with = [](bool in_lse) {
    Dump dump = synthetic_dump({.problem = single_tile});
    Tensor &o = tensor_of(dump, SiteId::o_final), &lse = tensor_of(dump, SiteId::lse);
    for (std::int64_t i = 0; i < o.size(); ++i) o.set(i, o.at(i) / 4);
    for (std::int64_t i = 0; in_lse && i < lse.size(); ++i) lse.set(i, lse.at(i) + std::log(4));
    return named(diagnosis_of(dump));
  };
  CHECK(with(true) == "epilogue o_final contribution_repeated");
  CHECK(with(false) == "epilogue o_final wrong_scale");
}

TEST_CASE("locate: a maximum that stays while weights are NaN may have dropped NaN") {
  Dump dump = synthetic_dump({.problem = single_tile});
  change(dump, SiteId::m, 0, 0, [](int, int) { return -reference::infinity; });
  CHECK(named(diagnosis_of(dump)) == "softmax m never_updated");
  change(dump, SiteId::p, 0, 0, [](int, int) { return std::nan(""); });
  CHECK(named(diagnosis_of(dump)) == "softmax m non_finite?");
}

TEST_CASE("locate: a maximum of keys that the mask hides, and rows that change places") {
  Dump causal = synthetic_dump({.problem = {1, 1, 1, 32, 32, 32, true}});
  const reference::Array q = held(causal, SiteId::q_smem, 0, 0, 32),
                         k = held(causal, SiteId::k_smem, 0, 0, 32);
  change(causal, SiteId::m, 0, 0, [&](int row, int) {
    double top = -reference::infinity;
    for (int key = 0; key < 32; ++key) {
      double sum = 0;
      for (int col = 0; col < 32; ++col) sum += q(row, col) * k(key, col);
      top = std::fmax(top, sum * reference::log2_e / std::sqrt(32.0));
    }
    return top;
  });
  CHECK(named(diagnosis_of(causal)) == "softmax m causal_mask_missing");
  Dump dump = synthetic_dump({.problem = single_tile});
  Tensor& o = tensor_of(dump, SiteId::o_final);
  const Tensor right = o;
  for (int i = 0; i < 32 * 32; ++i) o.set(i, right.at(i / 32 * 7 % 32 * 32 + i % 32));
  CHECK(named(diagnosis_of(dump)) == "epilogue o_final misplaced");
}

TEST_CASE("locate: outputs that go on from those of an item before") {
  // With O; l alone; and l in each of the four lanes that add up a row.
  for (const auto& [with_output, lanes] : {std::pair(true, 1), {false, 1}, {false, 4}}) {
    Dump dump = synthetic_dump({.problem = {1, 4, 4, 16, 32, 32, false}, .traced = false});
    Tensor &o = tensor_of(dump, SiteId::o_final), &lse = tensor_of(dump, SiteId::lse);
    for (int row = 2 * 16; row < 4 * 16; ++row) {  // a block has heads 0 and 2, another 1 and 3
      const double own = std::exp(lse.at(row)), before = lanes * std::exp(lse.at(row - 32));
      for (int col = 0; col < 32; ++col) {
        const double more = with_output ? before * o.at((row - 32) * 32 + col) : 0;
        o.set(row * 32 + col, (own * o.at(row * 32 + col) + more) / (own + before));
      }
      lse.set(row, std::log(own + before));
    }
    const Diagnosis diagnosis = diagnosis_of(dump);
    CHECK(named(diagnosis) == "softmax o_final accumulator_not_cleared");
    CHECK_THAT(joined(diagnosis.evidence), Catch::Matchers::ContainsSubstring("32 before"));
  }
}

TEST_CASE("locate: rows that see no key hold what an item before left, divided again") {
  Dump dump = synthetic_dump({.problem = {1, 4, 4, 64, 32, 32, true}, .traced = false});
  Tensor& o = tensor_of(dump, SiteId::o_final);
  for (const int head : {2, 3}) {  // after the last rows of head 0, or 1
    for (int row = 64 * head; row < 64 * head + 32; ++row) {
      for (int col = 0; col < 32; ++col) {
        o.set(row * 32 + col, o.at((row - 96) * 32 + col) / (row % 5 + 2));
      }
    }
  }
  const Diagnosis diagnosis = diagnosis_of(dump);
  CHECK(named(diagnosis) == "softmax o_final accumulator_not_cleared");
  CHECK_THAT(joined(diagnosis.evidence), Catch::Matchers::ContainsSubstring("96 before"));
}

TEST_CASE("locate: that m stays says nothing of which keys it covers") {
  Dump dump = synthetic_dump({.problem = {1, 1, 1, 32, 64, 32, false}, .input = "large"});
  const reference::Array before = held(dump, SiteId::m, 0, 0, 32);
  change(dump, SiteId::m, 0, 1, [&](int row, int) { return before(row); });
  const Diagnosis diagnosis = diagnosis_of(dump);
  CHECK(diagnosis.cause != Cause::incomplete_reduction);
  for (const Finding& suspect : diagnosis.suspects) {
    CHECK_FALSE((suspect.cause == Cause::incomplete_reduction && suspect.certain()));
  }
}

TEST_CASE("locate: log-sum-exps that stand at the rows of others, some of them twice") {
  Dump dump = synthetic_dump({.problem = single_tile});
  Tensor& lse = tensor_of(dump, SiteId::lse);
  const Tensor right = lse;
  for (int row = 0; row < 32; ++row) {
    lse.set(row, right.at(row / 16 * 16 + row % 16 / 8 * 8 + row % 8 / 4));
  }
  CHECK(named(diagnosis_of(dump)) == "epilogue lse permuted");
  // Where all are nearly the same, others are as near as what is rounded.
  Dump low = synthetic_dump({.problem = single_tile, .input = "low"});
  Tensor& other = tensor_of(low, SiteId::lse);
  const Tensor same = other;
  for (int row = 0; row < 32; ++row) other.set(row, same.at((row + 3) % 32));
  const Diagnosis diagnosis = diagnosis_of(low);
  CHECK_FALSE((diagnosis.cause == Cause::precision_lost && diagnosis.certain));
}

TEST_CASE("locate: maxima that are held in units of the scores as they are, and alpha of them") {
  Dump dump = synthetic_dump({.problem = {1, 1, 1, 32, 96, 32, false}});
  dump.info.maxima = ScoreUnit::raw;
  const double factor = reference::log2_e / std::sqrt(32.0);
  for (const SiteId id : {SiteId::m_prev, SiteId::m}) {
    Tensor& maxima = tensor_of(dump, id);
    for (std::int64_t i = 0; i < maxima.size(); ++i) maxima.set(i, maxima.at(i) / factor);
  }
  REQUIRE(diff_against_reference(dump).match);
  const reference::Array m_prev = held(dump, SiteId::m_prev, 0, 1, 32),
                         m = held(dump, SiteId::m, 0, 1, 32);
  change(dump, SiteId::alpha, 0, 1, [&](int row, int) { return std::exp2(m_prev(row) - m(row)); });
  CHECK(named(diagnosis_of(dump)) == "softmax alpha wrong_scale");
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
