#pragma once

#include <string>

#include "debug/judge/diff.h"

namespace lanescope::testing {

inline const Problem ragged{1, 2, 1, 40, 70, 32, false};  ///< no length a multiple of a tile
inline const Problem causal{1, 1, 1, 96, 96, 32, true};

/// The first divergence as "stage site judgement tile T row R col C", or "match".
inline std::string verdict(const Dump& dump) {
  const DiffReport report = diff_against_reference(dump);
  if (report.match) return "match";
  if (!report.first) return "no match";
  const Divergence& at = *report.first;
  return std::string(name_of(at.stage)) + " " + name_of(at.site) + " " +
         (at.judgement == Judgement::local ? "local" : "chain") + " tile " +
         std::to_string(at.tile) + " row " + std::to_string(at.row) + " col " +
         std::to_string(at.col);
}

/// nullptr where the site was not judged so.
inline const SiteReport* report_of(const DiffReport& report, SiteId id, Judgement judgement) {
  for (const SiteReport& site : report.sites) {
    if (site.site == id && site.judgement == judgement) return &site;
  }
  return nullptr;
}

}  // namespace lanescope::testing
