#include <cstdio>

#include "debug/simt/machine.h"
#include "gates/module/maps_entry.h"

lanescope::ModuleStatus measure_fragment_maps(lanescope::FragmentMaps* maps, char* message,
                                              int message_bytes) {
  using namespace lanescope;
  try {
    simt::launch(
        {1, 32, sizeof(MapMemory), 1},
        [](const void* out) {
          measure_maps(*reinterpret_cast<MapMemory*>(simt::shared_memory()),
                       *static_cast<FragmentMaps*>(const_cast<void*>(out)));
        },
        maps);
  } catch (const simt::Fault& fault) {
    std::snprintf(message, static_cast<std::size_t>(message_bytes), "%s", fault.what());
    return ModuleStatus::kernel_fault;
  }
  return ModuleStatus::ok;
}
