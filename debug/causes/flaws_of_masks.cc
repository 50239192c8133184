#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string>

#include "debug/causes/flaw_families.h"

namespace lanescope {
namespace {

using Term = RowPlan::Term;

/// Sizes of tiles with a mask of their own: one of a single key has that of its key.
std::vector<std::int64_t> masked_tile_sizes(const DumpInfo& info) {
  std::vector<std::int64_t> sizes = tile_sizes(info);
  std::erase(sizes, 1);
  return sizes;
}

/// Causal masks that are another one's. A rule gives the end of the keys that a query sees.
class CausalMasks {
 public:
  CausalMasks(const DumpInfo& info, Flaws& flaws) : info_(info), flaws_(flaws) {}

  void add_all() {
    if (!right_.p.causal) return add_unwanted();
    add_ends();
    for (const std::int64_t bc : masked_tile_sizes(info_)) add_unmasked_tiles(bc);
    add_rows_of_tiles();
    add_other_rows();
    for (const std::int64_t bc : masked_tile_sizes(info_)) {
      add_tiles_taken(bc);
      add_tiles_left_out(bc);
    }
    add_keyless_rows();
    add_far_ends();
  }

 private:
  /// The right mask, and the blocks of br queries.
  struct Right {
    Problem p;
    std::int64_t br;
    std::int64_t corner = p.len_kv - p.len_q;  ///< how many keys query 0 sees besides its own

    std::int64_t last_row(std::int64_t query) const {
      return std::min(p.len_q, (query / br + 1) * br) - 1;
    }
    /// Of all rows of the query's block.
    std::int64_t keys_of_block(std::int64_t query) const { return p.visible_keys(last_row(query)); }
    /// Of those that all rows of the query's block see.
    std::int64_t whole_tiles(std::int64_t query, std::int64_t bc) const {
      return p.visible_keys(query / br * br) / bc * bc;
    }
  };

  template <class End>
  void add(Cause cause, const std::string& text, int choices, const End& end) {
    flaws_.push_back(
        {cause, Stage::qk, text, choices,
         [end, keys = right_.p.len_kv](RowPlan& plan) { see_keys(end(plan.query), keys, plan); }});
  }
  /// Of tiles of bc keys: what their size costs, and how it is said.
  template <class End>
  void add_of_tile(Cause cause, const std::string& text, int choices, std::int64_t bc,
                   const End& end) {
    add(cause, text + size_text(info_, bc), choices + (bc != info_.bc), end);
  }
  static std::string more_or_fewer(std::int64_t off) {
    return "whose causal mask lets " + keys_text(std::abs(off)) + (off > 0 ? " more" : " fewer");
  }

  void add_ends();
  void add_unmasked_tiles(std::int64_t bc);
  void add_rows_of_tiles();
  void add_other_rows();
  void add_tiles_taken(std::int64_t bc);
  void add_tiles_left_out(std::int64_t bc);
  void add_keyless_rows();
  void add_far_ends();
  /// Masks where none was asked for.
  void add_unwanted();

  const DumpInfo& info_;
  Flaws& flaws_;
  const Right right_{info_.problem, info_.br};
};

void CausalMasks::add_ends() {
  const Right r = right_;
  for (const std::int64_t off : {1, -1, 2, -2}) {
    add(Cause::mask_off_by_one, more_or_fewer(off), std::abs(off) > 1,
        [=](std::int64_t query) { return std::min(query + 1 + r.corner + off, r.p.len_kv); });
  }
  if (r.corner != 0) {
    add(Cause::mask_misaligned, "whose causal mask starts in the upper left corner", 0,
        [=](std::int64_t query) { return std::min(query + 1, r.p.len_kv); });
    add(Cause::mask_misaligned, "whose causal mask is shifted by len_q - len_kv", 0,
        [=](std::int64_t query) { return std::min(query + 1 - r.corner, r.p.len_kv); });
  }
  add(Cause::causal_mask_missing, "without the causal mask", 0,
      [=](std::int64_t) { return r.p.len_kv; });
}

void CausalMasks::add_unmasked_tiles(std::int64_t bc) {
  const Right r = right_;
  add_of_tile(Cause::causal_mask_missing, "in which the tile on the diagonal is not masked", 0, bc,
              [=](std::int64_t query) {
                return std::min(rounded_up(r.p.visible_keys(query), bc), r.p.len_kv);
              });
  add_of_tile(Cause::causal_mask_missing,
              "in which only the last tile that a block takes is masked", 0, bc,
              [=](std::int64_t query) {
                const std::int64_t masked = rounded_up(r.keys_of_block(query), bc) - bc;
                return std::max(r.p.visible_keys(query), masked);
              });
  add_of_tile(Cause::causal_mask_missing,
              "in which only tiles that go beyond the keys of their block's last row are masked", 0,
              bc, [=](std::int64_t query) {
                const std::int64_t end = std::min((query / r.br + 1) * r.br + r.corner, r.p.len_kv);
                return std::max(r.p.visible_keys(query), end < 0 ? 0 : end / bc * bc);
              });
  add_of_tile(
      Cause::tile_skipped, "in which the tile on the diagonal is left out", 0, bc,
      [=](std::int64_t query) { return (rounded_up(r.p.visible_keys(query), bc) / bc - 1) * bc; });
}

/// Masks of one row for all rows of a tile.
void CausalMasks::add_rows_of_tiles() {
  const Right r = right_;
  for (const std::int64_t step : {r.br, std::int64_t{16}, std::int64_t{8}}) {
    if (step > r.br) continue;
    const std::string rows = step == r.br ? "a tile's" : std::to_string(step);
    // As where tiles on the diagonal are not masked.
    add(step >= 16 ? Cause::causal_mask_missing : Cause::mask_misaligned,
        "whose causal mask is that of the last of " + rows + " rows", step != r.br,
        [=](std::int64_t query) {
          return r.p.visible_keys(std::min(r.p.len_q, rounded_up(query + 1, step)) - 1);
        });
    add(Cause::mask_misaligned, "whose causal mask is that of the first of " + rows + " rows",
        step != r.br, [=](std::int64_t query) { return r.p.visible_keys(query / step * step); });
    add(Cause::mask_misaligned,
        "whose causal mask counts queries from the start of " + rows + " rows", step != r.br,
        [=](std::int64_t query) { return std::min(query % step + 1 + r.corner, r.p.len_kv); });
  }
  // Rows of warps, of as many 16 as each has.
  for (const std::int64_t rows : {16, 32, 64}) {
    for (const std::int64_t apart : {2 * rows, rows / 2, rows / 4}) {
      if (rows >= r.br || apart < 8) continue;
      add(Cause::mask_misaligned,
          "whose causal mask counts groups of " + std::to_string(rows) + " rows of a block as if " +
              "they were " + std::to_string(apart) + " apart",
          1, [=](std::int64_t query) {
            const std::int64_t taken_for = query + query % r.br / rows * (apart - rows);
            return std::max<std::int64_t>(0, std::min(taken_for + 1 + r.corner, r.p.len_kv));
          });
    }
  }
}

/// Masks of another row, whose number has another bit.
void CausalMasks::add_other_rows() {
  const Right r = right_;
  for (const std::int64_t bit : {1, 2, 4, 8, 16, 32, 64}) {
    if (bit >= r.br) continue;
    const auto masked_as = [&](const std::string& which, const auto& row) {
      add(Cause::mask_misaligned,
          "whose causal mask of row i is that of row i " + which + std::to_string(bit), 1,
          [=](std::int64_t query) {
            return std::max<std::int64_t>(0, std::min(row(query) + 1 + r.corner, r.p.len_kv));
          });
    };
    masked_as("xor ", [=](std::int64_t query) { return query ^ bit; });
    masked_as("without its bit ", [=](std::int64_t query) { return query & ~bit; });
    masked_as("with its bit ", [=](std::int64_t query) { return query | bit; });
  }
}

/// What the mask lets or not counts in the tiles alone that the row's block goes through.
void CausalMasks::add_tiles_taken(std::int64_t bc) {
  const Right r = right_;
  for (const std::int64_t off : {1, 2}) {
    add_of_tile(Cause::mask_off_by_one, more_or_fewer(off) + ", of the tiles that its block takes",
                static_cast<int>(off), bc, [=](std::int64_t query) {
                  return std::min({query + 1 + r.corner + off, r.p.len_kv,
                                   rounded_up(r.keys_of_block(query), bc)});
                });
  }
  if (r.corner == 0) return;
  const std::string upper_left = "whose causal mask starts in the upper left corner, ";
  add_of_tile(Cause::mask_misaligned, upper_left + "of the tiles that its block takes", 1, bc,
              [=](std::int64_t query) {
                return std::min({query + 1, r.p.len_kv, rounded_up(r.keys_of_block(query), bc)});
              });
  add_of_tile(Cause::mask_misaligned, upper_left + "in the tiles alone that need one", 0, bc,
              [=](std::int64_t query) {
                return std::min({std::max(r.whole_tiles(query, bc), query + 1),
                                 rounded_up(r.keys_of_block(query), bc), r.p.len_kv});
              });
}

void CausalMasks::add_tiles_left_out(std::int64_t bc) {
  const Right r = right_;
  add_of_tile(Cause::tile_skipped,
              "in which a block's last tile of keys is left out where it is not whole", 0, bc,
              [=](std::int64_t query) {
                const std::int64_t whole = r.keys_of_block(query) / bc * bc;
                return std::min(r.p.visible_keys(query), std::max(whole, bc));
              });
  for (const std::int64_t row : std::set<std::int64_t>{0, 15, r.br / 2 - 1, bc - 1}) {
    if (row < 0 || row >= r.br - 1) continue;
    add_of_tile(Cause::tile_skipped,
                "in which a block goes through no more tiles than its row " + std::to_string(row) +
                    " needs",
                row > 0, bc, [=](std::int64_t query) {
                  const std::int64_t other = std::min(query / r.br * r.br + row, r.p.len_q - 1);
                  return std::min(r.p.visible_keys(query), rounded_up(r.p.visible_keys(other), bc));
                });
  }
  add_of_tile(Cause::tile_skipped,
              "in which the first tile that not all rows of a block see whole is left out", 1, bc,
              [=](std::int64_t query) {
                const std::int64_t whole = r.whole_tiles(query, bc);
                return whole == 0 ? r.p.visible_keys(query)
                                  : std::min(r.p.visible_keys(query), whole);
              });
}

void CausalMasks::add_keyless_rows() {
  const Right r = right_;
  if (r.p.visible_keys(0) > 0) return;
  add(Cause::mask_misaligned, "in which rows that see no key see the first", 0,
      [=](std::int64_t query) { return std::max<std::int64_t>(r.p.visible_keys(query), 1); });
  add(Cause::causal_mask_missing, "in which rows that see no key see all of them", 0,
      [=](std::int64_t query) {
        return query + 1 + r.corner < 0 ? r.p.len_kv : r.p.visible_keys(query);
      });
}

/// Masks that are off by a tile.
void CausalMasks::add_far_ends() {
  const Right r = right_;
  for (const std::int64_t off : {info_.bc, -info_.bc, info_.br, -info_.br}) {
    if (std::abs(off) == 1) continue;  // that is the mask's end
    add(Cause::mask_misaligned, more_or_fewer(off), 1,
        [=](std::int64_t query) { return std::min(query + 1 + r.corner + off, r.p.len_kv); });
  }
}

void CausalMasks::add_unwanted() {
  const Right r = right_;
  add(Cause::mask_wrong, "with a causal mask, which was not asked for", 0, [=](std::int64_t query) {
    return std::max<std::int64_t>(0, std::min(query + 1 + r.corner, r.p.len_kv));
  });
  add(Cause::mask_wrong, "with a causal mask from the upper left corner, which was not asked for",
      0, [=](std::int64_t query) { return std::min(query + 1, r.p.len_kv); });
}

/// Keys that the mask hides, yet count.
void add_mask_values(const DumpInfo& info, Flaws& flaws) {
  const Problem p = info.problem;
  const auto add = [&](const std::string& text, int choices, std::optional<double> score,
                       bool in_sum_alone) {
    flaws.push_back({Cause::mask_value, Stage::qk, "in which " + text, choices, [=](RowPlan& plan) {
                       const std::int64_t end = plan.tiles * plan.tile;
                       for (auto key = std::ssize(plan.terms); key < end; ++key) {
                         const std::int64_t row = key < p.len_kv ? key : -1;
                         plan.terms.push_back({.key = row,
                                               .value = row,
                                               .in_o = in_sum_alone ? 0.0 : 1.0,
                                               .masked_score = score.value_or(0),
                                               .is_masked = score.has_value()});
                       }
                     }});
  };
  for (const double value : {0.0, -1.0, -2.0, -5.0, -10.0, -100.0}) {
    const std::string score =
        "the score of a masked key is " + std::to_string(static_cast<int>(value));
    add(score, value != 0, value, false);
    add(score + ", in l alone", 1 + (value != 0), value, true);
  }
  add("l counts the masked keys of the tiles too", 0, std::nullopt, true);
  flaws.back().cause = p.causal ? Cause::causal_mask_missing : Cause::tail_mask_missing;
  // Of a tail, whose V are zeros, O says nothing: where scores are masked it is left out.
  flaws.back().stage = p.causal ? Stage::softmax : Stage::qk;
}

}  // namespace

void see_keys(std::int64_t end, std::int64_t len_kv, RowPlan& plan) {
  const auto seen = static_cast<std::int64_t>(plan.terms.size());
  end = std::max<std::int64_t>(end, 0);
  plan.terms.resize(static_cast<std::size_t>(std::min(seen, end)));
  for (std::int64_t key = seen; key < end; ++key) {
    const std::int64_t row = key < len_kv ? key : -1;
    plan.terms.push_back({.key = row, .value = row});
  }
}

void add_flaws_of_masks(const DumpInfo& info, Flaws& flaws) {
  CausalMasks(info, flaws).add_all();
  add_mask_values(info, flaws);
  add_misplaced_masks(info, flaws);
}

}  // namespace lanescope
