#include <string>

#include "debug/causes/flaw_families.h"

namespace lanescope {
namespace {

using Term = RowPlan::Term;

/// K and V of other tiles, by how their number is counted.
void add_other_tiles(const DumpInfo& info, Flaws& flaws) {
  const Problem p = info.problem;
  for (const std::int64_t bc : tile_sizes(info)) {
    if (bc >= p.len_kv) continue;
    const auto add = [&](const std::string& what, int choices, const auto& row,
                         bool is_loaded = false) {
      for (const bool of_v : {true, false}) {
        flaws.push_back({Cause::stale_operand,
                         is_loaded ? Stage::load
                         : of_v    ? Stage::pv
                                   : Stage::qk,
                         std::string("in which ") + (of_v ? "V" : "K") + " is that of " + what +
                             size_text(info, bc),
                         choices + (bc != info.bc), [=](RowPlan& plan) {
                           for (Term& term : plan.terms) {
                             const std::int64_t other = row(term.key);
                             (of_v ? term.value : term.key) = other < p.len_kv ? other : -1;
                           }
                         }});
      }
    };
    add("the tile before", 0, [=](std::int64_t key) { return key < bc ? key : key - bc; });
    add("the next tile", 0, [=](std::int64_t key) { return key + bc; });
    add("the next tile, but for the last", 0,
        [=](std::int64_t key) { return (key / bc + 1) * bc < p.len_kv ? key + bc : key; });
    // Who reads a ring of buffers in one place gets others by turns: the address stays where it
    // was.
    add(
        "the first tile", 0, [=](std::int64_t key) { return key % bc; }, true);
    add(
        "row t + j in the place of row j of tile t: its address counts tiles", 0,
        [=](std::int64_t key) { return key / bc + key % bc; }, true);
    // One counts the tiles up, the other down.
    add(
        "the tile as far from the last one as its own from the first", 0,
        [=](std::int64_t key) { return ((p.len_kv - 1) / bc - key / bc) * bc + key % bc; }, true);
    if (info.br != bc) {
      add(
          "tiles that begin as if they had Br rows", 1,
          [=, br = info.br](std::int64_t key) { return key / bc * br + key % bc; }, true);
    }
    add("the tile before last", 1,
        [=](std::int64_t key) { return key < 2 * bc ? key : key - 2 * bc; });
    for (const bool of_v : {true, false}) {
      flaws.push_back({Cause::stale_operand, of_v ? Stage::pv : Stage::qk,
                       std::string("in which the tiles of ") + (of_v ? "V" : "K") +
                           " that need a mask are counted from the first of them" +
                           size_text(info, bc),
                       bc != info.bc, [=, br = info.br](RowPlan& plan) {
                         const std::int64_t whole = p.visible_keys(plan.query / br * br) / bc * bc;
                         for (Term& term : plan.terms) {
                           std::int64_t& row = of_v ? term.value : term.key;
                           if (row >= whole) row -= whole;
                         }
                       }});
    }
  }
}

/// K and V of neighbouring rows.
void add_other_rows(const DumpInfo& info, Flaws& flaws) {
  const Problem p = info.problem;
  for (const std::int64_t off : {1, -1}) {
    for (const bool of_v : {true, false}) {
      flaws.push_back({Cause::wrong_source, of_v ? Stage::pv : Stage::qk,
                       std::string("in which key j takes row j ") + (off > 0 ? "+" : "-") +
                           " 1 of " + (of_v ? "V" : "K"),
                       1, [=](RowPlan& plan) {
                         for (Term& term : plan.terms) {
                           const std::int64_t row = term.key + off;
                           (of_v ? term.value : term.key) = row < p.len_kv ? row : -1;
                         }
                       }});
    }
  }
}

/// Bits of a type of 16 bits that are taken for the other one's.
void add_other_types(const DumpInfo& info, Flaws& flaws) {
  if (info.dtype != ElementType::f16 && info.dtype != ElementType::bf16) return;
  const ElementType other = info.dtype == ElementType::f16 ? ElementType::bf16 : ElementType::f16;
  const std::string bits =
      std::string("'s bits read as ") + (other == ElementType::f16 ? "f16" : "bf16");
  const auto add = [&](const char* what, int choices, auto edit) {
    flaws.push_back({Cause::wrong_type, Stage::load, "with " + (what + bits), choices, edit});
  };
  add("Q, K and V", 0, [=](RowPlan& plan) { plan.q_type = plan.k_type = plan.v_type = other; });
  add("Q and K", 0, [=](RowPlan& plan) { plan.q_type = plan.k_type = other; });
  add("Q", 0, [=](RowPlan& plan) { plan.q_type = other; });
  add("K", 0, [=](RowPlan& plan) { plan.k_type = other; });
  add("V", 0, [=](RowPlan& plan) { plan.v_type = other; });
  flaws.push_back({Cause::wrong_type, Stage::pv, "with P's and V" + bits, 0, [=](RowPlan& plan) {
                     plan.v_type = other;
                     plan.p_misread = true;
                   }});
  flaws.push_back({Cause::wrong_type, Stage::softmax,
                   std::string("whose P is rounded to ") +
                       (other == ElementType::f16 ? "f16" : "bf16") + " and goes into O as if it " +
                       "were the other type",
                   0, [=](RowPlan& plan) { plan.p_type = other; }});
  flaws.push_back({Cause::wrong_type, Stage::epilogue,
                   std::string("whose O is stored in the bits of ") +
                       (other == ElementType::f16 ? "f16" : "bf16"),
                   0, [=](RowPlan& plan) { plan.o_type = other; }});
}

}  // namespace

void add_flaws_of_tiles(const DumpInfo& info, Flaws& flaws) {
  add_other_tiles(info, flaws);
  add_other_rows(info, flaws);
  add_other_types(info, flaws);
}

}  // namespace lanescope
