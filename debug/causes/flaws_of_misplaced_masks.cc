#include <algorithm>
#include <string>

#include "debug/causes/flaw_families.h"
#include "reference/elementary.h"

namespace lanescope {
namespace {

/// Masks that go by the number of another key.
void add_masks_of_other_keys(const DumpInfo& info, Flaws& flaws) {
  const Problem p = info.problem;
  if (!p.causal) return;
  const std::int64_t corner = p.len_kv - p.len_q, bc = info.bc, br = info.br;
  const auto add = [&](const std::string& text, int choices, const auto& number) {
    flaws.push_back({Cause::mask_misaligned, Stage::qk,
                     "whose causal mask takes key j for key " + text, choices, [=](RowPlan& plan) {
                       const std::int64_t end = std::min(p.len_kv, plan.tiles * plan.tile);
                       plan.terms.clear();
                       for (std::int64_t key = 0; key < end; ++key) {
                         const bool seen = number(key) <= plan.query + corner;
                         plan.terms.push_back({.key = key,
                                               .value = key,
                                               .masked_score = -reference::infinity,
                                               .is_masked = !seen});
                       }
                     }});
  };
  for (std::int64_t bit = 1; bit < bc; bit *= 2) {
    const std::string name = std::to_string(bit);
    add("j without its bit " + name, 1, [=](std::int64_t key) { return key & ~bit; });
    add("j with its bit " + name, 1, [=](std::int64_t key) { return key | bit; });
    add("j xor " + name, 1, [=](std::int64_t key) { return key ^ bit; });
  }
  for (const std::int64_t size :
       {br, std::int64_t{16}, std::int64_t{32}, std::int64_t{64}, std::int64_t{128}}) {
    if (size == bc) continue;
    add("t * " + std::to_string(size) + " + j of its tile t", size != br,
        [=](std::int64_t key) { return key / bc * size + key % bc; });
  }
  add("j of its tile, counted from the tile's first", 0,
      [=](std::int64_t key) { return key % bc; });
  for (const std::int64_t width : {2, 4, 8, 16}) {
    if (2 * width > bc) continue;
    add("j / " + std::to_string(width) + " in its tile", 1,
        [=](std::int64_t key) { return key / bc * bc + key % bc / width; });
    add("j mod " + std::to_string(width) + " in its tile", 1,
        [=](std::int64_t key) { return key / bc * bc + key % width; });
  }
}

/// Masks that take the registers of an accumulator of mma.m16n8 for others: of a lane's four, those
/// of odd number are of the odd column, the last two of the row 8 further on (PTX ISA).
void add_masks_of_other_registers(const DumpInfo& info, Flaws& flaws) {
  const Problem p = info.problem;
  if (!p.causal || info.br % 16 != 0) return;
  const std::int64_t corner = p.len_kv - p.len_q;
  const auto add = [&](const std::string& text, int choices, bool rows, bool columns) {
    flaws.push_back(
        {Cause::mask_misaligned, Stage::qk, "whose masks take " + text + " (layout of mma.m16n8)",
         choices, [=](RowPlan& plan) {
           const std::int64_t end = std::min(p.len_kv, plan.tiles * plan.tile);
           plan.terms.clear();
           for (std::int64_t key = 0; key < end; ++key) {
             const std::int64_t row = rows ? (plan.query & ~8) | (key & 1) * 8 : plan.query;
             const std::int64_t col = columns ? (key & ~1) | (plan.query / 8 & 1) : key;
             plan.terms.push_back({.key = key,
                                   .value = key,
                                   .masked_score = -reference::infinity,
                                   .is_masked = col >= p.len_kv || col > row + corner});
           }
         }});
  };
  add("odd columns for those of the row 8 further on", 0, true, false);
  add("the row 8 further on for odd columns", 0, false, true);
  add("odd columns and the row 8 further on for each other", 0, true, true);
}

/// Masks, the causal one and that of the end, that number the keys of some tiles as those of
/// others: who takes turns at the tiles numbers them from the first of a round.
void add_masks_of_other_tiles(const DumpInfo& info, Flaws& flaws) {
  const Problem p = info.problem;
  const std::int64_t bc = info.bc;
  for (const std::int64_t turns : {2, 3, 4, 8}) {
    if (bc >= p.len_kv) return;
    flaws.push_back({Cause::mask_misaligned, Stage::qk,
                     "whose masks number the keys of each tile as those of the first of " +
                         std::to_string(turns) + " tiles",
                     1, [=](RowPlan& plan) {
                       const std::int64_t end = plan.tiles * bc, seen = p.visible_keys(plan.query);
                       plan.terms.clear();
                       for (std::int64_t key = 0; key < end; ++key) {
                         const std::int64_t number = key / (turns * bc) * turns * bc + key % bc;
                         const std::int64_t row = key < p.len_kv ? key : -1;
                         plan.terms.push_back({.key = row,
                                               .value = row,
                                               .masked_score = -reference::infinity,
                                               .is_masked = number >= seen});
                       }
                     }});
  }
}

/// Causal masks whose comparison is the wrong way round: keys before the query are hidden, and
/// those behind it, of the tiles that its block takes or all, are seen.
void add_reversed_masks(const DumpInfo& info, Flaws& flaws) {
  const Problem p = info.problem;
  if (!p.causal) return;
  const std::int64_t corner = p.len_kv - p.len_q;
  const auto add = [&](const std::string& text, int choices, std::int64_t off, bool in_tiles) {
    flaws.push_back({Cause::mask_wrong, Stage::qk,
                     "whose causal mask hides the keys before " + text + ", not those behind it" +
                         (in_tiles ? ", of the tiles that its block takes" : ""),
                     choices + in_tiles, [=](RowPlan& plan) {
                       const std::int64_t end =
                           in_tiles ? std::min(p.len_kv, plan.tiles * plan.tile) : p.len_kv;
                       plan.terms.clear();
                       for (std::int64_t key = 0; key < end; ++key) {
                         plan.terms.push_back({.key = key,
                                               .value = key,
                                               .masked_score = -reference::infinity,
                                               .is_masked = key < plan.query + off});
                       }
                     }});
  };
  for (const bool in_tiles : {false, true}) {
    add("the query's own", 0, corner, in_tiles);
    add("the one after the query's own", 1, corner + 1, in_tiles);
    if (corner != 0) add("that of the query counted from the wrong corner", 1, -corner, in_tiles);
  }
}

/// Causal masks that count queries from elsewhere.
void add_masks_of_other_queries(const DumpInfo& info, Flaws& flaws) {
  const Problem p = info.problem;
  if (!p.causal) return;
  const std::int64_t corner = p.len_kv - p.len_q, br = info.br, bc = info.bc;
  const auto add = [&](const std::string& text, int choices, const auto& number) {
    flaws.push_back({Cause::mask_misaligned, Stage::qk,
                     "whose causal mask takes query i for " + text, choices, [=](RowPlan& plan) {
                       const std::int64_t end = std::min(p.len_kv, number(plan) + 1 + corner);
                       see_keys(std::min(end, std::max<std::int64_t>(plan.tiles * plan.tile,
                                                                     std::ssize(plan.terms))),
                                p.len_kv, plan);
                     }});
  };
  for (const std::int64_t rows : {4, 8, 16, 32, 64}) {
    if (rows >= br) continue;
    add("i mod " + std::to_string(rows) + " in its block", 1,
        [=](const RowPlan& plan) { return plan.query / br * br + plan.query % rows; });
    add("i / " + std::to_string(rows) + " in its block", 1,
        [=](const RowPlan& plan) { return plan.query / br * br + plan.query % br / rows; });
  }
  for (const std::int64_t size : {std::int64_t{info.bc}, std::int64_t{16}, std::int64_t{32},
                                  std::int64_t{64}, std::int64_t{128}}) {
    if (size == br) continue;
    add("that of a block of " + std::to_string(size) + " rows", 1 + (size != info.bc),
        [=](const RowPlan& plan) { return plan.query / br * size + plan.query % br; });
  }
  // The queries of all heads that share keys are rows of one problem.
  const std::int64_t group = p.heads / p.heads_kv;
  if (group == 1) return;
  const auto add_packed = [&](const std::string& text, const auto& number) {
    flaws.push_back({Cause::mask_misaligned, Stage::qk,
                     "whose causal mask takes query i for " + text, 0, [=](RowPlan& plan) {
                       const std::int64_t end = number(plan) + 1 + corner;
                       see_keys(std::min(p.len_kv, end), p.len_kv, plan);
                     }});
  };
  add_packed("its row among those of its group of heads, i * group + head",
             [=](const RowPlan& plan) { return plan.query * group + plan.head % group; });
  // Where tiles end as they should, for the last query of a block of such rows, or pairs of them.
  for (const std::int64_t size : {bc, 2 * bc}) {
    add_packed("its row among those of its group of heads, i * group + head, in the tiles of " +
                   keys_text(size) + " that its block sees",
               [=](const RowPlan& plan) {
                 const std::int64_t row = plan.query * group + plan.head % group,
                                    last = std::min((row / br * br + br - 1) / group, p.len_q - 1),
                                    seen = std::max<std::int64_t>(last + 1 + corner, 0);
                 return std::min(row, rounded_up(seen, size) - 1 - corner);
               });
  }
  add_packed("its row among those of its group of heads, head * len_q + i",
             [=](const RowPlan& plan) { return plan.head % group * p.len_q + plan.query; });
  add_packed("i / group", [=](const RowPlan& plan) { return plan.query / group; });
}

}  // namespace

void add_misplaced_masks(const DumpInfo& info, Flaws& flaws) {
  add_masks_of_other_keys(info, flaws);
  add_masks_of_other_registers(info, flaws);
  add_masks_of_other_tiles(info, flaws);
  add_reversed_masks(info, flaws);
  add_masks_of_other_queries(info, flaws);
}

}  // namespace lanescope
