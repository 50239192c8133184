#include <cmath>
#include <functional>

#include "debug/causes/detectors.h"
#include "debug/causes/phrases.h"
#include "reference/elementary.h"

namespace lanescope {
namespace {

using reference::infinity;

/// A rule for which keys a query sees.
struct Rule {
  Cause cause;
  std::string text;
  std::function<bool(std::int64_t query, std::int64_t key)> visible;
};

std::vector<Rule> rules_for(const Scene& scene) {
  const DumpInfo& info = scene.info();
  const std::int64_t len_q = info.problem.len_q, len_kv = info.problem.len_kv;
  const std::int64_t offset = len_kv - len_q, br = info.br, bc = info.bc;
  const auto ends = [=](std::int64_t key) { return key < len_kv; };
  std::vector<Rule> rules;
  if (!info.problem.causal) {
    rules.push_back({Cause::tail_mask_missing, "keys beyond the end of the sequence are visible",
                     [](auto, auto) { return true; }});
    for (const int by : {1, -1, 2, -2}) {
      rules.push_back({Cause::mask_off_by_one,
                       "the keys end " + std::to_string(by) + " after where they should",
                       [=](auto, auto key) { return key < len_kv + by; }});
    }
    for (const std::int64_t keys : {8, 16, 32}) {
      rules.push_back(
          {Cause::mask_misaligned,
           "all keys of a group of " + std::to_string(keys) + " are masked as its first",
           [=](auto, auto key) { return key / keys * keys < len_kv; }});
      rules.push_back({Cause::mask_misaligned,
                       "all keys of a group of " + std::to_string(keys) + " are masked as its last",
                       [=](auto, auto key) { return key / keys * keys + keys - 1 < len_kv; }});
    }
    rules.push_back({Cause::mask_misaligned, "a causal mask though none was asked for",
                     [=](auto query, auto key) { return ends(key) && key <= query + offset; }});
    return rules;
  }
  rules.push_back({Cause::causal_mask_missing, "the causal mask is not applied",
                   [=](auto, auto key) { return ends(key); }});
  rules.push_back({Cause::causal_mask_missing, "neither the causal mask nor the end is applied",
                   [](auto, auto) { return true; }});
  rules.push_back({Cause::tail_mask_missing, "keys beyond the end of the sequence are visible",
                   [=](auto query, auto key) { return key <= query + offset; }});
  for (const int by : {-1, 1, -2, 2}) {
    rules.push_back(
        {Cause::mask_off_by_one,
         "query i sees the keys up to i " + std::string(by < 0 ? "- " : "+ ") +
             std::to_string(std::abs(by)) + " (+ skv - s), not up to i",
         [=](auto query, auto key) { return ends(key) && key <= query + offset + by; }});
  }
  for (const int by : {-1, 1}) {
    rules.push_back(
        {Cause::mask_off_by_one, "key j is taken for key j " + std::string(by < 0 ? "+ 1" : "- 1"),
         [=](auto query, auto key) { return key - by < len_kv && key - by <= query + offset; }});
  }
  rules.push_back({Cause::mask_misaligned, "aligned to the upper left corner, not the lower right",
                   [=](auto query, auto key) { return ends(key) && key <= query; }});
  rules.push_back({Cause::mask_misaligned, "the offset skv - s has the wrong sign",
                   [=](auto query, auto key) { return ends(key) && key <= query - offset; }});
  rules.push_back({Cause::mask_misaligned, "the mask is mirrored: earlier keys are masked",
                   [=](auto query, auto key) { return ends(key) && key >= query + offset; }});
  rules.push_back({Cause::mask_misaligned,
                   "the key is counted from the tile's first, not from key 0",
                   [=](auto query, auto key) { return ends(key) && key % bc <= query + offset; }});
  rules.push_back({Cause::mask_misaligned,
                   "the query is counted from the block's first row, not from query 0",
                   [=](auto query, auto key) { return ends(key) && key <= query % br + offset; }});
  rules.push_back({Cause::mask_misaligned, "query and key are both counted from their tile's first",
                   [=](auto query, auto key) { return ends(key) && key % bc <= query % br; }});
  for (const std::int64_t rows : {8, 16, 32}) {
    rules.push_back({Cause::mask_misaligned,
                     "the query is counted within " + std::to_string(rows) + " rows of the block",
                     [=](auto query, auto key) {
                       return ends(key) && key <= query / br * br + query % rows + offset;
                     }});
    rules.push_back(
        {Cause::mask_misaligned,
         "all rows of a group of " + std::to_string(rows) + " are masked as its first",
         [=](auto query, auto key) { return ends(key) && key <= query / rows * rows + offset; }});
    rules.push_back({Cause::mask_misaligned,
                     "all rows of a group of " + std::to_string(rows) + " are masked as its last",
                     [=](auto query, auto key) {
                       return ends(key) && key <= query / rows * rows + rows - 1 + offset;
                     }});
    rules.push_back(
        {Cause::mask_misaligned,
         "all keys of a group of " + std::to_string(rows) + " are masked as its first",
         [=](auto query, auto key) { return ends(key) && key / rows * rows <= query + offset; }});
    rules.push_back({Cause::mask_misaligned,
                     "all keys of a group of " + std::to_string(rows) + " are masked as its last",
                     [=](auto query, auto key) {
                       return ends(key) && key / rows * rows + rows - 1 <= query + offset;
                     }});
  }
  return rules;
}

/// The rules by which the keys of the scene's tile are counted from another key than its first.
std::vector<Rule> shifted_rules(const Scene& scene) {
  const DumpInfo& info = scene.info();
  const std::int64_t len_kv = info.problem.len_kv, offset = len_kv - info.problem.len_q;
  const std::int64_t first = info.key_of(scene.place(), scene.tile());
  const bool causal = info.problem.causal;
  std::vector<Rule> rules;
  for (std::int64_t from = 0; from <= len_kv + info.bc; ++from) {
    const std::int64_t shift = from - first;
    if (std::abs(shift) <= 2) continue;
    rules.push_back({Cause::mask_misaligned,
                     "the keys of tile " + std::to_string(scene.tile()) + " are counted from " +
                         std::to_string(from) + ", its first is " + std::to_string(first),
                     [=](auto query, auto key) {
                       return key + shift < len_kv && (!causal || key + shift <= query + offset);
                     }});
  }
  return rules;
}

/// Share of the wrong and of all the scores that `rule` predicts to be masked or not.
std::pair<double, double> agreement(const Scene& scene, const Rule& rule) {
  const DumpInfo& info = scene.info();
  const BlockPlace place = scene.place();
  int wrong = 0, explained = 0, all = 0, agreed = 0;
  for (const Element& e : scene.elements()) {
    if (e.unwritten) continue;
    const bool masked = e.got == -infinity;
    const bool hit = rule.visible(info.query_of(place, e.row),
                                  info.key_of(place, scene.tile()) + e.col) == !masked;
    ++all;
    agreed += hit;
    if (e.wrong) ++wrong;
    if (e.wrong && hit && masked != (e.want == -infinity)) ++explained;
  }
  return {static_cast<double>(explained) / std::max(wrong, 1),
          static_cast<double>(agreed) / std::max(all, 1)};
}

/// Whether a masked score holds what it would be without a mask.
bool is_product(const Scene& scene, const Element& e) {
  const auto q = scene.held(SiteId::q_smem, 0), k = scene.held(SiteId::k_smem, scene.tile());
  if (!q || !k || !std::isfinite(e.got)) return false;
  const double factor = scene.reference().score_factor().value;
  double dot = 0;
  for (reference::Index i = 0; i < q->cols(); ++i) dot += (*q)(e.row, i) * (*k)(e.col, i);
  const double score = factor * dot;
  return std::abs(score - e.got) <= 1e-4 * (1 + std::abs(score));
}

}  // namespace

void find_mask(const Scene& scene, Findings& findings) {
  if (scene.site() != SiteId::s) return;
  int leaked = 0, lost = 0, same_value = 0;
  const Element* example = nullptr;
  double value = 0;
  for (const Element& e : scene.elements()) {
    if (!e.wrong || e.unwritten || (e.want == -infinity) == (e.got == -infinity)) continue;
    (e.want == -infinity ? leaked : lost) += 1;
    if (example == nullptr) {
      example = &e;
      value = e.got;
    }
    same_value += e.got == value;
  }
  if (example == nullptr) return;
  const std::string counts = std::to_string(leaked) + " scores should be masked and are not, " +
                             std::to_string(lost) + " are masked and should not be";
  const std::string example_line = "e.g. " + example_text(scene, *example);
  if (lost == 0 && leaked > 1 && same_value == leaked && !is_product(scene, *example)) {
    Finding finding{Cause::mask_value, static_cast<double>(leaked) / scene.wrong_count()};
    finding.evidence = {"all " + std::to_string(leaked) + " masked scores that are wrong hold " +
                        value_text(value)};
    findings.push_back(finding);
    return;
  }
  bool known = false;
  const auto attempt = [&](const Rule& rule, double bits) {
    const auto [explained, agreed] = agreement(scene, rule);
    if (explained < 0.98 || agreed < 0.98) return;
    known = true;
    Finding finding{rule.cause, explained, agreed};
    finding.bits += bits;
    finding.evidence = {rule.text, counts, example_line};
    findings.push_back(finding);
  };
  for (const Rule& rule : rules_for(scene)) attempt(rule, 0);
  for (const Rule& rule : known ? std::vector<Rule>{} : shifted_rules(scene)) {
    attempt(rule, 8);
    if (known) break;  // what it sees of the tile is the same for many
  }
  Finding finding{Cause::mask_wrong, static_cast<double>(leaked + lost) / scene.wrong_count()};
  finding.bits = 1.5 * (leaked + lost);
  finding.evidence = {counts, example_line};
  findings.push_back(finding);
}

}  // namespace lanescope
