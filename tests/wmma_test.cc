// The warp matrix functions of the SIMT machine: what they load, multiply and store, and what they
// refuse.

#include <cstring>
#include <string>
#include <vector>

#include "debug/simt/machine.h"
#include "debug/simt/numerics.h"
#include "kernels/device/device.h"
#include "kernels/device/tiles.h"
#include "tests/support/catch.h"

namespace device = lanescope::device;
namespace simt = lanescope::simt;
using Catch::Matchers::ContainsSubstring;
using device::Major;

namespace {

struct Memory {
  alignas(32) device::Tile<device::f16, 16, 16, 8> a, b;
  alignas(32) device::TransposedTile<device::f16, 16, 16, 8> b_transposed;
  alignas(32) device::Tile<float, 16, 16, 4> c;
};

/// Runs `kernel(memory)` on one warp and gives the machine's error text, empty where it ends well.
template <class Kernel>
std::string run_warp(const Kernel& kernel) {
  try {
    simt::launch(
        {1, 32, sizeof(Memory), 1},
        [](const void* k) {
          (*static_cast<const Kernel*>(k))(*reinterpret_cast<Memory*>(simt::shared_memory()));
        },
        &kernel);
  } catch (const simt::Fault& fault) {
    return fault.what();
  }
  return {};
}

/// Fills a, b and c with numbers of many exponents, the same ones every time.
void fill(Memory& smem) {
  const auto number = [](int seed) {
    const int mantissa = seed * 7919 % 2003 - 1001;
    return static_cast<float>(mantissa) * (seed % 3 ? 0x1p-10f : 0x1p-6f);
  };
  for (int i = device::lane(); i < 256; i += 32) {
    const int row = i / 16, col = i % 16;
    smem.a.at(row, col) = device::narrow<device::f16>(number(i + 1));
    smem.b.at(row, col) = device::narrow<device::f16>(number(i + 1000));
    smem.b_transposed.at(row, col) = smem.b.at(row, col);
    smem.c.at(row, col) = number(i + 2000);
  }
  device::warp_sync();
}

template <Major M, class Right>
std::vector<float> product(Right Memory::*right) {
  std::vector<float> result(256);
  const auto kernel = [&](Memory& smem) {
    fill(smem);
    device::WmmaLeft<device::f16, Major::row> a;
    device::WmmaRight<device::f16, M> b;
    float c[8];
    device::load_matrix_sync(a, &smem.a.at(0, 0), smem.a.stride);
    device::load_matrix_sync(b, &(smem.*right).at(0, 0), (smem.*right).stride);
    device::load_matrix_sync(c, &smem.c.at(0, 0), smem.c.stride);
    device::mma_sync(c, a, b);
    device::store_matrix_sync(&smem.c.at(0, 0), c, smem.c.stride);
    device::warp_sync();
    for (int i = device::lane(); i < 256; i += 32) {
      result[static_cast<std::size_t>(i)] = smem.c.at(i / 16, i % 16);
    }
  };
  REQUIRE(run_warp(kernel) == "");
  return result;
}

}  // namespace

TEST_CASE("wmma: a product is two products 16x8x16 side by side, whatever the order in memory") {
  std::uint16_t a[16][16], b[2][16][8];
  float c[2][16][8];
  const auto gather = [&](Memory& smem) {
    fill(smem);
    if (device::lane() != 0) return;
    for (int i = 0; i < 256; ++i) {
      const int row = i / 16, col = i % 16;
      a[row][col] = smem.a.at(row, col).bits;
      b[col / 8][row][col % 8] = smem.b.at(row, col).bits;
      c[col / 8][row][col % 8] = smem.c.at(row, col);
    }
  };
  REQUIRE(run_warp(gather) == "");
  for (int half = 0; half < 2; ++half) {
    simt::multiply_accumulate(lanescope::ElementType::f16, simt::hopper_rule, a, b[half], c[half]);
  }
  const std::vector<float> by_rows = product<Major::row>(&Memory::b);
  const std::vector<float> by_columns = product<Major::col>(&Memory::b_transposed);
  CHECK(by_rows == by_columns);
  for (int i = 0; i < 256; ++i) {
    CHECK(by_rows[static_cast<std::size_t>(i)] == c[i % 16 / 8][i / 16][i % 8]);
  }
}

TEST_CASE("wmma: a column-major load of a row-major matrix is its transpose") {
  const std::vector<float> right = product<Major::row>(&Memory::b);
  const std::vector<float> wrong = product<Major::col>(&Memory::b);
  CHECK(right != wrong);
}

TEST_CASE("wmma: misaligned addresses and strides, and lanes that disagree, are errors") {
  const auto error_of = [](auto address, auto stride) {
    return run_warp([=](Memory& smem) {
      float c[8];
      device::load_matrix_sync(c, &smem.c.at(0, 0) + address(), stride());
    });
  };
  const auto zero = [] { return 0; };
  const auto twenty = [] { return 20; };
  CHECK(error_of(zero, twenty) == "");
  CHECK_THAT(error_of([] { return 4; }, twenty), ContainsSubstring("misaligned address"));
  CHECK_THAT(error_of(zero, [] { return 18; }), ContainsSubstring("misaligned stride"));
  const auto lane_3_apart = [] { return device::lane() == 3 ? 8 : 0; };
  CHECK_THAT(error_of(lane_3_apart, twenty), ContainsSubstring("lane 3 gives another address"));
  CHECK_THAT(error_of(zero, [] { return device::lane() == 9 ? 16 : 20; }),
             ContainsSubstring("lane 9 gives another address or stride than lane 0"));
}
