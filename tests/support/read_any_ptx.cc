#include "tests/support/read_any_ptx.h"

#include <cstdint>
#include <string>
#include <vector>

#include "debug/ptx/program.h"
#include "debug/ptx/rewrite_markers.h"
#include "debug/ptx/syntax.h"
#include "reference/error.h"

namespace lanescope::testing {

void read_any_ptx(std::string_view text) {
  const auto attempt = [](const auto& read) {
    try {
      read();
    } catch (const UsageError&) {
    }
  };
  attempt([&] {
    const ptx::Module module = ptx::parse(std::string(text), "fuzz.ptx");
    const std::vector<std::uint64_t> addresses(module.variables.size(), 4096);
    for (const ptx::Function& function : module.functions) {
      if (!function.is_entry) continue;
      for (const bool injects : {false, true}) {
        attempt([&] {
          const ptx::Program program = ptx::decode(module, function.name, addresses, injects);
          for (std::uint32_t i = 0; i < program.code.size(); ++i) program.describe(i);
        });
      }
    }
    attempt([&] { ptx::rewrite_markers(module, {}, {}); });
  });
}

}  // namespace lanescope::testing
