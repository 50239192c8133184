// Threads that go through several blocks of rows: what the rows before left, and factors of other
// heads.

#include <cmath>
#include <string>

#include "debug/causes/diagnose.h"
#include "gates/run/run_options.h"
#include "tests/support/catch.h"

namespace lanescope {
namespace {

/// Two heads, a block and a tile each.
Dump two_heads(const std::string& kernel, const std::string& dtype) {
  RunOptions options;
  options.kernel = kernel;
  options.gate = "fused";
  options.backend = "sim";
  options.dtype = dtype;
  options.shape = "h=2,s=64,skv=64,d=64";
  options.seed = 3;
  const PreparedRun run = prepare(options);
  return launch(*run.module, run.module_name, run.request);
}

/// The values of a site in block 0 become f(its own, block 1's).
template <class F>
std::string with(Dump dump, const char* site, F&& f) {
  Tensor& values = const_cast<Tensor&>(*dump.find(site));
  REQUIRE(values.dims.at(0) == 2);
  const std::int64_t half = values.size() / 2;
  for (std::int64_t i = 0; i < half; ++i) values.set(i, f(values.at(i), values.at(half + i)));
  const Diagnosis diagnosis = diagnose(dump, diff_against_reference(dump));
  REQUIRE(diagnosis.first);
  return std::string(name_of(diagnosis.first->stage)) + " " + name_of(diagnosis.first->site) + " " +
         name_of(diagnosis.cause) + (diagnosis.certain ? "" : "?");
}

}  // namespace

TEST_CASE("locate: O and l that start with what the rows before left") {
  const Dump dump = two_heads("mma", "f16");
  const auto sum = [](double own, double other) { return own + other; };
  CHECK(with(dump, "o", sum) == "pv o accumulator_not_cleared");
  CHECK(with(dump, "l", sum) == "softmax l accumulator_not_cleared");
  // Something else that is added.
  const auto half = [](double own, double other) { return own + 0.3 * other; };
  CHECK(with(dump, "o", half).find("accumulator_not_cleared") == std::string::npos);
}

TEST_CASE("locate: a maximum with the scales of another head") {
  const Dump dump = two_heads("wgmma", "e4m3");
  const Tensor &q = *dump.find("q_scale"), &k = *dump.find("k_scale");
  const double of_both = q.at(1) * k.at(1) / (q.at(0) * k.at(0));
  REQUIRE(std::abs(of_both - 1) > 0.01);
  CHECK(with(dump, "m", [=](double own, double) { return own * of_both; }) ==
        "softmax m scale_of_other_head");
  CHECK(with(dump, "m", [](double own, double) { return own * 1.5; }).find("scale_of_other_head") ==
        std::string::npos);
}

}  // namespace lanescope
