#include "gates/run/accessing_lines.h"

#include <algorithm>
#include <cctype>
#include <cstddef>

namespace lanescope {
namespace {

/// Where lanes were as the run ended: "ret at x.cu:17: the block exits".
std::vector<std::string> ending_lines(const Diagnosis& diagnosis) {
  std::vector<std::string> lines;
  for (const std::string& line : diagnosis.evidence) {
    const std::size_t at = line.find(" at ");
    if (!diagnosis.by_end || lines.size() == 2 || at == line.npos) continue;
    const std::size_t end = line.find_first_of(", ", at + 4);
    std::string place = line.substr(at + 4, end == line.npos ? end : end - at - 4);
    if (place.ends_with(':')) place.pop_back();
    const bool is_place = place.find(':') != place.npos && std::isdigit(place.back());
    if (is_place && std::ranges::find(lines, place) == lines.end()) lines.push_back(place);
  }
  return lines;
}

}  // namespace

std::vector<std::string> accessing_lines(const Diagnosis& diagnosis) {
  std::vector<std::string> lines;
  if (diagnosis.memory.empty()) return ending_lines(diagnosis);
  const CheckReport::Item& item = diagnosis.memory.front();
  for (const std::string& line : {item.waited_line, item.access_line, item.earlier_line}) {
    if (!line.empty() && std::find(lines.begin(), lines.end(), line) == lines.end()) {
      lines.push_back(line);
    }
  }
  return lines;
}

}  // namespace lanescope
