// Where parts of rows are put together, and where a tile's share is added to that of those before.

#include "debug/ptx/merges.h"

#include <cstdint>
#include <map>

#include "tests/support/catch.h"

namespace lanescope::ptx {

TEST_CASE("merges: the loops over tiles are the innermost that make scores and P V", "[terms]") {
  Program program;
  program.code.resize(40);
  const auto loop = [&](std::uint32_t first, std::uint32_t last) {
    program.code[last].branches = true;
    program.code[last].target = first;
  };
  using Loops = std::map<std::uint32_t, std::uint32_t>;
  loop(4, 20);
  loop(8, 9);    // over the depth of a score
  loop(14, 16);  // over the columns of V
  CHECK(loops_over_tiles(program, {8}, {15}) == Loops{{4, 20}});
  CHECK(loops_over_tiles(program, {8}, {}).empty());
  // Another one, without a mask, and the items of a block around both.
  loop(22, 30);
  loop(2, 38);
  CHECK(loops_over_tiles(program, {8, 23}, {15, 29}) == Loops{{4, 20}, {22, 30}});
  // Scores of the first tile before their loop.
  CHECK(loops_over_tiles(program, {3, 23}, {29}) == Loops{{22, 30}});
  // A way back to the begin from within.
  loop(4, 12);
  CHECK(loops_over_tiles(program, {8}, {15}) == Loops{{4, 20}});
  // Forwards.
  program.code[5].branches = true;
  program.code[5].target = 19;
  CHECK(loops_over_tiles(program, {8}, {15}) == Loops{{4, 20}});
}

}  // namespace lanescope::ptx
