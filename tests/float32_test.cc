#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

#include "debug/causes/diagnose.h"
#include "debug/judge/diff.h"
#include "reference/stages.h"
#include "tests/support/catch.h"
#include "tests/support/infinity.h"
#include "tests/support/plain_info.h"

// Kernels of f32 that trace nothing: what bounds let pass, and what they do not.

namespace lanescope::testing {
namespace {

using Vector = std::vector<float>;

/// Attention of one row in float, as people write it. What is not said is the textbook's.
struct Writing {
  enum class Order : std::uint8_t { upwards, downwards, pairs };
  enum class Form : std::uint8_t {
    online,       ///< FlashAttention-2, base 2
    divided,      ///< FlashAttention, algorithm 1: O is divided by l in every tile
    three_passes  ///< P is divided by l before P·V
  };
  Order order = Order::upwards;
  bool fused = false;  ///< products and sums in one operation
  Form form = Form::online;
  bool scaled_in_exponent = false;  ///< S is Q·K, and its factor in the exponent (FlashAttention-2)
  /// What becomes of the operands of Q·K, and of P and V.
  std::function<float(float)> of_qk = [](float x) { return x; };
  std::function<float(float)> of_p = [](float x) { return x; };
  std::function<float(float)> of_v = [](float x) { return x; };
};

float through(ElementType type, float x) { return static_cast<float>(held_as(type, x)); }
float to_f16(float x) { return through(ElementType::f16, x); }
float to_bf16(float x) { return through(ElementType::bf16, x); }
float to_tf32(float x) {
  return static_cast<float>(
      value_of(ElementType::f32, (round_to(ElementType::f32, x) + 0x1000) & 0xffffe000));
}
float to_leading_bits(float x) {
  return static_cast<float>(value_of(ElementType::f32, round_to(ElementType::f32, x) & 0xffffe000));
}

class Row {
 public:
  Row(const Writing& how, const Problem& p, const Inputs& in, std::int64_t row, int bc)
      : how_(how), bc_(static_cast<std::size_t>(bc)), d_(static_cast<std::size_t>(p.d)) {
    const std::int64_t head = row / p.len_q;
    const std::int64_t kv = head / p.heads * p.heads_kv + p.kv_head(head % p.heads);
    const Vector q = read(in.q, row);
    const float scale = 1 / std::sqrt(static_cast<float>(p.d));
    for (std::int64_t key = 0; key < p.visible_keys(row % p.len_q); ++key) {
      const Vector k = read(in.k, kv * p.len_kv + key);
      v_.push_back(read(in.v, kv * p.len_kv + key));
      const float dot =
          sum(d_, [&](std::size_t i) { return std::pair(how_.of_qk(q[i]), how_.of_qk(k[i])); });
      s_.push_back(how_.scaled_in_exponent ? dot : dot * scale);
    }
    factor_ = how_.scaled_in_exponent ? scale * 1.44269504F : 0;
  }

  /// O and, behind it, the log-sum-exp.
  Vector outputs() const {
    if (s_.empty()) {
      Vector none(d_, 0);
      none.push_back(-inf);
      return none;
    }
    if (how_.form == Writing::Form::three_passes) return three_passes();
    Vector o(d_, 0);
    float m = -inf, l = 0;
    const bool divides = how_.form == Writing::Form::divided;
    for (std::size_t first = 0; first < s_.size(); first += bc_) {
      const std::size_t keys = std::min(bc_, s_.size() - first);
      float own = -inf;
      for (std::size_t j = 0; j < keys; ++j) own = std::fmax(own, s_[first + j]);
      const float next = std::fmax(m, own), base = divides ? own : next;
      Vector p;
      for (std::size_t j = 0; j < keys; ++j) p.push_back(weight(s_[first + j], base));
      const float alpha = m == -inf ? 0 : weight(m, next);
      const float brought = divides ? weight(own, next) : 1;
      const float tile = sum(keys, [&](std::size_t j) { return std::pair(p[j], 1.F); });
      const float l_next = alpha * l + brought * tile;
      for (std::size_t col = 0; col < d_; ++col) {
        const float pv = sum(keys, [&](std::size_t j) {
          return std::pair(how_.of_p(p[j]), how_.of_v(v_[first + j][col]));
        });
        o[col] = divides ? (1 / l_next) * (l * alpha * o[col] + brought * pv) : o[col] * alpha + pv;
      }
      m = next;
      l = l_next;
    }
    for (float& x : o) x = divides ? x : x / l;
    o.push_back(log_sum_exp(m, l));
    return o;
  }

 private:
  Vector read(const Tensor& tensor, std::int64_t row) const {
    Vector values;
    for (std::size_t i = 0; i < d_; ++i) {
      values.push_back(
          static_cast<float>(tensor.at(row * tensor.dims.back() + static_cast<std::int64_t>(i))));
    }
    return values;
  }

  template <class Factors>
  float sum(std::size_t count, const Factors& factors) const {
    const auto product = [&](std::size_t i) {
      const auto [a, b] = factors(i);
      return a * b;
    };
    if (how_.order == Writing::Order::pairs) {
      Vector terms;
      for (std::size_t i = 0; i < count; ++i) terms.push_back(product(i));
      for (; terms.size() > 1; terms.resize((terms.size() + 1) / 2)) {
        for (std::size_t i = 0; 2 * i < terms.size(); ++i) {
          terms[i] = 2 * i + 1 < terms.size() ? terms[2 * i] + terms[2 * i + 1] : terms[2 * i];
        }
      }
      return terms.front();
    }
    float all = 0;
    for (std::size_t n = 0; n < count; ++n) {
      const std::size_t i = how_.order == Writing::Order::downwards ? count - 1 - n : n;
      const auto [a, b] = factors(i);
      all = how_.fused ? std::fma(a, b, all) : all + product(i);
    }
    return all;
  }

  float weight(float from, float to) const {
    if (how_.scaled_in_exponent) return std::exp2(std::fma(from, factor_, -(to * factor_)));
    return how_.fused ? std::exp(from - to) : std::exp2((from - to) * 1.44269504F);
  }
  float log_sum_exp(float m, float l) const {
    return (how_.scaled_in_exponent ? m * factor_ * 0.693147181F : m) + std::log(l);
  }

  Vector three_passes() const {
    const float m = *std::max_element(s_.begin(), s_.end());
    Vector p;
    for (const float s : s_) p.push_back(weight(s, m));
    const float l = sum(p.size(), [&](std::size_t j) { return std::pair(p[j], 1.F); });
    Vector o;
    for (std::size_t col = 0; col < d_; ++col) {
      o.push_back(sum(p.size(), [&](std::size_t j) {
        return std::pair(how_.of_p(p[j] / l), how_.of_v(v_[j][col]));
      }));
    }
    o.push_back(log_sum_exp(m, l));
    return o;
  }

  const Writing& how_;
  std::size_t bc_, d_;
  float factor_ = 0;
  std::vector<Vector> v_;
  Vector s_;
};

Dump dump_of(const Writing& how, const Problem& problem, const std::string& input = "random",
             std::uint64_t seed = 4) {
  constexpr int br = 16, bc = 32;
  Dump dump;
  const Inputs inputs = generate_inputs(problem, ElementType::f32, input, seed);
  dump.info = plain_info("written", problem, inputs, input, seed, br, bc);
  Tensor o(ElementType::f32, inputs.q.dims);
  Tensor lse(ElementType::f32, {problem.batch, problem.heads, problem.len_q});
  for (std::int64_t row = 0; row < lse.size(); ++row) {
    const Vector outputs = Row(how, problem, inputs, row, bc).outputs();
    for (std::int64_t col = 0; col < problem.d; ++col) {
      o.set(row * problem.d + col, outputs[static_cast<std::size_t>(col)]);
    }
    lse.set(row, outputs.back());
  }
  dump.tensors = {{"q", inputs.q}, {"k", inputs.k}, {"v", inputs.v}};
  dump.tensors.push_back({"o_final", std::move(o)});
  dump.tensors.push_back({"lse", std::move(lse)});
  return dump;
}

std::int64_t failed_of(const DiffReport& report) {
  std::int64_t failed = 0;
  for (const SiteReport& site : report.sites) failed += site.failed;
  return failed;
}

constexpr Problem problems[] = {{1, 2, 1, 20, 100, 64, true}, {1, 1, 1, 16, 64, 128, false}};

}  // namespace

TEST_CASE("float32: sums in any order and softmaxes of any form match") {
  using Order = Writing::Order;
  using Form = Writing::Form;
  const std::vector<std::string> inputs = input_kinds();
  std::size_t next = 0;
  for (const Order order : {Order::upwards, Order::downwards, Order::pairs}) {
    for (const Form form : {Form::online, Form::divided, Form::three_passes}) {
      for (const bool fused : {false, true}) {
        const Writing how{.order = order,
                          .fused = fused,
                          .form = form,
                          .scaled_in_exponent = form == Form::online && fused};
        const std::string& input = inputs[next++ % inputs.size()];
        INFO(static_cast<int>(order)
             << " " << static_cast<int>(form) << " " << fused << " " << input);
        CHECK(diff_against_reference(dump_of(how, problems[0], input)).match);
        // Beside one large score P of any type gives the same.
        const Problem saturated{1, 1, 1, 8, 40, 64, false};
        const DiffReport report = diff_against_reference(dump_of(how, saturated, "large", next));
        INFO((report.rounded ? report.rounded->text().back() : ""));
        CHECK_FALSE(report.rounded);
        CHECK(report.holds());
      }
    }
  }
}

TEST_CASE("float32: bounds of softmaxes of any form have their second exponential") {
  const double top = 0, x = -3, p = std::exp2(x);
  reference::Array s(1, 2);
  s(0, 0) = top;
  s(0, 1) = x;
  const auto bound_of = [&](bool any_softmax) {
    const auto none = [](double value) {
      return reference::Bounded::exact(reference::Array::Constant(1, 1, value));
    };
    const reference::Arithmetic arithmetic{.products = reference::Accumulation{},
                                           .operands = ElementType::f32,
                                           .any_softmax = any_softmax};
    return reference::softmax(reference::Bounded::exact(s), {}, none(-inf), none(0), {}, arithmetic)
        .p.error(0, 1);
  };
  const double exponential = 1 + 0x1p-22, product = 1 + 0x1p-24;  // largest errors of each
  const double off = p * (exponential * exponential * product - 1);
  CHECK(off <= bound_of(true));
  CHECK(off > bound_of(false));
}

TEST_CASE("float32: operands of fewer bits are out of bounds, and are named") {
  struct Case {
    Writing how;
    Stage stage;
    const char* what;
  };
  using Form = Writing::Form;
  const Case cases[] = {
      {{.of_qk = to_tf32}, Stage::qk, "Q and K are rounded to tf32"},
      {{.of_qk = to_leading_bits}, Stage::qk, "Q and K are rounded to the leading bits"},
      {{.of_qk = to_bf16}, Stage::qk, "Q and K are rounded to bf16"},
      {{.of_p = to_f16}, Stage::softmax, "P is rounded to tf32 or f16"},
      {{.form = Form::divided, .of_p = to_bf16},
       Stage::softmax,
       "bf16 relative to the maximum of the tile"},
      {{.form = Form::three_passes, .of_p = to_f16}, Stage::softmax, "f16 divided by l"},
      {{.of_v = to_f16}, Stage::pv, "V is rounded to tf32 or f16"},
      {{.of_qk = to_tf32, .of_p = to_tf32, .of_v = to_tf32},
       Stage::qk,
       "Q, K, P and V are rounded to tf32"},
  };
  for (const Problem& problem : problems) {
    for (const auto& [how, stage, what] : cases) {
      const Dump dump = dump_of(how, problem);
      const DiffReport report = diff_against_reference(dump);
      INFO(what);
      CHECK_FALSE(report.holds());
      CHECK(failed_of(report) > 0);
      REQUIRE(report.rounded);
      CHECK_THAT(report.rounded->what_text(), Catch::Matchers::ContainsSubstring(what));
      const Diagnosis diagnosis = diagnose(dump, report);
      CHECK(diagnosis.cause == Cause::precision_lost);
      CHECK(diagnosis.sure());
      CHECK(diagnosis.first->stage == stage);
    }
  }
}

TEST_CASE("float32: operands of fewer bits are named where bounds are wider than what that costs") {
  const Problem problem{1, 1, 1, 4, 4000, 64, false};
  const Dump dump = dump_of({.of_v = to_tf32}, problem, "equal");
  const DiffReport report = diff_against_reference(dump);
  CHECK(failed_of(report) == 0);
  CHECK_FALSE(report.holds());
  REQUIRE(report.rounded);
  CHECK_THAT(report.rounded->what_text(),
             Catch::Matchers::ContainsSubstring("V is rounded to tf32"));
  CHECK(report.first->site == SiteId::o_final);
  CHECK(diagnose(dump, report).cause == Cause::precision_lost);
}

TEST_CASE("float32: products of tf32 match where they are declared") {
  Dump dump = dump_of({.of_qk = to_tf32, .of_p = to_tf32, .of_v = to_tf32}, problems[0]);
  dump.info.products = Products::tensor_core_tf32;
  CHECK(diff_against_reference(dump).match);
  dump = dump_of({.of_qk = to_leading_bits, .of_p = to_leading_bits, .of_v = to_leading_bits},
                 problems[0]);
  dump.info.products = Products::tensor_core_tf32;
  CHECK(diff_against_reference(dump).match);
  // Where one key counts alone, O is a row of V, rounded as that is.
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    dump = dump_of({.of_qk = to_tf32, .of_p = to_tf32, .of_v = to_tf32}, {1, 2, 1, 2, 7, 7, false},
                   "lone", seed);
    dump.info.products = Products::tensor_core_tf32;
    CHECK(diff_against_reference(dump).holds());
  }
  dump = dump_of({.of_qk = to_bf16}, problems[0]);
  dump.info.products = Products::tensor_core_tf32;
  const DiffReport report = diff_against_reference(dump);
  CHECK_FALSE(report.holds());
  REQUIRE(report.rounded);
  CHECK(report.rounded->what_text() == "Q and K are rounded to bf16");
}

}  // namespace lanescope::testing
