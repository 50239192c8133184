#include "gates/measure/fragment_maps.h"

#include <dlfcn.h>

#include <cstdio>
#include <filesystem>
#include <span>

#include "gates/build/module_build.h"
#include "gates/process/child.h"
#include "kernels/device/fragments.h"
#include "reference/error.h"

namespace lanescope {
namespace {

template <int Elements>
void declare(std::uint16_t (&map)[32][Elements], device::Coordinate (*coordinate)(int, int)) {
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < Elements; ++i) {
      const device::Coordinate c = coordinate(lane, i);
      map[lane][i] = static_cast<std::uint16_t>(c.row * 16 + c.col);
    }
  }
}

}  // namespace

FragmentMaps measured_fragment_maps(const std::string& backend) {
  const std::filesystem::path path = build_module("maps." + backend);
  struct {
    FragmentMaps maps{};
    ModuleStatus status = ModuleStatus::refused;
    char message[1024] = "";
  } answer;
  run_in_child({std::as_writable_bytes(std::span(&answer, 1))}, [&] {
    void* library = dlopen(std::filesystem::absolute(path).c_str(), RTLD_NOW | RTLD_LOCAL);
    void* function = library ? dlsym(library, "measure_fragment_maps") : nullptr;
    if (function) {
      const auto measure = reinterpret_cast<MeasureFragmentMaps*>(function);
      answer.status = measure(&answer.maps, answer.message, sizeof answer.message);
    } else {
      std::snprintf(answer.message, sizeof answer.message, "%s", dlerror());
    }
  });
  if (answer.status != ModuleStatus::ok) {
    throw EnvironmentError(path.string() + ": " + answer.message);
  }
  return answer.maps;
}

FragmentMaps declared_fragment_maps() {
  FragmentMaps maps{};
  declare(maps.mma_a, device::a_m16k16);
  declare(maps.mma_b, device::b_k16n8);
  declare(maps.mma_c, device::c_m16n8);
  declare(maps.wmma_c, device::c_m16n16);
  return maps;
}

}  // namespace lanescope
