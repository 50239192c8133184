#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "debug/causes/flaw_families.h"
#include "reference/elementary.h"

namespace lanescope {
namespace {

using Term = RowPlan::Term;

/// Masks, the causal one and that of the end, that number the keys from elsewhere in their tile.
void add_shifted_masks(const DumpInfo& info, Flaws& flaws) {
  const Problem p = info.problem;
  for (std::int64_t by = 4; by < info.bc; by *= 2) {
    for (const std::int64_t off : {by, -by}) {
      flaws.push_back({Cause::mask_misaligned, Stage::qk,
                       "whose masks take key j for key j " + std::string(off > 0 ? "+ " : "- ") +
                           std::to_string(by),
                       1, [=](RowPlan& plan) {
                         const std::int64_t taken = plan.tiles * plan.tile;
                         const std::int64_t end = p.visible_keys(plan.query) - off;
                         see_keys(std::min(end, taken), p.len_kv, plan);
                       }});
    }
  }
}

/// Keys behind the last are hidden by the causal mask as well, where it is one of its own.
constexpr const char* but_by_causal_mask = ", but for what the causal mask hides";

void add_tails(const DumpInfo& info, Flaws& flaws) {
  const Problem p = info.problem;
  // The last keys are the end of the sequence for those rows alone whose mask reaches it.
  const auto add = [&](Cause cause, const std::string& text, int choices, std::int64_t end) {
    flaws.push_back({cause, Stage::qk, text, choices, [=](RowPlan& plan) {
                       const auto seen = static_cast<std::int64_t>(plan.terms.size());
                       if (end < seen || seen == p.len_kv) see_keys(end, p.len_kv, plan);
                     }});
    if (end <= p.len_kv) return;
    flaws.push_back({cause, Stage::qk, text + but_by_causal_mask, choices, [=](RowPlan& plan) {
                       if (!p.causal) see_keys(end, p.len_kv, plan);
                     }});
  };
  for (const std::int64_t bc : tile_sizes(info)) {
    const std::int64_t whole = p.len_kv / bc * bc, end = rounded_up(p.len_kv, bc);
    const std::string size = size_text(info, bc);
    if (whole != p.len_kv) {
      add(Cause::tail_mask_missing,
          "in which the " + keys_text(end - p.len_kv) + " of zeros behind the last count" + size,
          bc != info.bc, end);
      add(Cause::tile_skipped, "without the last, ragged tile of keys" + size, bc != info.bc,
          whole);
    } else if (whole > bc) {
      add(Cause::tile_skipped, "without the last tile of keys" + size, bc != info.bc, whole - bc);
    }
    for (const bool repeated : {false, true}) {
      for (std::int64_t tile = 0; tile * bc < p.len_kv && tile < 16; ++tile) {
        flaws.push_back({repeated ? Cause::contribution_repeated : Cause::tile_skipped, Stage::pv,
                         (repeated ? "in which tile " : "without tile ") + std::to_string(tile) +
                             (repeated ? " of the keys counts twice" : " of the keys") + size,
                         1 + (bc != info.bc), [=](RowPlan& plan) {
                           for (Term& term : plan.terms) {
                             if (term.key / bc != tile) continue;
                             term.in_o = term.in_l = repeated ? 2 : 0;
                           }
                         }});
      }
    }
  }
  if (p.len_q != p.len_kv) {
    add(Cause::tail_mask_missing, "whose keys end with len_q", 0, p.len_q);
  }
  for (const int which : {0, 1, 2}) {
    if (p.len_q == p.len_kv) break;
    const char* const tensors[] = {"K and V", "K", "V"};
    flaws.push_back({Cause::written_zero, Stage::load,
                     std::string("in which the rows of ") + tensors[which] +
                         " from len_q on are zeros: they are copied up to the length of Q",
                     0, [=](RowPlan& plan) {
                       // Of the last tile, what is masked is copied as well.
                       const std::int64_t end = std::min(p.len_q, rounded_up(p.len_kv, plan.tile));
                       const std::int64_t first = which == 2 ? plan.v_first : plan.k_first;
                       plan.beyond = plan.beyond || first + end > p.keys();
                       for (Term& term : plan.terms) {
                         if (term.key < p.len_q) continue;
                         if (which != 1) term.value = -1;
                         if (which != 2) term.key = -1;
                       }
                     }});
  }
  for (const std::int64_t bc : tile_sizes(info)) {
    flaws.push_back({Cause::contribution_repeated, Stage::load,
                     "in which the last tile of keys begins early enough to be whole: what lies "
                     "before counts twice" +
                         size_text(info, bc),
                     bc != info.bc, [=](RowPlan& plan) {
                       const std::int64_t seen = std::ssize(plan.terms);
                       const std::int64_t again = seen < bc ? seen : seen - bc;
                       for (Term& term : plan.terms) {
                         if (term.key >= again && term.key < seen / bc * bc && seen % bc != 0) {
                           term.in_o = term.in_l = 2;
                         }
                       }
                     }});
  }
  for (const int off : {1, 2}) {
    add(Cause::mask_off_by_one,
        off == 1 ? "without the last key" : "without the last " + keys_text(off), off - 1,
        p.len_kv - off);
    const std::string counts = "in which " + keys_text(off) + " of zeros behind the last count";
    add(Cause::mask_off_by_one, counts + ", up to the end of the tile", off - 1,
        std::min(p.len_kv + off, rounded_up(p.len_kv, info.bc)));
    add(Cause::mask_off_by_one, counts, off - 1, p.len_kv + off);
  }
  flaws.push_back(
      {Cause::mask_off_by_one, Stage::qk, "without the first key", 0, [](RowPlan& plan) {
         if (!plan.terms.empty()) plan.terms.erase(plan.terms.begin());
       }});
}

/// Keys behind the last up to the end of a group, as what lies there is: another row, or zeros.
void add_rows_behind(const DumpInfo& info, Flaws& flaws) {
  const Problem p = info.problem;
  struct Source {
    std::string text;
    std::function<std::int64_t(std::int64_t key, std::int64_t size)> row;
  };
  const Source sources[] = {
      {"zeros", [](std::int64_t, std::int64_t) { return std::int64_t{-1}; }},
      {"the last one again", [=](std::int64_t, std::int64_t) { return p.len_kv - 1; }},
      {"those of the tile before",
       [=, bc = info.bc](std::int64_t key, std::int64_t) { return key - bc; }},
      {"those behind them in memory", [](std::int64_t key, std::int64_t) { return key; }},
  };
  std::vector<std::int64_t> sizes = tile_sizes(info);
  for (const std::int64_t size : {2, 4, 8, 16, 32, 64, 128}) {
    if (std::find(sizes.begin(), sizes.end(), size) == sizes.end()) sizes.push_back(size);
  }
  for (const std::int64_t size : sizes) {
    const std::int64_t end = rounded_up(p.len_kv, size);
    if (end == p.len_kv) continue;
    for (const Source& source : sources) {
      for (const int which : {0, 1, 2}) {
        const char* const counted[] = {"count", "count, their V as zeros",
                                       "count, their K as zeros"};
        if (source.text == "zeros" && which > 0) continue;
        const bool whole = size == info.bc;
        flaws.push_back({Cause::tail_mask_missing, Stage::qk,
                         "in which keys behind the last up to a multiple of " +
                             (whole ? std::string("the tile") : std::to_string(size)) + ", " +
                             source.text + ", " + counted[which],
                         !whole + (which > 0), [=, row = source.row](RowPlan& plan) {
                           if (std::ssize(plan.terms) != p.len_kv) return;
                           const std::int64_t rows = p.batch * p.heads_kv * p.len_kv;
                           for (std::int64_t key = p.len_kv; key < end; ++key) {
                             std::int64_t from = row(key, size);
                             if (plan.k_first + from >= rows) from = -1;
                             plan.terms.push_back(
                                 {.key = which == 2 ? -1 : from, .value = which == 1 ? -1 : from});
                           }
                         }});
        if (!whole) continue;
        Flaw hidden = flaws.back();
        hidden.text += but_by_causal_mask;
        hidden.edit = [=, edit = hidden.edit](RowPlan& plan) {
          if (!p.causal) edit(plan);
        };
        flaws.push_back(std::move(hidden));
      }
    }
  }
}

/// Lanes or warps that have a key each go on until all have had one: those without a key that the
/// row sees take zeros.
void add_keys_of_idle_lanes(Flaws& flaws) {
  for (const std::int64_t size : {2, 4, 8, 16, 32}) {
    flaws.push_back({Cause::tail_mask_missing, Stage::qk,
                     "in which keys behind the last that a row sees, up to a multiple of " +
                         std::to_string(size) + ", count as zeros",
                     1, [=](RowPlan& plan) {
                       const std::int64_t seen = std::ssize(plan.terms);
                       plan.terms.resize(static_cast<std::size_t>(rounded_up(seen, size)),
                                         {.key = -1, .value = -1});
                     }});
  }
}

/// Loops over the tiles that end too early: by the number of the block, or by the other length.
void add_ends_of_loops(const DumpInfo& info, Flaws& flaws) {
  const Problem p = info.problem;
  const std::int64_t br = info.br, bc = info.bc, corner = p.len_kv - p.len_q;
  const auto add = [&](const std::string& text, int choices, const auto& tiles) {
    flaws.push_back({Cause::tile_skipped, Stage::qk,
                     "in which a block goes through no more than " + text, choices,
                     [=](RowPlan& plan) {
                       const std::int64_t end = std::max<std::int64_t>(0, tiles(plan)) * bc;
                       see_keys(std::min(end, std::ssize(plan.terms)), p.len_kv, plan);
                     }});
  };
  add("len_q / Bc tiles, rounded up", 1, [=](const RowPlan&) { return (p.len_q + bc - 1) / bc; });
  add("len_q / Bc tiles", 3, [=](const RowPlan&) { return p.len_q / bc; });
  add("len_kv / Bc tiles", 0, [=](const RowPlan&) { return p.len_kv / bc; });
  if (!p.causal) return;
  add("as many tiles as its number and one", 0,
      [=](const RowPlan& plan) { return plan.query / br + 1; });
  add("as many tiles as its number", 1, [=](const RowPlan& plan) { return plan.query / br; });
  add("tiles as its first row needs without len_kv - len_q", 1,
      [=](const RowPlan& plan) { return plan.query / br * br / bc + 1; });
  add("tiles as its last row needs without len_kv - len_q", 0, [=](const RowPlan& plan) {
    return (std::min(p.len_q, (plan.query / br + 1) * br) + bc - 1) / bc;
  });
  add("the whole tiles that its last row needs", 0, [=](const RowPlan& plan) {
    return (std::min(p.len_q, (plan.query / br + 1) * br) + corner) / bc;
  });
  add("the tiles that its last row needs but one", 0, [=](const RowPlan& plan) {
    return (std::min(p.len_q, (plan.query / br + 1) * br) + corner + bc - 1) / bc - 1;
  });
}

}  // namespace

void add_flaws_of_keys(const DumpInfo& info, Flaws& flaws) {
  add_shifted_masks(info, flaws);
  add_tails(info, flaws);
  add_rows_behind(info, flaws);
  add_keys_of_idle_lanes(flaws);
  add_ends_of_loops(info, flaws);
}

}  // namespace lanescope
