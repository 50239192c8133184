// Products of matrices, with terms in the place of numbers.

#include <algorithm>
#include <string>
#include <vector>

#include "debug/ptx/matrix.h"
#include "debug/ptx/term_replay.h"
#include "debug/ptx/wmma_fragments.h"
#include "debug/simt/matrix_descriptor.h"

namespace lanescope::ptx {
namespace {

/// Elements of a and b in 32 bits, by the types in the opcode.
int elements_in_word(const std::string& opcode) {
  const auto names = [&](const char* type) { return opcode.find(type) != opcode.npos; };
  if (names(".e4m3") || names(".e5m2")) return 4;
  if (names(".tf32")) return 1;
  if (names(".f64") || names(".s8") || names(".u8") || names(".b1") || names(".s4")) return 0;
  return 2;
}

}  // namespace

void TermReplay::take_word(Lines& to, int at, Place place, int lane, int elements) {
  for (int i = 0; i < elements; ++i) to.take(at + i, held(place, lane, 4, i, elements));
}

void TermReplay::note_road(const Held& factor) {
  if (!Terms::is_input(factor.term)) return;
  const int array = terms_.element(factor.term).array;
  ++input_roads_[{array, factor.road}];
  Made& made = (*of_program_)[step_->instruction].made;
  (array == 2 ? made.weighs : made.scores) = true;
}

void TermReplay::note_column(TermId factor) {
  if (!is_of_v(factor)) return;
  const InputElement own = terms_.element(factor);
  std::optional<InputElement>& last = warp_->last_of_v;
  if (last && last->row == own.row && last->column != own.column) {
    ++columns_[own.column > last->column ? 1 : 0];
  }
  last = own;
}

void TermReplay::note_factors(const Lines& a, const Lines& b) {
  factors_ = {&a, &b};
  if (!b.terms.empty() && is_of_v(b.terms.front())) note_weight({a.terms.front(), a.roads.front()});
  const std::size_t depth = static_cast<std::size_t>(std::min(a.depth, b.depth));
  for (std::size_t k = 0; k < std::min({depth, a.terms.size(), b.terms.size()}); ++k) {
    weights_of_zero_ += terms_.is_sum(a.terms[k]) && b.terms[k] == no_term;
  }
  for (const Lines* lines : factors_) {
    // A product of P·V with weights puts parts together.
    if (std::ranges::any_of(lines->terms, [&](TermId id) { return terms_.is_output(id); })) {
      (*of_program_)[step_->instruction].made.merges = true;
    }
    if (!lines->terms.empty()) note_column(lines->terms.front());
    // The keys side by side, of a product of Q and K.
    std::optional<std::int64_t> shift;
    int keys = 0;
    bool ordered = true;
    for (std::size_t i = 0; i < lines->terms.size(); i += static_cast<std::size_t>(lines->depth)) {
      const TermId id = lines->terms[i];
      if (!Terms::is_input(id) || terms_.element(id).array != 1) continue;
      const std::int64_t own =
          std::int64_t{terms_.element(id).row} * lines->depth - static_cast<std::int64_t>(i);
      ordered = ordered && own == shift.value_or(own);
      shift = own;
      ++keys;
    }
    if (keys > 1) ++products_[ordered ? 1 : 0];
    // Of a line, one element each: they came together.
    for (std::size_t i = 0; i < lines->terms.size(); i += static_cast<std::size_t>(lines->depth)) {
      note_road({lines->terms[i], lines->roads[i]});
    }
  }
}

std::optional<bool> TermReplay::is_in_order(TermId operand, bool by_column) const {
  for (const Lines* lines : factors_) {
    if (!lines) return std::nullopt;
    const auto at = std::find(lines->terms.begin(), lines->terms.end(), operand);
    if (at == lines->terms.end()) continue;
    const auto first = (at - lines->terms.begin()) / lines->depth * lines->depth;
    // What each is, less where it stands, is the same.
    std::optional<std::int64_t> shift;
    int known = 0;
    for (int i = 0; i < lines->depth; ++i) {
      const TermId id = lines->terms[static_cast<std::size_t>(first + i)];
      const std::optional<std::uint32_t> index = terms_.index_of(id, by_column);
      if (!index) continue;
      const std::int64_t own = std::int64_t{*index} - i;
      if (shift && own != *shift) return false;
      shift = own;
      ++known;
    }
    if (known < 2) return std::nullopt;
    return true;
  }
  return std::nullopt;
}

RoadId TermReplay::road_of(TermId operand) const {
  for (const Lines* lines : factors_) {
    for (std::size_t i = 0; lines && i < lines->terms.size(); ++i) {
      if (lines->terms[i] == operand) return lines->roads[i];
    }
  }
  if (factors_[0] || !program_->code[step_->instruction].lanes) return 0;
  const TermStep& step = (*of_program_)[step_->instruction].step;
  for (int i = 0; i < in_->source_count; ++i) {
    for (int part = 0; part < step.numbers; ++part) {
      const Held& source = held(in_->s[i], lane_, step.from, part, step.numbers);
      if (source.term == operand) return source.road;
    }
  }
  return 0;
}

/// Element (lane / 4 + 8 · half, lane % 4 · 2 + {0, 1}) of d is of that row of a, that column of
/// b, and of c.
void TermReplay::multiply_mma() {
  const std::string& opcode = program_->origins[step_->instruction].opcode;
  const int each = elements_in_word(opcode), d_count = in_->result_count;
  const int ab = in_->source_count - d_count, a_count = registers_of_a(ab), b_count = ab - a_count;
  if (each == 0 || opcode.find(".m16n8k") == opcode.npos) return forget();
  const Place *a = sources(), *b = a + a_count, *c = a + ab;
  const int depth = 4 * each * b_count, packed = d_count == 2 ? 2 : 1;
  Lines rows(16, depth), columns(8, depth);
  for (int lane = 0; lane < 32; ++lane) {
    const int k = lane % 4 * each;
    for (int i = 0; i < a_count; ++i) {
      const int row = lane / 4 + i % 2 * 8, at = row * depth + k + i / 2 * 4 * each;
      take_word(rows, at, a[i], lane, each);
    }
    for (int i = 0; i < b_count; ++i) {
      const int at = lane / 4 * depth + k + i * 4 * each;
      take_word(columns, at, b[i], lane, each);
      // A row of weights meets zeroes here, or ones: of what comes from nowhere.
      for (int e = 0; e < each; ++e) {
        TermId& own = columns.terms[static_cast<std::size_t>(at + e)];
        if (own == no_term && each == 2 && !is_zero(b[i], lane, 4, e, each)) own = constant_term;
      }
    }
  }
  note_factors(rows, columns);
  std::vector<TermId> sums(static_cast<std::size_t>(64 * d_count));
  for (lane_ = 0; lane_ < 32; ++lane_) {
    for (int i = 0; i < d_count * packed; ++i) {
      const int half = packed == 2 ? i / 2 : i / 2 % 2, reg = i / packed;
      TermId* row = rows.line(lane_ / 4 + 8 * half);
      const TermId* column = columns.line(lane_ % 4 * 2 + i % 2);
      const TermId sum = term(c[reg], lane_, 4, i % packed, packed);
      sums[static_cast<std::size_t>(lane_ * d_count * packed + i)] =
          terms_.multiply_row(row, column, depth, sum);
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < d_count * packed; ++i) {
      set(results()[i / packed], lane, 4,
          made(sums[static_cast<std::size_t>(lane * d_count * packed + i)]), i % packed, packed);
    }
  }
}

void TermReplay::multiply_wmma() {
  const std::string& opcode = program_->origins[step_->instruction].opcode;
  const int each = elements_in_word(opcode);
  const auto form =
      std::find_if(std::begin(wmma::forms), std::end(wmma::forms), [&](const wmma::Form& known) {
        const std::string name = ".m" + std::to_string(known.m) + "n" + std::to_string(known.n) +
                                 "k" + std::to_string(known.k) + ".";
        return known.in_word() == each && opcode.find(name) != opcode.npos;
      });
  if (each == 0 || form == std::end(wmma::forms)) return forget();
  const Place *a = sources(), *b = a + in_->vector, *c = b + in_->kind;
  Lines rows(form->m, form->k), columns(form->n, form->k);
  const auto gather = [&](wmma::Part part, const Place* places, Lines& lines) {
    for (int reg = 0; reg < form->distinct(part); ++reg) {
      for (int lane = 0; lane < 32; ++lane) {
        const wmma::Word word = form->word(part, lane, reg);
        const int at = word.line * form->k + word.word * each;
        take_word(lines, at, places[reg], lane, each);
      }
    }
  };
  gather(wmma::Part::a, a, rows);
  gather(wmma::Part::b, b, columns);
  note_factors(rows, columns);
  const int of_d = form->sums() / in_->result_count;
  const int c_count = in_->source_count - in_->vector - in_->kind, of_c = form->sums() / c_count;
  std::vector<TermId> sums(static_cast<std::size_t>(32 * form->sums()));
  for (lane_ = 0; lane_ < 32; ++lane_) {
    for (int i = 0; i < form->sums(); ++i) {
      const wmma::Element at = form->sum(lane_, i);
      const TermId sum = term(c[i / of_c], lane_, 4, i % of_c, of_c);
      sums[static_cast<std::size_t>(lane_ * form->sums() + i)] =
          terms_.multiply_row(rows.line(at.row), columns.line(at.col), form->k, sum);
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < form->sums(); ++i) {
      set(results()[i / of_d], lane, 4,
          made(sums[static_cast<std::size_t>(lane * form->sums() + i)]), i % of_d, of_d);
    }
  }
}

/// A wgmma, with what lies in shared memory as it is issued: what changes that before it is waited
/// for is a race.
void TermReplay::multiply_warpgroup() {
  const simt::Product& what = recording_->product(*step_).what;
  const std::byte* const shared = recording_->product(*step_).shared;
  const int bytes =
      what.a_type == simt::FactorType::e4m3 || what.a_type == simt::FactorType::e5m2 ? 1 : 2;
  const int depth = 32 / bytes, packed = what.sums == simt::SumType::f16 ? 2 : 1;
  Lines rows(16, depth), columns(what.n, depth);
  const auto take_line = [&](Lines& lines, int line, std::uint64_t descriptor, bool transposed,
                             int row) {
    const simt::MatrixDescriptor matrix(descriptor);
    for (int k = 0; k < depth; ++k) {
      const std::size_t at =
          transposed ? matrix.offset(row / 8 * 8, k, true) + static_cast<std::size_t>(2 * (row % 8))
                     : matrix.offset(row, k * bytes / 16 * 8, false) +
                           static_cast<std::size_t>(k * bytes % 16);
      lines.take(line * depth + k, memory_.load(shared + at + bytes - 1));
    }
  };
  const int each = 4 / bytes, first_row = step_->warp % 4 * 16;
  for (int row = 0; row < 16 && !what.a_in_registers; ++row) {
    take_line(rows, row, what.a, what.a_is_transposed, first_row + row);
  }
  for (int lane = 0; lane < 32 && what.a_in_registers; ++lane) {
    for (int i = 0; i < 4; ++i) {
      const int at = (lane / 4 + i % 2 * 8) * depth + lane % 4 * each + i / 2 * 4 * each;
      take_word(rows, at, sources()[i], lane, each);
    }
  }
  for (int column = 0; column < what.n; ++column) {
    take_line(columns, column, what.b, what.b_is_transposed, column);
  }
  note_factors(rows, columns);
  const TermId factor = columns.line(0)[0];
  if (Terms::is_input(factor)) {
    const Stage stage = terms_.element(factor).array == 2 ? Stage::pv : Stage::qk;
    ++reads_[{program_, step_->instruction}][stage];
  }
  for (lane_ = 0; lane_ < 32; ++lane_) {
    for (int e = 0; e < packed * in_->result_count; ++e) {
      const Place place = results()[e / packed];
      const int row = lane_ / 4 + e / 2 % 2 * 8, column = e / 4 * 8 + lane_ % 4 * 2 + e % 2;
      const TermId sum = what.accumulates ? term(place, lane_, 4, e % packed, packed) : no_term;
      const TermId all = terms_.multiply_row(rows.line(row), columns.line(column), depth, sum);
      set(place, lane_, 4, made(all), e % packed, packed);
    }
  }
}

}  // namespace lanescope::ptx
