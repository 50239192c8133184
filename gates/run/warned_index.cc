#include "gates/run/warned_index.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "debug/causes/memory_findings.h"

namespace lanescope {
namespace {

/// Whether `place`, "x.h:17:3 ...", is of the lines of `source`, "x.h:12" or "x.h:12-34 ...".
bool is_in(const std::string& place, const std::string& source) {
  const auto line = place_in_source(place), first = place_in_source(source);
  if (!line || !first || line->first != first->first) return false;
  int last = first->second;
  std::sscanf(source.c_str() + first->first.size(), ":%*d-%d", &last);
  return first->second <= line->second && line->second <= last;
}

}  // namespace

void take_warned_index(Location& location) {
  Diagnosis& diagnosis = *location.diagnosis;
  if (diagnosis.sure() || diagnosis.by_end || !diagnosis.memory.empty()) return;
  for (const std::string& warning : location.warnings) {
    const bool makes_it = std::ranges::any_of(
        location.source, [&](const std::string& s) { return is_in(warning, s); });
    if (!makes_it || warning.find("[-Warray-bounds") == warning.npos) continue;
    diagnosis.cause = Cause::out_of_bounds;
    diagnosis.certain = false;
    diagnosis.evidence.insert(diagnosis.evidence.begin(),
                              "the compiler warns of an index beyond an array there, of registers "
                              "or in memory: see its words");
    return;
  }
}

}  // namespace lanescope
