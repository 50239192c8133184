// The reference against NumPy and the C library: exponentials and logarithms, attention as in the
// textbook, and its recurrence tile by tile.

#include <chrono>
#include <cmath>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "reference/attention.h"
#include "reference/elementary.h"
#include "reference/inputs.h"
#include "reference/online.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/reference_values.h"

namespace lanescope::reference {
namespace {

using testing::difference;
using testing::walk_of;

using reference::infinity;

/// A case that tests/data/make_reference_cases.py computed with NumPy.
class StoredCase {
 public:
  StoredCase(const nlohmann::json& entry, const std::string& data) : entry_(entry), data_(data) {}

  Problem problem() const {
    return {number("batch"),
            number("heads"),
            number("heads_kv"),
            number("len_q"),
            number("len_kv"),
            number("d"),
            entry_.at("causal").get<bool>()};
  }
  std::int64_t number(const char* name) const { return entry_.at(name).get<std::int64_t>(); }
  std::string name() const { return entry_.at("name").get<std::string>(); }

  Tensor tensor(const char* array) const {
    Tensor tensor(ElementType::f16, dims(array));
    std::memcpy(tensor.bytes.data(), start(array), tensor.bytes.size());
    return tensor;
  }
  std::vector<double> doubles(const char* array) const {
    std::int64_t size = 1;
    for (const std::int64_t dim : dims(array)) size *= dim;
    std::vector<double> values(static_cast<std::size_t>(size));
    std::memcpy(values.data(), start(array), values.size() * sizeof(double));
    return values;
  }
  std::vector<std::int64_t> dims(const char* array) const {
    return entry_.at("arrays").at(array).at("dims").get<std::vector<std::int64_t>>();
  }

 private:
  const char* start(const char* array) const {
    return data_.data() + entry_.at("arrays").at(array).at("offset").get<std::size_t>();
  }

  const nlohmann::json& entry_;
  const std::string& data_;
};

struct StoredCases {
  const std::string data = testing::read_bytes(testing::data_file("reference_cases.bin"));
  const nlohmann::json index =
      nlohmann::json::parse(testing::read_bytes(testing::data_file("reference_cases.json")));
};

TEST_CASE("reference: exponentials and logarithms are right to the last bits", "[quick]") {
  double exp2_error = 0, exp_error = 0, log_error = 0;
  for (int i = -200'000; i <= 200'000; ++i) {
    const double x = i * 0.00137;
    const long double two = std::exp2(static_cast<long double>(x));
    const long double e = std::exp(static_cast<long double>(x));
    exp2_error = std::max(exp2_error, static_cast<double>(std::abs(power_of_2(x) / two - 1)));
    exp_error = std::max(exp_error, static_cast<double>(std::abs(power_of_e(x) / e - 1)));
    const double y = power_of_2(x / 3);
    const long double log = std::log(static_cast<long double>(y));
    log_error = std::max(log_error, static_cast<double>(std::abs(natural_log(y) - log) /
                                                        std::max(std::abs(log), 1.0L)));
  }
  CHECK(exp2_error <= 0x1p-51);
  CHECK(exp_error <= 0x1p-51);
  CHECK(log_error <= 0x1p-51);
  CHECK(power_of_2(0) == 1);
  CHECK(power_of_2(-3) == 0.125);
  CHECK(power_of_2(-infinity) == 0);
  CHECK(power_of_2(infinity) == infinity);
  CHECK(std::isnan(power_of_2(std::nan(""))));
  CHECK(power_of_e(-infinity) == 0);
  CHECK(power_of_e(infinity) == infinity);
  CHECK(std::isnan(power_of_e(std::nan(""))));
  CHECK(natural_log(1) == 0);
  CHECK(natural_log(0) == -infinity);
  CHECK(natural_log(infinity) == infinity);
  CHECK(std::isnan(natural_log(-1)));
}

TEST_CASE("reference: textbook attention agrees with NumPy in long double") {
  const StoredCases cases;
  REQUIRE(cases.index.size() == 7);
  for (const auto& entry : cases.index) {
    const StoredCase stored(entry, cases.data);
    INFO(stored.name());
    const Inputs inputs{stored.tensor("q"), stored.tensor("k"), stored.tensor("v")};
    const AttentionResult got = attention(inputs, stored.problem());
    const std::vector<double> o = stored.doubles("o"), lse = stored.doubles("lse");
    REQUIRE(got.o.size() == o.size());
    CHECK(difference(got.o.data(), o.data(), o.size(), 0.01) < 1e-12);
    CHECK(difference(got.lse.data(), lse.data(), lse.size(), 1) < 1e-14);
  }
}

TEST_CASE("reference: the tiled recurrence agrees with NumPy after every tile") {
  const StoredCases cases;
  for (const auto& entry : cases.index) {
    const StoredCase stored(entry, cases.data);
    INFO(stored.name());
    const Problem problem = stored.problem();
    const Inputs inputs{stored.tensor("q"), stored.tensor("k"), stored.tensor("v")};
    const auto m = stored.doubles("m"), alpha = stored.doubles("alpha"), p = stored.doubles("p"),
               l = stored.doubles("l"), o = stored.doubles("o_tile");
    OnlineBlock block(inputs, problem, walk_of(stored.number("br"), stored.number("bc"), problem.d),
                      problem.batch - 1, problem.heads - 1, stored.number("q_tile"));
    for (std::int64_t tile = 0; tile < stored.dims("m")[0]; ++tile) {
      INFO("tile " << tile);
      const TileState state = block.step(tile);
      CHECK(difference(state.m.value, m, tile, 1) < 1e-14);
      CHECK(difference(state.alpha.value, alpha, tile, 1e-9) < 1e-12);
      CHECK(difference(state.p.value, p, tile, 1e-9) < 1e-12);
      CHECK(difference(state.l.value, l, tile, 1e-9) < 1e-12);
      CHECK(difference(state.o.value, o, tile, 0.01) < 1e-12);
    }
  }
}

TEST_CASE("reference: results do not depend on the number of threads") {
  const Problem problem{2, 2, 1, 130, 130, 64, true};
  const Inputs inputs = generate_inputs(problem, ElementType::f16, "random", 0);
  const AttentionResult one = attention(inputs, problem, 1), three = attention(inputs, problem, 3);
  CHECK(one.o == three.o);
  CHECK(one.lse == three.lse);
}

TEST_CASE("reference: speed of one head of 4096 queries and keys", "[.benchmark]") {
  const Problem problem{1, 1, 1, 4096, 4096, 128, false};
  const Inputs inputs = generate_inputs(problem, ElementType::f16, "random", 0);
  const auto begin = std::chrono::steady_clock::now();
  attention(inputs, problem);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::cout << "attention, S = 4096, D = 128: " << seconds.count() << " s\n";
}

}  // namespace
}  // namespace lanescope::reference
