#include "debug/causes/diagnose.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <sstream>
#include <tuple>

#include "debug/causes/detectors.h"
#include "debug/judge/last_sites.h"

namespace lanescope {
namespace {

constexpr std::size_t suspects_kept = 4;

/// What it takes to say a value that does not follow: which one, and what it is.
constexpr double exception_bits = 16;
/// Explanations that differ by less say as little.
constexpr double same_bits = 8;

/// The length of the explanation (minimum description length, Rissanen 1978): the bits of the rule
/// and those of its exceptions, right values that it would have wrong among them.
double cost_of(const Finding& finding, const Scene& scene) {
  const double wrong = scene.wrong_count();
  const double right = static_cast<double>(std::ssize(scene.elements())) - wrong;
  // Within 2 %, exceptions are taken for coincidences of rounding.
  const auto exceptions = [](double share, double count) {
    return share >= 0.98 ? 0 : (1 - share) * count;
  };
  return finding.bits + exception_bits * (exceptions(finding.explained, wrong) +
                                          exceptions(finding.consistent, right));
}

/// Certain ones first, the shorter explanation before the longer, then the more telling cause.
void sort_by_cost(Findings& findings, const Scene& scene) {
  const auto rank = [&](const Finding& finding) {
    const double cost = finding.certain() ? std::floor(cost_of(finding, scene) / same_bits) : 0;
    return std::tuple(!finding.certain(), cost, finding.certain() ? 0.0 : -finding.explained,
                      finding.cause, -finding.explained - finding.consistent);
  };
  std::stable_sort(findings.begin(), findings.end(),
                   [&](const Finding& a, const Finding& b) { return rank(a) < rank(b); });
}

/// Whether zeros stand for all values that are wrong: so they would by any rule whose operands are
/// zero. The same holds of infinities in outputs, and between the stages of what passes for zero.
bool only_zeros(const Scene& scene) {
  return std::all_of(scene.elements().begin(), scene.elements().end(), [&](const Element& e) {
    const bool says_nothing =
        scene.at_end() ? e.got == 0 || std::isinf(e.got) : scene.fits(e.row, e.col, e.got, 0);
    return !e.wrong || (!e.unwritten && says_nothing && std::isfinite(e.want));
  });
}

Findings all_findings(const Scene& scene) {
  Findings findings;
  for (const auto detector :
       {find_unwritten,     find_disagreement,   find_non_finite,  find_mask,
        find_formula,       find_epilogue,       find_limit,       find_type,
        find_stride,        find_combine,        find_extra_tile,  find_other_row,
        find_reduction,     find_wide_reduction, find_permutation, find_offsets,
        find_exchange,      find_product,        find_input_scale, find_scale,
        find_source,        find_known_flaw,     find_empty_rows,  find_overflow,
        find_lost_precision}) {
    detector(scene, findings);
  }
  for (Finding& finding : findings) {
    // That zeros stand there says more than the formulas that give them.
    if (finding.certain() && !finding.says_which && only_zeros(scene))
      finding.explained *= finding.formula ? 0.89 : 0.9;
  }
  sort_by_cost(findings, scene);
  return findings;
}

/// Wrong values of a later tile that tell whether a formula lasts.
constexpr int fewest_telling = 16;

/// Formulas that only fit by the special values of the first tile (alpha = 0, m_prev = -inf) do not
/// fit the wrong values of the next ones: those that do come first. Of zeros, the next tiles tell.
void keep_what_lasts(const Dump& dump, const Scene& scene, const Recurrence* softmax,
                     Findings& findings) {
  Divergence later = scene.first();
  if (scene.tile() < 0 || later.judgement != Judgement::local) return;
  const bool zeros = only_zeros(scene);
  const auto lasts = [&](const Findings& others, const Finding& finding) {
    return std::any_of(others.begin(), others.end(), [&](const Finding& other) {
      return other.cause == finding.cause && other.certain();
    });
  };
  for (int visits = 1; visits <= 2; ++visits) {
    later.tile = scene.earlier(scene.tile(), -visits);
    if (later.tile < 0 || later.tile > scene.last_tile()) break;
    if (!scene.judge().slots(scene.site())->holds(scene.block(), later.tile)) return;
    const Scene next(dump, later, scene.breadth(), softmax);
    if (next.wrong_count() == 0) continue;
    const Findings others = all_findings(next);
    const bool any = std::any_of(findings.begin(), findings.end(), [&](const Finding& finding) {
      return finding.formula && finding.certain() && lasts(others, finding);
    });
    for (Finding& finding : findings) {
      const bool lasting = lasts(others, finding);
      const bool fails = any || next.wrong_count() >= fewest_telling;
      if (fails && finding.formula && finding.certain() && !lasting) finding.explained *= 0.9;
      if (zeros && lasting && finding.explained > 0.8) finding.explained = 1;
    }
  }
  sort_by_cost(findings, scene);
}

/// Other causes that explain as much as the first of `findings` with as few words.
Findings rivals_of(const Findings& findings, const Scene& scene) {
  Findings rivals;
  if (findings.empty() || !findings[0].formula || !findings[0].certain()) return rivals;
  const double limit = cost_of(findings[0], scene) + same_bits;
  std::copy_if(findings.begin() + 1, findings.end(), std::back_inserter(rivals),
               [&](const Finding& other) {
                 return other.formula && other.certain() && other.cause != findings[0].cause &&
                        cost_of(other, scene) < limit;
               });
  return rivals;
}

bool is_said(const std::string& line, const Diagnosis& diagnosis) {
  return std::find(diagnosis.evidence.begin(), diagnosis.evidence.end(), line) !=
         diagnosis.evidence.end();
}

/// What is wrong is `finding`.
void settle_on(const Finding& finding, Diagnosis& diagnosis) {
  diagnosis.cause = finding.cause;
  // A mask that no known rule says is a symptom.
  const bool is_told =
      finding.cause != Cause::mask_wrong || finding.formula || !finding.flaw.empty();
  diagnosis.certain = finding.certain() && is_told;
  diagnosis.predicts = finding.certain() && finding.formula;
  diagnosis.reads_unwritten = finding.reads_unwritten;
  diagnosis.untaken = finding.untaken;
  diagnosis.shows = finding.shows;
  diagnosis.evidence = finding.evidence;
  if (finding.stage) diagnosis.first->stage = *finding.stage;
}

}  // namespace

Diagnosis diagnose(const Dump& dump, const DiffReport& report, Breadth breadth) {
  Diagnosis diagnosis;
  diagnosis.first = report.first;
  if (report.rounded) {
    diagnosis.first->stage = report.rounded->stage;
    diagnosis.cause = Cause::precision_lost;
    diagnosis.certain = diagnosis.predicts = true;
    diagnosis.evidence = report.rounded->text();
    return diagnosis;
  }
  if (!dump.info.incomplete.empty()) {
    diagnosis.cause = cause_of_end(dump.info.stop.kind, dump.info.incomplete);
    diagnosis.by_end = true;
    diagnosis.end_stage = stage_of_end(diagnosis.cause, dump.info.incomplete);
    diagnosis.certain = !may_be_of_other_wait(dump.info.incomplete);
    std::istringstream lines(dump.info.incomplete);
    for (std::string line; std::getline(lines, line);) diagnosis.evidence.push_back(line);
    if (!dump.info.broke_off()) return diagnosis;
    diagnosis.evidence.push_back("last site reached:");
    for (const std::string& line : last_site_lines(report.last_sites)) {
      diagnosis.evidence.push_back("  " + line);
    }
    if (!diagnosis.first) {
      diagnosis.first = place_behind_last_site(dump, report.last_sites);
      const bool of_tiles = is_of_ring(diagnosis.cause) || waits_for_tiles(dump.info.incomplete);
      if (diagnosis.first && of_tiles) diagnosis.first->stage = Stage::load;
    }
    return diagnosis;
  }
  if (!report.first) {
    diagnosis.evidence = report.warnings;
    return diagnosis;
  }
  const Recurrence* const softmax = report.softmax ? &*report.softmax : nullptr;
  const Scene scene(dump, *report.first, breadth, softmax);
  Findings findings = all_findings(scene);
  keep_what_lasts(dump, scene, softmax, findings);
  diagnosis.softmax = report.softmax;
  diagnosis.rivals = rivals_of(findings, scene);
  std::copy_if(findings.begin(), findings.end(), std::back_inserter(diagnosis.flaws),
               [](const Finding& finding) {
                 return !finding.flaw.empty() && finding.stage && finding.certain();
               });
  if (!findings.empty() && findings[0].explained >= 0.5) {
    settle_on(findings[0], diagnosis);
    findings.erase(findings.begin());
  }
  for (const Finding& finding : findings) {
    const bool known =
        std::any_of(diagnosis.suspects.begin(), diagnosis.suspects.end(),
                    [&](const Finding& other) { return other.cause == finding.cause; });
    if (known || finding.cause == diagnosis.cause) continue;
    Finding suspect = finding;
    std::erase_if(suspect.evidence,
                  [&](const std::string& line) { return is_said(line, diagnosis); });
    // One that says nothing of its own is a symptom of the cause.
    if (suspect.evidence.empty()) continue;
    if (diagnosis.suspects.size() < suspects_kept) diagnosis.suspects.push_back(suspect);
  }
  return diagnosis;
}

void refute(Diagnosis& diagnosis, const DumpInfo& right) {
  std::vector<Finding>& rivals = diagnosis.rivals;
  std::erase_if(rivals, [&](const Finding& rival) { return rival.shows && rival.shows(right); });
  if (rivals.empty() || !diagnosis.shows || !diagnosis.shows(right)) return;
  name_rival(diagnosis, rivals.front().cause);
}

void name_flaw(Diagnosis& diagnosis, const Finding& flaw, const std::vector<Finding>& rivals) {
  settle_on(flaw, diagnosis);
  diagnosis.rivals = rivals;
  diagnosis.certain = rivals.empty();
  std::vector<Finding>& suspects = diagnosis.suspects;
  std::erase_if(suspects, [&](const Finding& suspect) {
    return suspect.cause == flaw.cause ||
           std::any_of(rivals.begin(), rivals.end(),
                       [&](const Finding& rival) { return rival.cause == suspect.cause; });
  });
  suspects.insert(suspects.begin(), rivals.begin(), rivals.end());
  if (suspects.size() > suspects_kept) suspects.resize(suspects_kept);
  for (const Finding& rival : rivals) {
    diagnosis.evidence.push_back("not certain: as well those of attention " + rival.flaw + " (" +
                                 name_of(rival.cause) + ", in the stage " + name_of(*rival.stage) +
                                 ")");
  }
}

void name_flaw_in(Diagnosis& diagnosis, Stage stage) {
  if (diagnosis.certain || !diagnosis.first || diagnosis.first->stage == stage) return;
  for (std::vector<Finding>* const others : {&diagnosis.rivals, &diagnosis.suspects}) {
    const auto other = std::find_if(others->begin(), others->end(), [&](const Finding& finding) {
      return finding.stage == stage && finding.certain() && !finding.flaw.empty();
    });
    if (other == others->end()) continue;
    settle_on(Finding(*other), diagnosis);
    diagnosis.certain = false;
    const auto is_named = [&](const Finding& finding) { return finding.cause == diagnosis.cause; };
    std::erase_if(diagnosis.rivals, is_named);
    std::erase_if(diagnosis.suspects, is_named);
    return;
  }
}

void name_rival(Diagnosis& diagnosis, Cause cause) {
  std::vector<Finding>& rivals = diagnosis.rivals;
  const auto is_named = [&](const Finding& finding) { return finding.cause == cause; };
  const auto rival = std::find_if(rivals.begin(), rivals.end(), is_named);
  if (rival == rivals.end()) return;
  settle_on(Finding(*rival), diagnosis);
  std::erase_if(rivals, is_named);
  std::erase_if(diagnosis.suspects, is_named);
}

void refute_unwritten_reads(Diagnosis& diagnosis) {
  const auto reads = [](const Finding& finding) { return finding.reads_unwritten; };
  std::erase_if(diagnosis.rivals, reads);
  std::erase_if(diagnosis.suspects, reads);
  std::vector<Finding>& others = diagnosis.suspects;
  if (!diagnosis.reads_unwritten || others.empty() || others.front().explained < 0.5) return;
  settle_on(others.front(), diagnosis);
  others.erase(others.begin());
  diagnosis.evidence.push_back("the memory checker finds no read of what nobody wrote");
}

}  // namespace lanescope
