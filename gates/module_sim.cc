#include <cstddef>
#include <cstdio>
#include <type_traits>

#include "debug/simt/machine.h"
#include "gates/module_entry.h"

namespace lanescope {

ModuleStatus describe_device(char* name, int name_bytes, char* arch, int arch_bytes) {
  std::snprintf(name, static_cast<std::size_t>(name_bytes), "SIMT machine (Hopper rules)");
  std::snprintf(arch, static_cast<std::size_t>(arch_bytes), "sm_90");
  return ModuleStatus::ok;
}

namespace {

struct AnyTile {
  template <class TileType>
  void operator()(const char*, TileType&) const {}
};

template <class SharedMemory>
bool locate(SharedMemory& memory, std::int64_t offset, const char** tile, int* row, int* col) {
  bool found = false;
  if constexpr (requires { memory.name_tiles(AnyTile{}); }) {
    const auto* begin = reinterpret_cast<const std::byte*>(&memory);
    memory.name_tiles([&](const char* name, auto& x) {
      using TileType = std::remove_reference_t<decltype(x)>;
      for (int i = 0; i < TileType::rows * TileType::cols && !found; ++i) {
        auto* element = &x.at(i / TileType::cols, i % TileType::cols);
        const auto first = reinterpret_cast<const std::byte*>(element) - begin;
        if (offset < first || offset >= first + static_cast<std::int64_t>(sizeof *element))
          continue;
        *tile = name;
        *row = i / TileType::cols;
        *col = i % TileType::cols;
        found = true;
      }
    });
  }
  return found;
}

}  // namespace

bool locate_shared(std::int64_t offset, const char** tile, int* row, int* col) {
  static Kernel::SharedMemory memory;  // for the addresses in it
  return locate(memory, offset, tile, row, col);
}

ModuleStatus run_module(ModuleRun* run) {
  const KernelArguments arguments = arguments_of(*run);
  const simt::Launch launch{run->blocks,  Kernel::threads, sizeof(Kernel::SharedMemory),
                            run->workers, run->schedule,   run->checker};
  try {
    simt::launch(
        launch,
        [](const void* a) {
          auto* smem = reinterpret_cast<Kernel::SharedMemory*>(simt::shared_memory());
          run_lane(*static_cast<const KernelArguments*>(a), *smem);
        },
        &arguments);
  } catch (const simt::Fault& fault) {
    std::snprintf(run->message, static_cast<std::size_t>(run->message_bytes), "%s", fault.what());
    return ModuleStatus::kernel_fault;
  }
  return ModuleStatus::ok;
}

}  // namespace lanescope
