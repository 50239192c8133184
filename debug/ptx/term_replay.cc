#include "debug/ptx/term_replay.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string_view>

#include "debug/ptx/conversion.h"
#include "debug/simt/rounding.h"

namespace lanescope::ptx {
namespace {

/// How the results of an instruction hang together with its sources.
enum class TermWay : std::uint8_t {
  unknown,
  by_lane,
  load,
  store,
  update,
  load_matrix,
  load_transposed,
  store_matrix,
  store_transposed,
  mma,
  wmma,
  exchange,
  transpose,
  other,
};

TermWay term_way(const Program& program, std::uint32_t instruction) {
  const std::string_view opcode = program.origins[instruction].opcode;
  const std::string_view base = opcode.substr(0, opcode.find('.'));
  const bool transposed = opcode.find(".trans") != opcode.npos;
  if (base == "ld" || base == "ldu") return TermWay::load;
  if (base == "st") return TermWay::store;
  if (base == "atom" || base == "red") return TermWay::update;
  if (base == "ldmatrix") return transposed ? TermWay::load_transposed : TermWay::load_matrix;
  if (base == "stmatrix") return transposed ? TermWay::store_transposed : TermWay::store_matrix;
  if (base == "mma") return TermWay::mma;
  if (base == "wmma" && opcode.starts_with("wmma.mma")) return TermWay::wmma;
  if (base == "shfl") return TermWay::exchange;
  if (base == "movmatrix") return TermWay::transpose;
  return program.code[instruction].lanes ? TermWay::by_lane : TermWay::other;
}

}  // namespace

TermReplay::Block::Warp& TermReplay::warp_of(Block& block) const {
  const std::size_t number = step_->warp;
  if (block.warps.size() <= number) block.warps.resize(number + 1);
  Block::Warp& warp = block.warps[number];
  if (warp.holds.empty()) {
    warp.holds.resize(program_->register_bytes + 256);
    warp.values.resize(program_->register_bytes + 256);
    std::copy(program_->constants.begin(), program_->constants.end(),
              warp.values.begin() + program_->constants_at);
  }
  return warp;
}

const Held& TermReplay::held(Place place, int lane, int bytes, int part, int parts) const {
  const int each = bytes / parts;  // its last byte has the sign and the exponent
  return warp_->holds[place + static_cast<std::size_t>(lane * bytes + (part + 1) * each - 1)];
}

void TermReplay::set(Place place, int lane, int bytes, Held held, int part, int parts) {
  const int each = bytes / parts;
  const auto first = warp_->holds.begin() + place + lane * bytes + part * each;
  std::fill(first, first + each, held);
}

Held TermReplay::made(TermId id, const TermStep& step, int part) {
  for (int i = 0; i < std::min<int>(in_->source_count, 3) && id != no_term; ++i) {
    const Held& source = held(in_->s[i], lane_, step.from, part, step.numbers);
    const bool packs = step.action == TermAction::convert_pair;
    if (source.term == id) return packs ? on(source) : source;
  }
  return made(id);
}

std::uint32_t TermReplay::word(Place place, int lane) const {
  std::uint32_t word;
  std::memcpy(&word, &warp_->values[place + static_cast<std::size_t>(4 * lane)], 4);
  return word;
}

double TermReplay::number(Place place, int lane, int bytes, int part, int parts) const {
  const std::byte* at = &warp_->values[place + static_cast<std::size_t>(lane * bytes)];
  if (bytes / parts == 4) return std::bit_cast<float>(word(place, lane));
  if (bytes / parts != 2) return 1;
  std::uint16_t half;
  std::memcpy(&half, at + 2 * part, 2);
  // Of both types of 16 bits the order, the sign and zero are the same.
  return simt::value_of(simt::bf16_format, half);
}

bool TermReplay::is_zero(Place place, int lane, int bytes, int part, int parts) const {
  return number(place, lane, bytes, part, parts) == 0;
}

void TermReplay::step(Block& block) {
  run_ = block.run;
  program_ = run_->program.get();
  recording_ = &run_->recording;
  step_ = &recording_->steps()[block.next++];
  in_ = &program_->code[step_->instruction];
  warp_ = &warp_of(block);
  std::vector<Known>& known = known_[program_];
  if (known.empty()) {
    known.resize(program_->code.size());
    std::vector<Place>& places = places_[program_];
    places = program_->operands;
    places.push_back(static_cast<Place>(program_->register_bytes));
    std::sort(places.begin(), places.end());
  }
  of_program_ = &known;
  Known& own = known[step_->instruction];
  if (own.way == 0) {
    own.way = static_cast<std::uint8_t>(term_way(*program_, step_->instruction));
    const int packs = !in_->packs ? 0 : in_->result_count > 1 ? 2 : 1;
    own.step = term_step(program_->origins[step_->instruction].opcode, packs, in_->vector);
  }
  factors_ = {};
  follow();
  factors_ = {};
  if (step_->landed) return;
  // What it made is what those behind it take.
  for (int i = 0; i < in_->result_count; ++i) {
    const Place place = results()[i];
    for (int word = 0; word < 32; ++word) {
      const std::uint32_t value = recording_->result(*step_, i, word);
      std::memcpy(&warp_->values[place + static_cast<std::size_t>(4 * word)], &value, 4);
    }
  }
  note_made(own);
}

/// Of numbers that it computes, one lane's each time: a sample of the same size of all of them.
void TermReplay::note_made(Known& known) {
  const bool computes = known.step.action >= TermAction::add || in_->multiplies;
  const simt::Format* const format = format_of(known.step.made);
  const bool halves = format == &simt::f16_format || format == &simt::bf16_format;
  const int bytes = in_->multiplies ? 4 : known.step.to, parts = bytes == 4 && halves ? 2 : 1;
  const bool is_one = bytes == 4 || (bytes == 2 && halves);
  if (!computes || in_->result_count == 0 || step_->mask == 0 || !is_one) return;
  Made& made = known.made;
  if (made.count == 0) made.first = step_->when;
  std::uint32_t lanes = step_->mask;
  for (std::uint32_t skip = made.count % static_cast<std::uint32_t>(std::popcount(lanes)); skip > 0;
       --skip) {
    lanes &= lanes - 1;
  }
  const int lane = std::countr_zero(lanes);
  const int result = static_cast<int>(made.count % in_->result_count);
  const int part = static_cast<int>(made.count / in_->result_count) % parts;
  const TermId id = term(results()[result], lane, bytes, part, parts);
  if (id == no_term || Terms::is_input(id)) return;
  // Numbers of two bytes lie two to a word.
  const std::uint32_t word = recording_->result(*step_, result, bytes == 2 ? lane / 2 : lane);
  const int half = bytes == 2 ? lane % 2 : part;
  const double value =
      halves ? simt::value_of(*format, word >> (16 * half) & 0xffff) : std::bit_cast<float>(word);
  const std::pair one(id, static_cast<float>(value));
  constexpr std::uint32_t most = 48;
  if (made.some.size() < most) {
    made.some.push_back(one);
  } else if (const std::uint32_t at = made.count * 2654435761u % made.count; at < most) {
    made.some[at] = one;
  }
  ++made.count;
}

void TermReplay::follow() {
  if (step_->copy_count > 0) return copy_memory();
  if (step_->product != Recording::none) return multiply_warpgroup();
  if (step_->element_count > 0) return move_elements();
  switch (static_cast<TermWay>((*of_program_)[step_->instruction].way)) {
    case TermWay::by_lane:
      return lanes();
    case TermWay::load:
      return load();
    case TermWay::store:
      return store();
    case TermWay::update:
      return update();
    case TermWay::load_matrix:
      return matrices(true, false);
    case TermWay::load_transposed:
      return matrices(true, true);
    case TermWay::store_matrix:
      return matrices(false, false);
    case TermWay::store_transposed:
      return matrices(false, true);
    case TermWay::mma:
      return multiply_mma();
    case TermWay::wmma:
      return multiply_wmma();
    case TermWay::exchange:
      return exchange();
    case TermWay::transpose:
      return transpose();
    default:
      if (in_->moves) return lanes();
      return forget();
  }
}

/// What it is not known of makes nothing of attention.
void TermReplay::forget() {
  for (int i = 0; i < in_->result_count; ++i) {
    const Place place = results()[i];
    const std::vector<Place>& places = places_[program_];
    const Place next = *std::upper_bound(places.begin(), places.end(), place);
    // Of a predicate there is nothing to forget, but there is room.
    const int bytes = std::min(static_cast<int>(next - place) / 32, 8);
    for (int lane = 0; lane < 32; ++lane) {
      if (step_->mask >> lane & 1) set(place, lane, bytes, {});
    }
  }
}

void TermReplay::lanes() {
  const TermStep& step = (*of_program_)[step_->instruction].step;
  if (step.action == TermAction::forget) return forget();
  for (std::uint32_t left = step_->mask; left != 0; left &= left - 1) {
    lane_ = std::countr_zero(left);
    const Place to = results()[0];
    switch (step.action) {
      case TermAction::bits:
        lane_of_bits(step);
        continue;
      case TermAction::pack:
        for (int i = 0; i < in_->vector; ++i) {
          for (int byte = 0; byte < step.from; ++byte) {
            set(to, lane_, step.to, on(held(in_->s[i], lane_, step.from, byte, step.from)),
                i * step.from + byte, step.to);
          }
        }
        continue;
      case TermAction::part:
        for (int i = 0; i < in_->result_count; ++i) {
          for (int byte = 0; byte < step.to; ++byte) {
            set(results()[i], lane_, step.to,
                held(in_->s[0], lane_, step.from, i * step.to + byte, step.from), byte, step.to);
          }
        }
        continue;
      case TermAction::copy:
      case TermAction::select: {
        const bool first = step.action == TermAction::copy || (step_->chosen >> lane_ & 1) != 0;
        const Place source = in_->s[first ? 0 : 1];
        if (step.to == 4) {
          const Place other = step.action == TermAction::copy ? to : in_->s[first ? 1 : 0];
          note_mask(held(source, lane_, 4), held(other, lane_, 4), source);
        }
        for (int byte = 0; byte < step.to; ++byte) {
          set(to, lane_, step.to, held(source, lane_, step.to, byte, step.to), byte, step.to);
        }
        continue;
      }
      default:
        break;
    }
    Held made_of[2] = {};
    // What is infinite forgets what it was made of.
    const bool is_one = step.to == 4 && step.numbers == 1;
    const auto value = std::bit_cast<float>(recording_->result(*step_, 0, lane_));
    const bool ends = is_one && step.action != TermAction::exponent && std::isinf(value);
    if (ends && value < 0) note_mask({}, held(in_->s[0], lane_, 4), no_place);
    for (int part = 0; part < step.numbers && !ends; ++part)
      made_of[part] = made(arithmetic(step, part), step, part);
    for (int part = 0; part < step.numbers; ++part) {
      set(to, lane_, step.to, made_of[part], part, step.numbers);
    }
    const bool narrows = step.from == 4 && step.to / step.numbers == 2;
    if (narrows && terms_.is_output(made_of[0].term) && terms_.is_relative(made_of[0].term)) {
      roundings_.insert({program_, step_->instruction});
    }
  }
}

void TermReplay::note_mask(const Held& taken, const Held& left, Place value) {
  const bool is_lost = taken.term == no_term && terms_.is_score(left.term);
  if (is_lost && (value == no_place || number(value, lane_, 4, 0, 1) < 0)) {
    masks_.insert({program_, step_->instruction});
  }
}

void TermReplay::exchange() {
  Held taken[32][4];
  const auto& from = recording_->lanes(*step_);
  for (int lane = 0; lane < 32; ++lane) {
    for (int byte = 0; byte < 4; ++byte) {
      taken[lane][byte] = held(in_->s[0], from[static_cast<std::size_t>(lane)], 4, byte, 4);
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    for (int byte = 0; byte < 4 && (step_->mask >> lane & 1) != 0; ++byte) {
      set(in_->d, lane, 4, taken[lane][byte], byte, 4);
    }
  }
}

/// Lane t holds the elements (t / 4, t % 4 · 2 + {0, 1}) of 8×8, and gets those of its transpose.
void TermReplay::transpose() {
  Held taken[32][4];
  for (int lane = 0; lane < 32; ++lane) {
    for (int byte = 0; byte < 4; ++byte) {
      const int row = lane % 4 * 2 + byte / 2, col = lane / 4;
      taken[lane][byte] = held(in_->s[0], row * 4 + col / 2, 4, col % 2 * 2 + byte % 2, 4);
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    for (int byte = 0; byte < 4; ++byte) set(in_->d, lane, 4, taken[lane][byte], byte, 4);
  }
}

}  // namespace lanescope::ptx
