#pragma once

#include <functional>
#include <string>
#include <vector>

#include "debug/causes/diagnose.h"
#include "debug/dump/site_slots.h"
#include "tests/support/synthetic_dump.h"

// Dumps with faults put into them, and what is said of them.

namespace lanescope::testing {

/// The values of a site, its first `rows` rows.
inline reference::Array held(const Dump& dump, SiteId id, std::int64_t block, std::int64_t tile,
                             std::int64_t rows) {
  return SiteSlots(dump, *dump.find_site(name_of(id))).elements(block, tile, rows);
}

/// Every slot of a tile becomes value(row, col) of the element that it stands for.
inline void change(Dump& dump, SiteId id, std::int64_t block, std::int64_t tile,
                   const std::function<double(int, int)>& value) {
  const SiteSlots slots(dump, *dump.find_site(name_of(id)));
  Tensor& tensor = tensor_of(dump, id);
  for (std::int64_t slot = 0; slot < slots.count(); ++slot) {
    tensor.set(slots.first(block, tile) + slot, value(slots.row(slot), slots.col(slot)));
  }
}

inline Diagnosis diagnosis_of(const Dump& dump) {
  return diagnose(dump, diff_against_reference(dump));
}

/// "stage site cause" with "?" where it is not certain.
inline std::string named(const Diagnosis& diagnosis) {
  const auto& first = diagnosis.first;
  return (first ? std::string(name_of(first->stage)) + " " + name_of(first->site) + " " : "") +
         name_of(diagnosis.cause) + (diagnosis.certain ? "" : "?");
}

inline std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

}  // namespace lanescope::testing
