#include <cstddef>
#include <cstdio>
#include <type_traits>

#include "debug/simt/launch.h"
#include "gates/module/module_entry.h"

namespace lanescope {

ModuleStatus describe_device(char* name, int name_bytes, char* arch, int arch_bytes) {
  std::snprintf(name, static_cast<std::size_t>(name_bytes), "SIMT machine");
  std::snprintf(arch, static_cast<std::size_t>(arch_bytes), "any");
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
    const auto holds = [&](const auto& element) {
      const auto first = reinterpret_cast<const std::byte*>(&element) - begin;
      return first <= offset && offset < first + static_cast<std::int64_t>(sizeof element);
    };
    memory.name_tiles([&](const char* name, auto& x) {
      if (found || !holds(x)) return;
      const auto try_element = [&](const auto& element, int i, int j) {
        if (found || !holds(element)) return;
        *tile = name;
        *row = i;
        *col = j;
        found = true;
      };
      using TileType = std::remove_reference_t<decltype(x)>;
      if constexpr (std::is_array_v<TileType>) {
        for (int i = 0; i < static_cast<int>(std::extent_v<TileType>); ++i) try_element(x[i], i, 0);
      } else {
        for (int i = 0; i < TileType::rows; ++i) {
          for (int j = 0; j < TileType::cols; ++j) try_element(x.at(i, j), i, j);
        }
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

namespace {

/// Both passes, as far as the gate has them and the first one ends well. Whether all did; else
/// `run.message` says why not.
template <class K>
bool launch_passes(const ModuleRun& run) {
  const auto bytes = static_cast<std::size_t>(run.message_bytes);
  KernelArguments<K> arguments = arguments_of(run);
  if (!prepare<K>(run, arguments)) return false;
  simt::Launch launch{.workers = run.workers,
                      .schedule = run.schedule,
                      .checker = run.checker,
                      .tensor_core = run.rules->tensor_core,
                      .shared_element = locate_shared};
  if constexpr (launches_first<K, gate>) {
    // A block of its own for each item, where not all are run.
    constexpr int resident = resident_blocks<K>();
    const bool fewer = is_persistent<K> && resident < run.blocks && run.first_block == 0;
    launch.first_block = run.first_block;
    launch.blocks = fewer ? resident : run.blocks;
    launch.threads = K::threads;
    launch.shared_bytes = sizeof(typename K::SharedMemory);
    launch.is_last = !launches_second<K, gate>;
    const bool ran = simt::launch(
        launch,
        [](const void* a) {
          auto* smem = reinterpret_cast<typename K::SharedMemory*>(simt::shared_memory());
          const auto& of_kernel = *static_cast<const KernelArguments<K>*>(a);
          set_up<K>(of_kernel, *smem);
          run_lane<K>(of_kernel, *smem, device::block());
        },
        &arguments, run.message, bytes);
    if (!ran) return false;
  }
  if constexpr (launches_second<K, gate>) {
    launch.blocks = run.combine_blocks;
    launch.first_block = run.first_block / run.splits;
    launch.threads = K::combine_threads;
    launch.shared_bytes = 0;
    launch.is_first = !launches_first<K, gate>;
    launch.is_last = true;
    return simt::launch(
        launch, [](const void* a) { combine_lane<K>(*static_cast<const KernelArguments<K>*>(a)); },
        &arguments, run.message, bytes);
  }
  return true;
}

}  // namespace

int describe_passes(ModulePass*, int) { return 0; }

ModuleStatus run_module(ModuleRun* run) {
  if (run->timing) {
    std::snprintf(run->message, static_cast<std::size_t>(run->message_bytes),
                  "the SIMT machine has no time to measure: only cuda modules are timed");
    return ModuleStatus::no_device;
  }
  if (!takes_problem<Kernel>(*run)) return ModuleStatus::refused;
  return launch_passes<Kernel>(*run) ? ModuleStatus::ok : ModuleStatus::kernel_fault;
}

}  // namespace lanescope
