#include "debug/judge/rounded_operands.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>

#include "debug/judge/rounded_row.h"
#include "debug/text/text.h"
#include "reference/gate.h"

namespace lanescope {
namespace {

using Weight = Roundings::Weight;

/// Rows that are looked at, spread over all heads.
constexpr std::int64_t most_rows = 8;
/// A rounding that takes less of the error away is none.
constexpr double least_gain = 0.05;
/// By what the mean square of the errors has to fall, and in how many rows at least: where one
/// score leads, the errors of a row are one number, which some rounding comes near by chance.
constexpr double telling = 256;
constexpr std::int64_t fewest_rows = 4;
/// What is lost at least, relative to O: 11 bits are off by about 2^-13, and where it is so much
/// less, f32 itself may have lost it.
constexpr double least_loss = 0x1p-16;

const char* name_of(Rounding rounding) {
  constexpr const char* names[] = {"f32", "tf32", "the leading bits, those of tf32", "f16", "bf16"};
  return names[static_cast<int>(rounding)];
}

/// One thing that may be rounded, in one way.
struct Step {
  const char* what;  ///< "Q"
  Stage stage;
  Rounding to;
  std::string more;  ///< about how
  std::function<void(Roundings&, Rounding)> set;
};

std::vector<Step> all_steps() {
  std::vector<Step> steps;
  for (const Rounding to : {Rounding::tf32, Rounding::tf32_cut, Rounding::f16, Rounding::bf16}) {
    const auto add = [&](const char* what, Stage stage, const std::string& more, auto set) {
      steps.push_back({what, stage, to, more, set});
    };
    for (const auto& [unit, text] : {std::pair(ScoreUnit::raw, ""),
                                     {ScoreUnit::base_e, " with the scale in it"},
                                     {ScoreUnit::base_2, " with the scale and log2(e) in it"}}) {
      add("Q", Stage::qk, text, [unit = unit](Roundings& r, Rounding type) {
        r.q = type;
        r.q_unit = unit;
      });
    }
    add("K", Stage::qk, "", [](Roundings& r, Rounding type) { r.k = type; });
    for (const auto& [unit, text] : {std::pair(ScoreUnit::base_e, ""),
                                     {ScoreUnit::raw, " unscaled"},
                                     {ScoreUnit::base_2, " in base 2"}}) {
      add("S", Stage::qk, text, [unit = unit](Roundings& r, Rounding type) {
        r.s = type;
        r.s_unit = unit;
      });
    }
    for (const auto& [weight, text] : {std::pair(Weight::so_far, ""),
                                       {Weight::of_tile, " relative to the maximum of the tile"},
                                       {Weight::of_all, " relative to the maximum of all keys"},
                                       {Weight::divided, " divided by l"}}) {
      for (const bool sums : {false, true}) {
        add("P", Stage::softmax, std::string(text) + (sums ? ", and summed up so" : ""),
            [weight = weight, sums](Roundings& r, Rounding type) {
              r.p = type;
              r.weight = weight;
              r.sums_rounded = sums;
            });
      }
    }
    add("V", Stage::pv, "", [](Roundings& r, Rounding type) { r.v = type; });
    add("O", Stage::epilogue, "", [](Roundings& r, Rounding type) { r.o = type; });
  }
  return steps;
}

class RoundingSearch {
 public:
  explicit RoundingSearch(std::vector<RoundedRow> rows)
      : rows_(std::move(rows)), all_(all_steps()) {}

  /// The geometric mean over the rows of the squares of their errors: where a rounded weight went
  /// to the other side, that is one row. Nothing is below what f32 cannot tell.
  double error_of(const std::vector<Step>& steps) const {
    Roundings roundings;
    for (const Step& step : steps) step.set(roundings, step.to);
    double sum = 0;
    for (const RoundedRow& row : rows_) {
      sum += std::log(row.square_error(roundings) + 0x1p-54 * row.square() + 0x1p-250);
    }
    return std::exp(sum / static_cast<double>(rows_.size()));
  }
  /// The same of O itself.
  double square() const {
    double sum = 0;
    for (const RoundedRow& row : rows_) sum += std::log(row.square() + 0x1p-250);
    return std::exp(sum / static_cast<double>(rows_.size()));
  }

  /// One rounding after the other, each time that which leaves the least, for as long as one takes
  /// something away; then those are left out that take away little.
  std::vector<Step> run() const {
    std::vector<Step> taken;
    double left = error_of({});
    for (;;) {
      const Step* best = nullptr;
      double least = left * (1 - least_gain);
      for (const Step& step : all_) {
        if (has(taken, step.what)) continue;
        std::vector<Step> next = taken;
        next.push_back(step);
        const double error = error_of(next);
        if (!(error < least)) continue;
        least = error;
        best = &step;
      }
      if (!best) break;
      taken.push_back(*best);
      left = least;
    }
    for (std::size_t i = 0; i < taken.size();) {
      std::vector<Step> fewer = taken;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      if (error_of(fewer) < 4 * left) {
        taken = fewer;
      } else {
        ++i;
      }
    }
    std::sort(taken.begin(), taken.end(), [](const Step& a, const Step& b) {
      return std::pair(a.stage, a.what[0] != 'Q') < std::pair(b.stage, b.what[0] != 'Q');
    });
    return taken;
  }

  /// What gives the same: of numbers in the range of f16, it and tf32.
  std::vector<Rounding> types_of(const std::vector<Step>& taken, const Step& step) const {
    const double own = error_of(taken);
    std::vector<Rounding> types;
    for (const Step& other : all_) {
      if (std::string_view(other.what) != step.what || other.more != step.more) continue;
      std::vector<Step> with = taken;
      for (Step& one : with) {
        if (std::string_view(one.what) == step.what) one = other;
      }
      if (error_of(with) <= 1.5 * own) types.push_back(other.to);
    }
    return types;
  }

 private:
  static bool has(const std::vector<Step>& steps, std::string_view what) {
    return std::any_of(steps.begin(), steps.end(),
                       [&](const Step& step) { return step.what == what; });
  }

  std::vector<RoundedRow> rows_;
  std::vector<Step> all_;
};

/// Operands that may all be of the same types are said together: "Q and K are rounded to tf32".
std::vector<std::string> texts_of(const RoundingSearch& search, const std::vector<Step>& taken) {
  struct Group {
    std::vector<std::string> operands;
    std::vector<Rounding> types;
    std::string more;
  };
  std::vector<Group> groups;
  for (const Step& step : taken) {
    const std::vector<Rounding> own = search.types_of(taken, step);
    std::vector<Rounding> common;
    if (!groups.empty() && groups.back().more == step.more) {
      std::set_intersection(own.begin(), own.end(), groups.back().types.begin(),
                            groups.back().types.end(), std::back_inserter(common));
    }
    if (common.empty()) {
      groups.push_back({{step.what}, own, step.more});
    } else {
      groups.back().operands.emplace_back(step.what);
      groups.back().types = common;
    }
  }
  std::vector<std::string> lines;
  for (const auto& [operands, types, more] : groups) {
    std::string text, to;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      text += (i == 0 ? "" : i + 1 == operands.size() ? " and " : ", ") + operands[i];
    }
    for (const Rounding type : types) to += (to.empty() ? "" : " or ") + std::string(name_of(type));
    lines.push_back(text + (operands.size() > 1 ? " are" : " is") + " rounded to " + to + more);
  }
  return lines;
}

/// Whether it may be that a matrix unit takes it as tf32.
bool is_factor_of_tf32(const RoundingSearch& search, const std::vector<Step>& taken,
                       const Step& step) {
  const std::vector<Rounding> types = search.types_of(taken, step);
  return std::string_view("QKPV").find(step.what) != std::string_view::npos &&
         std::any_of(types.begin(), types.end(), [](Rounding type) {
           return type == Rounding::tf32 || type == Rounding::tf32_cut;
         });
}

/// Whether both factors of a product are.
bool are_factors_of_tf32(const RoundingSearch& search, const std::vector<Step>& taken) {
  const auto is_tf32 = [&](std::string_view what) {
    return std::any_of(taken.begin(), taken.end(), [&](const Step& step) {
      return what == step.what && is_factor_of_tf32(search, taken, step);
    });
  };
  return (is_tf32("Q") && is_tf32("K")) || (is_tf32("P") && is_tf32("V"));
}

}  // namespace

std::string RoundedOperands::what_text() const {
  std::string all;
  for (const std::string& line : what) all += (all.empty() ? "" : "; ") + line;
  return all;
}

std::vector<std::string> RoundedOperands::text() const {
  std::vector<std::string> lines = what;
  if (products_of_tf32) {
    lines.push_back(
        "matrix products of tf32 do that: if they are meant, the kernel's products are declared as "
        "tensor_core_tf32");
  }
  lines.push_back("O of such operands is " + number_text(error_of_rounded, 2) +
                  " from the kernel's, O of the operands as they are " + number_text(error, 2) +
                  " (root of the mean square, in " + std::to_string(rows) + " rows)");
  return lines;
}

std::optional<RoundedOperands> find_rounded_operands(const Dump& dump) {
  const DumpInfo& info = dump.info;
  const Tensor* const o = dump.find("o_final");
  if (info.dtype != ElementType::f32 || !o || info.gate != lanescope::name_of(Gate::fused) ||
      !info.incomplete.empty()) {
    return std::nullopt;
  }
  // Markers may declare that P is of fewer bits.
  const DumpSite* const p = dump.find_site(lanescope::name_of(SiteId::p));
  if (p && p->site.type != ElementType::f32) return std::nullopt;
  const Inputs inputs = inputs_of(dump);
  const std::int64_t count = info.problem.batch * info.problem.heads * info.problem.len_q;
  const std::int64_t looked_at = std::min(count, most_rows);
  std::vector<RoundedRow> rows;
  for (std::int64_t i = 0; i < looked_at; ++i) {
    const std::int64_t row = looked_at == 1 ? 0 : i * (count - 1) / (looked_at - 1);
    RoundedRow own(inputs, info, *o, row);
    if (own.tells()) rows.push_back(std::move(own));
  }
  const std::int64_t told = std::ssize(rows);
  if (told < fewest_rows) return std::nullopt;
  const RoundingSearch search(std::move(rows));
  const std::vector<Step> taken = search.run();
  const double of_right = search.error_of({}), left = search.error_of(taken);
  if (taken.empty() || left * telling > of_right) return std::nullopt;
  if (of_right < least_loss * least_loss * search.square()) return std::nullopt;
  const bool takes_tf32 = info.products == Products::tensor_core_tf32;
  if (takes_tf32 && std::all_of(taken.begin(), taken.end(), [&](const Step& step) {
        return is_factor_of_tf32(search, taken, step);
      })) {
    return std::nullopt;
  }
  const auto root = [&](double sum) {
    return std::sqrt(sum / static_cast<double>(info.problem.d));
  };
  return RoundedOperands{.what = texts_of(search, taken),
                         .stage = taken.front().stage,
                         .products_of_tf32 = !takes_tf32 && are_factors_of_tf32(search, taken),
                         .rows = told,
                         .error = root(of_right),
                         .error_of_rounded = root(left)};
}

}  // namespace lanescope
