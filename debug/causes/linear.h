#pragma once

#include "debug/causes/formulas.h"

namespace lanescope {

/// Numbers x and y with x·a + y·b = c, in the sense of least squares, over the entries [rows, 1]
/// where all are finite; those near a number that kernels are known to have are that number.
struct Linear {
  double x, y;
  std::string x_text, y_text;  ///< "ln 2", "0.7213", empty: 1
  int free_numbers;            ///< of x and y, those that are none of them
  Scene::Array value;          ///< x·a + y·b
};
/// `scale`: 1/sqrt(d), of which a factor may come. Nothing where the entries leave x or y open.
std::optional<Linear> linear_fit(const Scene::Array& a, const Scene::Array& b,
                                 const Scene::Array& c, double scale);

/// Tries lse = x m + y log2 l, which should be (m + log2 l) ln 2.
void try_lse_terms(const Scene& scene, const Scene::Array& m, const Scene::Array& l,
                   const Formulas& fits);
/// Tries outputs that are `o` / (x l + y); `divided`: they should be o / l, else o.
void try_divisor(const Scene& scene, const Scene::Array& o, const Scene::Array& l, bool divided,
                 const Formulas& fits);

}  // namespace lanescope
