#include "debug/diagnose.h"

#include <algorithm>
#include <tuple>

#include "debug/detectors.h"

namespace lanescope {
namespace {

constexpr std::size_t suspects_kept = 4;

/// Certain ones first, then those that also predict the right values, then the more telling cause.
auto rank(const Finding& finding) {
  const bool consistent = finding.consistent >= 0.98;
  return std::tuple(!finding.certain(), finding.certain() ? !consistent : false,
                    finding.certain() ? 0.0 : -finding.explained, finding.cause,
                    -finding.explained - finding.consistent);
}

Findings all_findings(const Scene& scene) {
  Findings findings;
  for (const auto detector :
       {find_unwritten, find_disagreement, find_non_finite, find_mask, find_formula, find_other_row,
        find_incomplete_reduction, find_permutation, find_product, find_scale, find_source,
        find_lost_precision}) {
    detector(scene, findings);
  }
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return rank(a) < rank(b); });
  return findings;
}

}  // namespace

Diagnosis diagnose(const Dump& dump, const DiffReport& report) {
  Diagnosis diagnosis;
  diagnosis.first = report.first;
  if (!dump.info.incomplete.empty()) {
    diagnosis.cause = Cause::machine_rule;
    diagnosis.certain = true;
    diagnosis.evidence = {dump.info.incomplete};
    return diagnosis;
  }
  if (!report.first) {
    diagnosis.evidence = report.warnings;
    return diagnosis;
  }
  const Scene scene(dump, *report.first);
  Findings findings = all_findings(scene);
  if (!findings.empty() && findings[0].explained >= 0.5) {
    diagnosis.cause = findings[0].cause;
    diagnosis.certain = findings[0].certain();
    diagnosis.evidence = findings[0].evidence;
    findings.erase(findings.begin());
  }
  for (const Finding& finding : findings) {
    const bool known =
        std::any_of(diagnosis.suspects.begin(), diagnosis.suspects.end(),
                    [&](const Finding& other) { return other.cause == finding.cause; });
    if (known || finding.cause == diagnosis.cause) continue;
    if (diagnosis.suspects.size() < suspects_kept) diagnosis.suspects.push_back(finding);
  }
  return diagnosis;
}

}  // namespace lanescope
