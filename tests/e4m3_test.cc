// E4M3 inputs: the conversions against the format's definition and ml_dtypes' table
// (tests/data/make_e4m3_table.py), on sim and on the device, and quantising with a scale per head.

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "debug/dump/safetensors.h"
#include "debug/judge/diff.h"
#include "debug/simt/numerics.h"
#include "gates/run/run_options.h"
#include "reference/elementary.h"
#include "reference/inputs.h"
#include "reference/quantise.h"
#include "reference/stages.h"
#include "tests/support/diagnosed.h"
#include "tests/support/files.h"
#include "tests/support/kernels.h"

namespace lanescope {
namespace {

using reference::infinity;

/// (−1)^sign · 2^(exponent − 7) · (1 + fraction / 8), without the 1 and with 2^-6 where the
/// exponent is 0 (OCP 8-bit floating point specification, section 5.2).
double defined_value(int code) {
  const int exponent = code >> 3 & 15, fraction = code & 7;
  if (exponent == 15 && fraction == 7) return std::numeric_limits<double>::quiet_NaN();
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction / 8.0, -6) : std::ldexp(1 + fraction / 8.0, exponent - 7);
  return code & 0x80 ? -magnitude : magnitude;
}

/// The f16 of the same value; a NaN as the device makes it.
std::uint32_t defined_f16(int code) {
  const double value = defined_value(code);
  return std::isnan(value) ? 0x7fff : round_to(ElementType::f16, value);
}

Tensor table(const char* name) {
  static const SafetensorsFile file(testing::data_file("e4m3.safetensors"));
  const SafetensorsEntry* entry = file.find(name);
  REQUIRE(entry != nullptr);
  return file.tensor(*entry);
}

bool same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

/// All 256 codes in Q, K and V go through a kernel's load: what lies in its shared memory. One
/// block and tile.
void load_all_codes(const std::string& kernel, int rows, const std::string& backend) {
  RunOptions options;
  options.kernel = kernel;
  options.gate = "fused";
  options.backend = backend;
  options.dtype = "e4m3";
  options.shape = "s=" + std::to_string(rows) + ",d=64";
  PreparedRun run = prepare(options);
  Inputs& inputs = run.request.inputs;
  inputs = generate_inputs(run.request.problem, ElementType::e4m3, "random", 0);
  for (Tensor* tensor : {&inputs.q, &inputs.k, &inputs.v}) {
    for (std::size_t i = 0; i < tensor->bytes.size(); ++i) {
      tensor->bytes.data()[i] =
          static_cast<std::byte>(i + i / 256);  // each code in several columns
    }
  }
  const Dump dump = launch(*run.module, run.module_name, run.request);
  for (const char* site : {"q_smem", "k_smem", "v_smem"}) {
    const Tensor* held = dump.find(site);
    REQUIRE(held != nullptr);
    REQUIRE(held->size() == rows * 64);
    int wrong = 0;
    for (std::int64_t i = 0; i < held->size(); ++i) {
      wrong += held->bits(i) != defined_f16(static_cast<int>(inputs.q.bits(i)));
    }
    INFO(site);
    CHECK(wrong == 0);
  }
}

TEST_CASE("e4m3: all codes have the values of the definition and of ml_dtypes") {
  const Tensor values = table("values");
  REQUIRE(values.size() == 256);
  for (int code = 0; code < 256; ++code) {
    const auto bits = static_cast<std::uint32_t>(code);
    INFO("code " << code);
    CHECK(same(values.at(code), defined_value(code)));
    CHECK(same(value_of(ElementType::e4m3, bits), defined_value(code)));
    CHECK(simt::e4m3_to_f16(static_cast<std::uint8_t>(code)) == defined_f16(code));
    CHECK(same(value_of(ElementType::f16, defined_f16(code)),
               std::isnan(defined_value(code)) ? std::nan("") : defined_value(code)));
  }
}

TEST_CASE("e4m3: rounding is ml_dtypes' and saturates") {
  const Tensor x = table("x"), rounded = table("rounded");
  REQUIRE(x.size() == rounded.size());
  REQUIRE(x.size() > 2000);
  for (std::int64_t i = 0; i < x.size(); ++i) {
    const std::uint32_t bits = round_to(ElementType::e4m3, x.at(i));
    CHECK(simt::f32_to_e4m3(static_cast<float>(x.at(i))) ==
          round_to(ElementType::e4m3, static_cast<float>(x.at(i))));
    if (bits == rounded.bits(i) || std::isnan(x.at(i))) continue;
    FAIL(x.at(i) << " became " << bits << ", ml_dtypes " << rounded.bits(i));
  }
  CHECK(round_to(ElementType::e4m3, std::nan("")) == 0x7f);
  CHECK(round_to(ElementType::e4m3, infinity) == 0x7e);
}

TEST_CASE("e4m3: a kernel loads all codes exactly, on sim") {
  load_all_codes("wmma_registers", 32, "sim");
  load_all_codes("wgmma", 128, "sim");
}
TEST_CASE("e4m3: a kernel loads all codes exactly, on cuda") {
  testing::on_backend("cuda", [] {
    load_all_codes("wmma_registers", 32, "cuda");
    load_all_codes("wgmma", 128, "cuda");
  });
}

/// Of Q in e4m3, loaded as `from` has it: what is found.
std::string found_of_loads(
    const std::function<double(const reference::Array& q, int row, int col)>& from,
    const std::string& input = "random") {
  RunOptions options;
  options.kernel = "wmma_registers";
  options.gate = "qk_only";
  options.backend = "sim";
  options.dtype = "e4m3";
  options.input = input;
  options.shape = "b=1,h=1,s=32,d=64";
  const PreparedRun run = prepare(options);
  Dump dump = launch(*run.module, run.module_name, run.request);
  const reference::Array q = testing::held(dump, SiteId::q_smem, 0, 0, 32);
  testing::change(dump, SiteId::q_smem, 0, 0, [&](int row, int col) { return from(q, row, col); });
  return testing::named(testing::diagnosis_of(dump));
}

TEST_CASE("e4m3: small numbers that are loaded as others lost no precision") {
  CHECK(found_of_loads([](const auto& q, int row, int col) {
          return std::abs(q(row, col)) < 2 ? q(row, col) + 0x1p-6 : q(row, col);
        }) == "load q_smem unexplained?");
}

TEST_CASE("e4m3: subnormal numbers that are widened as normal ones, or to zero") {
  const auto found_of = [](const std::function<double(double)>& widened) {
    return found_of_loads(
        [=](const auto& q, int row, int col) {
          const double x = q(row, col);
          return x != 0 && std::abs(x) < 0x1p-6 ? std::copysign(widened(std::abs(x)), x) : x;
        },
        "rising");
  };
  CHECK(found_of([](double x) { return 0x1p-7 + x / 2; }) == "load q_smem wrong_type");
  CHECK(found_of([](double) { return 0.0; }) == "load q_smem precision_lost");
}

TEST_CASE("e4m3: neighbours that change places in some rows") {
  const auto found_of = [](int row_bit, int col_bit) {
    return found_of_loads([=](const auto& q, int row, int col) {
      const bool is_moved = row / 4 % 2 == 1 && col % 16 / 2 == 4;
      return is_moved ? q(row ^ row_bit, col ^ col_bit) : q(row, col);
    });
  };
  CHECK(found_of(0, 1) == "load q_smem permuted");
  // What is right in its own place too was read from there.
  CHECK(found_of(0, 4) == "load q_smem wrong_source");
}

TEST_CASE("e4m3: sim's products are within the bounds, which know how large the sums become") {
  const reference::Arithmetic arithmetic{reference::Accumulation::tensor_core_e4m3("sm_90a"),
                                         ElementType::e4m3, ElementType::e4m3};
  constexpr int rows = 16, terms = 128, cols = 8;
  const Problem problem{1, 2, 1, rows, terms, terms, false};
  const Inputs inputs = generate_inputs(problem, ElementType::e4m3, "random", 3);
  // The keys' first 8 rows are the columns of the right operand.
  const reference::Array a = reference::load_rows(inputs.q, 0, rows, rows, terms);
  const reference::Array b = reference::load_rows(inputs.k, 0, cols, cols, terms);
  const auto want = reference::qk(a, b, reference::Visible(rows, cols), {}, arithmetic);
  std::uint8_t left[rows][32], right[cols][32];
  float sum[cols][rows] = {};
  for (int first = 0; first < terms; first += 32) {
    for (int k = 0; k < 32; ++k) {
      for (int row = 0; row < rows; ++row) {
        left[row][k] = static_cast<std::uint8_t>(inputs.q.bits(row * terms + first + k));
      }
      for (int col = 0; col < cols; ++col) {
        right[col][k] = static_cast<std::uint8_t>(inputs.k.bits(col * terms + first + k));
      }
    }
    simt::multiply_accumulate(simt::Fp8::e4m3, simt::Fp8::e4m3, left, right, cols, sum);
  }
  double worst = 0, largest_bound = 0, largest_sum = 0;
  for (int row = 0; row < rows; ++row) {
    for (int col = 0; col < cols; ++col) {
      const double error = std::abs(sum[col][row] - want.value(row, col));
      CHECK(error <= want.error(row, col));
      worst = std::max(worst, error);
      largest_bound = std::max(largest_bound, want.error(row, col));
      largest_sum = std::max(largest_sum, std::abs(want.value(row, col)));
    }
  }
  CHECK(worst > 0);  // they do round
  CHECK(largest_bound < 0.1 * largest_sum);
}

TEST_CASE("e4m3: bytes are taken from two registers") {
  CHECK(simt::permute_bytes(0x33221100, 0x77665544, 0x6420) == 0x66442200);
  CHECK(simt::permute_bytes(0x33221100, 0x77665544, 0x7531) == 0x77553311);
  CHECK(simt::permute_bytes(0x33221100, 0x77665544, 0x0123) == 0x00112233);
}

TEST_CASE("e4m3: each head is quantised with its own scale, largest / 448") {
  const Problem problem{2, 3, 3, 40, 40, 16, false};
  const Inputs values = generate_inputs(problem, ElementType::f16, "random", 5);
  const Quantised q = quantise(values.q);
  REQUIRE(q.scales.dims == std::vector<std::int64_t>{2, 3});
  CHECK(q.saturated == 0);
  for (std::int64_t head = 0; head < 6; ++head) {
    double largest = 0, largest_element = 0;
    for (std::int64_t i = head * 640; i < (head + 1) * 640; ++i) {
      const double value = values.q.at(i), scale = q.scales.at(head);
      largest = std::max(largest, std::abs(value));
      largest_element = std::max(largest_element, std::abs(q.elements.at(i)));
      // Half a spacing: of 4 bits, and of the subnormals.
      const double bound = scale * std::max(std::abs(value / scale) * 0x1p-4, 0x1p-10);
      CHECK(std::abs(q.elements.at(i) * scale - value) <= bound * (1 + 0x1p-20));
    }
    CHECK(largest_element == 448);
    CHECK(std::abs(q.scales.at(head) / (largest / 448) - 1) <= 0x1p-24);
    for (std::int64_t other = 0; other < head; ++other) {
      CHECK(q.scales.at(other) != q.scales.at(head));
    }
  }
}

TEST_CASE("e4m3: NaN, infinities, zeros and tiny numbers are quantised") {
  Tensor x(ElementType::f32, {1, 3, 1, 4});
  const double numbers[] = {std::nan(""), infinity, -infinity, 7, 0, -0.0, 0, 0, 1e-44, 0, 0, 0};
  for (std::int64_t i = 0; i < 12; ++i) x.set(i, numbers[i]);
  const Quantised q = quantise(x);
  CHECK(q.scales.at(0) == 7.0 / 448);
  CHECK(std::isnan(q.elements.at(0)));
  CHECK(q.elements.at(1) == 448);
  CHECK(q.elements.at(2) == -448);
  CHECK(q.elements.at(3) == 448);
  CHECK(q.saturated == 2);
  CHECK(q.scales.at(1) == 1);
  CHECK(q.elements.bits(5) == 0x80);
  CHECK(q.scales.at(2) == 0x1p-126);
}

}  // namespace
}  // namespace lanescope
