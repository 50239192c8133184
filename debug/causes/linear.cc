#include "debug/causes/linear.h"

#include <algorithm>

#include "reference/elementary.h"

namespace lanescope {
namespace {

using Array = Scene::Array;
using reference::Index;
using reference::ln_2, reference::log2_e;

struct Constant {
  double value;
  std::string text;
};

/// `x`, or the known number that it is but for `error`; true where it is one.
bool snap(double scale, double error, double& x, std::string& text) {
  const Constant known[] = {{0, "0"},
                            {1, ""},
                            {2, "2"},
                            {0.5, "1/2"},
                            {ln_2, "ln 2"},
                            {log2_e, "log2(e)"},
                            {ln_2 * ln_2, "ln 2 ln 2"},
                            {log2_e * log2_e, "log2(e) log2(e)"},
                            {scale, "1/sqrt(d)"},
                            {1 / scale, "sqrt(d)"},
                            {scale * ln_2, "ln 2 / sqrt(d)"},
                            {scale * log2_e, "log2(e) / sqrt(d)"}};
  for (const Constant& constant : known) {
    for (const double sign : {1.0, -1.0}) {
      const double value = sign * constant.value;
      const double size = std::max(std::abs(value), 0.1);
      if (std::abs(x - value) > std::clamp(error, 1e-4 * size, 1e-2 * size)) continue;
      x = value;
      text = (sign < 0 ? "-" : "") + (constant.text.empty() && sign < 0 ? "1" : constant.text);
      return true;
    }
  }
  text = value_text(x);
  return false;
}

std::string term(const std::string& factor, const std::string& what) {
  return factor.empty() ? what : factor + " " + what;
}

}  // namespace

std::optional<Linear> linear_fit(const Array& a, const Array& b, const Array& c, double scale) {
  double aa = 0, ab = 0, bb = 0, ac = 0, bc = 0, cc = 0;
  int count = 0;
  for (Index row = 0; row < c.rows(); ++row) {
    if (!std::isfinite(a(row)) || !std::isfinite(b(row)) || !std::isfinite(c(row))) continue;
    aa += a(row) * a(row);
    ab += a(row) * b(row);
    bb += b(row) * b(row);
    ac += a(row) * c(row);
    bc += b(row) * c(row);
    cc += c(row) * c(row);
    ++count;
  }
  const double determinant = aa * bb - ab * ab;
  if (count < 4 || !(determinant > 1e-6 * aa * bb)) return std::nullopt;
  Linear fit{(ac * bb - bc * ab) / determinant, (bc * aa - ac * ab) / determinant, {}, {}, 0, {}};
  // Of what is left, the standard errors of x and y.
  const double left = std::max(0.0, cc - fit.x * ac - fit.y * bc) / (count - 2);
  const auto error = [&](double squares) { return 4 * std::sqrt(left * squares / determinant); };
  fit.free_numbers += !snap(scale, error(bb), fit.x, fit.x_text);
  fit.free_numbers += !snap(scale, error(aa), fit.y, fit.y_text);
  // What is not there is not there where it is infinite either.
  fit.value = (fit.x == 0 ? 0 * c : a * fit.x) + (fit.y == 0 ? 0 * c : b * fit.y);
  return fit;
}

void try_lse_terms(const Scene& scene, const Array& m, const Array& l, const Formulas& fits) {
  for (Index row = 0; row < scene.rows(); ++row) {
    const double off = scene.got()(row) - scene.want()(row);
    if (!std::isfinite(off) || !scene.wrong(row, 0)) continue;
    fits(Cause::wrong_formula, "lse is off by " + value_text(off) + " in all rows: l has a factor",
         scene.want() + off, 1);
    break;
  }
  fits(Cause::wrong_formula, "lse = (l + log2 m) ln 2: m and l are exchanged",
       (l + log2(m)) * ln_2);
  const Array log = log2(l);
  const auto fit = linear_fit(m, log, scene.got(), reference::softmax_scale(scene.info().problem));
  if (!fit) return;
  const auto is_base = [](double x) {
    return std::abs(std::log(x) / std::log(ln_2) - std::round(std::log(x) / std::log(ln_2))) < 1e-9;
  };
  const Cause cause = fit->x == 0                          ? Cause::lse_without_maximum
                      : fit->y == 0                        ? Cause::lse_without_sum
                      : is_base(fit->x) && is_base(fit->y) ? Cause::wrong_base
                      : fit->x == fit->y                   ? Cause::wrong_scale
                                                           : Cause::wrong_formula;
  std::string text = "lse = ";
  if (fit->x != 0) text += term(fit->x_text, "m");
  if (fit->y != 0) text += (fit->x != 0 ? " + " : "") + term(fit->y_text, "log2 l");
  fits(cause, text + ", not (m + log2 l) ln 2", fit->value, fit->free_numbers);
}

void try_divisor(const Scene& scene, const Array& o, const Array& l, bool divided,
                 const Formulas& fits) {
  Array divisor(l.rows(), 1);  // of each row, by least squares over its wrong columns
  for (Index row = 0; row < l.rows(); ++row) {
    double products = 0, squares = 0;
    for (Index col = 0; col < scene.cols(); ++col) {
      if (!scene.wrong(row, col)) continue;
      products += scene.got()(row, col) * o(row, col);
      squares += o(row, col) * o(row, col);
    }
    divisor(row) = squares / products;
  }
  const auto fit = linear_fit(l, Array::Ones(l.rows(), 1), divisor,
                              reference::softmax_scale(scene.info().problem));
  if (!fit) return;
  const Array value = o * (fit->value == 0).select(0, 1 / fit->value);
  if (fit->x == 0) {
    return fits(divided ? Cause::not_normalised : Cause::wrong_scale,
                "o is divided by " + (fit->y_text.empty() ? "1" : fit->y_text) +
                    (divided ? ", not by l" : ""),
                value, fit->free_numbers);
  }
  const std::string text = "o is divided by " + term(fit->x_text, "l") +
                           (fit->y == 0           ? ""
                            : fit->y_text.empty() ? " + 1"
                                                  : " + " + fit->y_text);
  if (!divided && fit->x == 1 && fit->y == 0) {
    return fits(Cause::normalised_twice, text + " already, which the combine pass does", value);
  }
  fits(Cause::wrong_formula, text, value, fit->free_numbers);
}

}  // namespace lanescope
