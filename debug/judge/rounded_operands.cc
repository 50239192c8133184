#include "debug/judge/rounded_operands.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

#include "debug/judge/judge.h"
#include "debug/text/text.h"
#include "reference/elementary.h"

namespace lanescope {
namespace {

using reference::infinity;
using Weight = Roundings::Weight;

/// Rows that are looked at, spread over all heads.
constexpr std::int64_t most_rows = 8;
/// A rounding that takes less of the error away is none.
constexpr double least_gain = 0.05;
/// By what the mean square of the errors has to fall.
constexpr double telling = 16;

double rounded(double x, Rounding to) {
  const auto bits = [&](std::uint32_t more) {
    const std::uint32_t own = round_to(ElementType::f32, x);
    return value_of(ElementType::f32, (own + more) & 0xffffe000u);
  };
  const auto through = [&](ElementType type) { return value_of(type, round_to(type, x)); };
  switch (to) {
    case Rounding::none:
      break;
    case Rounding::tf32:  // halfway away from zero
      return std::isfinite(x) ? bits(0x1000) : x;
    case Rounding::tf32_cut:
      return std::isfinite(x) ? bits(0) : x;
    case Rounding::f16:
      return through(ElementType::f16);
    case Rounding::bf16:
      return through(ElementType::bf16);
  }
  return x;
}

const char* name_of(Rounding rounding) {
  constexpr const char* names[] = {"f32", "tf32", "the leading bits, those of tf32", "f16", "bf16"};
  return names[static_cast<int>(rounding)];
}

/// O of one row, and what it is made of.
class Row {
 public:
  Row(const Inputs& inputs, const DumpInfo& info, const Tensor& o, std::int64_t row)
      : bc_(static_cast<std::size_t>(info.bc)), d_(static_cast<std::size_t>(info.problem.d)) {
    const Problem& p = info.problem;
    const std::int64_t head = row / p.len_q, query = row % p.len_q;
    const std::int64_t first_key =
        (head / p.heads * p.heads_kv + p.kv_head(head % p.heads)) * p.len_kv;
    scale_ = reference::softmax_scale(p);
    q_ = read(inputs.q, row);
    got_ = read(o, row);
    for (std::int64_t key = 0; key < p.visible_keys(query); ++key) {
      k_.push_back(read(inputs.k, first_key + key));
      v_.push_back(read(inputs.v, first_key + key));
    }
  }

  /// Σ (got − o)² over the columns, o being what such roundings give.
  double square_error(const Roundings& r) const {
    const std::vector<double> s = scores(r);
    std::vector<double> peak(s.size()), held(s.size());  // of the key's tile, and up to it
    double m = -infinity;
    for (std::size_t i = 0; i < s.size(); i += bc_) {
      const std::size_t end = std::min(i + bc_, s.size());
      const double own = *std::max_element(&s[i], &s[i] + (end - i));
      m = std::fmax(m, own);
      std::fill(&peak[i], &peak[i] + (end - i), own);
      std::fill(&held[i], &held[i] + (end - i), m);
    }
    double all = 0, l = 0;
    for (const double x : s) all += std::exp(x - m);
    std::vector<double> o(d_);
    for (std::size_t i = 0; i < s.size(); ++i) {
      const double unit = r.weight == Weight::so_far    ? std::exp(held[i] - m)
                          : r.weight == Weight::of_tile ? std::exp(peak[i] - m)
                          : r.weight == Weight::divided ? all
                                                        : 1;
      const double exact = std::exp(s[i] - m);
      const double p = rounded(exact / unit, r.p) * unit;
      l += r.sums_rounded ? p : exact;
      for (std::size_t col = 0; col < d_; ++col) o[col] += p * rounded(v_[i][col], r.v);
    }
    double sum = 0;
    for (std::size_t col = 0; col < d_; ++col) {
      const double off = got_[col] - rounded(o[col] / l, r.o);
      sum += off * off;
    }
    return sum;
  }

  bool tells() const {
    return !k_.empty() &&
           std::all_of(got_.begin(), got_.end(), [](double x) { return std::isfinite(x); });
  }

 private:
  std::vector<double> read(const Tensor& tensor, std::int64_t row) const {
    std::vector<double> values(d_);
    tensor.read(row * tensor.dims.back(), values);
    return values;
  }

  std::vector<double> scores(const Roundings& r) const {
    const double unit = r.s_unit == ScoreUnit::raw      ? 1
                        : r.s_unit == ScoreUnit::base_2 ? scale_ * reference::log2_e
                                                        : scale_;
    std::vector<double> q, s;
    for (const double x : q_) q.push_back(rounded(x, r.q));
    for (const std::vector<double>& k : k_) {
      double dot = 0;
      for (std::size_t i = 0; i < d_; ++i) dot += q[i] * rounded(k[i], r.k);
      s.push_back(rounded(dot * unit, r.s) / unit * scale_);
    }
    return s;
  }

  std::size_t bc_, d_;
  double scale_ = 1;
  std::vector<double> q_, got_;
  std::vector<std::vector<double>> k_, v_;
};

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
    add("Q", Stage::qk, "", [](Roundings& r, Rounding type) { r.q = type; });
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

class Search {
 public:
  explicit Search(std::vector<Row> rows) : rows_(std::move(rows)), all_(all_steps()) {}

  double error_of(const std::vector<Step>& steps) const {
    Roundings roundings;
    for (const Step& step : steps) step.set(roundings, step.to);
    double sum = 0;
    for (const Row& row : rows_) sum += row.square_error(roundings);
    return sum;
  }

  /// One rounding after the other, each time that which leaves the least, for as long as one takes
  /// something away; then those are left out that take away little.
  std::vector<Step> run() const {
    std::vector<Step> taken;
    double left = error_of({});
    while (left > 0) {
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

  /// The types that give the same: of numbers in the range of f16, it and tf32.
  std::string types_of(const std::vector<Step>& taken, const Step& step) const {
    const double own = error_of(taken);
    std::string text;
    for (const Step& other : all_) {
      if (std::string_view(other.what) != step.what || other.more != step.more) continue;
      std::vector<Step> with = taken;
      for (Step& one : with) {
        if (std::string_view(one.what) == step.what) one = other;
      }
      if (error_of(with) <= 1.5 * own)
        text += (text.empty() ? "" : " or ") + std::string(name_of(other.to));
    }
    return text;
  }

 private:
  static bool has(const std::vector<Step>& steps, std::string_view what) {
    return std::any_of(steps.begin(), steps.end(),
                       [&](const Step& step) { return step.what == what; });
  }

  std::vector<Row> rows_;
  std::vector<Step> all_;
};

/// Those to the same types are said together: "Q and K are rounded to tf32".
std::vector<std::string> texts_of(const Search& search, const std::vector<Step>& taken) {
  std::vector<std::pair<std::string, std::vector<std::string>>> operands_to;  // which types
  for (const Step& step : taken) {
    const std::string types = search.types_of(taken, step) + step.more;
    if (operands_to.empty() || operands_to.back().first != types)
      operands_to.push_back({types, {}});
    operands_to.back().second.emplace_back(step.what);
  }
  std::vector<std::string> lines;
  for (const auto& [types, operands] : operands_to) {
    std::string text;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      text += (i == 0 ? "" : i + 1 == operands.size() ? " and " : ", ") + operands[i];
    }
    lines.push_back(text + (operands.size() > 1 ? " are" : " is") + " rounded to " + types);
  }
  return lines;
}

/// Whether it may be that a matrix unit takes it as tf32.
bool is_factor_of_tf32(const Search& search, const std::vector<Step>& taken, const Step& step) {
  return std::string_view("QKPV").find(step.what) != std::string_view::npos &&
         search.types_of(taken, step).find("tf32") != std::string::npos;
}

/// Whether both factors of a product are.
bool are_factors_of_tf32(const Search& search, const std::vector<Step>& taken) {
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
                  " (root of the mean square of " + std::to_string(values) + " values)");
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
  std::vector<Row> rows;
  for (std::int64_t i = 0; i < looked_at; ++i) {
    const std::int64_t row = looked_at == 1 ? 0 : i * (count - 1) / (looked_at - 1);
    Row own(inputs, info, *o, row);
    if (own.tells()) rows.push_back(std::move(own));
  }
  const std::int64_t values = std::ssize(rows) * info.problem.d;
  constexpr std::int64_t fewest = 16;
  if (values < fewest) return std::nullopt;
  const Search search(std::move(rows));
  const std::vector<Step> taken = search.run();
  const double of_right = search.error_of({}), left = search.error_of(taken);
  if (taken.empty() || left * telling > of_right) return std::nullopt;
  const bool takes_tf32 = info.products == Products::tensor_core_tf32;
  if (takes_tf32 && std::all_of(taken.begin(), taken.end(), [&](const Step& step) {
        return is_factor_of_tf32(search, taken, step);
      })) {
    return std::nullopt;
  }
  const auto root = [&](double sum) { return std::sqrt(sum / static_cast<double>(values)); };
  return RoundedOperands{.what = texts_of(search, taken),
                         .stage = taken.front().stage,
                         .products_of_tf32 = !takes_tf32 && are_factors_of_tf32(search, taken),
                         .values = values,
                         .error = root(of_right),
                         .error_of_rounded = root(left)};
}

}  // namespace lanescope
