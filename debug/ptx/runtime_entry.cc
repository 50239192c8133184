#include "debug/ptx/runtime_entry.h"

#include "debug/ptx/runtime.h"
#include "debug/simt/last_words.h"
#include "gates/machine_headers.h"

extern "C" const lanescope::ptx::RuntimeEntry* lanescope_runtime() {
  using lanescope::ptx::Device;
  static constexpr lanescope::ptx::RuntimeEntry entry = {
      LANESCOPE_SOURCE_HASH,
      [] { return Device::instance().has_modules(); },
      [](const lanescope::ptx::RunSettings& settings, lanescope::simt::LastWords& words) {
        lanescope::simt::note_last_words(words);
        Device::instance().settings = settings;
      },
      [] { return Device::instance().failure().c_str(); },
      [] { return Device::instance().refused(); },
      [] { return Device::instance().work(); },
  };
  return &entry;
}
