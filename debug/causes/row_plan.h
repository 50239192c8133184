#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "debug/causes/row_rules.h"
#include "debug/dump/dump.h"

namespace lanescope {

/// How one row of the outputs comes about, term by term. As `right_plan` makes it, it is attention;
/// a kernel with a known bug is the same with something else in one place.
struct RowPlan {
  std::int64_t batch = 0, head = 0, query = 0;
  std::int64_t q_row = 0;                 ///< in q seen as [·, d]
  std::int64_t k_first = 0, v_first = 0;  ///< row of the head's first key, in k and in v
  InputTensor q_is = InputTensor::q;      ///< the tensor that the row of Q is taken from
  ElementType q_type{}, k_type{}, v_type{}, o_type{};  ///< as which the bits are read, or written
  double scale = 1;                                    ///< of q·k, for scores of base e
  InputScale q_scale{InputTensor::q}, k_scale{InputTensor::k}, v_scale{InputTensor::v};
  double cap = 0;         ///< scores are cap·tanh(s / cap); 0: none
  double tile_scale = 1;  ///< scores of the tiles `in_tiles` have this factor besides
  double sink = 0;        ///< what l has besides, times e^−m
  /// The operand's heads are read as [d, length], not as [length, d].
  bool q_exchanged = false, k_exchanged = false, v_exchanged = false;
  std::vector<double> depth;  ///< how often each column of q·k counts
  /// What is kept of the sum of q·k after each column, and how many sums take turns at the columns;
  /// empty: all of it.
  std::function<double(double)> dot_kept;
  int dot_sums = 1;
  /// The scores of keys whose numbers differ in these bits alone are added up; a key that the row
  /// does not see gives 0.
  std::int64_t score_keys = 0;
  /// Pieces of the scores, of so many queries and keys, have rows and columns exchanged; 0: none.
  std::int64_t score_piece = 0;
  double slope = 0;             ///< scores have slope·(key − the row's own key) besides: ALiBi
  bool slope_is_even = false;   ///< of both sides: −slope·|key − the row's own key|
  bool keeps_own_peak = false;  ///< m after a tile is the tile's maximum, not the larger one
  /// As what m goes from tile to tile, and into the log-sum-exp; P is relative to the one that the
  /// tile found. Empty: as it is.
  std::function<double(double)> m_kept;
  /// P is relative to maxima that start anew after so many keys, as splits' do; 0: to the row's.
  std::int64_t keys_per_chain = 0;
  /// From the second tile on the first columns of Q are P of the tile before, which was stored over
  /// it.
  bool q_is_weights = false;
  /// What stays, times this, of the scores of the tile before in those of the same columns.
  double scores_left = 0;
  std::int64_t tile = 64;  ///< keys that are taken at a time
  std::int64_t tiles = 1;  ///< that the row's block goes through
  bool downwards = false;  ///< from the last to the first
  Rescale o_rescale = Rescale::right, l_rescale = Rescale::right;
  double alpha_power = 1;  ///< of Rescale::power, and of in_parts
  double exponent = 1;     ///< P = e^(this·(s − m)), m being the maximum of s as it is
  /// Tiles that the rules above hold in, and the maps below; empty: all.
  std::function<bool(std::int64_t tile)> in_tiles;
  TileMap k_from, v_from;  ///< in a tile of keys: (key, column); empty: in place
  TileMap q_from;          ///< in the block's rows of Q: (query, column)
  TileMap p_from;          ///< in a tile of P: (query, key)
  ElementType p_type{};    ///< as which P is rounded; its bits go into O as `v_type`'s
  bool p_misread = false;  ///< they do so where it is rounded as the inputs are, too
  /// What is kept of the elements of Q, K and V, of scores (of base e), P and O after each tile;
  /// empty: all of it.
  std::function<double(double)> q_kept, k_kept, v_kept, score_kept, p_kept, o_kept;
  bool sums_kept = false;  ///< l sums what is kept of P
  /// `o_kept` holds after each key, in so many sums that take turns at the keys; 0: after each
  /// tile.
  int o_sums = 0;
  bool o_kept_divided = false;  ///< of O that is divided by l already
  /// m and l are those of the right row; these scores s weigh V as e^(this·(s − m)). 0: no such.
  double weights_anew = 0;
  Division p_divided = Division::none;
  ByKey by_key = ByKey::nothing;  ///< `divisor`: P, not O, is divided by l
  std::int64_t sum_rows = 0;      ///< l sums up the rows whose numbers differ in these bits alone
  double sum_rows_times = 1;      ///< so many times each
  bool sums_rows_at_end = false;  ///< after the last tile, each relative to its own maximum
  bool sums_columns = false;      ///< l of row i of a block sums up column i of each tile of P
  std::int64_t alpha_row = 0;     ///< o takes alpha of the row whose number in the tile is xor this
  std::int64_t alpha_row_of_l = 0;  ///< l does
  std::int64_t divisor_row = 0;     ///< o is divided by l of such a row
  Combine combine = Combine::right;
  PartPowers part_powers;
  PartLanes part_lanes;
  PartKeys part_keys;
  PartRules part_rules;
  PartPlaces part_places;
  SumOver sum_over = SumOver::all_lanes;
  LaneReductions lanes;
  OutputRule output = OutputRule::divided;
  /// Batch, head and query whose right result the row holds; whose log-sum-exp alone.
  std::optional<std::array<std::int64_t, 3>> moved_from, lse_from;
  /// Columns of O in which the plan has an edit more.
  std::function<bool(std::int64_t col)> in_columns;
  std::function<void(RowPlan&)> edit_there;
  /// The edit that a column of O has; empty: none.
  std::function<void(RowPlan&, std::int64_t col)> edit_of_column;
  /// The column of O that stands in a column; −1: zero. Empty: its own.
  std::function<std::int64_t(std::int64_t col)> o_column;
  LseRule lse = LseRule::of_both;
  double lse_of_m = 1, lse_of_l = 1;  ///< factors of m and of ln l
  double in_lse = 1;  ///< how often l counts in the log-sum-exp beyond its use as divisor

  bool beyond = false;  ///< it takes what lies behind its tensors: zeros, or nobody knows what

  bool holds_in(std::int64_t tile_number) const { return !in_tiles || in_tiles(tile_number); }

  /// A key that the row takes.
  struct Term {
    std::int64_t key = 0, value = 0;  ///< rows of K and V from the head's first on; −1: zeros
    double in_o = 1, in_l = 1;        ///< how often it counts in either sum
    double masked_score = 0;          ///< what its score becomes where it `is_masked`
    bool is_masked = false;
    InputTensor key_is = InputTensor::k,
                value_is = InputTensor::v;  ///< the tensors that have these rows
  };
  std::vector<Term> terms;
};

/// What is stored of a row. `magnitude` is what o would be if no two terms cancelled: errors are
/// relative to it.
struct PlannedRow {
  std::vector<double> o, magnitude;  ///< [d]
  double lse = 0;                    ///< natural, by its rule
  double largest_score = 0;          ///< in magnitude: scores are rounded relative to it
};

/// The inputs of a dump, as numbers, a head at a time as plans ask for them.
class PlanInputs {
 public:
  explicit PlanInputs(const Dump& dump);

  const DumpInfo& info() const { return dump_.info; }
  const Problem& problem() const { return dump_.info.problem; }
  /// Attention, of query `query` of a head; beyond the last query, of a row of zeros.
  const RowPlan& right_plan(std::int64_t batch, std::int64_t head, std::int64_t query);
  /// Every right plan is changed so from here on: another way to attention.
  void go_by(std::function<void(RowPlan&)> variant);
  /// The scores of the plan's terms, of base e; −∞: masked.
  std::vector<double> scores_of(const RowPlan& plan);
  /// What the plan comes to; NaN where it takes a row that is none.
  PlannedRow carry_out(const RowPlan& plan);
  /// The same of some columns of O alone.
  PlannedRow carry_out(const RowPlan& plan, const std::vector<std::int64_t>& columns);

 private:
  struct Walk;
  struct Sums;
  class VisitSums;
  using Rows = std::vector<std::vector<double>>;
  /// Those of all heads, and behind the last zeros; empty ones are not read yet.
  Rows& rows_of(const Tensor& tensor, ElementType type, bool exchanged);
  void read_row(const Tensor& tensor, ElementType type, std::int64_t row, bool exchanged,
                std::vector<double>& values) const;
  /// Row `row` of those of all heads; −1: zeros. `exchanged`: the heads are read as [d, length].
  const std::vector<double>& row(const Tensor& tensor, ElementType type, std::int64_t row,
                                 bool exchanged = false);
  const Tensor& tensor_of(InputTensor input) const;
  /// Row `row` of the tensor `input`; zeros where it has no such row.
  const std::vector<double>& row_of(InputTensor input, ElementType type, std::int64_t row);
  /// Row `row` of a head that begins at `first`, its elements taken from where `from` says; −1:
  /// zeros. Until the next call.
  const std::vector<double>& taken_row(const Tensor& tensor, ElementType type, std::int64_t first,
                                       std::int64_t row, const RowPlan& plan, const TileMap& from,
                                       bool exchanged);
  /// What is kept of the elements of a row. Until the next call.
  const std::vector<double>& kept_row(const std::vector<double>& row,
                                      const std::function<double(double)>& kept);
  /// The row of Q that the plan's scores are of.
  std::vector<double> query_of(const RowPlan& plan);
  const std::vector<double>& key_of_term(const RowPlan& plan, const RowPlan::Term& term);
  const std::vector<double>& value_of_term(const RowPlan& plan, const RowPlan::Term& term);
  /// Of a head, counted over batches; 1 without scales, or where there is no such head.
  double scale_of(const InputScale& scale, std::int64_t own_head) const;
  double q_scale_of(const RowPlan& plan) const;
  double k_scale_of(const RowPlan& plan) const;
  double v_scale_of(const RowPlan& plan) const;
  std::vector<double> weights_over(const RowPlan& plan, std::vector<double> q,
                                   const std::vector<double>& scores) const;
  /// q·k of rows as they are, which are not computed again.
  double product_of(const RowPlan& plan, std::int64_t q_row, std::int64_t k_row);
  /// That of the term, or of the one that stands in its place (RowPlan::score_piece).
  double product_of_term(const RowPlan& plan, const RowPlan::Term& term);
  /// What else a plan makes of a score s, behind those `before`.
  double changed_score(const RowPlan& plan, const RowPlan::Term& term, double s,
                       const std::vector<double>& before) const;
  Walk walk(const RowPlan& plan);
  /// The walk of the right row `in_tile` of the plan's block, tile by tile as the plan goes.
  Walk walk_of_row(const RowPlan& plan, std::int64_t in_tile);
  Sums sums_of(const RowPlan& plan);
  Sums sums_anew(const RowPlan& plan);
  static void divide(const RowPlan& plan, const Walk& own, Sums& sums);
  static double factor_of(const RowPlan& plan, const Sums& sums, double l);
  RowPlan make_right_plan(std::int64_t batch, std::int64_t head, std::int64_t query) const;
  void add_values(const RowPlan& plan, const Sums& sums, const std::vector<std::int64_t>& from,
                  PlannedRow& row);
  void add_values_by_key(const RowPlan& plan, const Sums& sums,
                         const std::vector<std::int64_t>& from, PlannedRow& row);
  PlannedRow carry_out_by_lanes(const RowPlan& plan);
  PlannedRow carry_out_by_places(const RowPlan& plan, const std::vector<std::int64_t>& columns);

  const Dump& dump_;
  Inputs inputs_;
  /// The rows of a tensor as they are read; those behind the last are zeros.
  using RowsKey = std::tuple<const Tensor*, ElementType, bool>;
  std::map<RowsKey, Rows> rows_;
  RowsKey last_key_{};  ///< asked for last, most often once more
  Rows* last_rows_ = nullptr;
  /// q·k by row of Q and row of K, NaN where it is not known, of inputs as they are.
  std::map<std::int64_t, std::vector<double>> products_;
  std::map<std::array<std::int64_t, 3>, RowPlan> right_plans_;
  std::function<void(RowPlan&)> variant_ = [](RowPlan&) {};
  std::vector<double> taken_, kept_;
};

}  // namespace lanescope
