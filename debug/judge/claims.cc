// What a dump says of itself beside what it holds.

#include <algorithm>

#include "debug/judge/diff.h"
#include "debug/judge/judge.h"
#include "debug/simt/numerics.h"
#include "reference/inputs.h"

namespace lanescope {
namespace {

/// The inputs have a hash, and where they were generated they can be again.
void check_inputs(const Judge& judge, const DumpInfo& info, std::vector<std::string>& wrong) {
  const std::string held = hash_inputs(judge.inputs());
  if (!info.input_hash.empty() && info.input_hash != held) {
    wrong.push_back("the inputs in the dump do not have the hash that it names");
  }
  const std::vector<std::string> kinds = input_kinds();
  if (std::find(kinds.begin(), kinds.end(), info.input) == kinds.end()) return;
  if (hash_inputs(generate_inputs(info.problem, info.dtype, info.input, info.seed)) == held) return;
  wrong.push_back("the inputs in the dump are not those of --input " + info.input + " --seed " +
                  std::to_string(info.seed) + ", which it names");
}

/// A module's name says again what the dump says of kernel, gate, type, tile and backend.
void check_module(const DumpInfo& info, std::vector<std::string>& wrong) {
  if (info.module.empty() || is_module_path(info.module)) return;
  const std::string named = info.kernel + "." + info.gate + "." + name_of(info.dtype) + ".d" +
                            std::to_string(info.head_dim) + "." + std::to_string(info.br) + "x" +
                            std::to_string(info.bc) + "." + info.backend;
  if (info.module == named || info.module.starts_with(named + ".")) return;
  wrong.push_back("the dump is of the module " + info.module +
                  ", but what it says of kernel, gate, type, tile and backend makes " + named);
}

/// The SIMT machine says whose rules it follows, twice.
void check_rules(const DumpInfo& info, std::vector<std::string>& wrong) {
  for (const simt::RuleSet& rules : simt::rule_sets) {
    const bool named = info.device.ends_with("(" + std::string(rules.title) + " rules)");
    if (!named || info.arch == rules.arch) continue;
    wrong.push_back("the dump names the device " + info.device + " and the architecture " +
                    info.arch + ", whose rules are others");
  }
}

/// The value of O that is farthest off, by its bound.
std::optional<Divergence> worst_output(const DiffReport& report) {
  const auto site = std::find_if(report.sites.begin(), report.sites.end(), [](const SiteReport& s) {
    return s.site == SiteId::o_final && s.judgement == Judgement::chain;
  });
  return site == report.sites.end() ? std::nullopt : site->worst;
}

}  // namespace

void add_remarks(const Dump& dump, DiffReport& report) {
  const Judge judge(dump);
  const DumpInfo& info = dump.info;
  const char* names[] = {"q", "k", "v"};
  const auto found = scan_non_finite(judge.inputs());
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i].first < 0) continue;
    report.warnings.push_back("input " + std::string(names[i]) + " holds " +
                              std::to_string(found[i].nan) + " NaN and " +
                              std::to_string(found[i].inf) + " infinities, the first at element " +
                              std::to_string(found[i].first));
  }
  if (!info.incomplete.empty()) {
    report.warnings.push_back(info.end_text());
  }
  if (judge.lacks_outputs()) {
    report.warnings.push_back("the dump lacks an output, o_final or lse");
  }
  check_inputs(judge, info, report.contradictions);
  check_module(info, report.contradictions);
  check_rules(info, report.contradictions);
  for (const SiteId id : judge.foreign_sites()) {
    report.contradictions.push_back("site " + std::string(name_of(id)) +
                                    " is no part of the gate " + info.gate +
                                    " that the dump names, and was not judged");
  }
  report.rounded = find_rounded_operands(dump);
  if (report.rounded && !report.first) report.first = worst_output(report);
  if (report.contradictions.empty() && !report.rounded) return;
  report.match = report.unsettled = false;
}

std::vector<std::string> unchecked_claims(const DumpInfo& info) {
  const bool matrix_unit = info.products != Products::fp32_fma;
  std::vector<std::string> claims = {
      "kernel " + info.kernel, "device " + info.device,
      "arithmetic " + (matrix_unit ? "of the matrix unit of " + info.arch
                                   : std::string("fp32 fused multiply-adds"))};
  const std::vector<std::string> kinds = input_kinds();
  if (std::find(kinds.begin(), kinds.end(), info.input) == kinds.end()) {
    claims.push_back("input " + info.input);
  }
  return claims;
}

}  // namespace lanescope
