#include "debug/judge/rounded_row.h"

#include <algorithm>
#include <cmath>

#include "reference/elementary.h"
#include "reference/online.h"

namespace lanescope {
namespace {

using Weight = Roundings::Weight;

double rounded_to(double x, Rounding to) {
  const auto bits = [&](std::uint32_t more) {
    const std::uint32_t own = round_to(ElementType::f32, x);
    return value_of(ElementType::f32, (own + more) & 0xffffe000u);
  };
  const auto through = [&](ElementType type) { return held_as(type, x); };
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

}  // namespace

RoundedRow::RoundedRow(const Inputs& inputs, const DumpInfo& info, const Tensor& o,
                       std::int64_t row)
    : bc_(static_cast<std::size_t>(info.bc)), d_(static_cast<std::size_t>(info.problem.d)) {
  const Problem& p = info.problem;
  const std::int64_t head = row / p.len_q, query = row % p.len_q;
  const std::int64_t first_key =
      (head / p.heads * p.heads_kv + p.kv_head(head % p.heads)) * p.len_kv;
  scale_ = reference::softmax_scale(p);
  q_ = read(inputs.q, row);
  held_ = read(o, row);
  for (std::int64_t key = 0; key < p.visible_keys(query); ++key) {
    k_.push_back(read(inputs.k, first_key + key));
    v_.push_back(read(inputs.v, first_key + key));
  }
}

bool RoundedRow::tells() const {
  const auto is_number = [](double x) { return std::isfinite(x); };
  if (k_.empty() || !std::ranges::all_of(held_, is_number)) return false;
  // Where one weight is all, O is a row of V: the one rounded is the other rounded.
  constexpr double all_but = 0x1p-10;
  const std::vector<double> s = scores({});
  const double m = *std::ranges::max_element(s);
  double others = -1;
  for (const double x : s) others += std::exp(x - m);
  return others > all_but;
}

double RoundedRow::square() const {
  double sum = 0;
  for (const double x : held_) sum += x * x;
  return sum;
}

double RoundedRow::square_error(const Roundings& r) const {
  const std::vector<double> s = scores(r);
  std::vector<double> peak(s.size()), held(s.size());  // of the key's tile, and up to it
  double m = -reference::infinity;
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
    const double p = rounded_to(exact / unit, r.p) * unit;
    l += r.sums_rounded ? p : exact;
    for (std::size_t col = 0; col < d_; ++col) o[col] += p * rounded_to(v_[i][col], r.v);
  }
  double sum = 0;
  for (std::size_t col = 0; col < d_; ++col) {
    const double off = held_[col] - rounded_to(o[col] / l, r.o);
    sum += off * off;
  }
  return sum;
}

std::vector<double> RoundedRow::read(const Tensor& tensor, std::int64_t row) const {
  std::vector<double> values(d_);
  tensor.read(row * tensor.dims.back(), values);
  return values;
}

std::vector<double> RoundedRow::scores(const Roundings& r) const {
  const auto factor_of = [&](ScoreUnit unit) {
    return unit == ScoreUnit::raw      ? 1
           : unit == ScoreUnit::base_2 ? scale_ * reference::log2_e
                                       : scale_;
  };
  const double unit = factor_of(r.s_unit), q_unit = factor_of(r.q_unit);
  std::vector<double> q, s;
  for (const double x : q_) q.push_back(rounded_to(x * q_unit, r.q) / q_unit);
  for (const std::vector<double>& k : k_) {
    double dot = 0;
    for (std::size_t i = 0; i < d_; ++i) dot += q[i] * rounded_to(k[i], r.k);
    s.push_back(rounded_to(dot * unit, r.s) / unit * scale_);
  }
  return s;
}

}  // namespace lanescope
