// The memory checker on addresses and values: each kind of finding from a kernel that has nothing
// else wrong.

#include <atomic>
#include <thread>

#include "tests/support/checked_block.h"

extern "C" void* __wrap_memcpy(void* to, const void* from, std::size_t n);  // as in a module

namespace device = lanescope::device;
namespace simt = lanescope::simt;
using namespace lanescope::testing;

TEST_CASE("checker: shared memory that nobody wrote, in any block") {
  int line = 0;
  const auto kernel = [&] {
    if (device::block() == 0) shared()[device::thread()] = 1;
    device::block_sync();
    if (device::thread() == 3) use(shared()[3]), line = __LINE__;
  };
  const auto result = check(kernel, {}, 3);
  REQUIRE(result->kinds() == Kinds{Kind::uninitialised_read});
  const simt::Finding& f = result->findings()[0];
  CHECK(f.count == 2);
  CHECK(f.access.block == 1);
  CHECK(f.access.thread == 3);
  CHECK(f.offset == 12);
  CHECK(result->line(f.access) == line);
}

TEST_CASE("checker: a lane's stack is its own") {
  int* of_lane_0 = nullptr;
  const auto meet = [] { device::block_sync(); };
  const auto keep_meanwhile = [&]() __attribute__((noinline)) {
    int deep[8192] = {};  // so that the next stack is near
    asm volatile("" : : "r"(deep) : "memory");
    of_lane_0 = deep;
    meet();
    use(deep[0]);
    meet();
  };
  const auto kernel = [&](int reader) {
    if (device::thread() == 0) return keep_meanwhile();
    meet();
    if (device::thread() == reader) use(of_lane_0[reader]);
    meet();
  };
  CHECK(kinds_of([&] { kernel(0); }).empty());
  for (const int reader : {1, 2, 63}) {
    CHECK(kinds_of([&] { kernel(reader); }) == Kinds{Kind::out_of_bounds});
  }
}

TEST_CASE("checker: what is never assigned must not go to another lane") {
  const auto kernel = [](bool assigned) {
    float x[2];
    asm volatile("" : : "r"(x) : "memory");
    if (assigned) x[1] = 0;
    device::shfl_xor(x[1], 1);
  };
  CHECK(kinds_of([&] { kernel(true); }).empty());
  CHECK(kinds_of([&] { kernel(false); }) == Kinds{Kind::uninitialised_register});
}

TEST_CASE("checker: addresses outside of shared memory and of buffers") {
  const auto only = [](auto access) {
    return [=] {
      if (device::thread() == 0) access();
    };
  };
  const Global<int> in(16), out(16);
  const std::vector<simt::Region> regions = {in.region("in", Use::input),
                                             out.region("out", Use::output)};
  const auto outside = [&](auto access) { return check(only(access), regions); };
  const auto behind = outside([] { shared()[shared_bytes / 4] = 1; });
  REQUIRE(behind->kinds() == Kinds{Kind::out_of_bounds});
  CHECK(behind->findings()[0].region == simt::shared_region);
  CHECK(behind->findings()[0].offset == shared_bytes);
  CHECK(outside([] { use(shared()[-1]); })->findings()[0].offset == -4);

  const auto stray = outside([&] { use(in.data()[16]); });
  REQUIRE(stray->kinds() == Kinds{Kind::out_of_bounds});
  CHECK(stray->findings()[0].region == 0);
  CHECK(outside([&] { out.data()[-1] = 1; })->findings()[0].region == 1);
  CHECK(outside([&] { out.data()[15] = 1; })->findings().empty());
  CHECK(outside([] {
          device::copy_async_16(shared() + shared_bytes / 4, shared(), false);
        })->kinds() == Kinds{Kind::out_of_bounds});

  const auto wild = outside([] {
    int* nothing = nullptr;
    asm("" : "+r"(nothing));
    *nothing = 1;
  });
  CHECK(wild->kinds() == Kinds{Kind::out_of_bounds});
  CHECK(wild->findings()[0].region == simt::nowhere);
  CHECK(wild->fault.find("block 0") == 0);

  CHECK(outside([&] { in.data()[3] = 1; })->kinds() == Kinds{Kind::write_to_input});
  CHECK(outside([&] { use(out.data()[3]); })->kinds() == Kinds{Kind::uninitialised_read});
}

TEST_CASE("checker: a misaligned address") {
  CHECK(kinds_of([] {
          if (device::thread() != 0) return;
          auto* bytes = reinterpret_cast<char*>(shared());
          asm("" : "+r"(bytes));
          *reinterpret_cast<int*>(bytes + 2) = 1;
        }) == Kinds{Kind::misaligned});
  // Of four numbers at once, which the compiler takes apart.
  struct alignas(8) Four {
    std::uint16_t x[4];
  };
  for (const int offset : {0, 4}) {
    const auto result = check([=] {
      if (device::thread() != 0) return;
      auto* bytes = reinterpret_cast<char*>(shared());
      asm("" : "+r"(bytes));
      Four four = {};
      if (device::block() == 0) four.x[1] = 3;
      *reinterpret_cast<Four*>(bytes + offset) = four;
    });
    CHECK(result->kinds() == (offset == 0 ? Kinds{} : Kinds{Kind::misaligned}));
  }
  // Of 16 bytes the processor's own instruction would end the process.
  const auto chunk = check([] {
    if (device::thread() != 0) return;
    auto* bytes = reinterpret_cast<char*>(shared());
    asm("" : "+r"(bytes));
    *reinterpret_cast<__int128*>(bytes + 8) = 1;
  });
  CHECK(chunk->kinds() == Kinds{Kind::misaligned});
  CHECK(chunk->fault.find("a misaligned access of 16 bytes") != std::string::npos);
}

TEST_CASE("checker: an index beyond an array of a lane's own") {
  struct Registers {
    float x[4] = {};
  };
  struct Table {
    float rows[2][4] = {};
  };
  int line = 0;
  const auto kernel = [&](int index) {
    Registers registers;
    Table table;
    asm volatile("" : "+r"(index), "+m"(registers), "+m"(table));
    if (device::thread() != 5) return;
    line = __LINE__ + 1;
    use(registers.x[index]);
    use(table.rows[1][index]);
  };
  CHECK(kinds_of([&] { kernel(3); }).empty());
  for (const int index : {4, 7, -1}) {
    const auto result = check([&] { kernel(index); });
    REQUIRE(result->kinds() == Kinds{Kind::beyond_array, Kind::beyond_array});
    const simt::Finding& f = result->findings()[0];
    CHECK((f.offset == index && f.bytes == 4 && f.access.thread == 5));
    CHECK(result->line(f.access) == line);
  }
}

TEST_CASE("checker: elements of an output are written once") {
  const Global<std::uint16_t> out(128);
  const auto regions = [&](Use use) { return std::vector{out.region("out", use)}; };
  const auto at = [&](std::int64_t i) { return out.data() + i; };
  const auto whole = [&] { *at(device::block() * threads + device::thread()) = 1; };
  CHECK(kinds_of(whole, regions(Use::output_once), 2).empty());

  const auto twice = [&] {
    whole();
    if (device::thread() == 5) whole();
  };
  const auto again = check(twice, regions(Use::output_once), 2);
  CHECK(again->kinds() == Kinds{Kind::written_twice});
  CHECK(again->findings()[0].count == 2);
  CHECK(again->findings()[0].offset == 10);
  CHECK(kinds_of(twice, regions(Use::output), 2).empty());

  const auto first_only = [&] {
    if (device::thread() > 0) whole();
  };
  const auto never = check(first_only, regions(Use::output_once), 2);
  CHECK(never->kinds() == Kinds{Kind::never_written});
  CHECK(never->findings()[0].count == 2);
  CHECK(never->findings()[0].offset == 0);
}

TEST_CASE("checker: what blocks do to each other, the same whichever comes first") {
  constexpr int blocks = 5;
  const Global<int> out(threads);
  for (const Use use : {Use::output, Use::output_once}) {
    for (const int late : {-1, 0, 1, 4}) {  // the block that writes last; needs a worker per block
      std::atomic<int> done = 0;
      const auto overlap = [&] {
        while (late == device::block() && done < (blocks - 1) * threads) std::this_thread::yield();
        out.data()[device::thread()] = 1;
        ++done;
      };
      const auto result =
          check(overlap, {out.region("out", use)}, blocks, 0, late < 0 ? 1 : blocks);
      REQUIRE(result->kinds() == Kinds{use == Use::output ? Kind::race : Kind::written_twice});
      const simt::Finding& f = result->findings()[0];
      CHECK(f.count == (blocks - 1) * threads);
      CHECK(f.offset == 0);
      CHECK(f.access.block == 1);
      CHECK(f.earlier.block == 0);
    }
  }
}

TEST_CASE("checker: ldmatrix and memcpy are accesses too") {
  const auto matrix = [](bool barrier) {
    for (int i = 0; i < 4; ++i) shared()[device::thread() * 4 + i] = i;
    if (barrier) device::block_sync();
    std::uint32_t registers[4];
    device::ldmatrix_x4(registers, simt::shared_memory() + (threads - 1 - device::thread()) * 16);
  };
  CHECK(kinds_of([&] { matrix(true); }).empty());
  CHECK_FALSE(kinds_of([&] { matrix(false); }).empty());
  CHECK(kinds_of([&] {
          if (device::thread() == 0) {
            __wrap_memcpy(simt::shared_memory() + shared_bytes - 50, simt::shared_memory() + 100,
                          100);
          }
        }) == Kinds{Kind::uninitialised_read, Kind::out_of_bounds});
}
