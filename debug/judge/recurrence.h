#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace lanescope {

/// How a kernel's online softmax may differ from the one that the reference goes through (tiles
/// upwards, m the maximum of its own row in base 2, from −inf on, at every tile), and leave the
/// same outputs on every input: O = o / l and lse = m + log2 l hold whatever number is subtracted
/// from the scores of a row, as long as nothing overflows or vanishes.
struct Recurrence {
  enum class Unit : std::uint8_t { base_2, base_e, raw };             ///< raw: Q·Kᵀ
  enum class Divided : std::uint8_t { at_the_end, output, weights };  ///< by l, in every tile
  /// What a split leaves: o, m, l; o / l, m, l; or o, l and m with another number than the maximum
  /// subtracted from the scores (o / l, m + log2 l and 1, for instance).
  enum class Partials : std::uint8_t { plain, divided, shifted };

  /// Q as it is; or times the scale, for scores of base e or 2, and rounded again.
  enum class Query : std::uint8_t { plain, rounded_base_e, rounded_base_2 };

  Query query = Query::plain;
  Unit scores = Unit::base_2;       ///< s, where it is not as its site says
  Unit maximum = Unit::base_2;      ///< m and m_prev
  int rows_per_maximum = 1;         ///< neighbours that take the maximum of all of them
  int tiles_per_maximum = 1;        ///< that are taken in a step, with the maximum of all of them
  int chains = 1;                   ///< of every n-th tile, each with m, l and o of its own
  std::int64_t keys_per_chain = 0;  ///< side by side, as splits have them; 0: no such
  double start = -std::numeric_limits<double>::infinity();  ///< m before the first tile
  /// Who keeps m where it would rise by no more than a threshold, in base 2, and takes it else:
  /// `rows` rows together, each `apart` rows from the next, by the one that rises most. It was kept
  /// at rises up to the first number, and taken from the second on.
  struct Decision {
    int rows = 1, apart = 1;
    double kept_up_to = 0, taken_from = std::numeric_limits<double>::infinity();
    bool holds() const { return kept_up_to < taken_from; }
  };
  bool kept = false;  ///< m was, somewhere
  double above = 0;   ///< m is the maximum plus this, in base 2, as kernels of narrow P choose it
  /// Those that are possible, simplest first: no rows of them kept it where others took it. Empty
  /// where nothing was looked at.
  std::vector<Decision> decisions;
  bool sum_of_lanes = false;    ///< l is a part of the row sum in every lane
  bool sum_of_rounded = false;  ///< l sums P as P.V takes it
  bool first_alpha = false;     ///< alpha of a row that has seen no key is not 0: it rescales zeros
  Divided divided = Divided::at_the_end;
  /// o stays relative to the first maximum of its row: not o is rescaled, but P.V.
  bool output_of_first_maximum = false;
  Partials partials = Partials::plain;
  double ex2_error = 0;             ///< largest relative error of 2^x, beyond that of ex2.approx
  std::vector<std::int64_t> order;  ///< of the tiles of the first block where it is not upwards
  bool of_maxima = false;           ///< m is made so; alpha, p and l are not known to follow
  bool counts_visits = false;       ///< sites are traced by the visit, not by the tile

  /// P, up to 2^threshold, stays below the largest f16, and its sums far below the largest f32.
  static constexpr double highest_threshold = 15;
  /// What is chosen for the range of P is above that; less is rounding.
  static constexpr double lowest_above = 0x1p-6;

  bool differs() const;
  /// Whether both may be of one kernel: what both say is the same; and the threshold of the two
  /// together.
  bool agrees(const Recurrence& other) const;
  void merge(const Recurrence& other);
  /// Adds to `decisions` what another run shows of them.
  void merge(const std::vector<Decision>& seen);
  /// The simplest that holds; null where none does.
  const Decision* decision() const;
  /// Whether it leaves right outputs on all inputs, as far as it is known: a threshold was passed,
  /// and is none that P overflows at.
  bool is_settled() const;
  /// "m is in units of the raw scores", a line each.
  std::vector<std::string> differences() const;
};

}  // namespace lanescope
