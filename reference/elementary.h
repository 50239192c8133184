#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace lanescope::reference {

// The C library picks its exp and log by the CPU it runs on, and their last bits differ. These use
// nothing but IEEE additions, multiplications and one division, so that injected values have the
// same bits on every machine (compile with -ffp-contract=off).

inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline constexpr double log2_e = 1.4426950408889634074;
inline constexpr double ln_2 = 0.69314718055994530942;

namespace detail {

/// x rounded to the nearest integer, for |x| < 2^51: the sum has no room for a fraction.
inline double nearest_integer(double x) {
  constexpr double shift = 0x1.8p52;
  return (x + shift) - shift;
}

/// e^r for |r| <= 0.35: Taylor up to r^13, the rest is below 2^-57.
inline double exp_near_zero(double r) {
  constexpr double inverse_factorial[] = {1.0 / 6227020800,
                                          1.0 / 479001600,
                                          1.0 / 39916800,
                                          1.0 / 3628800,
                                          1.0 / 362880,
                                          1.0 / 40320,
                                          1.0 / 5040,
                                          1.0 / 720,
                                          1.0 / 120,
                                          1.0 / 24,
                                          1.0 / 6,
                                          1.0 / 2,
                                          1.0};
  double sum = 0;
  for (const double c : inverse_factorial) sum = (sum + c) * r;
  return 1 + sum;
}

/// 2^n for -1022 <= n <= 1023.
inline double two_to(double n) {
  return std::bit_cast<double>((static_cast<std::int64_t>(n) + 1023) << 52);
}

}  // namespace detail

/// 2^x within 2 units in the last place; 0 for x < -1022, infinity from 1023 on, NaN for NaN.
inline double power_of_2(double x) {
  if (!(x >= -1022)) return std::isnan(x) ? x : 0;
  if (x >= 1023) return std::numeric_limits<double>::infinity();
  const double n = detail::nearest_integer(x);
  return detail::two_to(n) * detail::exp_near_zero((x - n) * ln_2);
}

/// e^x within 2 units in the last place; 0 for x < -708, infinity from 709 on, NaN for NaN.
inline double power_of_e(double x) {
  if (!(x >= -708)) return std::isnan(x) ? x : 0;
  if (x >= 709) return std::numeric_limits<double>::infinity();
  // ln 2 in two parts (Cody and Waite): n * high is exact.
  constexpr double high = 0x1.62e42feep-1, low = 0x1.a39ef35793c76p-33;
  const double n = detail::nearest_integer(x * log2_e);
  return detail::two_to(n) * detail::exp_near_zero((x - n * high) - n * low);
}

/// ln x within 2 units in the last place (absolutely 2^-52 near 1); -infinity for 0, NaN below.
inline double natural_log(double x) {
  if (!(x > 0)) {
    return x == 0 ? -std::numeric_limits<double>::infinity()
                  : std::numeric_limits<double>::quiet_NaN();
  }
  if (std::isinf(x)) return x;
  int exponent = 0;
  double fraction = std::frexp(x, &exponent);
  if (fraction < 0.70710678118654752440) {
    fraction *= 2;
    --exponent;
  }
  // ln f = 2 artanh(z), z = (f - 1) / (f + 1), |z| <= 0.172; the rest is below 2^-58.
  const double z = (fraction - 1) / (fraction + 1);
  double series = 0;
  for (int n = 21; n >= 3; n -= 2) series = (series + 1.0 / n) * z * z;
  return exponent * ln_2 + 2 * (z + z * series);
}

}  // namespace lanescope::reference
