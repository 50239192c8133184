// What sm_90 adds to the SIMT machine: barriers in shared memory, copies of tensors, products of
// warpgroups; what they do, and what they refuse.

#include "kernels/device/hopper.h"

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "debug/simt/machine.h"
#include "tests/support/catch.h"

namespace device = lanescope::device;
namespace simt = lanescope::simt;
using Catch::Matchers::ContainsSubstring;
using device::bf16;
using device::f16;
using device::Major;
using device::Swizzle;

namespace {

struct alignas(1024) Memory {
  std::byte x[65536];
  device::Mbarrier barrier, other;
};

/// Runs `kernel(memory)` in a block and gives the machine's error text, empty where it ends well.
template <class Kernel>
std::string run(int threads, const Kernel& kernel, std::uint64_t schedule = 0) {
  try {
    simt::launch(
        {1, threads, sizeof(Memory), 1, schedule},
        [](const void* k) {
          (*static_cast<const Kernel*>(k))(*reinterpret_cast<Memory*>(simt::shared_memory()));
        },
        &kernel);
  } catch (const simt::Fault& fault) {
    return fault.what();
  }
  return {};
}

void init(device::Mbarrier& barrier, int count) {
  if (device::thread() == 0) {
    device::mbarrier_init(barrier, count);
    device::fence_mbarrier_init();
  }
  device::block_sync();
}

/// Numbers that products and sums of keep exactly, different for neighbours.
float number(int i) { return static_cast<float>(i * 7 % 31 - 15); }

}  // namespace

TEST_CASE("hopper: an mbarrier's phases and parities", "[quick]") {
  std::vector<int> order;
  const auto kernel = [&](Memory& smem) {
    init(smem.barrier, 2);
    if (device::thread() > 1) return;
    device::mbarrier_wait(smem.barrier, 1);  // before phase 0 has ended, 1 passes
    for (int phase = 0; phase < 3; ++phase) {
      order.push_back(phase);
      device::mbarrier_arrive(smem.barrier);
      device::mbarrier_wait(smem.barrier, phase % 2);
    }
  };
  CHECK(run(32, kernel) == "");
  CHECK(order == std::vector{0, 0, 1, 1, 2, 2});
}

TEST_CASE("hopper: lanes that wait for an mbarrier in vain are told who has come") {
  const auto kernel = [](Memory& smem) {
    init(smem.barrier, 3);
    if (device::thread() < 2) device::mbarrier_arrive(smem.barrier);
    device::mbarrier_wait(smem.barrier, 0);
  };
  const std::string error = run(64, kernel);
  INFO(error);
  CHECK_THAT(error, ContainsSubstring("deadlock"));
  CHECK_THAT(error, ContainsSubstring("warp 1 lanes 0-31 wait in mbarrier_wait at"));
  CHECK_THAT(error, ContainsSubstring("of its phase 0 (parity 0) 2 of 3 arrivals have come: "
                                      "threads 0-1 at"));
}

TEST_CASE("hopper: who came in the phase before, and not in this one, is named") {
  const auto kernel = [](Memory& smem) {
    init(smem.barrier, 2);
    if (device::thread() < 2) device::mbarrier_arrive(smem.barrier);
    device::mbarrier_wait(smem.barrier, 0);
    if (device::thread() == 0) device::mbarrier_arrive(smem.barrier);
    device::mbarrier_wait(smem.barrier, 1);
  };
  CHECK_THAT(run(32, kernel), ContainsSubstring("in the phase before also thread 1 at"));
}

TEST_CASE("hopper: an mbarrier that is none, is none yet, or gets one arrival too many") {
  CHECK_THAT(run(32, [](Memory& smem) { device::mbarrier_arrive(smem.barrier); }),
             ContainsSubstring("is no mbarrier: mbarrier_init has not run"));
  const auto overwritten = [](Memory& smem) {
    init(smem.barrier, 1);
    if (device::thread() == 3) std::memset(&smem.barrier, 0, 4);
    device::block_sync();
    device::mbarrier_wait(smem.barrier, 1);
  };
  CHECK_THAT(run(32, overwritten), ContainsSubstring("was overwritten"));
  const auto many = [](Memory& smem) {
    init(smem.barrier, 1);
    if (device::thread() == 0) device::mbarrier_arrive_expect_tx(smem.barrier, 16);
    device::block_sync();
    if (device::thread() == 1) device::mbarrier_arrive(smem.barrier);
  };
  CHECK_THAT(run(32, many), ContainsSubstring("one arrival too many"));
}

TEST_CASE("hopper: named barriers count threads, arrivals among them") {
  std::vector<int> order;
  const auto kernel = [&](Memory&) {
    if (device::warp() == 0) {
      device::barrier_sync(3, 96);
      if (device::lane() == 0) order.push_back(2);
    } else {
      if (device::lane() == 31) order.push_back(1);
      device::barrier_arrive(3, 96);
    }
  };
  CHECK(run(96, kernel) == "");
  CHECK(order == std::vector{1, 1, 2});
  CHECK_THAT(run(64, [](Memory&) { device::barrier_sync(1, 128); }),
             ContainsSubstring("barrier 1: 64 of 128 threads have come: 0-63"));
  CHECK_THAT(run(64, [](Memory&) { device::barrier_sync(0, 64); }), ContainsSubstring("1 to 15"));
  CHECK_THAT(run(64, [](Memory&) { device::barrier_sync(1, 40); }),
             ContainsSubstring("no multiple of 32"));
}

TEST_CASE("hopper: registers move from warps to others") {
  const auto kernel = [](Memory&) {
    if (device::thread() < 256) {
      device::increase_registers<240>();
    } else {
      device::decrease_registers<24>();
    }
  };
  CHECK(run(384, kernel) == "");
  CHECK_THAT(run(384, [](Memory&) { device::increase_registers<240>(); }),
             ContainsSubstring("registers: a lane wants 72 more"));
  CHECK_THAT(run(128, [](Memory&) { device::increase_registers<100>(); }),
             ContainsSubstring("no multiple of 8"));
  CHECK_THAT(run(384, [](Memory&) { device::decrease_registers<200>(); }),
             ContainsSubstring("has 168 registers, and asks for 200"));
}

TEST_CASE("hopper: stmatrix is ldmatrix backwards, and one lane is elected", "[quick]") {
  int elected = 0;
  bool same = true;
  const auto kernel = [&](Memory& smem) {
    std::uint32_t r[4], back[4];
    for (int i = 0; i < 4; ++i) r[i] = static_cast<std::uint32_t>(device::lane() * 64 + i);
    std::byte* row = smem.x + device::lane() * 16;
    device::stmatrix_x4(row, r);
    device::ldmatrix_x4(back, row);
    for (int i = 0; i < 4; ++i) same = same && back[i] == r[i];
    device::stmatrix_x4_trans(row, r);
    device::ldmatrix_x4_trans(back, row);
    for (int i = 0; i < 4; ++i) same = same && back[i] == r[i];
    if (device::elect_one()) ++elected;
  };
  CHECK(run(32, kernel) == "");
  CHECK(same);
  CHECK(elected == 1);
}

TEST_CASE("hopper: a box of a tensor, zeros where it leaves it", "[quick]") {
  constexpr int planes = 3, rows = 5, cols = 24;
  alignas(16) f16 base[planes * rows * cols];
  for (int i = 0; i < planes * rows * cols; ++i) base[i] = {static_cast<std::uint16_t>(i + 1)};
  device::TensorMap map;
  REQUIRE(device::make_tensor_map<f16>(map, base, {cols, rows, planes}, {cols * 2, cols * rows * 2},
                                       {16, 4, 2}, Swizzle::none) == nullptr);
  for (const auto& at : {std::array{0, 0, 0}, {16, 3, 2}, {-8, -1, 1}}) {
    std::vector<std::uint16_t> got(16 * 4 * 2);
    const auto kernel = [&](Memory& smem) {
      init(smem.barrier, 1);
      if (device::thread() == 0) {
        device::mbarrier_arrive_expect_tx(smem.barrier, 16 * 4 * 2 * 2);
        device::tensor_load(smem.x, map, {at[0], at[1], at[2]}, smem.barrier);
      }
      device::mbarrier_wait(smem.barrier, 0);
      if (device::thread() == 0) std::memcpy(got.data(), smem.x, got.size() * 2);
    };
    CHECK(run(32, kernel) == "");
    for (int i = 0; i < static_cast<int>(got.size()); ++i) {
      const int col = at[0] + i % 16, row = at[1] + i / 16 % 4, plane = at[2] + i / 64;
      const bool inside = col >= 0 && col < cols && row >= 0 && row < rows && plane < planes;
      REQUIRE(got[static_cast<std::size_t>(i)] ==
              (inside ? base[(plane * rows + row) * cols + col].bits : 0));
    }
  }
}

TEST_CASE("hopper: a tensor store writes what lies in the tensor, and no more") {
  alignas(16) std::uint16_t tensor[12 * 16] = {};
  device::TensorMap map;
  REQUIRE(device::make_tensor_map<f16>(map, tensor, {16, 10}, {32}, {16, 8}, Swizzle::b32) ==
          nullptr);
  const auto kernel = [&](Memory& smem) {
    auto* tile = reinterpret_cast<std::uint16_t*>(smem.x);
    for (int i = device::thread(); i < 128; i += 32) {
      tile[simt::swizzled(Swizzle::b32, static_cast<std::size_t>(i) * 2) / 2] =
          static_cast<std::uint16_t>(i + 1);
    }
    device::fence_proxy_async();
    device::warp_sync();
    if (device::thread() != 0) return;
    device::tensor_store(map, {0, 4}, smem.x);
    device::commit_stores();
    device::wait_stores<0>();
  };
  CHECK(run(32, kernel) == "");
  for (int i = 0; i < 12 * 16; ++i) {
    const int row = i / 16;
    CHECK(tensor[i] == (row >= 4 && row < 10 ? i - 64 + 1 : 0));
  }
}

TEST_CASE("hopper: maps and copies that a GPU would not take") {
  alignas(16) f16 tensor[64] = {};
  device::TensorMap map;
  const auto fault = [&](const void* base, std::int64_t stride, int box) {
    return std::string(
        device::make_tensor_map<f16>(map, base, {8, 8}, {stride}, {box, 8}, Swizzle::none));
  };
  CHECK_THAT(fault(tensor + 1, 16, 8), ContainsSubstring("16 bytes"));
  CHECK_THAT(fault(tensor, 8, 8), ContainsSubstring("strides"));
  CHECK_THAT(fault(tensor, 16, 4), ContainsSubstring("row of a box"));
  REQUIRE(device::make_tensor_map<f16>(map, tensor, {8, 8}, {16}, {8, 8}, Swizzle::none) ==
          nullptr);
  const auto load_at = [&](int offset, int column = 0) {
    return run(32, [&](Memory& smem) {
      init(smem.barrier, 1);
      if (device::thread() != 0) return;
      device::mbarrier_arrive_expect_tx(smem.barrier, 128);
      device::tensor_load(smem.x + offset, map, {column, 0}, smem.barrier);
    });
  };
  CHECK_THAT(load_at(8), ContainsSubstring("misaligned"));
  // As measured on an H200: a box begins at a multiple of 16 bytes of a row, of a store in it.
  const auto store_at = [&](int column) {
    return run(32, [&](Memory& smem) {
      if (device::thread() != 0) return;
      device::tensor_store(map, {column, 0}, smem.x);
      device::commit_stores();
      device::wait_stores<0>();
    });
  };
  for (const int column : {1, 4, -1, 9}) {
    CHECK_THAT(load_at(0, column), ContainsSubstring("misaligned address: the box begins " +
                                                     std::to_string(2 * column) + " bytes into"));
    CHECK_THAT(store_at(column), ContainsSubstring("misaligned address"));
  }
  for (const int column : {0, 8}) CHECK((load_at(0, column).empty() && store_at(column).empty()));
  CHECK(load_at(0, -8).empty());
  CHECK_THAT(store_at(-8), ContainsSubstring("begins before the rows"));
  CHECK_THAT(load_at(sizeof(Memory) - 64), ContainsSubstring("leaves the block's shared memory"));
  CHECK_THAT(run(32,
                 [&](Memory& smem) {
                   init(smem.barrier, 1);
                   if (device::thread() == 0) {
                     device::tensor_load(smem.x, map, {0, 0, 0}, smem.barrier);
                   }
                 }),
             ContainsSubstring("3 coordinates for a tensor map of rank 2"));
}

namespace {

/// A matrix of `rows` (of M or N) × 16 (of K) in shared memory as the descriptor has it, by the
/// canonical layouts of CUTLASS (cute/arch/mma_sm90_desc.hpp), in elements of 16 bits.
int canonical(Swizzle swizzle, bool transposed, int row, int k, int leading, int stride) {
  const int w = simt::bytes_of(swizzle) / 2;  // elements of a row of the pattern
  int linear;
  if (transposed) {
    linear = swizzle == Swizzle::none ? row % 8 + row / 8 * stride + k % 8 * 8 + k / 8 * leading
                                      : row % w + row / w * leading + k % 8 * w + k / 8 * stride;
  } else {
    linear = swizzle == Swizzle::none ? k % 8 + k / 8 * leading + row % 8 * 8 + row / 8 * stride
                                      : k + row % 8 * w + row / 8 * stride;
  }
  const int bits = swizzle == Swizzle::b128  ? 3
                   : swizzle == Swizzle::b64 ? 2
                   : swizzle == Swizzle::b32 ? 1
                                             : 0;
  return linear ^ (linear >> 6 & ((1 << bits) - 1)) << 3;
}

/// d[row][col] = Σ a·b of one product of n columns whose operands lie in these layouts.
template <class T, Major A, Major B, int N>
void check_product(Swizzle swizzle, bool a_in_registers) {
  constexpr bool a_transposed = A == Major::col, b_transposed = B == Major::col;
  const int w = simt::bytes_of(swizzle) / 2;
  // Along K: 8 rows by the pattern's width; the other way: the width by 8.
  const auto leading = [&](int rows, bool transposed) {
    return swizzle == Swizzle::none ? (transposed ? rows * 8 : 64) : transposed ? 16 * w : 8;
  };
  const auto stride = [&](bool transposed) {
    return swizzle == Swizzle::none ? (transposed ? 64 : 128) : 8 * w;
  };
  std::vector<float> got(64 * N);
  const auto kernel = [&](Memory& smem) {
    auto* a = reinterpret_cast<T*>(smem.x);
    auto* b = reinterpret_cast<T*>(smem.x + 16384);
    for (int i = device::thread(); i < 64 * 16; i += 128) {
      const int at = canonical(swizzle, a_transposed, i / 16, i % 16, leading(64, a_transposed),
                               stride(a_transposed));
      a[at] = device::narrow<T>(number(i));
    }
    for (int i = device::thread(); i < N * 16; i += 128) {
      const int at = canonical(swizzle, b_transposed, i / 16, i % 16, leading(N, b_transposed),
                               stride(b_transposed));
      b[at] = device::narrow<T>(number(3 * i + 1));
    }
    device::fence_proxy_async();
    device::block_sync();
    const auto descriptor = [&](const T* tile, int rows, bool transposed) {
      return device::matrix_descriptor(device::shared_address(tile), leading(rows, transposed) * 2,
                                       stride(transposed) * 2, swizzle);
    };
    float d[N / 2];
    for (float& x : d) x = 1;
    device::wgmma_fence();
    if (a_in_registers) {
      std::uint32_t fragment[4];
      for (int i = 0; i < 8; ++i) {
        const device::Coordinate c = device::a_m16k16(device::lane(), i);
        const int at = (device::warp() * 16 + c.row) * 16 + c.col;
        const std::uint32_t bits = device::narrow<T>(number(at)).bits;
        fragment[i / 2] = i % 2 ? fragment[i / 2] | bits << 16 : bits;
      }
      device::wgmma<T, B>(d, fragment, descriptor(b, N, b_transposed), true);
      device::wgmma_commit();
      device::wgmma_wait<0>();
    } else {
      device::wgmma<T, A, B>(d, descriptor(a, 64, a_transposed), descriptor(b, N, b_transposed),
                             true);
      device::wgmma_commit();
      device::wgmma_wait<0>();
    }
    for (int i = 0; i < N / 2; ++i) {
      const device::Coordinate c = device::c_m16n8(device::lane(), i % 4);
      got[static_cast<std::size_t>((device::warp() * 16 + c.row) * N + i / 4 * 8 + c.col)] = d[i];
    }
  };
  REQUIRE(run(128, kernel) == "");
  for (int row = 0; row < 64; ++row) {
    for (int col = 0; col < N; ++col) {
      float want = 1;
      for (int k = 0; k < 16; ++k) want += number(row * 16 + k) * number(3 * (col * 16 + k) + 1);
      REQUIRE(got[static_cast<std::size_t>(row * N + col)] == want);
    }
  }
}

template <class T, int N>
void check_products() {
  for (const Swizzle swizzle : {Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128}) {
    INFO("N " << N << ", swizzle " << static_cast<int>(swizzle));
    check_product<T, Major::row, Major::row, N>(swizzle, false);
    check_product<T, Major::row, Major::col, N>(swizzle, false);
    check_product<T, Major::col, Major::row, N>(swizzle, false);
    check_product<T, Major::col, Major::col, N>(swizzle, false);
    check_product<T, Major::row, Major::row, N>(swizzle, true);
    check_product<T, Major::row, Major::col, N>(swizzle, true);
  }
}

}  // namespace

TEST_CASE("hopper: products of warpgroups, in every layout of their operands") {
  check_products<f16, 64>();
  check_products<bf16, 128>();
  check_products<f16, 176>();
  check_products<bf16, 256>();
}

TEST_CASE("hopper: accumulators hold nothing until the wait that covers the product", "[quick]") {
  float early = 0, late = 0;
  const auto kernel = [&](Memory& smem) {
    std::memset(smem.x + device::thread() * 128, 0, 128);
    device::fence_proxy_async();
    device::block_sync();
    float d[8] = {};
    const auto zeros =
        device::matrix_descriptor(device::shared_address(smem.x), 128, 256, Swizzle::none);
    device::wgmma_fence();
    device::wgmma<f16, Major::row, Major::row>(d, zeros, zeros, false);
    device::wgmma_commit();
    device::wgmma_wait<1>();
    if (device::thread() == 0) early = d[0];
    device::wgmma_wait<0>();
    if (device::thread() == 0) late = d[0];
  };
  CHECK(run(128, kernel) == "");
  CHECK(early < -1e38f);
  CHECK(late == 0.0f);
}

TEST_CASE("hopper: a warpgroup's warps give the same descriptors") {
  const auto kernel = [](Memory& smem) {
    float d[8];
    const auto here = device::matrix_descriptor(
        device::shared_address(smem.x) + (device::warp() == 2 ? 512 : 0), 128, 256, Swizzle::none);
    device::wgmma_fence();
    device::wgmma<f16, Major::row, Major::row>(d, here, here, false);
    device::wgmma_commit();
    device::wgmma_wait<0>();
  };
  CHECK_THAT(run(128, kernel), ContainsSubstring("different shapes or descriptors"));
  const auto outside = [](Memory& smem) {
    float d[8];
    const auto end = device::matrix_descriptor(
        device::shared_address(smem.x) + sizeof(Memory) / 16 * 16 - 16, 128, 256, Swizzle::none);
    device::wgmma_fence();
    device::wgmma<f16, Major::row, Major::row>(d, end, end, false);
  };
  CHECK_THAT(run(128, outside), ContainsSubstring("leaves the block's shared memory"));
}
