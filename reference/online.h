#pragma once

#include <cstdint>

#include "reference/inputs.h"
#include "reference/stages.h"

namespace lanescope::reference {

/// Where the recurrence starts.
enum class Injected : std::uint8_t {
  nothing,   ///< from Q, K, V
  scores,    ///< S given: the true scores rounded to f32, without error
  weights,   ///< P and alpha given: the true ones, rounded to `injected_p` and f32, without error
  partials,  ///< what the blocks of the splits leave given: the true values rounded to f32
};

/// One walk over the K/V tiles: br query rows against bc keys at a time. The rows of
/// `heads_per_tile` neighbouring heads of one kv head stand behind each other, as if of one head; a
/// block goes through one of `splits` equal ranges of tiles, the last of which may be short or
/// empty.
struct Walk {
  std::int64_t br = 64, bc = 64;
  std::int64_t width = 64;  ///< columns of the tiles of Q, K, V; zero from problem.d on
  Arithmetic arithmetic;
  /// In what s is held, and in what m. What is missing to base 2 comes in the softmax.
  ScoreUnit scores = ScoreUnit::base_2, maxima = ScoreUnit::base_2;
  /// Rise::rule of the softmax.
  RescaleRule rescale = {};
  Injected injected = Injected::nothing;
  ElementType injected_p = ElementType::f32;  ///< in which a kernel holds P where it shows it
  std::int64_t splits = 1;
  std::int64_t heads_per_tile = 1;
};

/// What a kernel holds after a tile, with bounds on what it may hold (errors not anchored).
/// s, p: [rows, bc]; m_prev, m, alpha, l: [rows, 1]; o: [rows, width]. p is the fp32 one;
/// `rounded` gives it in another type. Given values have no error.
struct TileState {
  Bounded s, m_prev, m, alpha, p, l, o;
};

/// The recurrence tile by tile for one block of query rows and its split of the keys; tiles count
/// from the split's first. Bounds follow the errors from the given values on. v and with it o are
/// without their scale. What injection needs is the `value` of s, or of p and alpha, of a walk with
/// the same `injected`: already rounded as given.
class OnlineBlock {
 public:
  /// Rows [q_tile·br, ...) of (batch, head), `head` being the first of heads_per_tile. `inputs`
  /// must outlive the block.
  OnlineBlock(const Inputs& inputs, const Problem& problem, const Walk& walk, std::int64_t batch,
              std::int64_t head, std::int64_t q_tile, std::int64_t split = 0);

  /// Query rows of the block that exist: br but in the last block of a head.
  Index rows() const { return static_cast<Index>(visible_.size()); }
  /// Tiles from the first on that hold a key which some row sees; the others change nothing.
  std::int64_t needed_tiles() const;
  /// Keys of `tile` that each row sees. [rows]
  Visible visible(std::int64_t tile) const;
  /// The tiles as a kernel loads them, without their scales, zero beyond the inputs. q: [br,
  /// width]; k, v: [bc, width].
  Array q_tile() const;
  Array k_tile(std::int64_t tile) const;
  Array v_tile(std::int64_t tile) const;

  /// Advances over `tile`, in the order of the kernel; tiles that are not needed may be left out.
  /// m_held: Rise::held of the softmax.
  TileState step(std::int64_t tile, const Array* m_held = nullptr);
  /// What the block has after the tiles so far; without error where it is given.
  Partial partial() const;
  /// What the block stores after the tiles so far, all keys being in its split: o_final
  /// [rows, width], lse [rows, 1].
  Outputs finish() const {
    return epilogue(o_, l_, m_, output_factor_, walk_.arithmetic, converts_maxima());
  }

  /// What the block's dot products of elements are multiplied by in qk, what the scores in the
  /// softmax, and what o / l.
  Factor score_factor() const;
  Factor softmax_factor() const;
  /// What m as held is multiplied by to be in base 2.
  double maximum_factor() const;
  /// Whether that is more than nothing: each exponent then has it to do.
  bool converts_maxima() const {
    return walk_.maxima != ScoreUnit::base_2 || walk_.arithmetic.any_softmax;
  }
  const Factor& output_factor() const { return output_factor_; }
  const Walk& walk() const { return walk_; }

 private:
  Array kv_tile(const Tensor& tensor, std::int64_t tile) const;

  const Inputs& inputs_;
  Problem problem_;
  Walk walk_;
  std::int64_t first_q_row_;   ///< in q seen as [·, d]
  std::int64_t first_kv_row_;  ///< in k and v seen as [·, d]
  Factor score_factor_;        ///< from a dot product to a score in base 2
  Factor output_factor_;
  std::int64_t first_tile_;   ///< of the split, counted from the first key
  std::int64_t split_tiles_;  ///< of a split, but for the end of the keys
  Visible visible_;           ///< keys that each row sees, of all
  Array q_;                   ///< [rows, width]
  Bounded m_, l_, o_;         ///< l and o anchored
};

/// 1 / sqrt(d).
double softmax_scale(const Problem& problem);

}  // namespace lanescope::reference
