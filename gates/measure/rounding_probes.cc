#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "debug/simt/numerics.h"
#include "gates/module/probes.h"
#include "reference/splitmix64.h"

namespace lanescope {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();
constexpr float smallest = std::numeric_limits<float>::denorm_min();

/// c + Σ a·b over `count` equal products from element `first` on.
struct Term {
  int first, count;
  float a, b;
};

class Collector {
 public:
  explicit Collector(ElementType type) : type_(type) {}

  /// One dot product, in the first row and column.
  void sum(const std::string& about, float c, std::initializer_list<Term> terms) {
    ProductProbe probe{};
    probe.type = type_;
    probe.c[0][0] = c;
    for (const Term& term : terms) {
      for (int k = term.first; k < term.first + term.count; ++k) {
        probe.a[0][k] = narrow(term.a);
        probe.b[k][0] = narrow(term.b);
      }
    }
    add(about, probe);
  }

  /// A matrix of numbers with exponents up to `spread` from 0, one in `special` of them of any
  /// bits.
  void random(const std::string& about, Random32& random, int spread, std::uint32_t special) {
    ProductProbe probe{};
    probe.type = type_;
    const auto number = [&] {
      const std::uint32_t bits = random.next(), choice = random.next();
      if (special != 0 && choice % special == 0) return static_cast<std::uint16_t>(bits);
      const float fraction = 1 + static_cast<float>(bits & 0xffff) * 0x1p-16f;
      const int exponent = static_cast<int>(choice >> 8) % (2 * spread + 1) - spread;
      return narrow(std::ldexp(bits >> 31 ? -fraction : fraction, exponent));
    };
    for (auto& row : probe.a) {
      for (std::uint16_t& x : row) x = number();
    }
    for (auto& row : probe.b) {
      for (std::uint16_t& x : row) x = number();
    }
    for (auto& row : probe.c) {
      for (float& x : row)
        x = static_cast<float>(static_cast<std::int32_t>(random.next())) * 0x1p-29f;
    }
    add(about, probe);
  }

  std::uint16_t narrow(float x) const {
    return type_ == ElementType::f16 ? simt::f32_to_f16(x) : simt::f32_to_bf16(x);
  }
  ElementType type() const { return type_; }
  void move_to(Probes& probes) {
    for (auto& probe : products_) probes.products.push_back(probe);
    for (auto& name : names_) probes.product_names.push_back(name);
  }

 private:
  void add(const std::string& about, const ProductProbe& probe) {
    products_.push_back(probe);
    names_.push_back(std::string(name_of(type_)) + ": " + about);
  }

  ElementType type_;
  std::vector<ProductProbe> products_;
  std::vector<std::string> names_;
};

void add_alignment(Collector& to) {
  to.sum("23 bits below the largest term: 1 + 2·2^-23", 1, {{0, 2, 0x1p-12f, 0x1p-11f}});
  to.sum("24 bits: 1 + 2·2^-24", 1, {{0, 2, 0x1p-12f, 0x1p-12f}});
  to.sum("25 bits: 1 + 4·2^-25", 1, {{0, 4, 0x1p-12f, 0x1p-13f}});
  to.sum("26 bits: 1 + 8·2^-26", 1, {{0, 8, 0x1p-13f, 0x1p-13f}});
  to.sum("a term is truncated toward zero: 1 - 2^-26", 1, {{0, 1, -0x1p-13f, 0x1p-13f}});
  to.sum("c is aligned like a product: 4·2^-25 + 1·1", 0x1p-23f, {{0, 1, 1, 1}});
  to.sum("c is lost beside a product: 2^-26 + 1·1 - 1·1", 0x1p-26f, {{0, 1, 1, 1}, {1, 1, -1, 1}});
  // 1.5·1.5 lies above 2, but its exponent counts as 0 + 0.
  to.sum("a product is not renormalised: 1.5·1.5 + 4·2^-24", 0,
         {{0, 1, 1.5f, 1.5f}, {1, 4, 0x1p-12f, 0x1p-12f}});
  to.sum("a product is not renormalised: 1.5·1.5 + 8·2^-25", 0,
         {{0, 1, 1.5f, 1.5f}, {1, 8, 0x1p-12f, 0x1p-13f}});
}

/// Two large products that cancel, and small ones that are lost where they are added to them at
/// once.
void add_grouping(Collector& to) {
  const auto cancel = [&](const std::string& about, int large, int small, int count) {
    to.sum(about, 0,
           {{small, count, 0x1p-6f, 0x1p-6f}, {large, 1, 1024, 32}, {large + 1, 1, -1024, 32}});
  };
  cancel("k 0..1 cancel, k 2..3 are small", 0, 2, 2);
  cancel("k 0..1 cancel, k 4..7 are small", 0, 4, 4);
  cancel("k 0..1 cancel, k 8..15 are small", 0, 8, 8);
  cancel("k 8..9 cancel, k 0..7 are small", 8, 0, 8);
  cancel("k 0..1 cancel, k 8..11 are small", 0, 8, 4);
  cancel("k 8..9 cancel, k 0..3 are small", 8, 0, 4);
}

void add_rounding(Collector& to) {
  to.sum("the sum is truncated: 1 + 3·2^-25", 1, {{0, 3, 0x1p-12f, 0x1p-13f}});
  to.sum("the sum is truncated: 1 + 2^-23 + 2^-24", 1 + 0x1p-23f, {{0, 1, 0x1p-12f, 0x1p-12f}});
  to.sum("a negative sum is truncated: -1 - 2^-23 - 2^-24", -1 - 0x1p-23f,
         {{0, 1, -0x1p-12f, 0x1p-12f}});
  to.sum("the sum of products is truncated", 0, {{0, 1, 1.5f, 1.5f}, {1, 1, 0x1p-11f, 0x1p-11f}});
}

void add_subnormals(Collector& to) {
  const bool half = to.type() == ElementType::f16;
  const float tiny = half ? 0x1p-24f : 0x1p-133f, large = half ? 1.0f : 0x1p100f;
  to.sum("a subnormal factor", 0, {{0, 1, tiny, large}});
  to.sum("two subnormal factors", 0, {{0, 1, tiny, tiny}});
  // The product counts as 2^-14 · 1 (bf16: 2^-126 · 2^100), however small it is.
  to.sum("a subnormal factor is not renormalised", half ? 0x1p-41f : 0x1p-53f,
         {{0, 1, tiny, large}});
  to.sum("a subnormal c", smallest * 3, {});
  to.sum("a subnormal c and a product of zeros", -smallest, {{0, 16, 0, 1}});
  if (!half) to.sum("a subnormal sum", 0, {{0, 3, 0x1.8p-70f, 0x1.8p-72f}});
}

void add_special(Collector& to) {
  to.sum("-0 + (-0)·1", -0.0f, {{0, 16, -0.0f, 1}});
  to.sum("-0 + 0·1", -0.0f, {{0, 16, 0, 1}});
  to.sum("1·1 - 1·1", 0, {{0, 1, 1, 1}, {1, 1, -1, 1}});
  to.sum("inf·1 + 1", 1, {{0, 1, infinity, 1}});
  to.sum("-inf·1 + 1", 1, {{3, 1, -infinity, 1}});
  to.sum("inf·0", 0, {{0, 1, infinity, 0}});
  to.sum("inf - inf", -infinity, {{0, 1, infinity, 1}});
  to.sum("inf - inf, eight elements apart", 0, {{0, 1, infinity, 1}, {8, 1, -infinity, 1}});
  to.sum("NaN·1", 0, {{0, 1, not_a_number, 1}});
  to.sum("c is NaN", not_a_number, {{0, 1, 1, 1}});
  to.sum("c is -inf", -infinity, {{0, 1, 1, 1}});
}

std::vector<FunctionProbe> function_probes() {
  constexpr float special[] = {0.0f,       -0.0f,      infinity,   -infinity, not_a_number,
                               1.0f,       -1.0f,      0.5f,       2.0f,      65504.0f,
                               65519.996f, 65520.0f,   0x1p-24f,   0x1p-25f,  0x1.8p-25f,
                               0x1p-126f,  smallest,   -126.0f,    -126.5f,   -127.0f,
                               -150.0f,    127.5f,     128.0f,     0x1p-14f,  3.3895314e38f,
                               3.4e38f,    0x1.004p0f, 0x1.00cp0f, 0x1.01p0f, 0x1.03p0f};
  std::vector<FunctionProbe> probes;
  const auto add = [&](float x, float y) {
    FunctionProbe probe{};
    probe.x = x;
    probe.y = y;
    probes.push_back(probe);
  };
  for (const float x : special) {
    for (const float y : special) add(x, y);
  }
  Random32 random{3};
  for (int i = 0; i < 256; ++i) {
    // Two for each row of the functions' tables, of an octave; and any bits.
    const float fraction = (static_cast<float>(i) + 0.37f) / 128;
    add(-fraction * 4, 1 + fraction);
    add(1 + fraction / 2, -fraction);
    const std::uint32_t bits = random.next(), others = random.next();
    add(std::bit_cast<float>(bits), std::bit_cast<float>(others));
  }
  return probes;
}

}  // namespace

Probes rounding_probes() {
  Probes probes;
  for (const ElementType type : {ElementType::f16, ElementType::bf16}) {
    Collector collector(type);
    add_alignment(collector);
    add_grouping(collector);
    add_rounding(collector);
    add_subnormals(collector);
    add_special(collector);
    Random32 random{type == ElementType::f16 ? 1u : 2u};
    for (int i = 0; i < 4; ++i) {
      const std::string number = " " + std::to_string(i);
      collector.random("random near 1," + number, random, 2, 0);
      collector.random("random of many exponents," + number, random, 12, 0);
      collector.random("random with any bits," + number, random, 4, 200);
    }
    collector.move_to(probes);
  }
  probes.functions = function_probes();
  return probes;
}

}  // namespace lanescope
