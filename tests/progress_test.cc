#include "debug/text/progress.h"

#include "gates/build/ninja.h"
#include "tests/support/catch.h"

using namespace lanescope;

TEST_CASE("progress: what is counted is extrapolated, what is not goes by experience") {
  Progress judging("judging", 48, "row tiles");
  CHECK(judging.text(3) == "judging: 0 of 48 row tiles, 3 s");
  for (int i = 0; i < 12; ++i) judging.step();
  CHECK(judging.text(3) == "judging: 12 of 48 row tiles, about 9 s left");
  judging.at(47, 48);
  CHECK(judging.text(4700) == "judging: 47 of 48 row tiles, about 1 min 40 s left");
  judging.at(100, 48);
  CHECK(judging.text(7) == "judging: 48 of 48 row tiles, 7 s");

  std::int64_t ended = 1;
  CHECK(Progress("running", 4, "blocks", [&] { return ended; }).text(1) ==
        "running: 1 of 4 blocks, about 3 s left");

  Progress building("building");
  CHECK(building.text(2) == "building, 2 s");
  building.expect(5);
  CHECK(building.text(2) == "building, about 3 s left");
  CHECK(building.text(6) == "building, 6 s");
}

TEST_CASE("ninja: a module takes as long as the last time, else as others of its kind") {
  const std::string log =
      "# ninja log v5\n"
      "0\t9000\t1\tgates/a.sim.so.p/module.o\tf\n"
      "100\t4100\t1\tgates/a.sim.so.p/module.o\tf\n"
      "4100\t5100\t1\tgates/a.sim.so\tf\n"
      "0\t1000\t1\tgates/b.sim.so\tf\n"
      "0\t60000\t1\tgates/b.cuda.so\tf\n"
      "0\t7000\t1\tdebug/text.o\tf\n"
      "broken line\n";
  CHECK(seconds_to_build(log, "gates/a.sim.so") == 5);
  CHECK(seconds_to_build(log, "gates/c.sim.so") == 3);
  CHECK(seconds_to_build(log, "gates/c.cuda.so") == 60);
  CHECK(seconds_to_build(log, "gates/c.sim.checked.so") == 0);
  CHECK(seconds_to_build("", "gates/c.sim.so") == 0);
}
