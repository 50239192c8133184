#include <algorithm>
#include <vector>

#include "debug/causes/flaw_families.h"

namespace lanescope {
namespace {

using Term = RowPlan::Term;

void add_heads(const DumpInfo& info, Flaws& flaws) {
  const Problem p = info.problem;
  struct Map {
    std::string what;
    int choices;
    std::function<std::int64_t(const RowPlan&)> flat;  ///< of the kv heads of all batches
  };
  const auto own = [=](const RowPlan& plan) { return plan.batch * p.heads_kv; };
  const Map maps[] = {
      {"head % heads_kv", 0,
       [=](const RowPlan& plan) { return own(plan) + plan.head % p.heads_kv; }},
      {"0", 0, [=](const RowPlan& plan) { return own(plan); }},
      {"min(head, heads_kv - 1)", 0,
       [=](const RowPlan& plan) { return own(plan) + std::min(plan.head, p.heads_kv - 1); }},
      {"head / heads_kv", 0,
       [=](const RowPlan& plan) {
         return own(plan) + std::min(plan.head / p.heads_kv, p.heads_kv - 1);
       }},
      {"the next one", 1,
       [=](const RowPlan& plan) { return own(plan) + (p.kv_head(plan.head) + 1) % p.heads_kv; }},
      {"that of batch 0", 0, [=](const RowPlan& plan) { return p.kv_head(plan.head); }},
      {"0 of batch 0", 0, [](const RowPlan&) { return std::int64_t{0}; }},
      {"that of batch * heads heads of one batch", 0,
       [=](const RowPlan& plan) {
         return (plan.batch * p.heads + plan.head) / (p.batch * p.heads / p.heads_kv);
       }},
      {"that of batch * heads + head, modulo batches * heads_kv", 0,
       [=](const RowPlan& plan) {
         return (plan.batch * p.heads + plan.head) % (p.batch * p.heads_kv);
       }},
      // Beyond the last, a bulk copy of a tensor brings zeros.
      {"head, zeros beyond the last", 0,
       [=](const RowPlan& plan) { return own(plan) + plan.head; }},
      {"batch * heads + head, zeros beyond the last", 0,
       [=](const RowPlan& plan) { return plan.batch * p.heads + plan.head; }},
      {"batch + head, without the batch's heads", 0,
       [=](const RowPlan& plan) {
         return std::min(plan.batch + p.kv_head(plan.head), p.batch * p.heads_kv - 1);
       }},
  };
  for (const auto& [what, choices, flat] : maps) {
    for (const int which : {0, 1, 2}) {
      const char* const tensors[] = {"K and V are", "K is", "V is"};
      flaws.push_back({Cause::wrong_head, Stage::load,
                       std::string("in which the kv head of ") + tensors[which] + " " + what,
                       choices + (which > 0), [=, flat = flat](RowPlan& plan) {
                         const std::int64_t head = flat(plan);
                         const bool exists = head < p.batch * p.heads_kv;
                         if (exists && which != 2) plan.k_first = head * p.len_kv;
                         if (exists && which != 1) plan.v_first = head * p.len_kv;
                         if (exists) return;
                         for (Term& term : plan.terms) {
                           if (which != 2) term.key = -1;
                           if (which != 1) term.value = -1;
                         }
                       }});
    }
  }
}

/// Q of another row, or of another head.
void add_queries(const DumpInfo& info, Flaws& flaws) {
  const Problem p = info.problem;
  const auto add = [&](Cause cause, const std::string& text, int choices, const auto& row) {
    flaws.push_back(
        {cause, Stage::load, "in which Q is that of " + text, choices, [=](RowPlan& plan) {
           const std::int64_t other = row(plan);
           const bool exists = other >= 0 && other < p.batch * p.heads * p.len_q;
           plan.q_row = exists ? other : -1;
         }});
  };
  const auto in_head = [=](const RowPlan& plan, std::int64_t query) {
    const std::int64_t last = p.len_q - 1;
    return (plan.batch * p.heads + plan.head) * p.len_q + std::clamp<std::int64_t>(query, 0, last);
  };
  for (const std::int64_t off : {1, -1}) {
    add(Cause::operand_of_other_row, off > 0 ? "the next row" : "the row before", 0,
        [=](const RowPlan& plan) { return in_head(plan, plan.query + off); });
  }
  for (const std::int64_t bit : {1, 2, 4, 8, 16, 32, 64}) {
    if (bit >= info.br) continue;
    add(Cause::operand_of_other_row, "row i xor " + std::to_string(bit), 1,
        [=](const RowPlan& plan) { return in_head(plan, plan.query ^ bit); });
  }
  // Warps, or warpgroups, that all take the first one's rows.
  for (const std::int64_t rows : {8, 16, 32, 64}) {
    if (rows >= info.br) continue;
    add(Cause::operand_of_other_row, "row i mod " + std::to_string(rows) + " of its block", 1,
        [=, br = info.br](const RowPlan& plan) {
          return in_head(plan, plan.query / br * br + plan.query % br % rows);
        });
  }
  add(Cause::operand_of_other_row, "the block's first rows in every block", 0,
      [=, br = info.br](const RowPlan& plan) { return in_head(plan, plan.query % br); });
  const auto of_head = [&](const std::string& text, int choices, const auto& flat) {
    add(Cause::wrong_head, text, choices,
        [=](const RowPlan& plan) { return flat(plan) * p.len_q + plan.query; });
  };
  for (const std::int64_t off : {std::int64_t{1}, p.heads - 1}) {
    of_head(off == 1 ? "the next head" : "the head before", 0, [=](const RowPlan& plan) {
      return plan.batch * p.heads + (plan.head + off) % p.heads;
    });
  }
  of_head("head 0", 0, [=](const RowPlan& plan) { return plan.batch * p.heads; });
  add(Cause::wrong_source, "batch 0", 0,
      [=](const RowPlan& plan) { return plan.head * p.len_q + plan.query; });
  of_head("its kv head's number", 0,
          [=](const RowPlan& plan) { return plan.batch * p.heads + p.kv_head(plan.head); });
  if (const std::int64_t group = p.heads / p.heads_kv; group > 1 && p.heads_kv > 1) {
    of_head("head h mod group * heads_kv + h / group", 0, [=](const RowPlan& plan) {
      return plan.batch * p.heads + plan.head % group * p.heads_kv + plan.head / group;
    });
    of_head("head h mod heads_kv * group + h / heads_kv", 0, [=](const RowPlan& plan) {
      return plan.batch * p.heads + plan.head % p.heads_kv * group + plan.head / p.heads_kv;
    });
  }
  of_head("[heads, batch, len_q, d]", 0,
          [=](const RowPlan& plan) { return plan.head * p.batch + plan.batch; });
  add(Cause::wrong_head, "[batch, len_q, heads, d]", 0, [=](const RowPlan& plan) {
    return (plan.batch * p.len_q + plan.query) * p.heads + plan.head;
  });
}

/// Each of Q, K and V is taken from any of the three; of K and V also in some tiles.
void add_tensors(const DumpInfo& info, Flaws& flaws) {
  const Problem p = info.problem;
  static constexpr InputTensor operands[] = {InputTensor::q, InputTensor::k, InputTensor::v};
  const auto letter = [](InputTensor operand) { return "QKV"[static_cast<int>(operand)]; };
  const auto add = [&](InputTensor q, InputTensor k, InputTensor v, const std::string& where,
                       bool only_tiles, std::int64_t from_key, std::int64_t to_key) {
    std::string what;
    for (const auto& [own, other] :
         {std::pair(InputTensor::q, q), {InputTensor::k, k}, {InputTensor::v, v}}) {
      if (own == other) continue;
      what += (what.empty() ? "" : " and ") + std::string(1, letter(own)) + " is " + letter(other);
    }
    // A slip of the pen takes one for another; that two are taken so, is one choice more.
    const int slips = (q != InputTensor::q) + (k != InputTensor::k) + (v != InputTensor::v);
    flaws.push_back({Cause::wrong_source, Stage::load, "in which " + what + where,
                     slips - 1 + only_tiles, [=](RowPlan& plan) {
                       plan.q_is = q;
                       for (Term& term : plan.terms) {
                         if (term.key < from_key || term.key >= to_key) continue;
                         term.key_is = k;
                         term.value_is = v;
                       }
                     }});
  };
  for (const InputTensor q : operands) {
    for (const InputTensor k : operands) {
      for (const InputTensor v : operands) {
        if (q == InputTensor::q && k == InputTensor::k && v == InputTensor::v) continue;
        add(q, k, v, "", false, 0, p.len_kv);
        if (q != InputTensor::q || info.bc >= p.len_kv) continue;
        add(q, k, v, ", but for the first tile", true, info.bc, p.len_kv);
        add(q, k, v, " in the first tile", true, 0, info.bc);
      }
    }
  }
  for (const std::int64_t size : tile_sizes(info)) {
    if (size >= p.len_kv) continue;
    flaws.push_back(
        {Cause::operand_overwritten, Stage::qk,
         "in which Q is P of the tile before, which was stored over it" + size_text(info, size),
         size != info.bc, [=](RowPlan& plan) {
           plan.tile = size;
           plan.q_is_weights = true;
         }});
  }
}

/// The kernel takes K or V to have as many rows as Q.
void add_lengths(const DumpInfo& info, Flaws& flaws) {
  const Problem p = info.problem;
  if (p.len_q == p.len_kv) return;
  // `whole`: as what describes a tensor has it, which ends there as well.
  const auto add = [&](const std::string& which, bool whole) {
    flaws.push_back({whole ? Cause::wrong_source : Cause::wrong_head, Stage::load,
                     "in which a head of " + which +
                         " begins where it would if it had as many rows as one of Q" +
                         (whole ? ", and has no more of them: others are zeros" : ""),
                     whole, [=](RowPlan& plan) {
                       // Of the last tile, what is masked is read as well.
                       const std::int64_t read =
                           whole ? std::min(p.len_q, rounded_up(p.len_kv, plan.tile)) : p.len_kv;
                       const auto move = [&](std::int64_t& first) {
                         first = first / p.len_kv * p.len_q;
                         plan.beyond = plan.beyond || first + read > p.keys();
                       };
                       if (which != "V") move(plan.k_first);
                       if (which != "K") move(plan.v_first);
                       for (Term& term : plan.terms) {
                         if (!whole || term.key < p.len_q) continue;
                         if (which != "V") term.key = -1;
                         if (which != "K") term.value = -1;
                       }
                     }});
  };
  for (const char* const which : {"K and V", "V", "K"}) {
    add(which, false);
    add(which, true);
  }
}

/// The kernel takes its tensors for others than [batch, heads, length, d].
void add_layouts(const DumpInfo& info, Flaws& flaws) {
  const Problem p = info.problem;
  const auto exchanged = [&](const char* tensor, const char* length, Stage stage, int choices,
                             auto edit) {
    flaws.push_back({Cause::transposed, stage,
                     std::string("in which ") + tensor + " is read as [d, " + length +
                         "], its rows for columns",
                     choices, edit});
  };
  exchanged("V", "len_kv", Stage::pv, 0, [](RowPlan& plan) { plan.v_exchanged = true; });
  exchanged("K", "len_kv", Stage::qk, 0, [](RowPlan& plan) { plan.k_exchanged = true; });
  exchanged("Q", "len_q", Stage::qk, 0, [](RowPlan& plan) { plan.q_exchanged = true; });
  if (p.heads == 1) return;
  // Where the heads of a row lie side by side, key j of a head is row j·heads_kv + head.
  const auto take_keys = [=](RowPlan& plan, std::int64_t head, std::int64_t query) {
    plan.k_first = plan.v_first = plan.batch * p.heads_kv * p.len_kv;
    plan.terms.clear();
    for (std::int64_t key = 0; key < p.visible_keys(query); ++key) {
      const std::int64_t row = key * p.heads_kv + p.kv_head(head);
      plan.terms.push_back({.key = row, .value = row});
    }
    plan.tiles = (static_cast<std::int64_t>(plan.terms.size()) + plan.tile - 1) / plan.tile;
  };
  const std::string layout = " taken for [batch, length, heads, d]";
  flaws.push_back({Cause::wrong_stride, Stage::load, "in which Q, K, V and O are" + layout, 0,
                   [=](RowPlan& plan) {
                     const std::int64_t row = plan.head * p.len_q + plan.query;
                     take_keys(plan, row % p.heads, row / p.heads);
                   }});
  flaws.push_back({Cause::wrong_stride, Stage::load, "in which K and V are" + layout, 1,
                   [=](RowPlan& plan) { take_keys(plan, plan.head, plan.query); }});
}

/// Rows that lie in turns, [length, 2, heads_kv, d] or [length, 3, heads, d], are read as if those
/// of one tensor lay side by side.
void add_packed_rows(const DumpInfo& info, Flaws& flaws) {
  const Problem p = info.problem;
  // Row `row` of head `head` of the tensor in place `place` of `tensors`, as it is found: in which
  // place it lies, and which row of its head it is.
  const auto found = [=](std::int64_t tensors, std::int64_t place, std::int64_t row) {
    return std::pair((row + place) % tensors, (row + place) / tensors);
  };
  // K and V are the last of the tensors.
  const auto take_rows = [=](RowPlan& plan, const std::vector<InputTensor>& tensors) {
    const auto count = static_cast<std::int64_t>(tensors.size());
    for (Term& term : plan.terms) {
      if (term.key < 0 || term.value < 0) continue;  // another flaw has zeros there
      const auto [k_place, key] = found(count, count - 2, term.key);
      const auto [v_place, value] = found(count, count - 1, term.key);
      term = {.key = key,
              .value = value,
              .key_is = tensors[static_cast<std::size_t>(k_place)],
              .value_is = tensors[static_cast<std::size_t>(v_place)]};
    }
  };
  flaws.push_back({Cause::wrong_stride, Stage::load,
                   "in which rows of K and V that lie in turns, [length, 2, heads_kv, d], are read "
                   "at the distance of [length, heads_kv, d]",
                   0, [=](RowPlan& plan) {
                     take_rows(plan, {InputTensor::k, InputTensor::v});
                   }});
  if (p.heads != p.heads_kv || p.len_q != p.len_kv) return;
  flaws.push_back({Cause::wrong_stride, Stage::load,
                   "in which rows of Q, K and V that lie in turns, [length, 3, heads, d], are read "
                   "at the distance of [length, heads, d]",
                   0, [=](RowPlan& plan) {
                     const std::vector tensors = {InputTensor::q, InputTensor::k, InputTensor::v};
                     const auto [q_place, query] = found(3, 0, plan.query);
                     plan.q_is = tensors[static_cast<std::size_t>(q_place)];
                     plan.q_row += query - plan.query;
                     take_rows(plan, tensors);
                   }});
}

}  // namespace

void add_flaws_of_operands(const DumpInfo& info, Flaws& flaws) {
  add_heads(info, flaws);
  add_queries(info, flaws);
  add_tensors(info, flaws);
  add_lengths(info, flaws);
  add_layouts(info, flaws);
  add_packed_rows(info, flaws);
}

}  // namespace lanescope
