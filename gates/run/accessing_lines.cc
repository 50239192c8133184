#include "gates/run/accessing_lines.h"

#include <algorithm>
#include <cctype>
#include <cstddef>

namespace lanescope {
namespace {

/// Adds the first place that a text names: "ret at x.cu:17: the block exits".
void add_place(const std::string& text, std::vector<std::string>& lines) {
  const std::size_t at = text.find(" at ");
  if (at == text.npos) return;
  const std::size_t end = text.find_first_of(", ;", at + 4);
  std::string place = text.substr(at + 4, end == text.npos ? end : end - at - 4);
  if (place.ends_with(':')) place.pop_back();
  const bool is_place = place.find(':') != place.npos && std::isdigit(place.back());
  if (is_place && std::ranges::find(lines, place) == lines.end()) lines.push_back(place);
}

/// Where lanes were as the run ended, and where those had come that they wait for.
std::vector<std::string> ending_lines(const Diagnosis& diagnosis) {
  std::vector<std::string> lines;
  for (const std::string& line : diagnosis.evidence) {
    if (!diagnosis.by_end || lines.size() >= 2) continue;
    add_place(line, lines);
    add_place(place_of_absent(line), lines);
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
