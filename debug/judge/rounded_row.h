#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "debug/dump/dump.h"
#include "reference/site.h"

namespace lanescope {

/// To what a kernel of f32 may round a number that it computes with. tf32: to nearest, as
/// cvt.rna.tf32 does; tf32_cut: to the leading bits, which is what a matrix unit takes of f32 that
/// is not converted (PTX ISA, mma, .tf32).
enum class Rounding : std::uint8_t { none, tf32, tf32_cut, f16, bf16 };

/// How a kernel of f32 rounds what it computes with.
struct Roundings {
  Rounding q = Rounding::none, k = Rounding::none, s = Rounding::none, p = Rounding::none,
           v = Rounding::none, o = Rounding::none;
  /// What is rounded of a score: it in base 2, in base e, or Q·K; of Q the same: with that factor.
  ScoreUnit s_unit = ScoreUnit::base_e, q_unit = ScoreUnit::raw;
  /// What is rounded of a weight: it relative to the maximum so far, to that of its tile, to that
  /// of all keys, or divided by l.
  enum class Weight : std::uint8_t { so_far, of_tile, of_all, divided } weight = Weight::so_far;
  bool sums_rounded = false;  ///< l sums up the rounded weights
};

/// A row of the O of a kernel of f32, and what it is made of.
class RoundedRow {
 public:
  /// `row`: of all heads.
  RoundedRow(const Inputs& inputs, const DumpInfo& info, const Tensor& o, std::int64_t row);

  /// Whether there are several keys that count, and what the kernel has is numbers.
  bool tells() const;
  /// Σ o² over the columns, as the kernel has them.
  double square() const;
  /// Σ (held − o)² over the columns, o being what such roundings give, else in double.
  double square_error(const Roundings& roundings) const;

 private:
  std::vector<double> read(const Tensor& tensor, std::int64_t row) const;
  std::vector<double> scores(const Roundings& roundings) const;

  std::size_t bc_, d_;
  double scale_ = 1;
  std::vector<double> q_, held_;
  std::vector<std::vector<double>> k_, v_;
};

}  // namespace lanescope
