// The SIMT machine: lanes that meet, and what it says of lanes that do not.

#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include "debug/simt/async_shadow.h"
#include "debug/simt/checker.h"
#include "debug/simt/machine.h"
#include "kernels/device/device.h"
#include "reference/site.h"
#include "tests/support/catch.h"

namespace device = lanescope::device;
namespace simt = lanescope::simt;

namespace {

/// Runs `kernel` in one block and gives the machine's error text, empty where it ends well.
template <class Kernel>
std::string run_block(int threads, const Kernel& kernel, std::size_t shared_bytes = 4096) {
  try {
    simt::launch(
        {1, threads, shared_bytes, 1}, [](const void* k) { (*static_cast<const Kernel*>(k))(); },
        &kernel);
  } catch (const simt::Fault& fault) {
    return fault.what();
  }
  return {};
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("simt: lanes know who they are and meet at a barrier") {
  std::vector<int> seen(128, -1), order;
  const auto kernel = [&] {
    auto* smem = reinterpret_cast<int*>(simt::shared_memory());
    smem[device::thread()] = device::warp() * 100 + device::lane();
    device::block_sync();
    seen[static_cast<std::size_t>(device::thread())] = smem[127 - device::thread()];
  };
  REQUIRE(run_block(128, kernel) == "");
  for (int i = 0; i < 128; ++i) {
    CHECK(seen[static_cast<std::size_t>(i)] == (127 - i) / 32 * 100 + (127 - i) % 32);
  }
}

TEST_CASE("simt: shuffles follow PTX shfl.sync", "[quick]") {
  std::vector<int> butterfly(32), index(32), up(32), down(32), part(32, -1);
  std::vector<unsigned> votes(32);
  const auto kernel = [&] {
    const int lane = device::lane();
    const auto at = static_cast<std::size_t>(lane);
    butterfly[at] = device::shfl_xor(lane, 5);
    index[at] = device::shfl(lane, 7);
    up[at] = device::shfl_up(lane, 3);
    down[at] = device::shfl_down(lane, 3);
    votes[at] = device::ballot(lane % 3 == 0);
    if (lane < 4) part[at] = device::shfl_xor(lane, 1, 0xf);
  };
  REQUIRE(run_block(32, kernel) == "");
  for (int lane = 0; lane < 32; ++lane) {
    const auto at = static_cast<std::size_t>(lane);
    CHECK(butterfly[at] == (lane ^ 5));
    CHECK(index[at] == 7);
    CHECK(up[at] == (lane < 3 ? lane : lane - 3));
    CHECK(down[at] == (lane > 28 ? lane : lane + 3));
    CHECK(votes[at] == 0x49249249u);
    CHECK(part[at] == (lane < 4 ? (lane ^ 1) : -1));
  }
}

TEST_CASE("simt: every block runs once, whatever the number of workers") {
  struct Counts {
    std::vector<std::atomic<int>> runs = std::vector<std::atomic<int>>(100);
  } counts;
  simt::launch(
      {100, 64, 0, 4},
      [](const void* c) {
        auto& runs = const_cast<Counts*>(static_cast<const Counts*>(c))->runs;
        device::block_sync();
        if (device::thread() == 63) ++runs[static_cast<std::size_t>(device::block())];
      },
      &counts);
  for (const auto& runs : counts.runs) CHECK(runs == 1);
}

TEST_CASE("simt: tickets go to the blocks by turns, once each") {
  constexpr int items = 10, blocks = 4;
  std::vector<int> block_of(items, -1);
  simt::launch(
      {blocks, 32, 0, 3},
      [](const void* of) {
        auto& taken = const_cast<std::vector<int>&>(*static_cast<const std::vector<int>*>(of));
        const int block = static_cast<int>(device::block());
        if (device::thread() > 0) return;
        for (int item = block; item < items; item = blocks + device::next_ticket(items)) {
          taken[static_cast<std::size_t>(item)] = block;
        }
      },
      &block_of);
  CHECK(block_of == std::vector{0, 1, 2, 3, 0, 1, 2, 3, 0, 1});
}

TEST_CASE("simt: lanes at different barriers are an error that names both lines") {
  const auto kernel = [] {
    if (device::lane() < 8) {
      device::block_sync();
    } else {
      device::block_sync();
    }
  };
  const std::string error = run_block(32, kernel);
  INFO(error);
  CHECK(contains(error, "divergent barrier"));
  CHECK(contains(error, "lanes 0-7 wait in block_sync at"));
  CHECK(contains(error, "lanes 8-31 wait in block_sync at"));
  CHECK(contains(error, "simt_test.cc:"));
}

TEST_CASE("simt: lanes that have exited do not hold up a barrier, but a shuffle that names them") {
  const auto barrier = [] {
    if (device::lane() == 3) return;
    device::block_sync();
  };
  CHECK(run_block(32, barrier) == "");

  const auto before = [] {
    if (device::lane() == 3) return;
    device::shfl_xor(1, 1);
  };
  const std::string error = run_block(32, before);
  INFO(error);
  CHECK(contains(error, "exited lane"));
  CHECK(contains(error, "lane 3"));

  const auto after = [] {
    if (device::lane() == 31) return;  // when the others wait already
    device::shfl_xor(1, 1);
  };
  const std::string late = run_block(32, after);
  INFO(late);
  CHECK(contains(late, "lane 31 of warp 0 has exited"));
  CHECK(contains(late, "lanes 0-30 wait for it"));
}

TEST_CASE("simt: mismatched masks, foreign masks and foreign sources are errors") {
  const auto mismatched = [] { device::shfl_xor(1, 1, device::lane() < 16 ? ~0u : ~1u); };
  CHECK(contains(run_block(32, mismatched), "mismatched lanes"));

  const auto foreign = [] { device::shfl_xor(1, 1, 0xffff0000u); };
  CHECK(contains(run_block(32, foreign), "not in its own mask 0xffff0000"));

  const auto source = [] {
    if (device::lane() < 16) device::shfl(1, 20, 0xffffu);
  };
  CHECK(contains(run_block(32, source), "reads lane 20, which is not in the mask 0x0000ffff"));
}

TEST_CASE("simt: a barrier against a shuffle is a deadlock, not a hang") {
  const auto kernel = [] {
    if (device::lane() == 0) {
      device::block_sync();
    } else {
      device::warp_sync();
    }
  };
  const std::string error = run_block(64, kernel);
  INFO(error);
  CHECK(contains(error, "deadlock"));
  CHECK(contains(error, "warp 0 lanes 0 wait in block_sync"));
  CHECK(contains(error, "warp 1 lanes 1-31 wait in warp_sync"));
}

TEST_CASE("simt: the lowest faulty block is the one reported") {
  const auto kernel = [](const void*) {
    if (device::block() >= 40) device::shfl_xor(1, 1, 1u << ((device::lane() + 1) % 32));
  };
  for (int repeat = 0; repeat < 5; ++repeat) {
    try {
      simt::launch({100, 32, 0, 4}, kernel, nullptr);
      FAIL("no fault");
    } catch (const simt::Fault& fault) {
      CHECK(fault.block() == 40);
    }
  }
}

TEST_CASE("simt: async copies arrive in the wait that covers them, not before") {
  alignas(16) const float source[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  float early = 0, first = 0, second = 0, zero = -1;
  const auto kernel = [&] {
    auto* smem = reinterpret_cast<float*>(simt::shared_memory());
    if (device::lane() != 0) return;
    smem[0] = -1;
    device::copy_async_16(smem, source, true);
    device::commit_copies();
    device::copy_async_16(smem + 4, source + 4, true);
    device::copy_async_16(smem + 8, source + 4, false);
    device::commit_copies();
    early = smem[0];
    device::wait_copies<1>();
    first = smem[0];
    smem[4] = -1;
    device::wait_copies<0>();
    second = smem[4];
    zero = smem[8];
  };
  REQUIRE(run_block(32, kernel) == "");
  CHECK(early == -1);
  CHECK(first == 1);
  CHECK(second == 5);
  CHECK(zero == 0);

  const auto misaligned = [&] {
    auto* smem = reinterpret_cast<float*>(simt::shared_memory());
    device::copy_async_16(smem + 1, source, true);
  };
  CHECK(contains(run_block(32, misaligned), "misaligned address"));
}

TEST_CASE("simt: shared memory starts poisoned") {
  std::uint32_t word = 0;
  const auto kernel = [&] { std::memcpy(&word, simt::shared_memory() + 4000, sizeof word); };
  REQUIRE(run_block(32, kernel) == "");
  CHECK(word == lanescope::poison32);
}

TEST_CASE("simt: ldmatrix hands out rows and, transposed, columns") {
  std::uint32_t plain[32][4], transposed[32][4];
  const auto kernel = [&] {
    auto* smem = reinterpret_cast<std::uint16_t*>(simt::shared_memory());
    const int lane = device::lane();
    for (int i = 0; i < 8; ++i) smem[lane * 8 + i] = static_cast<std::uint16_t>(lane * 8 + i);
    device::warp_sync();
    device::ldmatrix_x4(plain[lane], smem + lane * 8);
    device::ldmatrix_x4_trans(transposed[lane], smem + lane * 8);
  };
  REQUIRE(run_block(32, kernel) == "");
  for (int lane = 0; lane < 32; ++lane) {
    for (int matrix = 0; matrix < 4; ++matrix) {
      const auto at = [&](int row, int col) {
        return static_cast<std::uint32_t>((matrix * 8 + row) * 8 + col);
      };
      const int row = lane / 4, col = lane % 4 * 2;
      CHECK(plain[lane][matrix] == (at(row, col) | at(row, col + 1) << 16));
      CHECK(transposed[lane][matrix] == (at(col, row) | at(col + 1, row) << 16));
    }
  }
}

TEST_CASE("simt: what a memory checker tells does not depend on when blocks ran") {
  const auto found = [](std::int64_t block, std::int64_t earlier) {
    simt::Finding finding;
    finding.kind = simt::Kind::race;
    finding.access = {true, 7, block, 0};
    finding.earlier = {true, 8, earlier, 0};
    finding.region = 0;
    finding.count = 1;
    return finding;
  };
  // Of the same race, the least instance stands for all.
  std::vector<simt::Finding> findings;
  for (const std::int64_t block : {5, 1, 3}) simt::merge(findings, found(block, block - 1));
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].access.block == 1);
  CHECK(findings[0].count == 3);
  // Where a block stopped the run, those behind it may or may not have run.
  simt::Checker checker;
  checker.begin(std::size_t{0}, true);
  for (const std::int64_t block : {0, 2}) {
    simt::Finding own = found(block, block);
    own.access.place = static_cast<std::uint32_t>(10 + block);
    checker.take(block, {own});
  }
  checker.end(1, false);
  REQUIRE(checker.findings().size() == 1);
  CHECK(checker.findings()[0].access.block == 0);
}

TEST_CASE("simt: of a warpgroup's reads the last one is waited for") {
  simt::AsyncShadow shadow(64);
  constexpr int agent = 3;
  // Its warps may be groups apart.
  for (const std::uint32_t clock : {2, 1}) {
    shadow.read(16, {agent, clock, clock, 0}, simt::epoch_of(0, 5));
  }
  const std::uint32_t seen[] = {4, 0, 0, 1, 0};
  CHECK(shadow.pending_read(16, simt::Past(seen)).touch.place == 2);
  CHECK(shadow.pending_read(0, simt::Past(seen)).touch.epoch == 0);
  // Who knows what the lane did behind it has waited for the lane, not for the read.
  CHECK_FALSE(shadow.pending_read(16, simt::Past(seen)).released);
  const std::uint32_t released[] = {5, 0, 0, 1, 0};
  CHECK(shadow.pending_read(16, simt::Past(released)).released);
  const std::uint32_t all[] = {0, 0, 0, 2, 0};
  CHECK(shadow.pending_read(16, simt::Past(all)).touch.epoch == 0);
}
