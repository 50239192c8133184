#include "gates/run/warned_index.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>

namespace lanescope {
namespace {

/// "FILE:12" or "FILE:12-34", and what follows.
struct Lines {
  std::string file;
  int first = 0, last = 0;
};

std::optional<Lines> lines_of(const std::string& text) {
  const std::size_t colon = text.find(':', 1);
  Lines lines;
  if (colon == text.npos || std::sscanf(text.c_str() + colon, ":%d", &lines.first) != 1) return {};
  lines.file = text.substr(0, colon);
  if (std::sscanf(text.c_str() + colon, ":%*d-%d", &lines.last) != 1) lines.last = lines.first;
  return lines;
}

bool is_in(const Lines& place, const Lines& around) {
  return place.file == around.file && around.first <= place.first && place.first <= around.last;
}

}  // namespace

void take_warned_index(Location& location) {
  Diagnosis& diagnosis = *location.diagnosis;
  if (diagnosis.sure() || diagnosis.by_end || !diagnosis.memory.empty()) return;
  for (const std::string& warning : location.warnings) {
    const std::optional<Lines> place = lines_of(warning);
    if (!place || warning.find("[-Warray-bounds") == warning.npos) continue;
    const bool makes_it = std::ranges::any_of(location.source, [&](const std::string& source) {
      const std::optional<Lines> around = lines_of(source);
      return around && is_in(*place, *around);
    });
    if (!makes_it) continue;
    diagnosis.cause = Cause::out_of_bounds;
    diagnosis.certain = false;
    diagnosis.evidence.insert(diagnosis.evidence.begin(),
                              "the compiler warns of an index beyond an array there, of registers "
                              "or in memory: see its words");
    return;
  }
}

}  // namespace lanescope
