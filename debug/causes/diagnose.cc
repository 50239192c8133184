#include "debug/causes/diagnose.h"

#include <algorithm>
#include <sstream>
#include <tuple>

#include "debug/causes/detectors.h"
#include "debug/judge/last_sites.h"

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
       {find_unwritten, find_disagreement, find_non_finite, find_mask, find_formula, find_combine,
        find_other_row, find_incomplete_reduction, find_permutation, find_product, find_input_scale,
        find_scale, find_source, find_known_flaw, find_lost_precision}) {
    detector(scene, findings);
  }
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return rank(a) < rank(b); });
  return findings;
}

/// Formulas that only fit by the special values of the first tile (alpha = 0, m_prev = -inf) do not
/// fit the wrong values of the next ones: those that do come first.
void keep_what_lasts(const Dump& dump, const Scene& scene, Findings& findings) {
  Divergence later = scene.first();
  if (scene.tile() < 0 || later.judgement != Judgement::local) return;
  const auto lasts = [&](const Findings& others, const Finding& finding) {
    return std::any_of(others.begin(), others.end(), [&](const Finding& other) {
      return other.cause == finding.cause && other.certain();
    });
  };
  while (++later.tile <= scene.last_tile() && later.tile <= scene.tile() + 2) {
    if (!scene.judge().slots(scene.site())->holds(scene.block(), later.tile)) return;
    const Scene next(dump, later);
    if (next.wrong_count() == 0) continue;
    const Findings others = all_findings(next);
    const bool any = std::any_of(findings.begin(), findings.end(), [&](const Finding& finding) {
      return finding.formula && finding.certain() && lasts(others, finding);
    });
    for (Finding& finding : findings) {
      if (any && finding.formula && finding.certain() && !lasts(others, finding)) {
        finding.explained *= 0.9;
      }
    }
  }
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return rank(a) < rank(b); });
}

bool ambiguous(const Findings& findings) {
  return findings.size() > 1 && findings[0].formula && findings[0].certain() &&
         findings[1].formula && findings[1].certain() && findings[1].cause != findings[0].cause;
}

}  // namespace

Diagnosis diagnose(const Dump& dump, const DiffReport& report) {
  Diagnosis diagnosis;
  diagnosis.first = report.first;
  if (!dump.info.incomplete.empty()) {
    diagnosis.cause = cause_of(dump.info.stop.kind);
    diagnosis.certain = true;
    std::istringstream lines(dump.info.incomplete);
    for (std::string line; std::getline(lines, line);) diagnosis.evidence.push_back(line);
    if (!dump.info.broke_off()) return diagnosis;
    diagnosis.evidence.push_back("last site reached:");
    for (const std::string& line : last_site_lines(report.last_sites)) {
      diagnosis.evidence.push_back("  " + line);
    }
    if (!diagnosis.first) diagnosis.first = place_behind_last_site(dump, report.last_sites);
    return diagnosis;
  }
  if (!report.first) {
    diagnosis.evidence = report.warnings;
    return diagnosis;
  }
  const Scene scene(dump, *report.first);
  Findings findings = all_findings(scene);
  keep_what_lasts(dump, scene, findings);
  diagnosis.ambiguous = ambiguous(findings);
  if (!findings.empty() && findings[0].explained >= 0.5) {
    diagnosis.cause = findings[0].cause;
    diagnosis.certain = findings[0].certain();
    diagnosis.evidence = findings[0].evidence;
    if (findings[0].stage) diagnosis.first->stage = *findings[0].stage;
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
