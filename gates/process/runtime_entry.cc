#include "debug/ptx/runtime_entry.h"

#include <unistd.h>

#include <cstdio>
#include <string>

#include "debug/ptx/marked_text.h"
#include "debug/ptx/rewrite_markers.h"
#include "debug/ptx/runtime.h"
#include "debug/simt/last_words.h"
#include "gates/machine_headers.h"
#include "gates/module/launch_description.h"
#include "reference/error.h"

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
      [] { return Device::instance().lacked_memory(); },
      [] { return Device::instance().refused_launch().c_str(); },
      [] { return Device::instance().work(); },
      [](const char* ptx, const lanescope::ptx::MarkerRun& run,
         const lanescope::ptx::MarkerBuffers& buffers, int file, char* why, std::size_t why_bytes) {
        try {
          auto module = lanescope::ptx::parse_file(ptx);
          if (exists(lanescope::launch_description_path(ptx))) {  // else nvcc has written it out
            module.contracts = lanescope::read_launch_description(ptx).launches.front().fmad;
          }
          const std::string rewritten = lanescope::ptx::rewrite_markers(module, run, buffers);
          const auto bytes = static_cast<ssize_t>(rewritten.size());
          if (write(file, rewritten.data(), rewritten.size()) == bytes) return true;
          throw lanescope::EnvironmentError("there is no room for the rewritten PTX");
        } catch (const std::exception& error) {
          std::snprintf(why, why_bytes, "%s", error.what());
          return false;
        }
      },
      [](const char* module, const char* ptx, char* why, std::size_t why_bytes) {
        try {
          lanescope::ptx::demand_markers_of(module, ptx);
        } catch (const std::exception& error) {
          std::snprintf(why, why_bytes, "%s", error.what());
        }
      },
      [](const char* ptx, lanescope::SiteId site, char* lines, std::size_t bytes) {
        std::string text;
        for (const std::string& line : lanescope::ptx::marked_lines(ptx, site)) text += line + '\n';
        std::snprintf(lines, bytes, "%s", text.c_str());
      },
  };
  return &entry;
}
