#include <algorithm>
#include <cctype>
#include <sstream>

#include "gates/measure/resources.h"
#include "reference/error.h"

namespace lanescope {
namespace {

/// The number before `unit` in `line`, e.g. of " bytes smem".
std::int64_t number_before(const std::string& line, const std::string& unit) {
  const auto is_digit = [&](std::size_t at) { return std::isdigit(line[at] & 0xff) != 0; };
  for (std::size_t end = line.find(unit); end != line.npos; end = line.find(unit, end + 1)) {
    std::size_t begin = end;
    while (begin > 0 && is_digit(begin - 1)) --begin;
    if (begin < end) return std::stoll(line.substr(begin, end - begin));
  }
  return -1;
}

/// What stands in `line` after `before` and before the next of `ends`; empty where nothing does.
std::string text_after(const std::string& line, const std::string& before, const char* ends) {
  const std::size_t at = line.find(before);
  if (at == line.npos) return {};
  const std::size_t begin = at + before.size();
  return line.substr(begin, line.find_first_of(ends, begin) - begin);
}

}  // namespace

std::vector<CompiledFunction> parse_ptxas(const std::string& report) {
  std::vector<CompiledFunction> functions;
  std::istringstream in(report);
  // Functions that are called and not inlined have properties too: their stack is not the entry's.
  bool of_entry = false;
  for (std::string line; std::getline(in, line);) {
    const std::string entry = text_after(line, "Compiling entry function '", "'");
    const std::string function = text_after(line, "Function properties for ", " \t\r");
    if (!entry.empty()) {
      functions.push_back({entry, text_after(line, "' for '", "'"), {-1, -1, 0, 0, 0, 0}});
      continue;
    }
    if (functions.empty()) continue;
    Figures& f = functions.back().figures;
    if (!function.empty()) {
      of_entry = function == functions.back().name;
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
                             " in a form that is known; it says:\n" + report);
    }
  }
  return functions;
}

}  // namespace lanescope
