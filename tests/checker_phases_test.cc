// What a wait at an mbarrier orders: what came before the first phase that may have ended it, and
// not what had come when the machine happened to run the lane (PTX ISA, "mbarrier", phases).

#include "kernels/device/hopper.h"
#include "tests/support/checked_block.h"

namespace device = lanescope::device;
using namespace lanescope::testing;

namespace {

struct Memory {
  device::Mbarrier barrier;
  int x, y;
};

Memory& memory() { return *reinterpret_cast<Memory*>(shared()); }

void init(int count) {
  if (device::thread() == 0) device::mbarrier_init(memory().barrier, count);
  device::block_sync();
}

}  // namespace

TEST_CASE("checker: an mbarrier that counts fewer readers than come") {
  // Lanes 31 and 63 read; lane 0 overwrites behind the first phase, whoever ended it.
  const auto overwrite = [](int count) {
    if (device::thread() == 5) memory().x = 1;
    init(count);
    if (device::thread() % 32 == 31) {
      use(memory().x);
      device::mbarrier_arrive(memory().barrier);
    }
    if (device::thread() == 0) {
      device::mbarrier_wait(memory().barrier, 0);
      memory().x = 2;
    }
  };
  for (const std::uint64_t schedule : {0, 1, 2, 3, 4, 5}) {
    INFO("schedule " << schedule);
    const auto right = check([&] { overwrite(2); }, {}, 1, schedule);
    CHECK(right->fault.empty());
    CHECK(right->kinds().empty());
    const auto wrong = check([&] { overwrite(1); }, {}, 1, schedule);
    // Where both come before the lane waits, it waits for a third.
    const Kinds kinds = wrong->kinds();
    CHECK((kinds == Kinds{Kind::race_with_read} || kinds == Kinds{Kind::race} ||
           !wrong->fault.empty()));
  }
}

TEST_CASE("checker: phases that a lane knows of without having waited for them") {
  // Two phases are over before the block meets; the third one brings y.
  const auto third_phase = [](bool meets) {
    init(1);
    if (device::thread() == 40) {
      device::mbarrier_arrive(memory().barrier);
      device::mbarrier_arrive(memory().barrier);
    }
    if (meets) device::block_sync();
    if (device::thread() == 40) {
      memory().y = 7;
      device::mbarrier_arrive(memory().barrier);
    }
    if (device::thread() == 3) {
      device::mbarrier_wait(memory().barrier, 0);
      use(memory().y);
    }
  };
  for (const std::uint64_t schedule : {0, 1, 2, 3, 4, 5}) {
    INFO("schedule " << schedule);
    const auto right = check([&] { third_phase(true); }, {}, 1, schedule);
    CHECK(right->fault.empty());
    CHECK(right->kinds().empty());
    // The first phase may have ended the wait as well.
    const Kinds wrong = check([&] { third_phase(false); }, {}, 1, schedule)->kinds();
    CHECK((wrong == Kinds{Kind::race} || wrong == Kinds{Kind::race_with_read} ||
           wrong == Kinds{Kind::uninitialised_read, Kind::race_with_read}));
  }
}

TEST_CASE("checker: a wait that the next phase may overtake") {
  // Two warps wait for each phase, thread 64 brings it on; who has seen it says so at `read`.
  struct Barriers {
    device::Mbarrier full, read;
  };
  const auto ring = [](int warps_that_answer) {
    Barriers& b = *reinterpret_cast<Barriers*>(shared());
    if (device::thread() == 0) {
      device::mbarrier_init(b.full, 1);
      device::mbarrier_init(b.read, warps_that_answer);
    }
    device::block_sync();
    for (int turn = 0; turn < 3; ++turn) {
      if (device::thread() == 64) {
        if (turn > 0) device::mbarrier_wait(b.read, (turn - 1) & 1);
        device::mbarrier_arrive(b.full);
      } else if (device::thread() < 64) {
        device::mbarrier_wait(b.full, turn & 1);
        if (device::thread() / 32 < warps_that_answer && device::thread() % 32 == 0)
          device::mbarrier_arrive(b.read);
      }
    }
  };
  const auto right = check([&] { ring(2); }, {}, 1, 0, 2, 96);
  CHECK(right->fault.empty());
  CHECK(right->kinds().empty());
  // Warp 1 takes part, and nobody waits for it.
  const auto wrong = check([&] { ring(1); }, {}, 1, 0, 2, 96);
  CHECK(wrong->fault.empty());
  CHECK(wrong->kinds() == Kinds{Kind::overtaken_wait});
}
