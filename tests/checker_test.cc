// The memory checker: each kind of finding from a kernel that has nothing else wrong, kernels that
// are right and look as if they were not, and the kernels of the lab. This file is compiled as
// checked modules are: with -fsanitize=thread, on our own runtime.

#include "debug/simt/checker.h"

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "debug/simt/machine.h"
#include "debug/simt/source_lines.h"
#include "kernels/device/device.h"
#include "tests/catch.h"

extern "C" void* __wrap_memcpy(void* to, const void* from, std::size_t n);  // as in a module

namespace device = lanescope::device;
namespace simt = lanescope::simt;
using simt::Kind;
using Use = simt::Region::Use;

namespace {

constexpr int threads = 64;
constexpr std::size_t shared_bytes = 1024;

/// A buffer in global memory with its guards.
template <class T>
class Global {
 public:
  explicit Global(std::size_t count) : bytes_(count * sizeof(T)) {
    memory_ = std::make_unique<std::byte[]>(bytes_ + 2 * simt::guard_bytes);
  }
  T* data() const { return reinterpret_cast<T*>(memory_.get() + simt::guard_bytes); }
  simt::Region region(const char* name, Use use) const {
    return {name, data(), bytes_, use, sizeof(T)};
  }

 private:
  std::size_t bytes_;
  std::unique_ptr<std::byte[]> memory_;
};

struct Result {
  simt::Checker checker;
  std::string fault;

  const std::vector<simt::Finding>& findings() const { return checker.findings(); }
  std::vector<Kind> kinds() const {
    std::vector<Kind> kinds;
    for (const simt::Finding& finding : findings()) kinds.push_back(finding.kind);
    return kinds;
  }
  int line(const simt::Party& party) const {
    std::string warning;
    const std::string text =
        simt::source_lines(checker.image(), {party.place}, warning).at(party.place);
    INFO(text << " " << warning);
    REQUIRE(text.starts_with("tests/checker_test.cc:"));
    return std::stoi(text.substr(text.rfind(':') + 1));
  }
};

template <class Kernel>
std::unique_ptr<Result> check(const Kernel& kernel, std::vector<simt::Region> regions = {},
                              std::int64_t blocks = 1, std::uint64_t schedule = 0,
                              int workers = 2) {
  auto result = std::make_unique<Result>();
  result->checker.watch(std::move(regions));
  try {
    simt::launch(
        {blocks, threads, shared_bytes, workers, schedule, &result->checker},
        [](const void* k) { (*static_cast<const Kernel*>(k))(); }, &kernel);
  } catch (const simt::Fault& fault) {
    result->fault = fault.what();
  }
  return result;
}

template <class Kernel>
std::vector<Kind> kinds_of(const Kernel& kernel, std::vector<simt::Region> regions = {},
                           std::int64_t blocks = 1) {
  return check(kernel, std::move(regions), blocks)->kinds();
}

int* shared() { return reinterpret_cast<int*>(simt::shared_memory()); }
/// Uses a value, so that the compiler keeps its load.
void use(int x) { asm volatile("" : : "r"(x)); }

using Kinds = std::vector<Kind>;

}  // namespace

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

TEST_CASE("checker: what blocks do to each other, the same for any number of workers") {
  const Global<int> out(threads);
  const auto overlap = [&] { out.data()[device::thread()] = 1; };
  for (const Use use : {Use::output, Use::output_once}) {
    for (int repeat = 0; repeat < 10; ++repeat) {
      const auto result = check(overlap, {out.region("out", use)}, 5, 0, repeat % 2 ? 4 : 1);
      REQUIRE(result->kinds() == Kinds{use == Use::output ? Kind::race : Kind::written_twice});
      const simt::Finding& f = result->findings()[0];
      CHECK(f.count == 4 * threads);
      CHECK(f.offset == 0);
      CHECK(std::min(f.access.block, f.earlier.block) == 0);
      CHECK(std::max(f.access.block, f.earlier.block) == 1);
    }
  }
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
