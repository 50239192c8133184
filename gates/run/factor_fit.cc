#include "gates/run/factor_fit.h"

#include <algorithm>
#include <cmath>

namespace lanescope {

FactorFit fit_of(const std::vector<FittedNumber>& numbers) {
  double squares = 0, largest = 0;
  for (const auto& [got, want, of] : numbers) {
    squares += want * want;
    largest = std::max(largest, of);
  }
  const double typical = std::sqrt(squares / static_cast<double>(numbers.size()));
  std::vector<double> ratios;
  for (const auto& [got, want, of] : numbers) {
    if (std::abs(want) > 0.2 * typical) ratios.push_back(got / want);
  }
  if (ratios.empty()) return {};
  std::nth_element(ratios.begin(), ratios.begin() + std::ssize(ratios) / 2, ratios.end());
  FactorFit fit{ratios[ratios.size() / 2]};
  for (const auto& [got, want, of] : numbers) {
    const double error = std::abs(got / fit.factor - want);
    if (!(error / typical <= fit.error)) fit.error = error / typical;
    if (!(error / largest <= fit.rounding)) fit.rounding = error / largest;
  }
  return fit;
}

FactorFit fit_of_logarithms(std::vector<FittedNumber> numbers) {
  double more = 0;
  for (const FittedNumber& number : numbers) more += number.got - number.want;
  more /= static_cast<double>(numbers.size());
  for (FittedNumber& number : numbers) number.got -= more;
  FactorFit fit = fit_of(numbers);
  fit.of_all = std::exp(more);
  return fit;
}

}  // namespace lanescope
