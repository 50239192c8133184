// A kernel that other work keeps from the cores is slow, and no hang.

#include "gates/process/starvation.h"

#include <sched.h>
#include <unistd.h>

#include <chrono>
#include <list>

#include "gates/process/child.h"
#include "gates/run/run_options.h"
#include "tests/support/catch.h"

namespace lanescope {
namespace {

/// Has this process, and those that it starts, one core alone, until it ends.
class OneCore {
 public:
  OneCore() {
    sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++core) {
      if (CPU_ISSET(core, &before_)) CPU_SET(core, &one);
    }
    sched_setaffinity(0, sizeof one, &one);
  }
  ~OneCore() { sched_setaffinity(0, sizeof before_, &before_); }
  OneCore(const OneCore&) = delete;
  OneCore& operator=(const OneCore&) = delete;

 private:
  cpu_set_t before_{};
};

void compute_forever(int) {
  volatile bool goes_on = true;
  while (goes_on) {
  }
}

}  // namespace

TEST_CASE("starvation: who waits for a core is told from who sleeps") {
  const OneCore one;
  Child first(compute_forever), second(compute_forever), sleeps([](int) { pause(); });
  const Starvation starved(first.id()), asleep(sleeps.id());
  CHECK(first.listen(1) == Child::Heard::nothing);
  CHECK(starved.seconds() > 0.25);
  CHECK(starved.seconds() < 1.5);
  CHECK(asleep.seconds() < 0.25);
}

TEST_CASE("starvation: a kernel that is slow because of others is no hang") {
  RunOptions options;
  options.kernel = "scalar";
  options.gate = "fused";
  options.backend = "sim";
  options.shape = "s=64,skv=4096,d=128";
  PreparedRun run = prepare(options);
  const OneCore one;
  const auto begin = std::chrono::steady_clock::now();
  CHECK(launch(*run.module, run.module_name, run.request).info.incomplete.empty());
  const std::chrono::duration<double> alone = std::chrono::steady_clock::now() - begin;
  run.request.timeout_seconds = 2 * alone.count();
  std::list<Child> others;
  for (int i = 0; i < 5; ++i) others.emplace_back(compute_forever);
  CHECK(launch(*run.module, run.module_name, run.request).info.incomplete.empty());
}

}  // namespace lanescope
