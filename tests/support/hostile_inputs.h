#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <string>

#include "reference/inputs.h"

namespace lanescope::testing {

using Change = std::function<double(double)>;

/// Random inputs, each number of q, k and v changed.
inline Inputs changed(const Problem& of, ElementType type, const Change& qk, const Change& v) {
  Inputs inputs = generate_inputs(of, type, "random", 0);
  const auto change = [](Tensor& tensor, const Change& by) {
    for (std::int64_t i = 0; i < tensor.size(); ++i) tensor.set(i, by(tensor.at(i)));
  };
  change(inputs.q, qk);
  change(inputs.k, qk);
  change(inputs.v, v);
  return inputs;
}

inline Change times(double factor) {
  return [factor](double x) { return std::clamp(factor * x, -65504.0, 65504.0); };
}
inline Change all(double value) {
  return [value](double) { return value; };
}
inline double same(double x) { return x; }

/// Inputs of `of` on which bounds have little to stand on, by name.
inline std::map<std::string, Inputs> hostile(const Problem& of, ElementType type) {
  std::map<std::string, Inputs> inputs;
  const auto add = [&](const char* name, const Change& qk, const Change& v) {
    inputs[name] = changed(of, type, qk, v);
  };
  add("x 30", times(30), same);
  add("x 300", times(300), same);
  add("x 10000", times(10000), same);
  add("65504", all(65504), all(65504));
  add("subnormal", times(0x1p-23), times(0x1p-23));
  add("equal", all(1), all(1));
  add("-0", all(-0.0), all(-0.0));
  add("no scores", all(0), same);
  inputs["one-hot"] = changed(of, type, all(0), same);
  for (Tensor* x : {&inputs["one-hot"].q, &inputs["one-hot"].k}) {
    for (std::int64_t row = 0; row < x->size() / of.d; ++row) x->set(row * of.d + row % of.d, 100);
  }
  return inputs;
}

}  // namespace lanescope::testing
