#pragma once

#include <vector>

namespace lanescope {

/// Numbers beside what they are times one factor, which the most of them have.
struct FactorFit {
  double factor = 1;
  double error = 0;     ///< the largest, over the typical number
  double rounding = 0;  ///< over the largest of those that they are differences of
  double of_all = 1;    ///< of logarithms, a factor that all numbers have
};

/// A number, what it should be, and the larger one of those that it is the difference of.
struct FittedNumber {
  double got, want, of;
};

FactorFit fit_of(const std::vector<FittedNumber>& numbers);
/// Of logarithms of numbers, which may all have one factor.
FactorFit fit_of_logarithms(std::vector<FittedNumber> numbers);

}  // namespace lanescope
