#include <algorithm>
#include <regex>
#include <sstream>

#include "debug/error.h"
#include "gates/resources.h"

namespace lanescope {
namespace {

/// The number before `unit` in `line`, e.g. of " bytes smem".
std::int64_t number_before(const std::string& line, const std::string& unit) {
  std::smatch match;
  if (!std::regex_search(line, match, std::regex("([0-9]+)" + unit))) return -1;
  return std::stoll(match[1]);
}

}  // namespace

std::vector<CompiledFunction> parse_ptxas(const std::string& words) {
  std::vector<CompiledFunction> functions;
  static const std::regex entry("Compiling entry function '([^']*)' for '([^']*)'");
  static const std::regex properties("Function properties for (\\S+)");
  std::istringstream in(words);
  // Functions that are called and not inlined have properties too: their stack is not the entry's.
  bool of_entry = false;
  for (std::string line; std::getline(in, line);) {
    std::smatch match;
    if (std::regex_search(line, match, entry)) {
      functions.push_back({match[1], match[2], {-1, -1, 0, 0, 0, 0}});
    } else if (functions.empty()) {
      continue;
    } else if (Figures& f = functions.back().figures; std::regex_search(line, match, properties)) {
      of_entry = match[1] == functions.back().name;
    } else if (line.find("bytes stack frame") != std::string::npos) {
      const std::int64_t stores = number_before(line, " bytes spill stores");
      const std::int64_t loads = number_before(line, " bytes spill loads");
      if (stores < 0 || loads < 0) break;
      if (of_entry) f.stack = number_before(line, " bytes stack frame");
      f.spill_stores += stores;
      f.spill_loads += loads;
    } else if (line.find("Used ") != std::string::npos) {
      f.registers = number_before(line, " registers");
      f.shared = std::max<std::int64_t>(0, number_before(line, " bytes smem"));
    }
  }
  for (const CompiledFunction& f : functions) {
    if (f.figures.registers < 0 || f.figures.stack < 0) {
      throw EnvironmentError("ptxas -v does not tell registers, stack and spills of " + f.name +
                             " in the words that are known; it says:\n" + words);
    }
  }
  return functions;
}

}  // namespace lanescope
