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

void add_masks(const DumpInfo& info, Flaws& flaws) {
  const Problem p = info.problem;
  const std::int64_t br = info.br;
  const auto add = [&](Cause cause, const std::string& text, int choices, const auto& end) {
    flaws.push_back({cause, Stage::qk, text, choices,
                     [=](RowPlan& plan) { see_keys(end(plan.query), p.len_kv, plan); }});
  };
  const std::int64_t corner = p.len_kv - p.len_q;
  if (p.causal) {
    for (const std::int64_t off : {1, -1, 2, -2}) {
      add(Cause::mask_off_by_one,
          "whose causal mask lets " + keys_text(std::abs(off)) + (off > 0 ? " more" : " fewer"),
          std::abs(off) > 1,
          [=](std::int64_t query) { return std::min(query + 1 + corner + off, p.len_kv); });
    }
    if (corner != 0) {
      add(Cause::mask_misaligned, "whose causal mask starts in the upper left corner", 0,
          [=](std::int64_t query) { return std::min(query + 1, p.len_kv); });
      add(Cause::mask_misaligned, "whose causal mask is shifted by len_q - len_kv", 0,
          [=](std::int64_t query) { return std::min(query + 1 - corner, p.len_kv); });
    }
    add(Cause::causal_mask_missing, "without the causal mask", 0,
        [=](std::int64_t) { return p.len_kv; });
    for (const std::int64_t bc : masked_tile_sizes(info)) {
      add(Cause::causal_mask_missing,
          "in which the tile on the diagonal is not masked" + size_text(info, bc), bc != info.bc,
          [=](std::int64_t query) {
            return std::min(rounded_up(p.visible_keys(query), bc), p.len_kv);
          });
      add(Cause::causal_mask_missing,
          "in which only the last tile that a block takes is masked" + size_text(info, bc),
          bc != info.bc, [=](std::int64_t query) {
            const std::int64_t last = std::min(p.len_q, (query / br + 1) * br) - 1;
            const std::int64_t masked = rounded_up(p.visible_keys(last), bc) - bc;
            return std::max(p.visible_keys(query), masked);
          });
      add(Cause::causal_mask_missing,
          "in which only tiles that go beyond the keys of their block's last row are masked" +
              size_text(info, bc),
          bc != info.bc, [=](std::int64_t query) {
            const std::int64_t end = std::min((query / br + 1) * br + corner, p.len_kv);
            return std::max(p.visible_keys(query), end < 0 ? 0 : end / bc * bc);
          });
      add(Cause::tile_skipped,
          "in which the tile on the diagonal is left out" + size_text(info, bc), bc != info.bc,
          [=](std::int64_t query) {
            return (rounded_up(p.visible_keys(query), bc) / bc - 1) * bc;
          });
    }
    for (const std::int64_t step : {br, std::int64_t{16}, std::int64_t{8}}) {
      if (step > br) continue;
      const std::string rows = step == br ? "a tile's" : std::to_string(step);
      // As where tiles on the diagonal are not masked.
      add(step >= 16 ? Cause::causal_mask_missing : Cause::mask_misaligned,
          "whose causal mask is that of the last of " + rows + " rows", step != br,
          [=](std::int64_t query) {
            return p.visible_keys(std::min(p.len_q, rounded_up(query + 1, step)) - 1);
          });
      add(Cause::mask_misaligned, "whose causal mask is that of the first of " + rows + " rows",
          step != br, [=](std::int64_t query) { return p.visible_keys(query / step * step); });
      add(Cause::mask_misaligned,
          "whose causal mask counts queries from the start of " + rows + " rows", step != br,
          [=](std::int64_t query) { return std::min(query % step + 1 + corner, p.len_kv); });
    }
    for (const std::int64_t bit : {1, 2, 4, 8, 16, 32, 64}) {
      if (bit >= br) continue;
      const std::string number = std::to_string(bit);
      const auto masked_as = [&](const std::string& which, const auto& row) {
        add(Cause::mask_misaligned, "whose causal mask of row i is that of row i " + which + number,
            1, [=](std::int64_t query) {
              return std::max<std::int64_t>(0, std::min(row(query) + 1 + corner, p.len_kv));
            });
      };
      masked_as("xor ", [=](std::int64_t query) { return query ^ bit; });
      masked_as("without its bit ", [=](std::int64_t query) { return query & ~bit; });
      masked_as("with its bit ", [=](std::int64_t query) { return query | bit; });
    }
    for (const std::int64_t bc : masked_tile_sizes(info)) {
      const auto whole_tiles = [=](std::int64_t query) {  // of the block
        const std::int64_t last = std::min(p.len_q, (query / br + 1) * br) - 1;
        return p.visible_keys(last) / bc * bc;
      };
      add(Cause::tile_skipped,
          "in which a block's last tile of keys is left out where it is not whole" +
              size_text(info, bc),
          bc != info.bc, [=](std::int64_t query) {
            return std::min(p.visible_keys(query), std::max(whole_tiles(query), bc));
          });
      // The mask lets them, but where they lie in a tile that the block does not go through.
      for (const std::int64_t off : {1, 2}) {
        add(Cause::mask_off_by_one,
            "whose causal mask lets " + keys_text(off) +
                " more, of the tiles that its block takes" + size_text(info, bc),
            off + (bc != info.bc), [=](std::int64_t query) {
              const std::int64_t last = std::min(p.len_q, (query / br + 1) * br) - 1;
              return std::min(
                  {query + 1 + corner + off, p.len_kv, rounded_up(p.visible_keys(last), bc)});
            });
      }
      for (const std::int64_t row : std::set<std::int64_t>{0, 15, br / 2 - 1, bc - 1}) {
        if (row < 0 || row >= br - 1) continue;
        add(Cause::tile_skipped,
            "in which a block goes through no more tiles than its row " + std::to_string(row) +
                " needs" + size_text(info, bc),
            (row > 0) + (bc != info.bc), [=](std::int64_t query) {
              const std::int64_t other = std::min(query / br * br + row, p.len_q - 1);
              return std::min(p.visible_keys(query), rounded_up(p.visible_keys(other), bc));
            });
      }
      if (corner != 0) {
        add(Cause::mask_misaligned,
            "whose causal mask starts in the upper left corner, of the tiles that its block takes" +
                size_text(info, bc),
            1 + (bc != info.bc), [=](std::int64_t query) {
              const std::int64_t last = std::min(p.len_q, (query / br + 1) * br) - 1;
              return std::min({query + 1, p.len_kv, rounded_up(p.visible_keys(last), bc)});
            });
        add(Cause::mask_misaligned,
            "whose causal mask starts in the upper left corner, in the tiles alone that need one" +
                size_text(info, bc),
            bc != info.bc, [=](std::int64_t query) {
              const std::int64_t whole = p.visible_keys(query / br * br) / bc * bc;
              const std::int64_t last = std::min(p.len_q, (query / br + 1) * br) - 1;
              return std::min(
                  {std::max(whole, query + 1), rounded_up(p.visible_keys(last), bc), p.len_kv});
            });
      }
      add(Cause::tile_skipped,
          "in which the first tile that not all rows of a block see whole is left out" +
              size_text(info, bc),
          1 + (bc != info.bc), [=](std::int64_t query) {
            const std::int64_t whole = p.visible_keys(query / br * br) / bc * bc;
            return whole == 0 ? p.visible_keys(query) : std::min(p.visible_keys(query), whole);
          });
    }
    if (p.visible_keys(0) == 0) {
      add(Cause::mask_misaligned, "in which rows that see no key see the first", 0,
          [=](std::int64_t query) { return std::max<std::int64_t>(p.visible_keys(query), 1); });
      add(Cause::causal_mask_missing, "in which rows that see no key see all of them", 0,
          [=](std::int64_t query) {
            return query + 1 + corner < 0 ? p.len_kv : p.visible_keys(query);
          });
    }
    for (const std::int64_t off : {info.bc, -info.bc, info.br, -info.br}) {
      if (std::abs(off) == 1) continue;  // that is the mask's end
      add(Cause::mask_misaligned,
          "whose causal mask lets " + keys_text(std::abs(off)) + (off > 0 ? " more" : " fewer"), 1,
          [=](std::int64_t query) { return std::min(query + 1 + corner + off, p.len_kv); });
    }
  } else {
    add(Cause::mask_wrong, "with a causal mask, which was not asked for", 0,
        [=](std::int64_t query) {
          return std::max<std::int64_t>(0, std::min(query + 1 + corner, p.len_kv));
        });
    add(Cause::mask_wrong, "with a causal mask from the upper left corner, which was not asked for",
        0, [=](std::int64_t query) { return std::min(query + 1, p.len_kv); });
  }
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
  add_masks(info, flaws);
  add_mask_values(info, flaws);
  add_misplaced_masks(info, flaws);
}

}  // namespace lanescope
