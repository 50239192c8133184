// What is said of outputs alone where the scales of e4m3 inputs are wrong.

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "debug/causes/known_flaws.h"
#include "reference/attention.h"
#include "reference/inputs.h"
#include "tests/support/catch.h"
#include "tests/support/diagnosed.h"
#include "tests/support/plain_info.h"

namespace lanescope::testing {
namespace {

constexpr Problem problem{2, 6, 2, 20, 40, 64, false};

/// Attention as the reference has it, of a kernel that takes the scales that `change` leaves.
Dump dump_with(const std::function<void(Inputs&)>& change) {
  const Inputs inputs = generate_inputs(problem, ElementType::e4m3, "random", 5);
  Inputs taken = inputs;
  change(taken);
  const reference::AttentionResult result = reference::attention(taken, problem, 1);
  Dump dump;
  dump.info = plain_info("stranger", problem, inputs, "random", 5, 32, 32);
  Tensor o(ElementType::f16, {problem.batch, problem.heads, problem.len_q, problem.d});
  Tensor lse(ElementType::f32, {problem.batch, problem.heads, problem.len_q});
  for (std::int64_t i = 0; i < o.size(); ++i) o.set(i, result.o[static_cast<std::size_t>(i)]);
  for (std::int64_t i = 0; i < lse.size(); ++i) lse.set(i, result.lse[static_cast<std::size_t>(i)]);
  dump.tensors = {{"q", inputs.q},
                  {"k", inputs.k},
                  {"v", inputs.v},
                  {"q_scale", inputs.q_scale},
                  {"k_scale", inputs.k_scale},
                  {"v_scale", inputs.v_scale},
                  {"o_final", std::move(o)},
                  {"lse", std::move(lse)}};
  return dump;
}

void fill(Tensor& scales, const std::function<double(std::int64_t)>& value) {
  for (std::int64_t i = 0; i < scales.size(); ++i) scales.set(i, value(i));
}

}  // namespace

TEST_CASE("input scales: outputs alone tell which of them a kernel took", "[causes]") {
  CHECK(diff_against_reference(dump_with([](Inputs&) {})).match);
  const auto of_batch_zero = [](Inputs& inputs) {
    const Tensor q = inputs.q_scale;
    fill(inputs.q_scale, [&](std::int64_t i) { return q.at(i % problem.heads); });
  };
  CHECK(named(diagnosis_of(dump_with(of_batch_zero))) == "qk o_final scale_of_other_head");
  const auto of_v = [](Inputs& inputs) { inputs.k_scale = inputs.v_scale; };
  CHECK(named(diagnosis_of(dump_with(of_v))) == "qk o_final scale_of_other_head");
  const auto next = [](Inputs& inputs) {
    const Tensor v = inputs.v_scale;
    fill(inputs.v_scale, [&](std::int64_t i) { return v.at((i + 1) % v.size()); });
  };
  CHECK(named(diagnosis_of(dump_with(next))) == "epilogue o_final scale_of_other_head");
  const auto none = [](Inputs& inputs) { fill(inputs.k_scale, [](std::int64_t) { return 1; }); };
  CHECK(named(diagnosis_of(dump_with(none))) == "qk o_final scale_missing");
  const auto twice = [](Inputs& inputs) {
    const Tensor v = inputs.v_scale;
    fill(inputs.v_scale, [&](std::int64_t i) { return v.at(i) * v.at(i); });
  };
  CHECK(named(diagnosis_of(dump_with(twice))) == "epilogue o_final scale_repeated");
}

}  // namespace lanescope::testing
