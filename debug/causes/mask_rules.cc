#include "debug/causes/mask_rules.h"

#include <cstdlib>

namespace lanescope {
namespace {

/// Whether a query sees a key.
using Bound = std::function<bool(const Problem& problem, std::int64_t query, std::int64_t key)>;
/// What a row of a group of heads, or a key, is taken for.
using Count = std::function<std::int64_t(const DumpInfo& info, std::int64_t place)>;

std::int64_t offset(const Problem& p) { return p.len_kv - p.len_q; }

bool is_seen(const Problem& p, std::int64_t query, std::int64_t key) {
  return key < p.visible_keys(query);
}

std::int64_t own_query(const DumpInfo& info, std::int64_t row) { return row % info.problem.len_q; }
std::int64_t own_key(const DumpInfo&, std::int64_t key) { return key; }

std::string signed_text(int by) { return (by < 0 ? "- " : "+ ") + std::to_string(std::abs(by)); }

MaskRule rule_of(Cause cause, const std::string& text, const Count& query, const Count& key,
                 const Bound& bound) {
  return {
      cause, text,
      [=](const DumpInfo& info, const BlockPlace& place, std::int64_t row, std::int64_t of_row) {
        return bound(info.problem, query(info, place.q_tile * info.br + row), key(info, of_row));
      }};
}

/// The rows and keys are the right ones.
void add_bounds(const Problem& problem, std::vector<MaskRule>& rules) {
  const auto add = [&](Cause cause, const std::string& text, const Bound& bound) {
    rules.push_back(rule_of(cause, text, own_query, own_key, bound));
  };
  add(Cause::tail_mask_missing, "keys beyond the end of the sequence are visible",
      [](const Problem& p, auto query, auto key) { return !p.causal || key <= query + offset(p); });
  for (const int by : {1, -1, 2, -2}) {
    if (!problem.causal) {
      add(Cause::mask_off_by_one, "the keys end " + std::to_string(by) + " after where they should",
          [=](const Problem& p, auto, auto key) { return key < p.len_kv + by; });
      continue;
    }
    add(Cause::mask_off_by_one,
        "query i sees the keys up to i " + signed_text(by) + " (+ skv - s), not up to i",
        [=](const Problem& p, auto query, auto key) {
          return key < p.len_kv && (!p.causal || key <= query + offset(p) + by);
        });
  }
  if (!problem.causal) {
    add(Cause::mask_misaligned, "a causal mask though none was asked for",
        [](const Problem& p, auto query, auto key) {
          return key < p.len_kv && key <= query + offset(p);
        });
    return;
  }
  const auto add_causal = [&](Cause cause, const std::string& text, const Bound& bound) {
    add(cause, text, [=](const Problem& p, auto query, auto key) {
      return key < p.len_kv && (!p.causal || bound(p, query, key));
    });
  };
  add_causal(Cause::causal_mask_missing, "the causal mask is not applied",
             [](const Problem&, auto, auto) { return true; });
  add(Cause::causal_mask_missing, "neither the causal mask nor the end is applied",
      [](const Problem&, auto, auto) { return true; });
  add_causal(Cause::mask_misaligned, "aligned to the upper left corner, not the lower right",
             [](const Problem&, auto query, auto key) { return key <= query; });
  add_causal(Cause::mask_misaligned, "the offset skv - s has the wrong sign",
             [](const Problem& p, auto query, auto key) { return key <= query - offset(p); });
  add_causal(Cause::mask_misaligned, "the mask is mirrored: earlier keys are masked",
             [](const Problem& p, auto query, auto key) { return key >= query + offset(p); });
}

void add_queries(const DumpInfo& own, std::vector<MaskRule>& rules) {
  const auto add = [&](Cause cause, const std::string& text, const Count& query) {
    rules.push_back(rule_of(cause, text, query, own_key, is_seen));
  };
  add(Cause::mask_misaligned, "the query is counted from the block's first row, not from query 0",
      [](const DumpInfo& info, auto row) { return row % info.br; });
  if (own.heads_per_tile > 1) {
    add(Cause::mask_misaligned,
        "the query is counted from the first row of all heads of the tile, not of its own",
        [](const DumpInfo&, auto row) { return row; });
    add(Cause::mask_misaligned,
        "the queries of a tile are counted on from its first row, beyond the end of that row's "
        "head",
        [](const DumpInfo& info, auto row) {
          return own_query(info, row / info.br * info.br) + row % info.br;
        });
    add(Cause::mask_misaligned,
        "the rows of a tile are taken for those of its heads by turns; they lie head by head",
        [](const DumpInfo& info, auto row) { return row / info.heads_per_tile; });
  }
  const auto add_group = [&](const std::string& group, std::int64_t rows) {
    add(Cause::mask_misaligned, group + " are masked as its first",
        [=](const DumpInfo& info, auto row) {
          return own_query(info, row / info.br * info.br + row % info.br / rows * rows);
        });
    // As where tiles on the diagonal are not masked.
    const bool of_tiles = rows >= 16;
    add(of_tiles ? Cause::causal_mask_missing : Cause::mask_misaligned,
        group + " are masked as its last", [=](const DumpInfo& info, auto row) {
          return own_query(info, row / info.br * info.br + row % info.br / rows * rows) + rows - 1;
        });
  };
  add_group("all rows of a block", own.br);
  for (const std::int64_t rows : {2, 4, 8, 16, 32, 64}) {
    if (rows >= own.br) break;
    const std::string number = std::to_string(rows);
    add_group("all rows of a group of " + number, rows);
    if (rows < 8) continue;
    add(Cause::mask_misaligned, "the query is counted within " + number + " rows of the block",
        [=](const DumpInfo& info, auto row) {
          return own_query(info, row / info.br * info.br + row % rows);
        });
    // A warp's first row, of as many 16 as it has.
    const auto add_apart = [&](const std::string& as, std::int64_t apart) {
      add(Cause::mask_misaligned, "the block's rows before a group of " + number + " count " + as,
          [=](const DumpInfo& info, auto row) {
            return own_query(info, row) + row % info.br / rows * (apart - rows);
          });
    };
    add_apart("twice", 2 * rows);
    for (const std::int64_t part : {2, 4}) {
      if (rows / part >= 8) add_apart("as 1 of " + std::to_string(part), rows / part);
    }
    if (own.problem.causal) {
      rules.push_back({Cause::causal_mask_missing,
                       "the causal mask is not applied from row " + number + " of the block on",
                       [=](const DumpInfo& info, const auto& place, auto row, auto key) {
                         return key < info.problem.len_kv &&
                                (row >= rows ||
                                 is_seen(info.problem, info.query_of(place, row), key));
                       }});
    }
  }
}

void add_keys(const DumpInfo& own, std::vector<MaskRule>& rules) {
  const auto add = [&](Cause cause, const std::string& text, const Count& key) {
    const MaskRule rule = rule_of(cause, text, own_query, key, is_seen);
    rules.push_back(rule);
    // The end of the keys may be looked at apart.
    rules.push_back({cause, text, [=](const DumpInfo& info, const auto& place, auto row, auto at) {
                       return at < info.problem.len_kv && rule.sees(info, place, row, at);
                     }});
  };
  for (const int by : {-1, 1}) {
    if (!own.problem.causal) break;  // it is where the keys end
    add(Cause::mask_off_by_one, "key j is taken for key j " + signed_text(-by),
        [=](const DumpInfo&, auto key) { return key - by; });
  }
  add(Cause::mask_misaligned, "the key is counted from the tile's first, not from key 0",
      [](const DumpInfo& info, auto key) { return key % info.bc; });
  for (const std::int64_t keys : {8, 16, 32}) {
    if (keys >= own.bc) break;
    const std::string number = std::to_string(keys), group = "all keys of a group of " + number;
    if (!own.problem.causal) {
      // The end alone is looked at.
      rules.push_back({Cause::tail_mask_missing, "the keys end at the next multiple of " + number,
                       [=](const DumpInfo& info, const auto& place, auto row, auto key) {
                         const std::int64_t first = key / keys * keys;
                         return is_seen(info.problem, info.query_of(place, row),
                                        info.problem.causal ? key : first);
                       }});
      continue;
    }
    add(keys >= 16 ? Cause::causal_mask_missing : Cause::mask_misaligned,
        group + " are masked as its first",
        [=](const DumpInfo&, auto key) { return key / keys * keys; });
    add(Cause::mask_misaligned, group + " are masked as its last",
        [=](const DumpInfo&, auto key) { return key / keys * keys + keys - 1; });
  }
}

}  // namespace

bool MaskRule::shows(const DumpInfo& info) const {
  for (std::int64_t q_tile = 0; q_tile < info.q_tiles(); ++q_tile) {
    for (std::int64_t split = 0; split < info.splits; ++split) {
      const BlockPlace place{0, 0, q_tile, split};
      for (std::int64_t tile = 0; tile < info.kv_tiles(); ++tile) {
        const std::int64_t first = info.key_of(place, tile);
        bool is_visited = false, differs = false;
        for (std::int64_t row = 0; row < info.rows(place); ++row) {
          for (std::int64_t key = first; key < first + info.bc; ++key) {
            const bool right = is_seen(info.problem, info.query_of(place, row), key);
            is_visited = is_visited || right;
            differs = differs || sees(info, place, row, key) != right;
          }
        }
        if (is_visited && differs) return true;
      }
    }
  }
  return false;
}

std::vector<MaskRule> mask_rules(const DumpInfo& info) {
  std::vector<MaskRule> rules;
  add_bounds(info.problem, rules);
  add_queries(info, rules);
  add_keys(info, rules);
  if (info.problem.causal) {
    rules.push_back(
        {Cause::mask_misaligned, "query and key are both counted from their tile's first",
         [](const DumpInfo& own, const BlockPlace&, auto row, auto key) {
           return key < own.problem.len_kv && (!own.problem.causal || key % own.bc <= row);
         }});
  }
  return rules;
}

std::vector<MaskRule> shifted_masks(const DumpInfo& info, const BlockPlace& place,
                                    std::int64_t tile) {
  const std::int64_t first = info.key_of(place, tile), number = first / info.bc;
  std::vector<MaskRule> rules;
  for (std::int64_t from = 0; from <= info.problem.len_kv + info.bc; ++from) {
    const std::int64_t shift = from - first;
    if (std::abs(shift) <= 2) continue;
    rules.push_back({Cause::mask_misaligned,
                     "the keys of tile " + std::to_string(tile) + " are counted from " +
                         std::to_string(from) + ", its first is " + std::to_string(first),
                     [=](const DumpInfo& own, const BlockPlace& at, auto row, auto key) {
                       const std::int64_t by =
                           number == 0 ? shift : shift * (key / own.bc) / number;
                       return is_seen(own.problem, own.query_of(at, row), key + by);
                     }});
  }
  return rules;
}

std::vector<MaskRule> window_masks(const DumpInfo& info, std::int64_t keys) {
  std::vector<MaskRule> rules;
  const auto add = [&](const std::string& text, const Bound& bound) {
    rules.push_back(rule_of(Cause::sliding_window, "a row sees " + text, own_query, own_key,
                            [=](const Problem& p, auto query, auto key) {
                              return is_seen(p, query, key) && bound(p, query, key);
                            }));
  };
  const std::string count = std::to_string(keys);
  add("no key before the last " + count + " up to its own",
      [=](const Problem& p, auto query, auto key) { return key > query + offset(p) - keys; });
  if (offset(info.problem) != 0) {
    add("no key before the last " + count + " up to its own, counted without skv - s",
        [=](const Problem&, auto query, auto key) { return key > query - keys; });
  }
  if (!info.problem.causal) {
    add("no key that is " + count + " or more before or behind its own",
        [=](const Problem& p, auto query, auto key) {
          return std::abs(query + offset(p) - key) < keys;
        });
  }
  return rules;
}

}  // namespace lanescope
