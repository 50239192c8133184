// What the arithmetic of a lane makes of terms.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>

#include "debug/ptx/term_replay.h"

namespace lanescope::ptx {

/// Shifts, masks and permutations of bytes: a bf16 is the upper half of a float.
void TermReplay::lane_of_bits(const TermStep& step) {
  const std::string_view opcode = program_->origins[step_->instruction].opcode;
  const std::string_view base = opcode.substr(0, opcode.find('.'));
  const int bytes = step.to, from = step.from;
  Held made[8] = {};
  const auto source_byte = [&](int i, int byte) {
    return byte < 0 || byte >= from ? Held{} : held(in_->s[i], lane_, from, byte, from);
  };
  const bool left = base == "shl", right = base == "shr";
  if (left || right) {
    const int shift = static_cast<int>(word(in_->s[1], lane_) & 63);
    for (int byte = 0; byte < bytes; ++byte) {
      made[byte] =
          source_byte(0, shift % 8 != 0 ? from - 1 : byte + (left ? -shift / 8 : shift / 8));
    }
  } else if (base == "prmt") {
    const std::uint32_t selector = word(in_->s[2], lane_);
    for (int byte = 0; byte < 4; ++byte) {
      const int at = static_cast<int>(selector >> (4 * byte) & 7);
      made[byte] = source_byte(at / 4, at % 4);
    }
  } else if (base == "cvt") {
    for (int byte = 0; byte < std::min(bytes, from); ++byte) made[byte] = source_byte(0, byte);
  } else if (base == "bfe") {
    const int shift = static_cast<int>(word(in_->s[1], lane_) & 63);
    for (int byte = 0; byte < bytes && shift % 8 == 0; ++byte) {
      made[byte] = source_byte(0, byte + shift / 8);
    }
  } else {
    // A byte of the result that is one of the sources' at this place.
    for (int byte = 0; byte < bytes; ++byte) {
      const std::uint32_t result = recording_->result(*step_, 0, lane_);
      for (int i = 0; i < (base == "lop3" ? 3 : 2); ++i) {
        const Held source = source_byte(i, byte);
        const bool same = bytes != 4 || (word(in_->s[i], lane_) >> (8 * byte) & 0xff) ==
                                            (result >> (8 * byte) & 0xff);
        if (made[byte].term == no_term && same) made[byte] = source;
      }
    }
  }
  for (int byte = 0; byte < bytes; ++byte) set(results()[0], lane_, bytes, made[byte], byte, bytes);
}

TermId TermReplay::multiply(const TermStep& step, int part, int x, int y) {
  const Held held_a = held(in_->s[x], lane_, step.from, part, step.numbers),
             held_b = held(in_->s[y], lane_, step.from, part, step.numbers);
  const TermId a = held_a.term, b = held_b.term;
  if (a != no_term && b != no_term) {
    note_road(held_a);
    note_road(held_b);
    if (is_of_v(a)) note_weight(held_b);
    if (is_of_v(b)) note_weight(held_a);
    if (lane_ == std::countr_zero(step_->mask)) note_column(a), note_column(b);
    const TermId product = terms_.multiply(a, b);
    for (const TermId x : {a, b}) {
      const bool rescaled = terms_.is_relative(x) && terms_.is_relative(product);
      if (rescaled) rescales_[terms_.is_output(x) ? 1 : 0].insert({program_, step_->instruction});
    }
    return product;
  }
  if (a == no_term && b == no_term) return no_term;
  // A factor of its own.
  const double factor = number(in_->s[a == no_term ? x : y], lane_, step.from, part, step.numbers);
  const TermId id = a == no_term ? b : a;
  weights_of_zero_ += factor == 0 && terms_.is_sum(id);
  if (factor == 0) return no_term;
  return factor < 0 ? terms_.negate(id) : id;
}

/// A one that is added to weights is that of the maximum.
TermId TermReplay::sum(TermId x, TermId y, const TermStep& step, std::array<int, 2> places) {
  if (x == no_term) std::swap(x, y), std::swap(places[0], places[1]);
  if (terms_.is_output(x) && terms_.is_output(y)) {
    (*of_program_)[step_->instruction].made.adds = true;
  }
  const bool of_one = y == no_term && places[1] >= 0 && step.to == 4 && step.numbers == 1 &&
                      number(in_->s[places[1]], lane_, 4, 0, 1) == 1;
  return of_one ? terms_.add_maximum(x) : terms_.add(x, y);
}

/// A product and what it is added to. Where both are P·V of several keys, and one of them is
/// weighed here, parts of a row are put together.
TermId TermReplay::merge(TermId product, TermId addend, const TermStep& step, int part) {
  const bool weighs = term(in_->s[0], lane_, step.from, part, step.numbers) != no_term &&
                      term(in_->s[1], lane_, step.from, part, step.numbers) != no_term;
  if (weighs && terms_.is_part(product) && terms_.is_part(addend)) {
    (*of_program_)[step_->instruction].made.merges = true;
  }
  return sum(product, addend, step, {-1, 2});
}

/// The larger or the smaller: one of them, by its value.
TermId TermReplay::choose(const TermStep& step, int part) {
  const auto result = [&] {
    const std::uint32_t made = recording_->result(*step_, 0, step.to == 2 ? lane_ / 2 : lane_);
    if (step.to == 2) return made >> (lane_ % 2 * 16) & 0xffff;
    return step.numbers == 2 ? made >> (16 * part) & 0xffff : made;
  }();
  TermId chosen = no_term;
  bool found = false;
  for (int i = 0; i < 2; ++i) {
    const Place place = in_->s[i];
    std::uint32_t value = 0;
    std::memcpy(&value,
                &warp_->values[place + static_cast<std::size_t>(lane_ * step.from) +
                               static_cast<std::size_t>(2 * part)],
                static_cast<std::size_t>(step.from / step.numbers));
    if (value != result) continue;
    const TermId id = term(place, lane_, step.from, part, step.numbers);
    if (found) terms_.tie(chosen, id);
    if (!found) chosen = id;
    found = true;
  }
  return chosen;
}

/// Whether a number is what kernels have in the place of minus infinity, or its negative: the score
/// `x` or `y` that was added to it counts for nothing.
bool TermReplay::is_beyond_scores(const TermStep& step, TermId x, TermId y) const {
  constexpr float least = 1e30f;
  const bool of_score =
      (x == no_term && terms_.is_score(y)) || (y == no_term && terms_.is_score(x));
  return of_score && step.to == 4 && step.numbers == 1 &&
         std::abs(std::bit_cast<float>(recording_->result(*step_, 0, lane_))) >= least;
}

TermId TermReplay::arithmetic(const TermStep& step, int part) {
  const auto source = [&](int i) { return term(in_->s[i], lane_, step.from, part, step.numbers); };
  switch (step.action) {
    case TermAction::convert:
      return term(in_->s[0], lane_, step.from);
    case TermAction::convert_pair:
      return term(in_->s[part == 1 ? 0 : 1], lane_, step.from);
    case TermAction::convert_halves:
      return source(0);
    case TermAction::add:
      if (is_beyond_scores(step, source(0), source(1))) return no_term;
      return sum(source(0), source(1), step, {0, 1});
    case TermAction::subtract:
      if (is_beyond_scores(step, source(0), source(1))) return no_term;
      return terms_.add(source(0), terms_.negate(source(1)));
    case TermAction::multiply:
      return multiply(step, part, 0, 1);
    case TermAction::fuse:
      return merge(signed_term(multiply(step, part, 0, 1), in_->negates_product),
                   signed_term(source(2), in_->negates_addend), step, part);
    case TermAction::choose:
      return choose(step, part);
    case TermAction::negate:
      return terms_.negate(source(0));
    case TermAction::divide:
      return source(0) == no_term ? terms_.invert(source(1)) : terms_.divide(source(0), source(1));
    case TermAction::invert:
      return terms_.invert(source(0));
    case TermAction::logarithm:
      return terms_.logarithm(source(0));
    case TermAction::exponential: {
      const std::uint32_t made = recording_->result(*step_, 0, lane_);
      const bool vanishes = step.to == 4 && step.numbers == 1 && made == 0;
      return vanishes ? no_term : terms_.exponential(source(0));
    }
    case TermAction::exponent:
      for (int i = 0; i < (in_->s[2] != 0 ? 3 : 2); ++i) {
        const TermId id = source(i);
        if (terms_.is_difference(id)) return terms_.exponential(id);
        if (terms_.is_logarithm(id)) return id;
        if (terms_.is_sum(id)) return terms_.logarithm(id);
      }
      return no_term;
    default:
      return no_term;
  }
}

}  // namespace lanescope::ptx
