#include "gates/run/number_parts.h"

#include <algorithm>
#include <numbers>

#include "debug/text/text.h"
#include "reference/array.h"
#include "reference/solver.h"

namespace lanescope {
namespace {

using reference::Array;
using reference::Index;
using Term = Provenance::Term;
using Measured = std::vector<std::pair<double, Term>>;

/// The factor of each of `parts` that gives all `got`, by least squares; `shares`: [part, number].
/// Empty where none do.
std::vector<double> solve(const Array& shares, const Measured& numbers) {
  const Index parts = shares.rows(), count = shares.cols();
  if (parts < 2 || count < 2 * parts) return {};
  const auto solver = reference::solver(shares, 1e-6);
  if (!solver) return {};
  std::vector<double> factors(static_cast<std::size_t>(parts));
  const auto got = [&](Index i) { return numbers[static_cast<std::size_t>(i)].first; };
  for (Index i = 0; i < count; ++i) {
    for (Index part = 0; part < parts; ++part) {
      factors[static_cast<std::size_t>(part)] += (*solver)(part, i) * got(i);
    }
  }
  double squares = 0, rest = 0;
  for (Index i = 0; i < count; ++i) {
    double sum = -got(i);
    for (Index part = 0; part < parts; ++part) {
      sum += factors[static_cast<std::size_t>(part)] * shares(part, i);
    }
    squares += got(i) * got(i);
    rest += sum * sum;
  }
  return rest <= 1e-4 * squares ? factors : std::vector<double>{};
}

/// Each a multiple of the one before: a factor that is applied again and again. Those that vanish
/// beside the largest are not known; of two, the second is the square of the first.
bool are_powers(std::vector<double> factors) {
  double largest = 0;
  for (const double factor : factors) largest = std::max(largest, std::abs(factor));
  std::erase_if(factors, [&](double factor) { return !(std::abs(factor) >= 1e-3 * largest); });
  for (std::size_t i = 2; i < factors.size(); ++i) {
    if (!is_near(factors[i] * factors[i - 2], factors[i - 1] * factors[i - 1])) return false;
  }
  const bool are_two = factors.size() == 2 && is_near(factors[1], factors[0] * factors[0]);
  return factors.size() > 2 || are_two;
}

std::optional<PartFactors> told(const std::string& what, const std::vector<double>& factors) {
  if (factors.empty()) return std::nullopt;
  std::string text;
  for (const double factor : factors) text += (text.empty() ? "" : ", ") + number_text(factor, 3);
  return PartFactors{are_powers(factors) ? Cause::scale_repeated : Cause::wrong_scale,
                     what + " count " + text + " times"};
}

/// Of scores, columns that lanes or loops take by turns, of vectors of 2, 4 and 8, or side by side.
std::optional<PartFactors> of_columns(const Measured& scores, std::int64_t d, TermTruth& truth) {
  const auto try_parts = [&](const std::string& name, std::int64_t parts, auto part_of) {
    Array shares(parts, static_cast<Index>(scores.size()));
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const Term& term = scores[i].second;
      for (std::int64_t part = 0; part < parts; ++part) {
        shares(part, static_cast<Index>(i)) = truth.product(
            term.row, term.key, [&](std::int64_t column) { return part_of(column) == part; });
      }
    }
    return told(name, solve(shares, scores));
  };
  for (const std::int64_t turns : {2, 4, 8}) {
    if (auto parts = try_parts("columns by turns of " + std::to_string(turns), turns,
                               [=](std::int64_t i) { return i % turns; })) {
      return parts;
    }
  }
  for (const std::int64_t width : {d / 2, d / 4, std::int64_t{16}}) {
    if (width == 0 || d % width != 0) continue;
    if (auto parts = try_parts("each " + std::to_string(width) + " columns", d / width,
                               [=](std::int64_t i) { return i / width; })) {
      return parts;
    }
  }
  return std::nullopt;
}

/// Of weights whose two scores have factors of their own, one is in another base or scale.
std::optional<PartFactors> of_units(const Measured& weights, std::int64_t d, TermTruth& truth) {
  double aa = 0, ab = 0, bb = 0, ag = 0, bg = 0, gg = 0;
  for (const auto& [got, term] : weights) {
    const double a = truth.unit(term.a), b = -truth.unit(term.b), g = std::log(got);
    aa += a * a, ab += a * b, bb += b * b, ag += a * g, bg += b * g, gg += g * g;
  }
  const double determinant = aa * bb - ab * ab;
  const double x = (ag * bb - bg * ab) / determinant, y = (bg * aa - ag * ab) / determinant;
  if (!(determinant > 0) || !(gg - x * ag - y * bg <= 1e-4 * gg) || is_near(x, y)) {
    return std::nullopt;
  }
  // The one that is not as it should be. Where it is the maximum, no input lacks its scale.
  Cause cause = cause_of_factor(is_near(x, 1) ? y : is_near(y, 1) ? x : x / y, d);
  if (is_near(x, 1) && cause != Cause::wrong_base) cause = Cause::wrong_scale;
  return PartFactors{cause, "the score counts " + number_text(x, 4) +
                                " times in the exponent, the maximum " + number_text(y, 4) +
                                " times"};
}

/// Of sums of P·V, tiles of keys, the last one first: what each tile does to those before.
std::optional<PartFactors> of_tiles(const Measured& sums, std::int64_t length, TermTruth& truth) {
  std::vector<std::vector<std::pair<std::int64_t, double>>> shares_of_keys;
  for (const auto& sum : sums) {
    const Term& term = sum.second;
    auto& own = shares_of_keys.emplace_back();
    const double from = truth.unit(term.b);
    TermTruth::each(term.set, [&](std::int64_t key) {
      own.emplace_back(key, truth.output(term.row, {{key, key}}, from, term.column));
    });
  }
  constexpr std::int64_t most_tiles = 16;
  for (const std::int64_t width : {128, 64, 32, 16}) {
    const auto tile_of = [&](std::int64_t key) { return key % length / width; };
    std::int64_t parts = 0;
    for (const auto& [got, term] : sums) {
      if (term.set.empty()) return std::nullopt;
      parts = std::max(parts, 1 + tile_of(term.set.back().second) - tile_of(term.set[0].first));
    }
    if (parts > most_tiles) continue;
    Array shares = Array::Zero(parts, static_cast<Index>(sums.size()));
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const std::int64_t last = tile_of(sums[i].second.set.back().second);
      for (const auto& [key, share] : shares_of_keys[i]) {
        shares(last - tile_of(key), static_cast<Index>(i)) += share;
      }
    }
    auto told_of = told("keys of each " + std::to_string(width) + ", the last ones first,",
                        solve(shares, sums));
    if (told_of) return told_of;
  }
  return std::nullopt;
}

}  // namespace

Cause cause_of_factor(double factor, std::int64_t d) {
  const double root = std::sqrt(static_cast<double>(d)), ln2 = std::numbers::ln2;
  if (is_near(factor, ln2) || is_near(factor, 1 / ln2)) return Cause::wrong_base;
  if (is_near(factor, root)) return Cause::scale_missing;
  if (is_near(factor, 1 / root)) return Cause::scale_repeated;
  return Cause::wrong_scale;
}

std::optional<PartFactors> factors_of_parts(const Measured& all, const Problem& problem,
                                            TermTruth& truth) {
  if (all.empty()) return std::nullopt;
  // Many tell no more than some.
  constexpr std::size_t enough = 256;
  const std::size_t step = (all.size() + enough - 1) / enough;
  Measured numbers;
  for (std::size_t i = 0; i < all.size(); i += step) numbers.push_back(all[i]);
  const std::string& kind = numbers.front().second.kind;
  if (kind == "score") return of_columns(numbers, problem.d, truth);
  if (kind == "weight") return of_units(numbers, problem.d, truth);
  if (kind == "output") return of_tiles(numbers, problem.len_kv, truth);
  return std::nullopt;
}

}  // namespace lanescope
