#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reference/problem.h"
#include "reference/tensor.h"

namespace lanescope {

/// Q, K, V as the kernel gets them: f32, f16, bf16, or e4m3 with a scale per head, by which its
/// elements are multiplied.
struct Inputs {
  Tensor q, k, v;
  /// f32 [batch, heads], [batch, heads_kv] twice; without dimensions where the inputs are not e4m3.
  Tensor q_scale = {}, k_scale = {}, v_scale = {};
  ElementType type() const { return q.type; }
  bool scaled() const { return !q_scale.dims.empty(); }
};

/// The inputs that can be generated, as named on the command line.
///   random    close to standard normal
///   counting  no value twice in a tensor, as long as `type` has that many: each tensor deals out
///             a shuffled deck of normal numbers of magnitude below 4 (both signs; as many octaves
///             as the tensor needs, at least 12). A tensor larger than the deck repeats it, so
///             that values are unique among any `deck` elements from a multiple of `deck` on.
///             The largest deck: 32768 numbers for f16 and bf16, 128 for e4m3. Of f32 a tensor has
///             a deck of its own size.
///   large     scores up to some hundreds: an exponential without the maximum subtracted overflows
///   equal     all keys of a head equal: the softmax is uniform over the visible keys
///   rising    every score of keys 32t … 32t+31 is above every score of the keys before, for every
///             query: the running maximum rises in every tile of 32 keys, and of 64, and so on
///   steep     the same of 16 keys, by so much that e^x of the rise is infinite (of e4m3: of two)
///   lone      every query has one key, anywhere, whose score is so far above all others that e^x
///             of the distance is infinite (from d = 64 on; of few keys below, too)
///   low       every score is so far below 0 that e^x of it is 0 in f32
/// Q, K and V differ from each other in every kind.
std::vector<std::string> input_kinds();

/// Q, K, V of `problem` in `type`; f32 with all bits of their fractions random, but for numbers
/// that a kind sets; e4m3 from the same random numbers, with the scales that `quantise` gives,
/// times a factor by head (`counting`, `rising` and `steep`: 1, so that their numbers stay exact,
/// those of `rising` up to 14336 keys, from d = 2 on). The same bits on every machine (a
/// counter-based hash and exact arithmetic, no library functions). Throws UsageError, listing the
/// kinds, where `kind` is none.
Inputs generate_inputs(const Problem& problem, ElementType type, std::string_view kind,
                       std::uint64_t seed);

/// 16 hex digits: FNV-1a (64 bits) over the dimensions (8 bytes each, little endian) and the bytes
/// of q, k, v and, where there are, their scales. Source: Fowler, Noll, Vo; draft-eastlake-fnv.
std::string hash_inputs(const Inputs& inputs);

/// NaN and infinities of one tensor.
struct NonFinite {
  std::int64_t nan = 0;
  std::int64_t inf = 0;
  std::int64_t first = -1;  ///< index of the first of either, −1 where all are finite
};

/// The non-finite elements of q, k, v, in this order.
std::array<NonFinite, 3> scan_non_finite(const Inputs& inputs);

}  // namespace lanescope
