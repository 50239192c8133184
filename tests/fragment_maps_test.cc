// The maps of the fragments, as a backend shows them, are those that the kernels count on.

#include "gates/measure/fragment_maps.h"

#include <algorithm>
#include <vector>

#include "gates/build/module_build.h"
#include "gates/build/module_catalogue.h"
#include "kernels/device/fragments.h"
#include "tests/support/catch.h"
#include "tests/support/kernels.h"

using namespace lanescope;

namespace {

template <int Elements>
void compare(const char* name, const std::uint16_t (&got)[32][Elements],
             const std::uint16_t (&want)[32][Elements]) {
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < Elements; ++i) {
      INFO(name << " lane " << lane << " element " << i);
      CHECK(got[lane][i] == want[lane][i]);
    }
  }
}

void compare_maps(const std::string& backend) {
  const FragmentMaps got = measured_fragment_maps(backend), want = declared_fragment_maps();
  compare("mma_a", got.mma_a, want.mma_a);
  compare("mma_b", got.mma_b, want.mma_b);
  compare("mma_c", got.mma_c, want.mma_c);
  compare("wmma_c", got.wmma_c, want.wmma_c);
}

}  // namespace

TEST_CASE("fragment maps: sim holds what fragments.h says", "[quick]") { compare_maps("sim"); }

TEST_CASE("fragment maps: cuda holds what fragments.h says") {
  testing::on_backend("cuda", [] { compare_maps("cuda"); });
}

TEST_CASE("fragment maps: each element stands in one place, where lane_of_m16n16 finds it") {
  const FragmentMaps maps = declared_fragment_maps();
  for_each_fragment(maps, [](const char* name, const auto& map) {
    INFO(name);
    std::vector<std::uint16_t> places;
    for (const auto& lane : map) places.insert(places.end(), std::begin(lane), std::end(lane));
    std::sort(places.begin(), places.end());
    CHECK(std::adjacent_find(places.begin(), places.end()) == places.end());
  });
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 8; ++i) {
      const device::Coordinate c = device::c_m16n16(lane, i);
      CHECK(device::lane_of_m16n16(c.row, c.col) == lane);
    }
  }
}
