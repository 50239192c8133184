#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace lanescope {

/// How what earlier tiles gave to a sum is brought to the maximum of later ones.
enum class Rescale : std::uint8_t {
  right,     ///< sum = alpha·sum + this tile
  power,     ///< sum = alpha^`alpha_power`·sum + this tile
  all,       ///< sum = alpha·(sum + this tile)
  doubled,   ///< sum = 2·alpha·sum + this tile: two lanes of the row add up the sum, not its part
  fourfold,  ///< sum = 4·alpha·sum + this tile: four lanes do
  swapped,   ///< sum = sum + alpha·this tile
  restart,   ///< sum = this tile
  own_peak,  ///< the tile's weights are relative to its own maximum, not to the running one
  to_peak,   ///< alpha is relative to the tile's own maximum, not to the running one
  late,      ///< alpha is that of the tile before
  early,     ///< alpha is that of the next tile
  in_parts,  ///< sum = alpha·sum before each of `alpha_power` parts of the tile, as many keys each
};

/// What is stored of a row's sums; l is the row's, or its lane's.
enum class OutputRule : std::uint8_t {
  divided,
  undivided,
  divided_twice,
  multiplied,      ///< o·l
  by_exponential,  ///< o / e^lse
  by_count,        ///< o / the number of keys that the row sees
  by_earlier_sum,  ///< o / (l before the last tile)
  by_whole_sum,    ///< o / (l without its fraction)
  by_sum_and_one,  ///< o / (1 + l)
  rescaled_again,  ///< alpha of the last tile · o / l
};
/// The log-sum-exp: m and ln l, each with a factor; or l itself, or m + l, or ln(m + l).
enum class LseRule : std::uint8_t {
  of_both,
  of_parts,  ///< in the place of m the largest of the parts' own, l relative to that
  sum,
  maximum_and_sum,
  logarithm_of_both,
  product,  ///< m·ln l
};

/// What P is divided by before it goes into O; `all_sums`: O itself by l after every tile.
enum class Division : std::uint8_t { none, running_sum, tile_sum, all_sums };

/// How the parts of the keys that blocks of their own take are put together; m_i, l_i and the
/// quotients o_i are a part's.
enum class Combine : std::uint8_t {
  right,       ///< o_i weigh as their l_i at a common maximum
  mean,        ///< all the same
  by_maximum,  ///< as 2^m_i
  by_sum,      ///< as l_i, each at its own maximum
  of_pair,     ///< as part i xor 1 should
  of_next,     ///< as part i + 1 should, the last one as the first
  undivided,   ///< rightly, relative to the largest; not divided by the sum of the weights
};

/// What parts of the keys get where they are put together: 2^(m_i − m), which each brings to the
/// common maximum, to these powers, in the sum of O and in that of l; also l_i to powers. Those
/// before `first` are brought there as they should be.
struct PartPowers {
  double in_o = 1, in_l = 1, sums_in_o = 0, sums_in_l = 0;
  std::size_t first = 0;
  bool right() const { return in_o == 1 && in_l == 1 && sums_in_o == 0 && sums_in_l == 0; }
};

/// A warp that puts the parts together, one to a lane: over which of its lanes it takes the maximum
/// of their log-sum-exps, and the sum of their weights: those whose numbers differ in these bits
/// alone.
struct PartLanes {
  int of_maximum = 31, of_sum = 31;
  bool right() const { return of_maximum == 31 && of_sum == 31; }
};

/// Which part of the keys a term is of: so many keys side by side, and of `turns` parts by turns;
/// 0: each part is one range.
struct PartKeys {
  std::int64_t keys = 64, turns = 0;
  std::size_t of(std::size_t term) const {
    const std::size_t range = term / static_cast<std::size_t>(keys);
    return turns > 0 ? range % static_cast<std::size_t>(turns) : range;
  }
};

/// Parts of the keys that have maxima of their own: P of a part's tile is relative to the part's
/// maximum so far, and has this power; alpha, which takes O and l from there to the part's last
/// one, has those. With `share_in_o` and `share_in_l` the tile's own share is multiplied by the
/// tile's alpha, too. The parts are put together rightly.
struct PartRules {
  double p = 1, alpha_in_o = 1, alpha_in_l = 1;
  bool share_in_o = false, share_in_l = false;
  bool right() const {
    return p == 1 && alpha_in_o == 1 && alpha_in_l == 1 && !share_in_o && !share_in_l;
  }
};

/// Parts of the keys whose O, as blocks of their own left them, is taken from the place of another
/// row, of all batches and heads, or of another part; they weigh as the row's own should.
struct PartPlaces {
  struct Place {
    std::int64_t row;
    std::size_t part;
  };
  std::function<Place(std::int64_t row, std::size_t part)> from;  ///< empty: in place
  std::size_t parts = 1;                                          ///< of a row
  bool divided = false;                                           ///< each by its l
};

/// What of its row a weight takes from the row whose number in the block is that of its key in the
/// tile.
enum class ByKey : std::uint8_t { nothing, maximum, divisor };

/// Which of the columns of a tile a lane's share of l covers, where a warp holds the row in the
/// layout of mma.m16n8 (PTX ISA): pair c / 2 % 4 of every eight columns is of one lane of four.
enum class SumOver : std::uint8_t { all_lanes, own_lane, lane_and_neighbour, lane_and_next_pair };

/// Lanes that have a row together, and what they reduce: those whose numbers differ in these bits
/// alone, all bits being all of them. A warp has a key per lane, j mod 32; the quad of mma.m16n8
/// has pairs of keys, and of columns of O, by turns (PTX ISA).
struct LaneReductions {
  int lanes = 32;  ///< 32 or 4
  int of_maximum = 31, of_sum = 31;
  bool side_by_side = false;  ///< a lane of a warp has neighbouring columns of O, not every 32nd
  bool sums_at_end = false;   ///< the parts of l are put together after the last tile
  /// l is what `shfl.down` by 16, 8, 4, 2 and 1 leaves in each lane: whole in the first alone.
  /// Lanes behind the last give their own once more.
  bool sums_down = false;
  /// A lane multiplies each value of the tile with the weight of its own key, not with the value's.
  bool own_weights = false;
  bool whole() const {
    return of_maximum == lanes - 1 && of_sum == lanes - 1 && !sums_down && !own_weights;
  }
};

/// An input of attention, as where a row is taken from.
enum class InputTensor : std::uint8_t { q, k, v };

/// The scale that an input of e4m3 has per head: of which input, to which power, and of which head,
/// counted over batches; −1: of its own.
struct InputScale {
  InputTensor of;
  double power = 1;
  std::int64_t head = -1;
};

/// From where in a tile an element at (row, column) of it is taken; outside of it there are zeros.
struct ElementPlace {
  std::int64_t row, col;
};
using TileMap = std::function<ElementPlace(std::int64_t row, std::int64_t col)>;

}  // namespace lanescope
