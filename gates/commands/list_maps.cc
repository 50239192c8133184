#include "gates/commands/list_maps.h"

#include <cstdio>

#include "debug/text/json.h"
#include "gates/build/module_build.h"
#include "gates/measure/fragment_maps.h"

namespace lanescope {
namespace {

template <int Elements>
Json places(const std::uint16_t (&map)[32][Elements]) {
  Json lanes = Json::array();
  for (const auto& lane : map) {
    Json own = Json::array();
    for (const int place : lane) own.push_back({place / 16, place % 16});
    lanes.push_back(own);
  }
  return lanes;
}

template <int Elements>
void print(const char* name, const std::uint16_t (&map)[32][Elements]) {
  std::printf("%s: (row, column) of elements 0 to %d\n", name, Elements - 1);
  for (int lane = 0; lane < 32; ++lane) {
    std::printf("  lane %2d ", lane);
    for (const int place : map[lane]) std::printf(" (%2d,%2d)", place / 16, place % 16);
    std::puts("");
  }
}

}  // namespace

ExitCode list_maps(const std::string& backend_wish, const Output& output) {
  const std::string backend = choose_backend(backend_wish);
  const FragmentMaps maps = measured_fragment_maps(backend);
  if (output.json) {
    Json all = {{"backend", backend}, {"maps", Json::array()}};
    for_each_fragment(maps, [&](const char* name, const auto& map) {
      all["maps"].push_back({{"fragment", name}, {"lanes", places(map)}});
    });
    std::puts(document_text(all, -1).c_str());
  } else {
    std::printf("fragments of mma.m16n8k16 and wmma.m16n16k16 as %s holds them\n", backend.c_str());
    for_each_fragment(maps, [](const char* name, const auto& map) { print(name, map); });
  }
  return ExitCode::ok;
}

}  // namespace lanescope
