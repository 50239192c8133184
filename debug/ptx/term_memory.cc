// What goes between registers and memory, and from memory to memory, with the terms in it.

#include <bit>
#include <utility>

#include "debug/ptx/term_replay.h"

namespace lanescope::ptx {
/// Elements begin where their term does.
void TermReplay::note_stored(const std::byte* at, std::size_t bytes) {
  TermId before = no_term;
  for (std::size_t byte = 0; byte < bytes; ++byte) {
    const Held own = memory_.load(at + byte);
    if (own.term != before) {
      const bool is_maximum =
          terms_.is_score(own.term) && program_->one_stage_of(step_->instruction) == Stage::softmax;
      placements_.note(terms_, *run_, at + byte, own.term, is_maximum);
      stored_stages_.note(terms_, *run_, at + byte, own.term, is_maximum);
    }
    before = own.term;
  }
}

void TermReplay::copy_memory() {
  const Recording::Copy* copies = recording_->copies(*step_);
  for (std::uint32_t i = 0; i < step_->copy_count; ++i) {
    const Recording::Copy& copy = copies[i];
    lane_ = copy.lane;
    for (std::size_t byte = 0; byte < copy.bytes; ++byte) {
      memory_.store(copy.to + byte, copy.from ? on(memory_.load(copy.from + byte)) : Held{});
    }
    note_stored(copy.to, copy.bytes);
  }
}

void TermReplay::move_elements() {
  const Recording::Element* elements = recording_->elements(*step_);
  const bool loads = in_->result_count > 0;
  int operand = -1, lane = -1, offset = 0;
  for (std::uint32_t i = 0; i < step_->element_count; ++i) {
    const Recording::Element& e = elements[i];
    const bool goes_on = e.operand == operand && e.lane == lane;
    offset = goes_on ? offset + static_cast<int>(e.bytes) : 0;
    operand = e.operand;
    lane = lane_ = e.lane;
    const Place place = loads ? results()[e.operand] : sources()[e.operand];
    const int bytes = e.bytes == 8 ? 8 : 4;
    for (int byte = 0; byte < static_cast<int>(e.bytes); ++byte) {
      if (loads) {
        set(place, lane, bytes, on(memory_.load(e.at + byte)), offset + byte, bytes);
      } else {
        memory_.store(e.at + byte, on(held(place, lane, bytes, offset + byte, bytes)));
      }
    }
    if (!loads) note_stored(e.at, e.bytes);
  }
}

void TermReplay::load() {
  if (step_->pointers == Recording::none) return forget();
  const auto bytes = static_cast<std::size_t>(bytes_of(in_->type));
  const int own = in_->register_bytes;
  for (std::uint32_t left = step_->mask; left != 0; left &= left - 1) {
    lane_ = std::countr_zero(left);
    const std::byte* at = recording_->pointers(*step_)[static_cast<std::size_t>(lane_)];
    for (int i = 0; i < in_->vector; ++i) {
      for (int byte = 0; byte < own; ++byte) {
        const Held held = at && byte < static_cast<int>(bytes)
                              ? on(memory_.load(at + static_cast<std::size_t>(i) * bytes + byte))
                              : Held{};
        set(results()[i], lane_, own, held, byte, own);
      }
    }
  }
  if (step_->mask == 0) return;
  const std::byte* at = recording_->pointers(*step_)[std::countr_zero(step_->mask)];
  note_read(at < run_->shared || at >= run_->shared + run_->shared_bytes);
}

/// What the first lane of a load got: the numbers say what they are for.
void TermReplay::note_read(bool is_global) {
  const int last = bytes_of(in_->type) - 1, own = in_->register_bytes;
  const TermId id = held(results()[0], std::countr_zero(step_->mask), own, last, own).term;
  std::optional<Stage> stage;
  if (Terms::is_input(id)) {
    stage = is_global ? Stage::load : terms_.element(id).array == 2 ? Stage::pv : Stage::qk;
  } else if (terms_.is_score(id)) {
    stage = Stage::softmax;
  }
  if (stage) ++reads_[{program_, step_->instruction}][*stage];
}

/// A weight that is multiplied by an element of V: who read it did so for that.
void TermReplay::note_weight(const Held& weight) {
  if (weight.road == 0 || !terms_.is_sum(weight.term)) return;
  const Roads::Stop& last = roads_.last(weight.road);
  if (last.program->origins[last.instruction].opcode.starts_with("ld")) {
    ++reads_[{last.program, last.instruction}][Stage::pv];
  }
}

void TermReplay::store() {
  if (step_->pointers == Recording::none) return;
  const auto bytes = static_cast<std::size_t>(bytes_of(in_->type));
  const int own = in_->register_bytes;
  for (std::uint32_t left = step_->mask; left != 0; left &= left - 1) {
    lane_ = std::countr_zero(left);
    const std::byte* at = recording_->pointers(*step_)[static_cast<std::size_t>(lane_)];
    if (!at) continue;
    for (int i = 0; i < in_->vector; ++i) {
      const Place value = sources()[in_->source_count - in_->vector + i];
      for (int byte = 0; byte < static_cast<int>(bytes); ++byte) {
        memory_.store(at + static_cast<std::size_t>(i) * bytes + byte,
                      on(held(value, lane_, own, byte, own)));
      }
      note_stored(at + static_cast<std::size_t>(i) * bytes, bytes);
    }
  }
}

/// Lane t holds the elements (t / 4, t % 4 · 2 + {0, 1}), or those transposed.
void TermReplay::matrices(bool loads, bool transposed) {
  const Recording::Pointers& pointers = recording_->pointers(*step_);
  for (int m = 0; m < in_->vector; ++m) {
    const Place place = loads ? results()[m] : sources()[in_->source_count - in_->vector + m];
    for (lane_ = 0; lane_ < 32; ++lane_) {
      for (int half = 0; half < 2; ++half) {
        int row = lane_ / 4, col = lane_ % 4 * 2 + half;
        if (transposed) std::swap(row, col);
        const std::byte* at = pointers[static_cast<std::size_t>(8 * m + row)] + 2 * col;
        for (int byte = 0; byte < 2; ++byte) {
          if (loads) {
            set(place, lane_, 4, on(memory_.load(at + byte)), 2 * half + byte, 4);
          } else {
            memory_.store(at + byte, on(held(place, lane_, 4, 2 * half + byte, 4)));
          }
        }
        if (!loads) note_stored(at, 2);
      }
    }
  }
}

/// Sums in memory; of what else is updated there, what came last.
void TermReplay::update() {
  if (step_->pointers == Recording::none) return forget();
  const int bytes = bytes_of(in_->type);
  const std::string_view opcode = program_->origins[step_->instruction].opcode;
  const bool adds = opcode.find(".add") != opcode.npos && is_float(in_->type);
  for (std::uint32_t left = step_->mask; left != 0; left &= left - 1) {
    lane_ = std::countr_zero(left);
    const std::byte* at = recording_->pointers(*step_)[static_cast<std::size_t>(lane_)];
    const Held there = memory_.load(at + bytes - 1), own = held(in_->s[1], lane_, bytes);
    if (in_->result_count > 0) set(results()[0], lane_, bytes, on(there));
    if (adds && terms_.is_part(own.term)) (*of_program_)[step_->instruction].made.merges = true;
    const Held both = adds ? made(terms_.add(there.term, own.term)) : on(own);
    for (int byte = 0; byte < bytes; ++byte) memory_.store(at + byte, both);
  }
}

}  // namespace lanescope::ptx
