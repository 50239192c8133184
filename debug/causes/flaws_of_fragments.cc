#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "debug/causes/flaw_families.h"

namespace lanescope {
namespace {

/// What a fragment of mma.m16n8k16 may be read from wrongly: a square of 16 x 16 elements in shared
/// memory is four matrices of 8 x 8 (PTX ISA, ldmatrix).
struct FragmentReading {
  Cause cause;
  std::string text;
  int choices;
  TileMap from;
};

/// Of the square, which matrix stands in the place of one: `row` and `col` are 0 or 1.
using MatrixMap = ElementPlace (*)(std::int64_t row, std::int64_t col);

/// The readings of an operand whose matrices come by ldmatrix with .trans, or without it.
std::vector<FragmentReading> fragment_readings(bool is_transposed_by_load) {
  struct Matrices {
    Cause cause;
    const char* text;
    MatrixMap from;
  };
  static constexpr Matrices all[] = {
      {Cause::permuted, "",
       [](std::int64_t row, std::int64_t col) {
         return ElementPlace{row, col};
       }},
      {Cause::permuted, "the two matrices beside the diagonal of 16 x 16 elements exchanged",
       [](std::int64_t row, std::int64_t col) {
         return ElementPlace{col, row};
       }},
      {Cause::wrong_source,
       "rows 0 to 7 of 16 twice (lanes that point to another matrix of ldmatrix "
       "have the rows of the first)",
       [](std::int64_t, std::int64_t col) {
         return ElementPlace{0, col};
       }},
      {Cause::wrong_source,
       "columns 0 to 7 of 16 twice (lanes that point to another matrix of "
       "ldmatrix have the columns of the first)",
       [](std::int64_t row, std::int64_t) {
         return ElementPlace{row, 0};
       }},
      {Cause::wrong_source, "the first 8 x 8 of 16 x 16 elements four times",
       [](std::int64_t, std::int64_t) {
         return ElementPlace{0, 0};
       }},
  };
  const std::string transposed =
      std::string("each matrix of 8 x 8 elements transposed (ldmatrix ") +
      (is_transposed_by_load ? "without .trans)" : "with a .trans too much)");
  std::vector<FragmentReading> readings;
  for (const bool transposes : {true, false}) {
    for (const auto& [cause, text, from] : all) {
      const bool in_place = *text == '\0';
      if (in_place && !transposes) continue;
      readings.push_back(
          {transposes ? Cause::transposed : cause,
           !transposes ? text
           : in_place  ? transposed
                       : transposed + ", and " + text,
           in_place || !transposes ? 1 : 2, [=, from = from](std::int64_t row, std::int64_t col) {
             const ElementPlace matrix = from(row / 8 % 2, col / 8 % 2);
             const std::int64_t r = row % 8, c = col % 8;
             return ElementPlace{row / 16 * 16 + matrix.row * 8 + (transposes ? c : r),
                                 col / 16 * 16 + matrix.col * 8 + (transposes ? r : c)};
           }});
    }
  }
  return readings;
}

/// An operand of one of the two products.
struct Operand {
  const char* name;
  Stage stage;
  bool is_transposed_by_load;
  std::function<void(RowPlan&, const TileMap&)> read;
};

std::vector<Operand> operands(const DumpInfo& info) {
  return {
      {"K", Stage::qk, false, [](RowPlan& plan, const TileMap& from) { plan.k_from = from; }},
      {"V", Stage::pv, true, [](RowPlan& plan, const TileMap& from) { plan.v_from = from; }},
      {"Q", Stage::qk, false, [](RowPlan& plan, const TileMap& from) { plan.q_from = from; }},
      {"P", Stage::pv, false,
       [len_kv = info.problem.len_kv](RowPlan& plan, const TileMap& from) {
         take_weights_from(from, len_kv, plan);
       }},
  };
}

/// Registers of an operand of mma.m16n8k8 (tf32) that stand for each other: of 16 rows of 8
/// elements it holds four matrices of 8 x 4.
void add_registers_of_tf32(const DumpInfo& info, Flaws& flaws) {
  if (info.dtype != ElementType::f32) return;
  const TileMap from = [](std::int64_t row, std::int64_t col) {
    return ElementPlace{row / 16 * 16 + row % 8 + col % 8 / 4 * 8,
                        col / 8 * 8 + col % 4 + row % 16 / 8 * 4};
  };
  for (const Operand& operand : operands(info)) {
    if (operand.name != std::string_view("Q") && operand.name != std::string_view("P")) continue;
    flaws.push_back({Cause::permuted, operand.stage,
                     std::string("in which the registers of ") + operand.name +
                         " for 8 rows more and for 4 columns more are exchanged (mma.m16n8k8)",
                     1, [=, read = operand.read](RowPlan& plan) { read(plan, from); }});
  }
}

/// Whether tiles are made of such squares.
bool has_fragments(const DumpInfo& info) { return info.br % 16 == 0 && info.bc % 16 == 0; }

std::string read_text(const Operand& operand, const FragmentReading& reading) {
  return std::string("a tile of ") + operand.name + " is read with " + reading.text;
}

}  // namespace

void add_flaws_of_fragments(const DumpInfo& info, Flaws& flaws) {
  if (info.br % 16 == 0 && info.bc % 8 == 0) add_registers_of_tf32(info, flaws);
  if (!has_fragments(info)) return;
  for (const Operand& operand : operands(info)) {
    for (const FragmentReading& reading : fragment_readings(operand.is_transposed_by_load)) {
      flaws.push_back(
          {reading.cause, operand.stage, "in which " + read_text(operand, reading), reading.choices,
           [read = operand.read, from = reading.from](RowPlan& plan) { read(plan, from); }});
    }
  }
}

std::vector<Flaw> flaws_of_two_fragments(const DumpInfo& info) {
  Flaws flaws;
  if (!has_fragments(info)) return flaws;
  const std::vector<Operand> all = operands(info);
  const Operand &k = all[0], &v = all[1];
  for (const FragmentReading& of_k : fragment_readings(k.is_transposed_by_load)) {
    for (const FragmentReading& of_v : fragment_readings(v.is_transposed_by_load)) {
      flaws.push_back(
          {of_k.cause, k.stage, "in which " + read_text(k, of_k) + "; and " + read_text(v, of_v),
           of_k.choices + of_v.choices, [k_from = of_k.from, v_from = of_v.from](RowPlan& plan) {
             plan.k_from = k_from;
             plan.v_from = v_from;
           }});
    }
  }
  return flaws;
}

}  // namespace lanescope
