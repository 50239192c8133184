// The SIMT machine's arithmetic: cases worked by hand, and what an H200 made of 6144 numbers and 96
// matrix products (tests/data/numerics_h200.safetensors, written by tests/capture_numerics.cu).

#include "debug/simt/numerics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "debug/dump/safetensors.h"
#include "gates/module/probes.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/skip.h"

namespace simt = lanescope::simt;
using lanescope::ElementType;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

/// One product d = a·b + c where only the first row of a and the first column of b matter.
struct Product {
  std::uint16_t a[16][16] = {}, b[16][8] = {};
  float c[16][8] = {};
  void set(int k, float x, float y) {
    a[0][k] = simt::f32_to_f16(x);
    b[k][0] = simt::f32_to_f16(y);
  }
  float run(simt::TensorCoreRule rule = simt::hopper_rule) {
    simt::multiply_accumulate(ElementType::f16, rule, a, b, c);
    return c[0][0];
  }
};

}  // namespace

TEST_CASE("numerics: a product keeps 25 bits below the largest term, on Ampere 24") {
  Product p;
  p.c[0][0] = 1;
  p.set(0, 0x1p-12f, 0x1p-12f);  // 2^-24: kept, then lost in truncating the sum to fp32
  CHECK(p.run() == 1);

  Product q;
  q.c[0][0] = 1;
  for (int k = 0; k < 4; ++k) q.set(k, 0x1p-12f, 0x1p-13f);  // four times 2^-25
  CHECK(q.run() == 1 + 0x1p-23f);
  q.c[0][0] = 1;
  CHECK(q.run(simt::ampere_rule) == 1);  // each truncated to nothing
}

TEST_CASE("numerics: sums are truncated, not rounded, and terms too, toward zero", "[quick]") {
  Product p;
  p.c[0][0] = -1;
  for (int k = 0; k < 3; ++k) p.set(k, -0x1p-12f, 0x1p-13f);  // -3 · 2^-25 of a unit of 2^-23
  CHECK(p.run() == -1);
  Product q;
  q.c[0][0] = 1;
  q.set(0, -0x1p-13f, 0x1p-13f);  // -2^-26 is truncated to nothing
  CHECK(q.run() == 1);
}

TEST_CASE("numerics: Hopper adds sixteen products at once, Ampere two groups of eight") {
  // Two large products that cancel, and eight of 2^-12, which are gone beside them (2^15 · 2^-25).
  const auto product = [](int large, int small) {
    Product p;
    for (int k = 0; k < 8; ++k) p.set(small + k, 0x1p-6f, 0x1p-6f);
    p.set(large, 1024, 32);
    p.set(large + 1, -1024, 32);
    return p;
  };
  CHECK(product(0, 8).run() == 0);
  CHECK(product(8, 0).run() == 0);
  CHECK(product(0, 8).run(simt::ampere_rule) == 0x1p-9f);  // cancelled in the group before
  CHECK(product(8, 0).run(simt::ampere_rule) == 0x1p-9f);  // 2^15 · 2^-24: just kept
}

TEST_CASE("numerics: inf and NaN take part in a product as in IEEE arithmetic") {
  Product p;
  p.set(0, inf, 1);
  p.c[0][1] = 5;
  CHECK(p.run() == inf);
  CHECK(std::isnan(p.c[0][1]));  // inf · 0
  Product q;
  q.set(0, inf, 1);
  q.c[0][0] = -inf;
  CHECK(std::isnan(q.run()));
}

TEST_CASE("numerics: ex2 and lg2 at the edges") {
  CHECK(simt::ex2(0) == 1);
  CHECK(simt::ex2(-1) == 0.5f);
  CHECK(simt::ex2(-126) == 0x1p-126f);
  CHECK(simt::ex2(-126.5f) == 0);
  CHECK(simt::ex2(-inf) == 0);
  CHECK(simt::ex2(inf) == inf);
  CHECK(simt::ex2(128) == inf);
  CHECK(std::isnan(simt::ex2(NAN)));
  CHECK(simt::lg2(1) == 0);
  CHECK(simt::lg2(8) == 3);
  CHECK(simt::lg2(0) == -inf);
  CHECK(simt::lg2(inf) == inf);
  CHECK(std::isnan(simt::lg2(-1)));
  for (float x = -20; x < 20; x += 0.37f) {
    CHECK(std::fabs(simt::ex2(x) / std::exp2(double{x}) - 1) < 0x1p-22);
  }
}

TEST_CASE("numerics: conversions round to nearest even, overflow to inf, keep subnormals") {
  CHECK(simt::f32_to_f16(1 + 0x1p-11f) == 0x3c00);
  CHECK(simt::f32_to_f16(1 + 0x1.8p-10f) == 0x3c02);
  CHECK(simt::f32_to_f16(65519.996f) == 0x7bff);
  CHECK(simt::f32_to_f16(65520) == 0x7c00);
  CHECK(simt::f32_to_f16(-0x1p-24f) == 0x8001);
  CHECK(simt::f32_to_f16(0x1p-25f) == 0);
  CHECK(simt::f32_to_f16(NAN) == 0x7fff);
  CHECK(simt::f32_to_bf16(1 + 0x1p-8f) == 0x3f80);
  CHECK(simt::f32_to_bf16(std::numeric_limits<float>::max()) == 0x7f80);
  for (std::uint32_t bits = 0; bits < 0x7c00; ++bits) {
    if (simt::f32_to_f16(simt::f16_to_f32(static_cast<std::uint16_t>(bits))) != bits) FAIL(bits);
  }
}

TEST_CASE("numerics: max lets NaN lose and orders the zeros") {
  CHECK(simt::max(NAN, 1) == 1);
  CHECK(simt::max(1, NAN) == 1);
  CHECK(std::isnan(simt::max(NAN, NAN)));
  CHECK_FALSE(std::signbit(simt::max(-0.0f, 0.0f)));
  CHECK_FALSE(std::signbit(simt::max(0.0f, -0.0f)));
}

namespace {

/// A tensor of the captured file as values of type E.
template <class E>
std::vector<E> captured(const std::string& name) {
  static const lanescope::SafetensorsFile file(
      lanescope::testing::data_file("numerics_h200.safetensors"));
  const lanescope::SafetensorsEntry* entry = file.find(name);
  REQUIRE(entry != nullptr);
  std::vector<E> values(entry->bytes.size() / sizeof(E));
  std::memcpy(values.data(), entry->bytes.data(), entry->bytes.size());
  return values;
}

/// Two NaNs are the same; else every bit counts.
bool same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

}  // namespace

TEST_CASE("numerics: functions and conversions have an H200's bits") {
  const auto x = captured<float>("x"), y = captured<float>("y"), ex2 = captured<float>("ex2"),
             lg2 = captured<float>("lg2"), max = captured<float>("max");
  const auto f16 = captured<std::uint16_t>("f16"), bf16 = captured<std::uint16_t>("bf16");
  REQUIRE(x.size() > 6000);
  for (std::size_t i = 0; i < x.size(); ++i) {
    INFO("x " << x[i] << " (" << std::hex << std::bit_cast<std::uint32_t>(x[i]) << "), y " << y[i]);
    if (!same(simt::ex2(x[i]), ex2[i])) FAIL("ex2 " << simt::ex2(x[i]) << ", GPU " << ex2[i]);
    if (!same(simt::lg2(x[i]), lg2[i])) FAIL("lg2 " << simt::lg2(x[i]) << ", GPU " << lg2[i]);
    if (!same(simt::max(x[i], y[i]), max[i])) FAIL("max, GPU " << max[i]);
    if (simt::f32_to_f16(x[i]) != f16[i]) FAIL("f16 " << simt::f32_to_f16(x[i]) << " " << f16[i]);
    if (simt::f32_to_bf16(x[i]) != bf16[i])
      FAIL("bf16 " << simt::f32_to_bf16(x[i]) << " " << bf16[i]);
  }
}

TEST_CASE("numerics: products come out alike with and without vector instructions") {
  if (!simt::has_avx2()) {
    lanescope::testing::skipped(Catch::getResultCapture().getCurrentTestName(),
                                "this CPU has no AVX2");
    return;
  }
  const lanescope::Probes probes = lanescope::rounding_probes();
  REQUIRE(probes.products.size() > 50);
  for (const simt::RuleSet& rules : simt::rule_sets) {
    for (std::size_t i = 0; i < probes.products.size(); ++i) {
      const lanescope::ProductProbe& probe = probes.products[i];
      for (int first = 0; first < 16; first += 8) {
        std::uint16_t b[16][8];
        float portable[16][8], avx2[16][8];
        for (int k = 0; k < 16; ++k) std::copy_n(&probe.b[k][first], 8, b[k]);
        for (int k = 0; k < 16; ++k) std::copy_n(&probe.c[k][first], 8, portable[k]);
        std::memcpy(avx2, portable, sizeof avx2);
        simt::multiply_accumulate_portable(probe.type, rules.tensor_core, probe.a, b, portable);
        simt::multiply_accumulate_avx2(probe.type, rules.tensor_core, probe.a, b, avx2);
        INFO(rules.name << ", " << probes.product_names[i]);
        CHECK(std::memcmp(portable, avx2, sizeof avx2) == 0);
      }
    }
  }
}

TEST_CASE("numerics: matrix products have an H200's bits") {
  for (const ElementType type : {ElementType::f16, ElementType::bf16}) {
    const std::string prefix = std::string("mma.") + name_of(type) + ".";
    const auto all_a = captured<std::uint16_t>(prefix + "a");
    const auto all_b = captured<std::uint16_t>(prefix + "b");
    const auto all_c = captured<float>(prefix + "c"), all_d = captured<float>(prefix + "d");
    REQUIRE(all_a.size() >= 48 * 256);
    for (std::size_t i = 0; i < all_a.size() / 256; ++i) {
      std::uint16_t a[16][16], b[16][8];
      float c[16][8];
      std::memcpy(a, &all_a[i * 256], sizeof a);
      std::memcpy(b, &all_b[i * 128], sizeof b);
      std::memcpy(c, &all_c[i * 128], sizeof c);
      simt::multiply_accumulate(type, simt::hopper_rule, a, b, c);
      int wrong = 0;
      for (std::size_t j = 0; j < 128; ++j) wrong += !same(c[j / 8][j % 8], all_d[i * 128 + j]);
      INFO(prefix << " case " << i << " of kind " << i % 6);
      CHECK(wrong == 0);
    }
  }
}
