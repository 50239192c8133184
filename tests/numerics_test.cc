// The SIMT machine's arithmetic: cases worked by hand, and what an H200 made of 6144 numbers and 96
// matrix products (tests/data/numerics_h200.safetensors, written by tests/capture_numerics.cu).

#include "debug/simt/numerics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "debug/dump/safetensors.h"
#include "gates/module/probes.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/infinity.h"
#include "tests/support/skip.h"

namespace simt = lanescope::simt;
using lanescope::ElementType;

namespace {

using lanescope::testing::inf;

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

namespace {

/// Eight columns, b[n][k] and c[n][row].
struct EightColumns {
  std::uint16_t a[16][16], b[8][16];
  float c[8][16];
};

/// Whether every form of a product that this CPU has gives the same bits; those in floats may leave
/// it. Returns how many did it.
int forms_that_agree(ElementType type, simt::TensorCoreRule rule, const EightColumns& given) {
  EightColumns integers = given;
  simt::multiply_in_integers(type, rule, given.a, given.b, integers.c);
  int done = 0;
  for (const simt::VectorForm form :
       {simt::VectorForm::portable, simt::VectorForm::avx2, simt::VectorForm::avx512}) {
    if (!simt::has(form)) continue;
    EightColumns floats = given;
    if (simt::multiply_in_floats(form, type, rule, given.a, given.b, 8, floats.c) == 0) continue;
    ++done;
    INFO("form " << static_cast<int>(form));
    CHECK(std::memcmp(integers.c, floats.c, sizeof floats.c) == 0);
  }
  return done;
}

}  // namespace

TEST_CASE("numerics: products come out alike in integers, floats and vectors of any width") {
  const lanescope::Probes probes = lanescope::rounding_probes();
  REQUIRE(probes.products.size() > 50);
  for (const simt::RuleSet& rules : simt::rule_sets) {
    int done = 0;
    for (std::size_t i = 0; i < probes.products.size(); ++i) {
      const lanescope::ProductProbe& probe = probes.products[i];
      for (int first = 0; first < 16; first += 8) {
        EightColumns given;
        std::memcpy(given.a, probe.a, sizeof given.a);
        for (int n = 0; n < 8; ++n) {
          for (int k = 0; k < 16; ++k) {
            given.b[n][k] = probe.b[k][first + n];
            given.c[n][k] = probe.c[k][first + n];
          }
        }
        INFO(rules.name << ", " << probes.product_names[i]);
        done += forms_that_agree(probe.type, rules.tensor_core, given);
      }
    }
    CHECK(done > 20);
  }
}

TEST_CASE("numerics: products of any bits come out alike in integers and in floats") {
  std::mt19937_64 random(12);
  // Numbers of any size, of a few binades, and with many zeroes and subnormals.
  const auto draw = [&](ElementType type, int kind) -> std::uint16_t {
    const auto bits = static_cast<std::uint16_t>(random());
    const int fraction = type == ElementType::f16 ? 10 : 7;
    const auto near = static_cast<std::uint16_t>((bits & 0x8000) | (bits % (8 << fraction)));
    const int bias = type == ElementType::f16 ? 15 : 127;
    if (kind == 0) return static_cast<std::uint16_t>(near + ((bias - 4) << fraction));
    if (kind == 1) return random() % 4 == 0 ? bits : static_cast<std::uint16_t>(bits & 0x8000);
    return kind == 2 ? near : bits;
  };
  int done = 0, all = 0;
  for (int round = 0; round < 4000; ++round) {
    const ElementType type = round % 2 == 0 ? ElementType::f16 : ElementType::bf16;
    const int kind = round / 2 % 4;
    EightColumns given;
    for (auto& row : given.a) {
      for (std::uint16_t& x : row) x = draw(type, kind);
    }
    for (auto& column : given.b) {
      for (std::uint16_t& x : column) x = draw(type, round / 8 % 4);
    }
    for (auto& column : given.c) {
      for (float& x : column) {
        const auto bits = static_cast<std::uint32_t>(random());
        const float small = std::ldexp(static_cast<float>(static_cast<std::int32_t>(bits)), -31);
        x = round % 3 == 0 ? std::bit_cast<float>(bits) : round % 3 == 1 ? small : 0.0f;
      }
    }
    const simt::TensorCoreRule rule = round / 32 % 2 == 0 ? simt::hopper_rule : simt::ampere_rule;
    INFO("round " << round);
    done += forms_that_agree(type, rule, given) > 0 ? 1 : 0;
    ++all;
  }
  CHECK(done > all / 5);
  CHECK(done < all);
}

TEST_CASE("numerics: an mma's registers hold the product of its matrices") {
  std::mt19937 random(3);
  for (const ElementType type : {ElementType::f16, ElementType::bf16}) {
    for (const bool far : {false, true}) {  // beyond what is done in floats
      std::uint16_t a[16][16], b[16][8];
      float c[16][8];
      std::uint32_t ra[4][32], rb[2][32];
      float rc[4][32], rd[4][32];
      const auto half = [&] { return static_cast<std::uint16_t>(random() & 0xbbff); };
      for (auto& row : a) {
        for (auto& x : row) x = half();
      }
      for (auto& row : b) {
        for (auto& x : row) x = half();
      }
      for (auto& row : c) {
        for (float& x : row) x = std::ldexp(static_cast<float>(random() % 1000), far ? -120 : -9);
      }
      if (far) std::fill_n(a[0], 256, std::uint16_t{0});
      for (int lane = 0; lane < 32; ++lane) {
        const int row = lane / 4, col = lane % 4 * 2;
        for (int i = 0; i < 4; ++i) {
          std::memcpy(&ra[i][lane], &a[row + i % 2 * 8][col + i / 2 * 8], 4);
          rc[i][lane] = c[row + i / 2 * 8][col + i % 2];
        }
        for (int i = 0; i < 2; ++i) {
          rb[i][lane] = b[col + i * 8][row] | static_cast<std::uint32_t>(b[col + i * 8 + 1][row])
                                                  << 16;
        }
      }
      simt::multiply_accumulate(type, simt::hopper_rule,
                                simt::MmaRegisters{{ra[0], ra[1], ra[2], ra[3]},
                                                   {rb[0], rb[1]},
                                                   {rc[0], rc[1], rc[2], rc[3]},
                                                   {rd[0], rd[1], rd[2], rd[3]}});
      simt::multiply_accumulate(type, simt::hopper_rule, a, b, c);
      int wrong = 0;
      for (int lane = 0; lane < 32; ++lane) {
        for (int i = 0; i < 4; ++i) {
          const float want = c[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
          wrong += std::memcmp(&want, &rd[i][lane], 4) != 0 ? 1 : 0;
        }
      }
      CHECK(wrong == 0);
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
