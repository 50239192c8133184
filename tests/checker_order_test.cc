// The memory checker on what lanes and blocks do to each other: each kind of finding from a kernel
// that has nothing else wrong, and kernels that are right and look as if they were not.

#include <atomic>

#include "tests/support/checked_block.h"

namespace device = lanescope::device;
namespace simt = lanescope::simt;
using namespace lanescope::testing;

TEST_CASE("checker: a barrier between write and read is missing") {
  int write_line = 0, read_line = 0;
  const auto kernel = [&](bool barrier) {
    shared()[device::thread()] = 1, write_line = __LINE__;
    if (barrier) device::block_sync();
    use(shared()[threads - 1 - device::thread()]), read_line = __LINE__;
  };
  CHECK(kinds_of([&] { kernel(true); }).empty());
  for (const std::uint64_t schedule : {0, 1, 2}) {
    const auto result = check([&] { kernel(false); }, {}, 1, schedule);
    REQUIRE_FALSE(result->findings().empty());
    std::int64_t count = 0;
    for (const simt::Finding& f : result->findings()) {
      CHECK((f.kind == Kind::race || f.kind == Kind::race_with_read));
      CHECK(f.region == simt::shared_region);
      CHECK(f.access.thread == threads - 1 - f.earlier.thread);
      CHECK(result->line(f.access) == (f.access.write ? write_line : read_line));
      CHECK(result->line(f.earlier) == (f.earlier.write ? write_line : read_line));
      count += f.count;
    }
    CHECK(count == threads);
  }
}

TEST_CASE("checker: a write behind reads of many lanes, and two writes") {
  const auto overwrite = [](bool barrier) {
    if (device::thread() == 40) shared()[0] = 1;
    device::block_sync();
    use(shared()[0]);
    if (barrier) device::block_sync();
    if (device::thread() == 40) shared()[0] = 2;
  };
  CHECK(kinds_of([&] { overwrite(true); }).empty());
  const Kinds kinds = kinds_of([&] { overwrite(false); });
  REQUIRE_FALSE(kinds.empty());
  CHECK((kinds[0] == Kind::race_with_read || kinds[0] == Kind::race));
  CHECK(kinds_of([] { shared()[0] = 1; }) == Kinds{Kind::race});
  // Warp 0 has met, warp 1 may still read.
  const auto other_warp = check([] {
    if (device::thread() == 0) shared()[0] = 1;
    device::block_sync();
    use(shared()[0]);
    if (device::warp() == 0) device::warp_sync();
    if (device::thread() == 0) shared()[0] = 2;
  });
  REQUIRE(other_warp->kinds() == Kinds{Kind::race_with_read});
  CHECK(other_warp->findings()[0].earlier.thread >= 32);
  CHECK(kinds_of([] {
          auto* bytes = reinterpret_cast<char*>(shared());
          bytes[device::thread()] = 1;  // neighbours within a word
        }).empty());
}

TEST_CASE("checker: warp_sync orders the lanes of its mask, a shuffle orders nothing") {
  const auto exchange = [](auto meet) {
    shared()[device::thread()] = 1;
    meet();
    use(shared()[device::thread() ^ 1]);
  };
  CHECK(kinds_of([&] { exchange([] { device::warp_sync(); }); }).empty());
  CHECK(kinds_of([&] {
          exchange([] { device::warp_sync(device::lane() < 16 ? 0xffffu : 0xffff0000u); });
        }).empty());
  CHECK_FALSE(kinds_of([&] {
                exchange([] { device::warp_sync(device::lane() % 2 ? 0xaaaaaaaau : 0x55555555u); });
              }).empty());
  CHECK_FALSE(kinds_of([&] { exchange([] { device::shfl_xor(1, 1); }); }).empty());
  // From one lane to another by way of a third.
  CHECK(kinds_of([] {
          if (device::warp() != 0) return;
          if (device::lane() == 0) shared()[0] = 1;
          if (device::lane() < 2) device::warp_sync(0x3u);
          if (device::lane() == 1 || device::lane() == 2) device::warp_sync(0x6u);
          if (device::lane() == 2) use(shared()[0]);
        }).empty());
  // warp_sync does not reach another warp.
  CHECK_FALSE(kinds_of([] {
                shared()[device::thread()] = 1;
                device::warp_sync();
                use(shared()[device::thread() ^ 32]);
              }).empty());
}

TEST_CASE("checker: what a lane read before a shuffle, others of its warp may overwrite") {
  const auto overwrite = [](int warps, auto exchange, auto before) {
    if (device::thread() == 0) shared()[0] = 1;
    device::block_sync();
    if (device::warp() >= warps) return;
    use(shared()[0]);
    exchange();
    before();
    if (device::thread() == 1) shared()[0] = 2;
  };
  const auto nothing = [] {};
  const auto shuffle = [] { device::shfl_xor(1, 1); };
  CHECK(kinds_of([&] { overwrite(1, shuffle, nothing); }).empty());
  CHECK_FALSE(kinds_of([&] { overwrite(1, nothing, nothing); }).empty());
  CHECK_FALSE(kinds_of([&] { overwrite(1, shuffle, [] { use(shared()[0]); }); }).empty());
  // The other warp's reads are not before it, nor is what a lane wrote.
  CHECK_FALSE(kinds_of([&] { overwrite(2, shuffle, nothing); }).empty());
  CHECK_FALSE(kinds_of([&] {
                if (device::thread() == 0) shared()[0] = 1;
                shuffle();
                if (device::thread() == 1) shared()[0] = 2;
              }).empty());
}

TEST_CASE("checker: an async copy is used before it is waited for") {
  alignas(16) const int source[4] = {1, 2, 3, 4};
  int copy_line = 0, read_line = 0;
  const auto kernel = [&](bool wait, bool barrier, int reader) {
    if (device::thread() == 0) {
      device::copy_async_16(shared(), source, true), copy_line = __LINE__;
      device::commit_copies();
      if (wait) device::wait_copies<0>();
    }
    if (barrier) device::block_sync();
    if (device::thread() == reader) use(shared()[2]), read_line = __LINE__;
  };
  CHECK(kinds_of([&] { kernel(true, true, 33); }).empty());
  CHECK(kinds_of([&] { kernel(true, false, 0); }).empty());
  CHECK(kinds_of([&] { kernel(true, false, 33); }) == Kinds{Kind::race});
  CHECK(kinds_of([&] { kernel(false, false, 33); }) == Kinds{Kind::race});
  CHECK(kinds_of([&] { kernel(false, true, 0); }) == Kinds{Kind::missing_wait});
  const auto result = check([&] { kernel(false, true, 33); });
  REQUIRE(result->kinds() == Kinds{Kind::missing_wait});
  CHECK(result->line(result->findings()[0].access) == read_line);
  CHECK(result->line(result->findings()[0].earlier) == copy_line);
  // Bytes that are still read when the copy is issued.
  CHECK(kinds_of([&] {
          if (device::thread() == 40) {
            shared()[0] = 1;
            use(shared()[0]);
          }
          if (device::thread() == 41) device::copy_async_16(shared(), source, true);
        }) == Kinds{Kind::race});
}

TEST_CASE(
    "checker: a lane that waits for its own part of a tile alone lacks a barrier, not a wait") {
  alignas(16) const int source[4] = {1, 2, 3, 4};
  const auto kernel = [&](int pending, bool barrier) {
    const int lanes = 32, lane = device::warp() * 16 + device::lane() % 16;  // of 16 of each warp
    for (int part = 0; part < 2 && device::lane() < 16; ++part) {
      device::copy_async_16(shared() + (part * lanes + lane) * 4, source, true);
      device::commit_copies();
    }
    if (pending == 0) {
      device::wait_copies<0>();
    } else {
      device::wait_copies<1>();
    }
    if (barrier) device::block_sync();
    if (device::lane() < 16) use(shared()[(lanes + lanes - 1 - lane) * 4]);
  };
  CHECK(kinds_of([&] { kernel(0, true); }).empty());
  CHECK(kinds_of([&] { kernel(0, false); }) == Kinds{Kind::race, Kind::race_with_read});
  CHECK(kinds_of([&] { kernel(1, true); }) == Kinds{Kind::missing_wait});
}

TEST_CASE("checker: lanes add to the same number as one access each") {
  float sum = 0;
  const auto add = [&](bool atomic) {
    auto& total = *reinterpret_cast<float*>(shared());
    if (device::thread() == 0) total = 0.0f;
    device::block_sync();
    if (atomic) {
      device::atomic_add(total, 1.0f);
    } else {
      total = total + 1.0f;
    }
    device::block_sync();
    if (device::thread() == 0) sum = total;
  };
  CHECK(kinds_of([&] { add(true); }).empty());
  CHECK(sum == threads);
  CHECK_FALSE(kinds_of([&] { add(false); }).empty());
}

TEST_CASE("checker: atomics order what they pass on") {
  const auto publish = [](auto write_flag, auto read_flag) {
    const std::atomic_ref<int> flag(shared()[1]);
    if (device::thread() == 0) flag.store(0);
    device::block_sync();
    if (device::thread() == 0) {
      shared()[0] = 1;
      write_flag(shared()[1]);
    }
    device::shfl_xor(1, 1);
    if (device::thread() == 1 && read_flag(shared()[1]) == 1) use(shared()[0]);
  };
  CHECK(kinds_of([&] {
          publish([](int& x) { std::atomic_ref(x).store(1); },
                  [](int& x) { return std::atomic_ref(x).load(); });
        }).empty());
  CHECK_FALSE(kinds_of([&] { publish([](int& x) { x = 1; }, [](int& x) { return x; }); }).empty());
  int sum = 0;
  CHECK(kinds_of([&] {
          if (device::thread() == 0) shared()[0] = 0;
          device::block_sync();
          std::atomic_ref(shared()[0]).fetch_add(device::thread());
          device::block_sync();
          if (device::thread() == 0) sum = shared()[0];
        }).empty());
  CHECK(sum == threads * (threads - 1) / 2);
}

TEST_CASE("checker: a launch comes after all of the one before, and reads what it wrote") {
  Global<int> between(128), out(128);
  const auto write = [&] {
    if (device::thread() != 5) between.data()[device::block() * 64 + device::thread()] = 1;
  };
  // Thread t of block 0 reads what another block wrote.
  const auto read = [&](int first) {
    const int at = static_cast<int>(device::block()) * 64 + device::thread();
    out.data()[at] = between.data()[(at + first) % 128];
  };
  const auto kinds = [&](bool second, int count) {
    simt::Checker checker;
    checker.watch({between.region("between", Use::output), out.region("out", Use::output_once)});
    simt::Launch launch{.blocks = 2, .threads = threads, .checker = &checker, .is_last = !second};
    const auto run = [&](auto kernel) {
      simt::launch(
          launch, [](const void* k) { (*static_cast<const decltype(kernel)*>(k))(); }, &kernel);
    };
    run([&] { write(); });
    launch.is_first = !second;
    launch.is_last = true;
    run([&] { read(64); });
    Kinds kinds;
    for (const simt::Finding& finding : checker.findings()) {
      kinds.push_back(finding.kind);
      CHECK(finding.count == count);
    }
    return kinds;
  };
  // Only what thread 5 left out; without the order, nothing is known to be written.
  CHECK(kinds(true, 2) == Kinds{Kind::uninitialised_read});
  CHECK(kinds(false, 128) == Kinds{Kind::uninitialised_read});
}

TEST_CASE("checker: two async copies into the same bytes") {
  const Global<int> k(4), v(4);
  const auto kinds_from = [&](const int* second, bool waits) {
    const auto kernel = [&] {
      if (device::thread() != 0) return;
      device::copy_async_16(shared(), k.data(), true);
      device::commit_copies();
      if (waits) device::wait_copies<0>();
      device::copy_async_16(shared(), second, true);
      device::commit_copies();
      device::wait_copies<0>();
    };
    return kinds_of(kernel, {k.region("k", Use::input), v.region("v", Use::input)});
  };
  CHECK(kinds_from(k.data(), false) == Kinds{Kind::missing_wait});
  CHECK(kinds_from(v.data(), false) == Kinds{Kind::copies_overlap});
  CHECK(kinds_from(v.data(), true).empty());
}
