#include "reference/inputs.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "reference/error.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"

namespace lanescope {
namespace {

using Catch::Matchers::ContainsSubstring;

constexpr ElementType types[] = {ElementType::f16, ElementType::bf16, ElementType::e4m3};

Problem shape(std::int64_t heads, std::int64_t heads_kv, std::int64_t len_q, std::int64_t len_kv,
              std::int64_t d) {
  return {1, heads, heads_kv, len_q, len_kv, d, false};
}

/// What the elements of head 0 are multiplied by.
double scale_of(const Tensor& scales) { return scales.dims.empty() ? 1 : scales.at(0); }

/// Scaled scores of query `row` of head 0, natural units.
std::vector<double> scores(const Inputs& inputs, std::int64_t row, std::int64_t head_kv = 0) {
  const std::int64_t d = inputs.q.dims[3], keys = inputs.k.dims[2];
  const std::int64_t first = head_kv * keys * d;
  std::vector<double> result;
  for (std::int64_t key = 0; key < keys; ++key) {
    double dot = 0;
    for (std::int64_t i = 0; i < d; ++i) {
      dot += inputs.q.at(row * d + i) * inputs.k.at(first + key * d + i);
    }
    dot *= scale_of(inputs.q_scale) * scale_of(inputs.k_scale);
    result.push_back(dot / std::sqrt(static_cast<double>(d)));
  }
  return result;
}

TEST_CASE("inputs: conversions round once, to nearest even, from double") {
  // Just above the middle of two f16: by way of float it would be the middle, and go to even.
  CHECK(value_of(ElementType::f16, round_to(ElementType::f16, 1 + 0x1p-11 + 0x1p-40)) ==
        1 + 0x1p-10);
  CHECK(value_of(ElementType::f16, round_to(ElementType::f16, 1 + 0x1p-11)) == 1);
  CHECK(value_of(ElementType::f16, round_to(ElementType::f16, 1 + 3 * 0x1p-11)) == 1 + 0x1p-9);
  CHECK(value_of(ElementType::bf16, round_to(ElementType::bf16, 1 + 0x1p-8 + 0x1p-50)) ==
        1 + 0x1p-7);
  CHECK(value_of(ElementType::f16, round_to(ElementType::f16, 0x1p-25)) == 0);
  CHECK(value_of(ElementType::f16, round_to(ElementType::f16, 0x1.8p-25)) == 0x1p-24);
  CHECK(value_of(ElementType::f16, round_to(ElementType::f16, 65519.99)) == 65504);
  CHECK(std::isinf(value_of(ElementType::f16, round_to(ElementType::f16, 65520))));
  CHECK(std::isinf(value_of(ElementType::f32, round_to(ElementType::f32, 1e300))));
  CHECK(round_to(ElementType::f16, -0.0) == 0x8000);
  CHECK(round_to(ElementType::e4m3, 1e9) == 0x7e);
  CHECK(round_to(ElementType::e4m3, -std::numeric_limits<double>::infinity()) == 0xfe);
  CHECK(value_of(ElementType::e4m3, 0x7e) == 448);
  CHECK(std::isnan(value_of(ElementType::e4m3, 0x7f)));
  CHECK(round_to(ElementType::e4m3, 0x1p-9) == 1);
  for (const ElementType type :
       {ElementType::f32, ElementType::f16, ElementType::bf16, ElementType::e4m3}) {
    const double quiet = std::numeric_limits<double>::quiet_NaN();
    CHECK(std::isnan(held_as(type, quiet)));
    CHECK(round_to(type, 0) == 0);
  }
}

TEST_CASE("inputs: conversions agree with Eigen's types on every bit pattern") {
  int wrong = 0;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = Eigen::numext::bit_cast<Eigen::half>(static_cast<std::uint16_t>(bits));
    const auto brain = Eigen::numext::bit_cast<Eigen::bfloat16>(static_cast<std::uint16_t>(bits));
    const double f16 = value_of(ElementType::f16, bits), bf16 = value_of(ElementType::bf16, bits);
    if (std::isnan(f16) || std::isnan(static_cast<float>(half))) {
      wrong += !(std::isnan(f16) && std::isnan(static_cast<float>(half)));
    } else {
      wrong += f16 != static_cast<float>(half) || round_to(ElementType::f16, f16) != bits;
    }
    if (std::isnan(bf16) || std::isnan(static_cast<float>(brain))) {
      wrong += !(std::isnan(bf16) && std::isnan(static_cast<float>(brain)));
    } else {
      wrong += bf16 != static_cast<float>(brain) || round_to(ElementType::bf16, bf16) != bits;
    }
  }
  CHECK(wrong == 0);

  // Values that are floats already: rounding once is what Eigen does.
  std::uint32_t word = 1;
  for (int i = 0; i < 1'000'000; ++i) {
    word = word * 1664525u + 1013904223u;
    const double value = value_of(ElementType::f32, word);
    if (std::isnan(value)) continue;
    const auto narrow = static_cast<float>(value);
    wrong += round_to(ElementType::f32, value) != word;
    wrong += round_to(ElementType::f16, value) !=
             Eigen::numext::bit_cast<std::uint16_t>(Eigen::half(narrow));
    wrong += round_to(ElementType::bf16, value) !=
             Eigen::numext::bit_cast<std::uint16_t>(Eigen::bfloat16(narrow));
  }
  CHECK(wrong == 0);
}

TEST_CASE("inputs: the scale of a head in e4m3 is no other's") {
  const Inputs inputs = generate_inputs(shape(5, 5, 40, 70, 16), ElementType::e4m3, "random", 0);
  const auto nearest = [](const Tensor& scales) {
    double least = 2;
    for (std::int64_t a = 0; a < scales.size(); ++a) {
      for (std::int64_t b = 0; b < a; ++b) {
        const double ratio = scales.at(a) / scales.at(b);
        least = std::min(least, std::max(ratio, 1 / ratio));
      }
    }
    return least;
  };
  // P in e4m3 alone may be off by 1/16.
  CHECK(nearest(inputs.v_scale) > 1.25);
  CHECK(nearest(inputs.q_scale) > 1.05);
  CHECK(nearest(inputs.k_scale) > 1.05);
}

TEST_CASE("inputs: the same seed gives the same bits, everywhere") {
  // Recorded once: a change of these is a change of everybody's inputs.
  const Problem problem = shape(2, 1, 40, 70, 16);
  const auto hash = [&](const char* kind, std::uint64_t seed) {
    return hash_inputs(generate_inputs(problem, ElementType::f16, kind, seed));
  };
  CHECK(hash("random", 0) == "0188aaab213a839f");
  CHECK(hash("counting", 0) == "1cac60c0e7a0c0d0");
  CHECK(hash("large", 0) == "f609eab3da23fa67");
  CHECK(hash("equal", 0) == "7c73b6f3443b045a");
  CHECK(hash("rising", 0) == "0bd50d40ba453f6e");
  CHECK(hash("steep", 0) == "73a67247ae2f61d2");
  CHECK(hash("lone", 0) == "7d1fd26233a6f975");
  CHECK(hash("low", 0) == "4455f3e76e5dafb0");
  CHECK(hash("random", 1) != hash("random", 0));
  Inputs scaled = generate_inputs(problem, ElementType::e4m3, "random", 0);
  CHECK(hash_inputs(scaled) == "26cb6e360be31a52");
  scaled.k_scale.set(0, 1);
  CHECK(hash_inputs(scaled) != "26cb6e360be31a52");

  Inputs tiny{Tensor(ElementType::f16, {2}), Tensor(ElementType::f16, {1}),
              Tensor(ElementType::f16, {1})};
  tiny.q.set(0, 1);
  tiny.q.set(1, 2);
  tiny.k.set(0, 3);
  tiny.v.set(0, 4);
  CHECK(hash_inputs(tiny) == "0f57abfb2c08e8b9");  // computed by a FNV-1a in Python
}

TEST_CASE("inputs: Q, K and V differ, are finite and of moderate size in every kind") {
  for (const ElementType type : types) {
    for (const std::string& kind : input_kinds()) {
      INFO(kind << " " << name_of(type));
      const Inputs inputs = generate_inputs(shape(2, 2, 64, 64, 32), type, kind, 3);
      for (const NonFinite& found : scan_non_finite(inputs)) CHECK(found.first == -1);
      std::int64_t same = 0;
      double largest = 0;
      for (std::int64_t i = 0; i < inputs.q.size(); ++i) {
        same += inputs.q.at(i) == inputs.k.at(i);
        same += inputs.q.at(i) == inputs.v.at(i);
        same += inputs.k.at(i) == inputs.v.at(i);
        largest = std::max({largest, std::abs(inputs.q.at(i)) * scale_of(inputs.q_scale),
                            std::abs(inputs.v.at(i)) * scale_of(inputs.v_scale)});
      }
      CHECK(same < inputs.q.size() / 8);
      CHECK(largest < (kind == "steep" || kind == "lone" ? 1024 : 64));
      const std::vector<double> s = scores(inputs, 5);
      CHECK(*std::max_element(s.begin(), s.end()) < 1500);
    }
  }
}

TEST_CASE("inputs: random is close to standard normal") {
  const Inputs inputs = generate_inputs(shape(4, 4, 512, 512, 64), ElementType::f16, "random", 0);
  for (const Tensor* tensor : {&inputs.q, &inputs.k, &inputs.v}) {
    double sum = 0, squares = 0, fourth = 0;
    const auto count = static_cast<double>(tensor->size());
    for (std::int64_t i = 0; i < tensor->size(); ++i) {
      const double x = tensor->at(i);
      sum += x;
      squares += x * x;
      fourth += x * x * x * x;
    }
    CHECK(std::abs(sum / count) < 0.01);
    CHECK(std::abs(squares / count - 1) < 0.02);
    CHECK(std::abs(fourth / count - 2.9) < 0.1);  // 3 − 1.2/12 for 12 uniforms
  }
}

TEST_CASE("inputs: counting repeats no value while the type has others") {
  const auto distinct = [](const Tensor& tensor) {
    std::set<std::uint32_t> seen;
    for (std::int64_t i = 0; i < tensor.size(); ++i) seen.insert(tensor.bits(i));
    return static_cast<std::int64_t>(seen.size());
  };
  for (const ElementType type : {ElementType::f16, ElementType::bf16}) {
    for (const std::int64_t len : {4, 64, 512}) {
      const Inputs inputs = generate_inputs(shape(1, 1, len, len, 64), type, "counting", 0);
      for (const Tensor* tensor : {&inputs.q, &inputs.k, &inputs.v}) {
        CHECK(distinct(*tensor) == tensor->size());
      }
      const std::vector<double> s = scores(inputs, 2);
      CHECK(*std::max_element(s.begin(), s.end()) - *std::min_element(s.begin(), s.end()) > 0.1);
    }
  }
  const Inputs many = generate_inputs(shape(2, 2, 512, 512, 64), ElementType::f16, "counting", 0);
  CHECK(distinct(many.q) == 32768);
  CHECK(many.q.bits(0) == many.q.bits(32768));
  CHECK(distinct(generate_inputs(shape(1, 1, 8, 8, 64), ElementType::e4m3, "counting", 0).k) ==
        128);
}

TEST_CASE("inputs: large overflows an exponential without the maximum subtracted") {
  const Inputs inputs = generate_inputs(shape(1, 1, 4, 256, 64), ElementType::f16, "large", 0);
  for (std::int64_t row = 0; row < 4; ++row) {
    const std::vector<double> s = scores(inputs, row);
    const double largest = *std::max_element(s.begin(), s.end());
    CHECK(largest > 89);  // e^89 is infinity in fp32
    CHECK(largest < 1000);
  }
}

TEST_CASE("inputs: equal keys give every key of a query the same score") {
  const Inputs inputs = generate_inputs(shape(1, 1, 4, 100, 64), ElementType::bf16, "equal", 0);
  const std::vector<double> s = scores(inputs, 3);
  CHECK(std::all_of(s.begin(), s.end(), [&](double x) { return x == s[0]; }));
  CHECK(scores(inputs, 2)[0] != s[0]);
}

TEST_CASE("inputs: rising scores rise with every tile of 32 keys, for every query") {
  for (const ElementType type : types) {
    for (const std::int64_t d : {1, 4, 64, 128}) {
      if (type == ElementType::e4m3 && d == 1) continue;  // one column is too few for its 4 bits
      const Inputs inputs = generate_inputs(shape(1, 1, 16, 4096, d), type, "rising", 1);
      std::int64_t falls = 0;
      for (std::int64_t row = 0; row < 16; ++row) {
        const std::vector<double> s = scores(inputs, row);
        double before = -1e300, largest = -1e300;
        for (std::size_t key = 0; key < s.size(); ++key) {
          if (key % 32 == 0) before = largest;
          falls += s[key] <= before;
          largest = std::max(largest, s[key]);
        }
      }
      INFO(name_of(type) << " d " << d);
      CHECK(falls == 0);
    }
  }
}

TEST_CASE("inputs: steep scores rise by more than e^x can hold, for every query") {
  for (const ElementType type : types) {
    // The type has no larger factor of them.
    const double least = type == ElementType::e4m3 ? 50 : 89;
    const Inputs inputs = generate_inputs(shape(1, 1, 16, 1152, 64), type, "steep", 1);
    for (std::int64_t row = 0; row < 16; ++row) {
      const std::vector<double> s = scores(inputs, row);
      for (std::size_t key = 16; key < s.size(); ++key) CHECK(s[key] - s[key - 16] > least);
    }
  }
}

TEST_CASE("inputs: low scores have no exponential that is not 0") {
  for (const ElementType type : types) {
    for (const std::int64_t d : {1, 2, 32, 64, 128}) {
      INFO(name_of(type) << " d=" << d);
      const Inputs inputs = generate_inputs(shape(1, 1, 16, 64, d), type, "low", 1);
      for (std::int64_t row = 0; row < 16; ++row) {
        const std::vector<double> s = scores(inputs, row);
        CHECK(*std::max_element(s.begin(), s.end()) < -110);
      }
    }
  }
}

TEST_CASE("inputs: of a lone key e^x cannot hold the distance to the others, wherever it is") {
  for (const ElementType type : types) {
    const Inputs inputs = generate_inputs(shape(1, 1, 128, 128, 64), type, "lone", 1);
    std::set<std::ptrdiff_t> places;
    for (std::int64_t row = 0; row < 128; ++row) {
      std::vector<double> s = scores(inputs, row);
      const auto highest = std::ranges::max_element(s);
      places.insert(highest - s.begin());
      std::ranges::sort(s, std::greater<>());
      CHECK(s[0] - s[1] > 89);
      CHECK(s[0] < 256);
    }
    CHECK(places.size() > 64);
    // Of any length all is finite.
    for (const std::int64_t d : {1, 2, 7}) {
      const Inputs small = generate_inputs(shape(1, 1, 64, 64, d), type, "lone", 46203);
      CHECK(scan_non_finite(small)[0].inf == 0);
      for (std::int64_t i = 0; i < small.q.size(); ++i) CHECK(std::abs(small.q.at(i)) < 4096);
    }
    // The heads of a group have the keys of the same head of K.
    const Inputs shared = generate_inputs({2, 4, 2, 8, 32, 64, false}, type, "lone", 1);
    for (std::int64_t head = 0; head < 8; ++head) {
      const std::vector<double> s = scores(shared, head * 8, head / 2);
      CHECK(*std::ranges::max_element(s) > 100);
    }
  }
}

TEST_CASE("inputs: an unknown kind is refused with the list of kinds") {
  const std::string text =
      testing::usage_error([] { generate_inputs(Problem{}, ElementType::f16, "gaussian", 0); });
  for (const std::string& kind : input_kinds()) CHECK_THAT(text, ContainsSubstring(kind));
  CHECK_THAT(text, ContainsSubstring("gaussian"));
}

TEST_CASE("inputs: numbers of f32 have all bits of their fractions") {
  for (const std::string& kind : input_kinds()) {
    const Inputs inputs = generate_inputs(shape(2, 1, 24, 40, 16), ElementType::f32, kind, 5);
    const Tensor& v = inputs.v;
    std::set<std::uint32_t> low_bits, all;
    int not_tf32 = 0;
    for (std::int64_t i = 0; i < v.size(); ++i) {
      low_bits.insert(v.bits(i) & 0xff);
      all.insert(v.bits(i));
      not_tf32 += (v.bits(i) & 0x1fff) != 0;
    }
    INFO(kind);
    CHECK(low_bits.size() > 150);  // of 640 numbers, 8 bits each; of `counting` half as many
    CHECK(not_tf32 > v.size() - 3);
    CHECK((kind != "counting" || std::ssize(all) == v.size()));
    CHECK_FALSE(inputs.scaled());
  }
}

TEST_CASE("inputs: what is not finite is counted") {
  Inputs inputs = generate_inputs(shape(1, 1, 4, 4, 8), ElementType::f16, "random", 0);
  inputs.k.set(9, std::numeric_limits<double>::quiet_NaN());
  inputs.k.set(5, -std::numeric_limits<double>::infinity());
  const auto found = scan_non_finite(inputs);
  CHECK(found[0].first == -1);
  CHECK(found[1].nan == 1);
  CHECK(found[1].inf == 1);
  CHECK(found[1].first == 5);
  CHECK(found[2].nan + found[2].inf == 0);
}

}  // namespace
}  // namespace lanescope
