// What the memory checker knows of the registers that products of warpgroups use.

#include <algorithm>
#include <bit>

#include "debug/ptx/block.h"
#include "debug/ptx/lanes.h"
#include "debug/ptx/warp.h"

namespace lanescope::ptx {

void Warp::begin_products() {
  fenced_since_commit_ = false;
  for (const std::uint32_t slot : product_slots_) product_registers_[slot] = {.is_one = true};
  if (!product_registers_.empty() || program_.products.empty()) return;
  product_registers_.resize(slot_of(static_cast<Place>(program_.register_bytes)) + 1);
  for (const Instruction& in : program_.code) {
    if (!in.issues_product) continue;
    const Place* operands = program_.operands.data() + in.operands;
    const int fragment =
        program_.products[static_cast<std::size_t>(in.immediate)].what.a_in_registers ? 4 : 0;
    for (int i = 0; i < in.result_count + fragment; ++i) {
      ProductRegister& known = product_registers_[slot_of(operands[i])];
      if (!known.is_one) product_slots_.push_back(slot_of(operands[i]));
      known.is_one = true;
    }
  }
}

void Warp::note_product(const Place* accumulators, int count, const Place* fragment) {
  if (product_registers_.empty()) return;
  simt::BlockChecker& checker = *block_.checker();
  const int first = thread(0);
  bool told = !block_.async().products(index_).fenced;
  if (told) {
    checker.touch_register(simt::Kind::missing_register_fence, true, place_number(), 0, first);
  }
  const auto take = [&](Place place, ProductRegister::Holds holds) {
    ProductRegister& known = product_registers_[slot_of(place)];
    if (known.touched != 0 && !told) {
      const auto kind = fenced_since_commit_ ? simt::Kind::late_register_access
                                             : simt::Kind::missing_register_fence;
      checker.touch_register(kind, true, place_number(), known.touched, first);
      told = true;
    }
    known.touched = 0;
    known.issued = place_number();
    known.holds = holds;
  };
  for (int i = 0; i < count; ++i) take(accumulators[i], ProductRegister::Holds::sums);
  for (int i = 0; fragment && i < 4; ++i) take(fragment[i], ProductRegister::Holds::fragment);
}

void Warp::note_products_committed() {
  fenced_since_commit_ = false;
  if (recording_) recording_->commit_products(index_);
}

void Warp::note_products_waited(int pending) {
  if (recording_) recording_->finish_products(program_, registers_, index_, pending);
  if (product_registers_.empty()) return;
  for (const std::uint32_t slot : product_slots_) product_registers_[slot].issued = 0;
  const auto note = [&](const void* at, std::uint32_t place, ProductRegister::Holds holds) {
    const auto offset = static_cast<const std::byte*>(at) - registers_;
    ProductRegister& known = product_registers_[slot_of(static_cast<Place>(offset))];
    known.issued = place;
    known.holds = holds;
  };
  for (const auto& group : block_.async().products(index_).groups) {
    for (const simt::IssuedProduct& issued : group) {
      for (const std::uint32_t* at : issued.a.first) {
        note(at, issued.place, ProductRegister::Holds::fragment);
      }
      for (const std::uint32_t* at : issued.d->registers.first) {
        note(at, issued.place, ProductRegister::Holds::sums);
      }
      for (const simt::HalfTo& copy : issued.d->copies) {
        note(copy.to.first, issued.place, ProductRegister::Holds::copy);
      }
    }
  }
}

void Warp::note_product_fence() {
  fenced_since_commit_ = true;
  for (const std::uint32_t slot : product_slots_) product_registers_[slot].touched = 0;
}

std::uint32_t Warp::copied_product(const Instruction& in) const {
  if (!in.moves && !in.packs) return 0;
  const Place* operands = program_.operands.data() + in.operands;
  std::uint32_t issued = 0;
  for (int i = in.result_count; i < in.result_count + in.source_count; ++i) {
    const ProductRegister& known = product_registers_[slot_of(operands[i])];
    if (known.holds != ProductRegister::Holds::fragment) issued = std::max(issued, known.issued);
  }
  return issued;
}

void Warp::follow_products(const Instruction& in, std::uint32_t mask) {
  if (mask == 0 || in.issues_product) return;
  const Place* operands = program_.operands.data() + in.operands;
  const std::uint32_t copied = copied_product(in);
  const int count = in.result_count + in.source_count;
  for (int k = 0; k < count; ++k) {
    const int i = (k + in.result_count) % count;  // what is read comes first
    const std::uint32_t slot = slot_of(operands[i]);
    ProductRegister& known = product_registers_[slot];
    const bool writes = i < in.result_count, is_copy = known.holds == ProductRegister::Holds::copy;
    if (writes && copied != 0 && operands[i] >= carry_place) {
      if (!known.is_one) product_slots_.push_back(slot);
      if (known.issued == 0) known.holds = ProductRegister::Holds::copy;
      known.is_one = true;
      known.issued = copied;
    }
    if (!known.is_one) continue;
    if (writes && is_copy && copied == 0) known.issued = 0;
    if (known.issued != 0 && copied == 0) {
      block_.checker()->touch_register(simt::Kind::register_in_flight, writes, place_number(),
                                       known.issued, thread(std::countr_zero(mask)));
    }
    // Compilers move values between registers behind a fence, and ptxas takes that back.
    if (!in.moves && copied == 0) {
      known.touched = place_number();
    } else if (writes) {
      const Place from = in.source_count > 0 ? operands[in.result_count] : no_place;
      known.touched = from == no_place ? 0 : product_registers_[slot_of(from)].touched;
    }
  }
}

}  // namespace lanescope::ptx
