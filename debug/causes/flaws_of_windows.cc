#include <algorithm>
#include <cstdlib>

#include "debug/causes/flaw_families.h"

namespace lanescope {

std::vector<Flaw> window_flaws(const DumpInfo& info) {
  Flaws flaws;
  const Problem p = info.problem;
  const std::int64_t corner = p.len_kv - p.len_q;
  constexpr std::int64_t many = 1024;  // of which each window takes long, and there are many
  const auto add = [&](const std::string& text, int choices, const auto& hides) {
    flaws.push_back({Cause::sliding_window, Stage::qk, text, choices, [=](RowPlan& plan) {
                       std::erase_if(plan.terms, [&](const RowPlan::Term& term) {
                         return hides(plan.query, term.key);
                       });
                     }});
  };
  for (std::int64_t window = 1; window < p.len_kv; ++window) {
    const std::string before =
        "in which a row does not see the keys more than " + std::to_string(window - 1);
    const bool is_usual = window % 16 == 0 || window % 16 == 1;
    if (p.len_kv > many && !is_usual) continue;
    add(before + " before its own", 3 - is_usual,
        [=](std::int64_t query, std::int64_t key) { return key <= query + corner - window; });
    if (corner != 0) {
      add(before + " before its own, counted without skv - s", 3 - is_usual,
          [=](std::int64_t query, std::int64_t key) { return key <= query - window; });
    }
    if (!p.causal) {
      add(before + " before or behind its own", 3 - is_usual,
          [=](std::int64_t query, std::int64_t key) {
            return std::abs(query + corner - key) >= window;
          });
    }
  }
  // The window begins with the page, or tile, that its first key lies in.
  for (const std::int64_t page : {8, 16, 32, 64, 128}) {
    for (std::int64_t window = 16; window < std::min(p.len_kv, many); window += 16) {
      add("in which a row does not see the keys before the last " + std::to_string(window) +
              " that it may, by whole pages of " + std::to_string(page),
          3, [=](std::int64_t query, std::int64_t key) {
            const std::int64_t first = std::max<std::int64_t>(0, p.visible_keys(query) - window);
            return key < first / page * page;
          });
    }
  }
  return flaws;
}

}  // namespace lanescope
