#pragma once

#include "debug/ptx/recognise.h"
#include "reference/inputs.h"
#include "reference/problem.h"

namespace lanescope {

/// What a kernel of attention comes to, whatever it does: the kinds of a Lookout, in this order.
/// The element of a score or weight is query row · len_kv + key, of what comes of a row's sum the
/// row, of an output row · d + column; rows counted over batches and heads.
enum class Known : std::uint8_t {
  products,          ///< q·k
  scores,            ///< q·k / sqrt(d)
  scores_in_base_2,  ///< the same · log2 e
  exponents,         ///< of 2^x, x = (score − maximum) · log2 e
  natural_exponents,
  weights,     ///< 2^x
  sums,        ///< of a row's weights, when they are whole
  inverses,    ///< of them
  logarithms,  ///< in base 2
  natural_logarithms,
  rounded_sums,  ///< of weights that are rounded to the inputs' type, and what comes of them
  rounded_inverses,
  rounded_logarithms,
  rounded_natural_logarithms,
  outputs,  ///< Σ weight · v, not divided yet, of weights that are not rounded
};
inline constexpr int known_count = 15;

/// Whether it has few enough products of Q and K.
bool may_be_looked_for(const Problem& problem, std::int64_t most_products);

/// What Q is multiplied by, and rounded to the inputs' type, before Q·Kᵀ: nothing, the scale, or
/// that and log2 e.
enum class ScaledQueries : std::uint8_t { no, by_scale, to_base_2 };

/// Of all keys that queries see. The maximum that a weight is relative to may be 0, that of any
/// keys side by side among which the key is, as the running maximum of whatever tiles, in whatever
/// order, is (the key's ancestors in the Cartesian tree of the row's scores; Vuillemin, CACM 1980),
/// or the running maximum of keys before it, as of a kernel that keeps it for a while. Of keys that
/// may be such a maximum themselves no weight is known, nor of those whose weight may be 0 in fp32.
/// What is within six standard deviations of what fp32 sums round away counts. Of a kind whose
/// numbers are much the same nothing is known.
ptx::Lookout lookout_for(const Problem& problem, const Inputs& inputs,
                         ScaledQueries queries = ScaledQueries::no);

}  // namespace lanescope
