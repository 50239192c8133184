#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "debug/causes/flaw_families.h"

namespace lanescope {
namespace {

/// A number of rows that a head or a batch may be taken to be apart.
struct Distance {
  std::int64_t rows;
  std::string text;
};

/// Products of the sides of the problem, each number once, what is meant (`right`) not at all.
std::vector<Distance> distances_of(const Problem& p, std::int64_t right) {
  const Distance all[] = {
      {0, "0"},
      {p.len_q, "len_q"},
      {p.len_kv, "len_kv"},
      {p.heads, "heads"},
      {p.heads_kv, "heads_kv"},
      {p.heads * p.len_q, "heads * len_q"},
      {p.heads * p.len_kv, "heads * len_kv"},
      {p.heads_kv * p.len_kv, "heads_kv * len_kv"},
      {p.heads_kv * p.len_q, "heads_kv * len_q"},
      {p.heads, "heads"},
      {1, "1"},
  };
  std::vector<Distance> distances;
  std::set<std::int64_t> known = {right};
  for (const Distance& one : all) {
    if (known.insert(one.rows).second) distances.push_back(one);
  }
  return distances;
}

/// Heads and batches at another distance than they have.
void add_strides(const DumpInfo& info, Flaws& flaws) {
  const Problem p = info.problem;
  const char* const names[] = {"Q", "K and V", "K", "V"};
  for (const int which : {0, 1, 2, 3}) {
    const bool of_q = which == 0;
    const std::int64_t length = of_q ? p.len_q : p.len_kv;
    const std::int64_t of_head = length, of_batch = (of_q ? p.heads : p.heads_kv) * length;
    const std::int64_t total = p.batch * of_batch;
    const auto add = [&](const std::string& text, int choices, const auto& first) {
      flaws.push_back(
          {Cause::wrong_head, Stage::load,
           std::string("in which the heads of ") + names[which] + " begin at rows " + text, choices,
           [=](RowPlan& plan) {
             const std::int64_t row = first(plan);
             const bool exists = row >= 0 && row < total;
             if (of_q) plan.q_row = exists && row + plan.query < total ? row + plan.query : -1;
             if (of_q) return;
             if (which != 3) plan.k_first = exists ? row : 0;
             if (which != 2) plan.v_first = exists ? row : 0;
             // What lies behind the tensor are zeros where a copy fills it up.
             for (RowPlan::Term& term : plan.terms) {
               if (exists && row + term.key < total) continue;
               plan.beyond = true;
               if (which != 3) term.key = -1;
               if (which != 2) term.value = -1;
             }
           }});
    };
    const auto own_head = [=](const RowPlan& plan) {
      return of_q ? plan.head : p.kv_head(plan.head);
    };
    for (const Distance& batch :
         p.batch > 1 ? distances_of(p, of_batch) : std::vector<Distance>{}) {
      if (batch.rows == 0) continue;  // which is that of batch 0 (flaws_of_operands.cc)
      add("batch * " + batch.text + " + head * length", which > 1,
          [=](const RowPlan& plan) { return plan.batch * batch.rows + own_head(plan) * of_head; });
    }
    for (const Distance& head : p.heads > 1 ? distances_of(p, of_head) : std::vector<Distance>{}) {
      add("head * " + head.text, which > 1,
          [=](const RowPlan& plan) { return plan.batch * of_batch + own_head(plan) * head.rows; });
    }
    if (of_q || p.heads == p.heads_kv) continue;
    const std::vector<std::pair<std::string, std::int64_t>> heads = {
        {"head / heads_kv", p.heads_kv}, {"head / 2", 2}, {"head / 4", 4}};
    for (const auto& [text, by] : heads) {
      if (by == p.heads / p.heads_kv) continue;
      add(text + " of its batch", 1 + (which > 1), [=, by = by](const RowPlan& plan) {
        return plan.batch * of_batch + std::min(plan.head / by, p.heads_kv - 1) * of_head;
      });
    }
  }
}

/// Tiles of queries that begin where tiles of another size would.
void add_query_tiles(const DumpInfo& info, Flaws& flaws) {
  const Problem p = info.problem;
  const std::int64_t br = info.br;
  std::set<std::int64_t> sizes = {info.bc, 8, 16, 32, 64, 128};
  sizes.erase(br);
  for (const std::int64_t size : sizes) {
    const std::string text = " of a block begin as if tiles had " + std::to_string(size) + " rows";
    const auto other = [=](std::int64_t query) { return query / br * size + query % br; };
    flaws.push_back({Cause::operand_of_other_row, Stage::load, "in which the rows of Q" + text,
                     1 + (size != info.bc), [=](RowPlan& plan) {
                       const std::int64_t query = other(plan.query);
                       plan.q_row = query < p.len_q ? plan.q_row - plan.query + query : -1;
                     }});
  }
  const auto add = [&](const std::string& text, int choices, const auto& query) {
    flaws.push_back({Cause::operand_of_other_row, Stage::load, "in which Q is that of row " + text,
                     choices, [=](RowPlan& plan) {
                       const std::int64_t other = query(plan.query);
                       plan.q_row = other < p.len_q ? plan.q_row - plan.query + other : -1;
                     }});
  };
  for (std::int64_t bit = 1; bit < br; bit *= 2) {
    add("i without its bit " + std::to_string(bit), 1,
        [=](std::int64_t query) { return query & ~bit; });
    add("i with its bit " + std::to_string(bit), 1,
        [=](std::int64_t query) { return query | bit; });
  }
  for (const std::int64_t rows : {2, 4, 8, 16, 32, 64, 128}) {
    // A warp's first row in the place of each of its own, or the block's.
    if (rows > br) continue;
    // Of 8 to 64 rows the flaws of operands have it.
    if (rows < br && (rows < 8 || rows > 64)) {
      add("i mod " + std::to_string(rows) + " of its block", 1,
          [=](std::int64_t query) { return query / br * br + query % rows; });
    }
    add("i / " + std::to_string(rows) + " * " + std::to_string(rows), 1,
        [=](std::int64_t query) { return query / rows * rows; });
  }
}

}  // namespace

void add_flaws_of_addresses(const DumpInfo& info, Flaws& flaws) {
  add_strides(info, flaws);
  add_query_tiles(info, flaws);
}

}  // namespace lanescope
