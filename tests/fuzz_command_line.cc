// A target of libFuzzer over everything that reads the command line: an argument a line. Commands
// that only run a kernel go on until they would load its module, which is not there; no other
// command is run. Run on a copy of tests/data/fuzz/command_lines:
// fuzz_command_line -dict=tests/data/fuzz/command_line.dict CORPUS. tests/meson.build says how it
// is built.

#include <stdlib.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "gates/commands/command_line.h"
#include "reference/error.h"

namespace {

using namespace lanescope;

constexpr std::string_view run_kernels[] = {"run", "diff", "check", "locate"};

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines = {"lanescope"};
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    // A zero byte ends an argument. A path out of this folder is none of the fuzzer's business.
    std::string line(text.substr(0, std::min(end, text.find('\0'))));
    std::replace(line.begin(), line.end(), '/', '_');
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  setenv("LANESCOPE_MODULES", "/nowhere", 1);
  unsetenv("LANESCOPE_NINJA");
  return freopen("/dev/null", "w", stdout) ? 0 : 1;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::string> words = lines_of({reinterpret_cast<const char*>(data), size});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  const auto argc = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  asks_for_json(argc, arguments.data());
  try {
    read_command_line(argc, arguments.data(), commands(), [&](const Request& request) {
      const bool runs_kernel =
          request.command && std::find(std::begin(run_kernels), std::end(run_kernels),
                                       request.command) != std::end(run_kernels);
      return runs_kernel ? request.action({request.json, {}}) : ExitCode::ok;
    });
  } catch (const Error&) {
  }
  return 0;
}
