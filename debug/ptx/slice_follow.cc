// How the results of each kind of instruction hang together with its sources.

#include <algorithm>
#include <bit>
#include <bitset>
#include <string_view>
#include <utility>
#include <vector>

#include "debug/ptx/matrix.h"
#include "debug/ptx/slicer.h"
#include "debug/simt/matrix_descriptor.h"

namespace lanescope::ptx {

Slicer::Way Slicer::way_of(const Program& program, std::uint32_t instruction) {
  const std::string_view opcode = program.origins[instruction].opcode;
  const std::string_view base = opcode.substr(0, opcode.find('.'));
  const bool transposed = opcode.find(".trans") != opcode.npos;
  if (program.code[instruction].lanes) return Way::lane;
  if (base == "ld" || base == "ldu") return Way::load;
  if (base == "st") return Way::store;
  if (base == "atom" || base == "red") return Way::update;
  if (base == "ldmatrix") return transposed ? Way::load_transposed : Way::load_matrix;
  if (base == "stmatrix") return transposed ? Way::store_transposed : Way::store_matrix;
  if (base == "mma") return Way::product;
  if (base == "mov") return Way::lane;
  return Way::warp;
}

void Slicer::follow() {
  if (step_->copy_count > 0) return follow_copies();
  if (step_->product != Recording::none) return follow_warpgroup();
  if (step_->element_count > 0) return follow_elements();
  const auto [at, is_new] = ways_.try_emplace({program_, step_->instruction});
  if (is_new) at->second = way_of(*program_, step_->instruction);
  switch (at->second) {
    case Way::lane:
      return follow_lanes();
    case Way::load:
    case Way::update:
    case Way::store:
      return follow_access(at->second);
    case Way::load_matrix:
    case Way::load_transposed:
    case Way::store_matrix:
    case Way::store_transposed:
      return follow_matrices(at->second);
    case Way::product:
      return follow_product();
    default:
      return follow_warp();
  }
}

void Slicer::follow_lanes() {
  hits_ = take_results(step_->mask);
  if (hits_ == 0) return;
  if (in_->selects) {
    want(in_->s[0], hits_ & step_->chosen);
    want(in_->s[1], hits_ & ~step_->chosen);
    return;
  }
  for (int i = 0; i < in_->source_count; ++i) want(sources()[i], hits_);
}

void Slicer::follow_copies() {
  const Recording::Copy* copies = recording_->copies(*step_);
  for (std::uint32_t i = step_->copy_count; i-- > 0;) {
    const Recording::Copy& copy = copies[i];
    for (std::size_t byte = 0; byte < copy.bytes; ++byte) {
      if (!take(copy.to + byte, 1)) continue;
      hits_ |= 1u << copy.lane;
      if (copy.from) want(copy.from + byte, 1);
      if (copy.updates) want(copy.to + byte, 1);
    }
  }
}

/// Of matrices whose elements said where they lie.
void Slicer::follow_elements() {
  const Recording::Element* elements = recording_->elements(*step_);
  const bool loads = in_->result_count > 0;
  std::vector<std::uint32_t> taken(in_->result_count);
  for (int i = 0; i < in_->result_count; ++i) {
    taken[static_cast<std::size_t>(i)] = take(results()[i], step_->mask);
  }
  for (std::uint32_t i = 0; i < step_->element_count; ++i) {
    const Recording::Element& e = elements[i];
    const std::uint32_t lane = 1u << e.lane;
    if (loads && (taken[static_cast<std::size_t>(e.operand)] & lane) != 0) {
      hits_ |= lane;
      last_result_ = e.operand;
      want(e.at, e.bytes);
    }
    if (!loads && take(e.at, e.bytes)) {
      hits_ |= lane;
      want(sources()[e.operand], lane);
    }
  }
}

void Slicer::follow_access(Way way) {
  if (step_->pointers == Recording::none) return;
  const Recording::Pointers& pointers = recording_->pointers(*step_);
  const auto bytes = static_cast<std::size_t>(bytes_of(in_->type));
  const auto at = [&](int lane, int i) {
    return pointers[static_cast<std::size_t>(lane)] + static_cast<std::size_t>(i) * bytes;
  };
  if (way == Way::update) {
    std::uint32_t wanted = take_results(step_->mask);
    each_lane([&](int lane) {
      const bool stored = take(at(lane, 0), bytes);
      if (!stored && (wanted >> lane & 1) == 0) return;
      hits_ |= 1u << lane;
      want(at(lane, 0), bytes);  // what lay there
      if (!stored) return;
      want(in_->s[1], 1u << lane);
      want(in_->s[2], 1u << lane);
    });
    return;
  }
  for (int i = 0; i < in_->vector; ++i) {
    if (way == Way::load) {
      const std::uint32_t wanted = take(results()[i], step_->mask);
      if (wanted != 0) last_result_ = i;
      hits_ |= wanted;
      each_lane([&](int lane) {
        if (wanted >> lane & 1) want(at(lane, i), bytes);
      });
      continue;
    }
    const Place value = sources()[in_->source_count - in_->vector + i];
    each_lane([&](int lane) {
      if (!take(at(lane, i), bytes)) return;
      hits_ |= 1u << lane;
      want(value, 1u << lane);
    });
  }
}

/// Lane t holds the elements (t / 4, t % 4 · 2 + {0, 1}), or those transposed.
void Slicer::follow_matrices(Way way) {
  const Recording::Pointers& pointers = recording_->pointers(*step_);
  const bool loads = way == Way::load_matrix || way == Way::load_transposed;
  const bool transposed = way == Way::load_transposed || way == Way::store_transposed;
  for (int m = 0; m < in_->vector; ++m) {
    const Place place = loads ? results()[m] : sources()[in_->source_count - in_->vector + m];
    const std::uint32_t wanted = loads ? take(place, ~0u) : 0;
    if (wanted != 0) last_result_ = m;
    hits_ |= wanted;
    for (int lane = 0; lane < 32; ++lane) {
      for (int half = 0; half < 2; ++half) {
        int row = lane / 4, col = lane % 4 * 2 + half;
        if (transposed) std::swap(row, col);
        const std::byte* at = pointers[static_cast<std::size_t>(8 * m + row)] + 2 * col;
        if (loads && (wanted >> lane & 1) != 0) want(at, 2);
        if (loads || !take(at, 2)) continue;
        hits_ |= 1u << lane;
        want(place, 1u << lane);
      }
    }
  }
}

/// Element (lane / 4 + 8 · half, lane % 4 · 2 + {0, 1}) of d is of that row of a, that column of
/// b, and of c.
void Slicer::follow_product() {
  const int d_count = in_->result_count, ab = in_->source_count - d_count;
  const int a_count = registers_of_a(ab);
  const Place *a = sources(), *b = a + a_count, *c = a + ab;
  const bool packed = d_count == 2 && ab > 2;  // of m8n8 two are the whole row
  for (int i = 0; i < d_count; ++i) {
    const std::uint32_t wanted = take(results()[i], ~0u);
    if (wanted == 0) continue;
    last_result_ = i;
    hits_ |= wanted;
    std::uint32_t rows = 0, cols = 0;  // lanes that hold those
    for (int lane = 0; lane < 32; ++lane) {
      if (!(wanted >> lane & 1)) continue;
      rows |= 0xfu << lane / 4 * 4;
      const int pair = lane % 4 * 2;
      cols |= packed ? 0xffu << 4 * pair : 0xfu << 4 * (pair + i % 2);
    }
    const int half = packed ? i : i / 2;
    for (int k = 0; k < a_count; ++k) {
      if (k % 2 == half) products_.push_back({a[k], rows});
    }
    for (int k = 0; k < ab - a_count; ++k) products_.push_back({b[k], cols});
    products_.push_back({c[i], wanted});
  }
  // d may be one of them.
  for (const auto& [place, lanes] : products_) want(place, lanes);
  products_.clear();
}

void Slicer::follow_warp() {
  const std::uint32_t wanted = take_results(step_->mask);
  if (wanted == 0) return;
  hits_ = wanted;
  if (step_->lanes != Recording::none) {
    const auto& from = recording_->lanes(*step_);
    std::uint32_t lanes = 0;
    each_lane([&](int lane) {
      if (wanted >> lane & 1) lanes |= 1u << from[static_cast<std::size_t>(lane)];
    });
    return want(in_->s[0], lanes);
  }
  for (int i = 0; i < in_->source_count; ++i) want(sources()[i], step_->mask);
}

/// Element (row, column) of a product of a warpgroup is of that row of A, that column of B, and of
/// what the accumulator was.
void Slicer::follow_warpgroup() {
  const auto& [what, shared] = recording_->product(*step_);
  std::bitset<16> rows;
  std::bitset<256> columns;
  const int packed = what.sums == simt::SumType::f16 ? 2 : 1;  // columns of a register
  std::vector<std::pair<Place, std::uint32_t>> sums;
  for (int i = 0; i < in_->result_count; ++i) {
    const std::uint32_t wanted = take(results()[i], ~0u);
    if (wanted == 0) continue;
    hits_ |= wanted;
    sums.emplace_back(results()[i], wanted);
    for (std::uint32_t left = wanted; left != 0; left &= left - 1) {
      const auto lane = static_cast<std::size_t>(std::countr_zero(left));
      for (int e = packed * i; e < packed * (i + 1); ++e) {
        const auto element = static_cast<std::size_t>(e);
        rows.set(lane / 4 + element / 2 % 2 * 8);
        columns.set(element / 4 * 8 + lane % 4 * 2 + element % 2);
      }
    }
  }
  if (hits_ == 0) return;
  for (const auto& [place, lanes] : sums) {
    if (what.accumulates) want(place, lanes);
  }
  const int first_row = step_->warp % 4 * 16;
  for (int row = 0; row < 16; ++row) {
    if (!rows.test(static_cast<std::size_t>(row))) continue;
    for (int i = row / 8; what.a_in_registers && i < 4; i += 2) {
      want(sources()[i], 0xfu << row % 8 * 4);
    }
    if (!what.a_in_registers) want_row(shared, what.a, what.a_is_transposed, first_row + row);
  }
  for (int column = 0; column < what.n; ++column) {
    if (!columns.test(static_cast<std::size_t>(column))) continue;
    want_row(shared, what.b, what.b_is_transposed, column);
  }
}

/// The 32 bytes of a row of an operand, of M or N.
void Slicer::want_row(const std::byte* shared, std::uint64_t descriptor, bool transposed, int row) {
  const simt::MatrixDescriptor matrix(descriptor);
  for (int k = 0; transposed && k < 16; ++k) {
    want(shared + matrix.offset(row / 8 * 8, k, true) + 2 * (row % 8), 2);
  }
  for (int k = 0; !transposed && k < 16; k += 8) want(shared + matrix.offset(row, k, false), 16);
}

}  // namespace lanescope::ptx
