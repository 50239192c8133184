// What the weight of a split's part is taken for, or multiplied with.

#include <cmath>

#include "debug/causes/combine_parts.h"
#include "debug/causes/linear.h"
#include "reference/elementary.h"

namespace lanescope {

using Array = Scene::Array;

using reference::infinity;
using reference::ln_2, reference::log2_e;

std::vector<Mistake> combine_mistakes(const Parts& parts) {
  const Array one = Array::Ones(parts.top.rows(), 1);
  const std::vector<Array>&m = parts.m, &l = parts.l, &weight = parts.weight;
  const Array& top = parts.top;
  std::vector<Mistake> all = {
      {Cause::weighted_by_sum, "l_i", [&](std::size_t i) { return l[i]; }},
      {Cause::normalised_twice, "1 / l_i: the parts are divided by it already",
       [&](std::size_t i) { return (l[i] == 0).select(0, 1 / l[i]); }},
      {Cause::not_rescaled, "1 / w_i: the weight is missing",
       [&](std::size_t i) { return (weight[i] == 0).select(0, 1 / weight[i]); }},
      {Cause::rescaled_twice, "w_i: the weight counts twice",
       [&](std::size_t i) { return weight[i]; }},
      {Cause::wrong_base, "e^(m_i - m) / 2^(m_i - m): m is in base 2",
       [&](std::size_t i) { return exp2((m[i] - top) * (log2_e - 1)); }},
      {Cause::wrong_base, "2^((m_i - m) (ln 2 - 1)): m is in base 2",
       [&](std::size_t i) { return exp2((m[i] - top) * (ln_2 - 1)); }},
      {Cause::wrong_formula, "2^(l_i - m_i): the weight takes l_i for m_i",
       [&](std::size_t i) { return exp2(l[i] - m[i]); }},
      {Cause::wrong_formula, "2^m: the maximum is not subtracted",
       [&](std::size_t) { return exp2(top); }},
      {Cause::wrong_formula, "2^(2 (m - m_i)): the sign of the exponent is wrong",
       [&](std::size_t i) { return exp2((top - m[i]) * 2); }},
  };
  // Maxima are of scores that have their scale.
  const struct {
    double factor;
    const char* which;
  } scales[] = {{parts.scale * log2_e, "scale log2(e)"}, {parts.scale, "scale"}};
  for (const auto& scale : scales) {
    all.push_back(
        {Cause::scale_repeated,
         std::string("2^(m_i - m) with the exponent multiplied by ") + scale.which +
             ": m_i has its scale already",
         [&m, &top, more = scale.factor - 1](std::size_t i) { return exp2((m[i] - top) * more); }});
  }
  if (parts.unit != 1) {
    const double lacks = 1 / parts.unit - 1;
    all.push_back({Cause::wrong_base, "2^x of m_i - m as they are held, which are not in base 2",
                   [=, &m, &top](std::size_t i) { return exp2((m[i] - top) * lacks); }});
  }
  // Splits that are taken in groups: from one to the next, the maximum rises.
  for (std::size_t group = 1; group < parts.count(); group *= 2) {
    std::vector<Array> risen = m;  // up to the end of each one's group
    for (std::size_t i = 0; i < parts.count(); ++i) {
      const std::size_t end = std::min((i / group + 1) * group, parts.count());
      for (std::size_t j = 0; j < end; ++j) risen[i] = risen[i].max(m[j]);
    }
    all.push_back({Cause::not_rescaled,
                   "2^(m - m of the splits up to the end of its group of " + std::to_string(group) +
                       "): it is not rescaled where the maximum rises behind them",
                   [=, &top](std::size_t i) {
                     return (risen[i] == -infinity).select(1, exp2(top - risen[i]));
                   }});
  }
  // Splits that are taken some at a time: in the last round places hold those of the one before.
  for (std::size_t some = 2; some < parts.count(); some *= 2) {
    const std::size_t left = parts.count() % some, end = parts.count() - left;
    if (left == 0) continue;
    all.push_back(
        {Cause::contribution_repeated,
         "2 for splits " + std::to_string(end - some + left) + " to " + std::to_string(end - 1) +
             ": of " + std::to_string(some) +
             " that are taken at a time, they count again in the last round",
         [=](std::size_t i) { return i >= end - some + left && i < end ? 2 * one : one; }});
  }
  for (std::size_t split = 0; parts.count() > 1 && split < parts.count(); ++split) {
    const std::string name = "split " + std::to_string(split);
    all.push_back({Cause::contribution_missing, "0 for " + name + ": it is missing",
                   [=](std::size_t i) { return i == split ? 0 * one : one; }});
    all.push_back({Cause::contribution_repeated, "2 for " + name + ": it counts twice",
                   [=](std::size_t i) { return i == split ? 2 * one : one; }});
    all.push_back({Cause::accumulator_lost, "0 for all splits but " + std::to_string(split),
                   [=](std::size_t i) { return i == split ? one : 0 * one; }});
  }
  return all;
}

}  // namespace lanescope
