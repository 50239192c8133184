#include <cmath>
#include <numbers>
#include <string>

#include "debug/causes/flaw_families.h"
#include "debug/causes/truncation.h"

namespace lanescope {
void add_flaws_of_rounding(const DumpInfo& info, Flaws& flaws) {
  const double root = std::sqrt(static_cast<double>(info.problem.d));
  const auto add = [&](Stage stage, const std::string& text, int choices, const auto& edit) {
    flaws.push_back({Cause::precision_lost, stage, "whose " + text, choices, edit});
  };
  for (const ElementType type : {ElementType::f16, ElementType::bf16, ElementType::e4m3}) {
    const std::string name = name_of(type);
    struct Unit {
      const char* text;
      double factor;
    };
    // What is rounded: the scores as they go into e^x or 2^x, or the sums of the product.
    const Unit units[] = {{"scores", 1},
                          {"scores of base 2", std::numbers::log2e},
                          {"scores before the scale", root}};
    for (const auto& [what, factor] : units) {
      add(Stage::qk, what + (" are rounded to " + name), 1, [=, factor = factor](RowPlan& plan) {
        plan.score_kept = [=](double s) {
          return std::isfinite(s) ? held_as(type, s * factor) / factor : s;
        };
      });
    }
    for (const auto& [what, factor] : units) {
      const std::string unit = std::string(what).substr(std::string_view("scores").size());
      add(Stage::softmax, "m" + unit + " is rounded to " + name + " from one tile to the next", 1,
          [=, factor = factor](RowPlan& plan) {
            plan.m_kept = [=](double m) { return held_as(type, m * factor) / factor; };
          });
    }
    for (const int sums : {1, 2}) {
      add(Stage::qk,
          "q.k is summed up in " + name + (sums == 2 ? ", even and odd columns apart" : ""), 1,
          [=](RowPlan& plan) {
            plan.dot_kept = [=](double sum) { return held_as(type, sum); };
            plan.dot_sums = sums;
          });
    }
    if (type != info.dtype) {
      add(Stage::softmax, "P is rounded to " + name, 1,
          [=](RowPlan& plan) { plan.p_kept = [=](double p) { return held_as(type, p); }; });
    }
    add(Stage::softmax, "P is truncated to " + name + ", not rounded, in O and l", 1,
        [=](RowPlan& plan) {
          plan.p_kept = [=](double p) { return truncated(type, p); };
          plan.sums_kept = true;
        });
    add(Stage::pv, "O is rounded to " + name + " after every tile", 1,
        [=](RowPlan& plan) { plan.o_kept = [=](double o) { return held_as(type, o); }; });
    for (const int sums : {1, 2, 4}) {
      for (const bool divided : {false, true}) {
        add(Stage::pv,
            "O is summed up in " + name + (divided ? " of P that is divided by l" : "") +
                (sums > 1 ? ", in " + std::to_string(sums) + " sums that take turns at the keys"
                          : ""),
            1 + (sums > 1) + divided, [=](RowPlan& plan) {
              plan.o_kept = [=](double o) { return held_as(type, o); };
              plan.o_sums = sums;
              plan.o_kept_divided = divided;
            });
      }
    }
  }
}

}  // namespace lanescope
