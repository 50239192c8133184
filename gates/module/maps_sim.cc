#include <cstddef>

#include "debug/simt/launch.h"
#include "gates/module/maps_entry.h"

lanescope::ModuleStatus measure_fragment_maps(lanescope::FragmentMaps* maps, char* message,
                                              int message_bytes) {
  using namespace lanescope;
  const bool ran = simt::launch(
      {1, 32, sizeof(MapMemory), 1},
      [](const void* out) {
        measure_maps(*reinterpret_cast<MapMemory*>(simt::shared_memory()),
                     *static_cast<FragmentMaps*>(const_cast<void*>(out)));
      },
      maps, message, static_cast<std::size_t>(message_bytes));
  return ran ? ModuleStatus::ok : ModuleStatus::kernel_fault;
}
