// What the memory checker knows of the registers that products of warpgroups use.

#include <bit>

#include "debug/ptx/block.h"
#include "debug/ptx/warp.h"

namespace lanescope::ptx {

void Warp::begin_products() {
  for (const std::uint32_t slot : product_slots_) product_registers_[slot] = {true, 0, 0};
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
  const auto take = [&](Place place) {
    ProductRegister& known = product_registers_[slot_of(place)];
    if (known.touched != 0 && !told) {
      checker.touch_register(simt::Kind::missing_register_fence, true, place_number(),
                             known.touched, first);
      told = true;
    }
    known.touched = 0;
    known.issued = place_number();
  };
  for (int i = 0; i < count; ++i) take(accumulators[i]);
  for (int i = 0; fragment && i < 4; ++i) take(fragment[i]);
}

void Warp::note_products_waited() {
  if (product_registers_.empty()) return;
  for (const std::uint32_t slot : product_slots_) product_registers_[slot].issued = 0;
  const auto note = [&](const simt::RegisterArray& array, std::uint32_t place) {
    for (const std::uint32_t* at : array.first) {
      const auto offset = reinterpret_cast<const std::byte*>(at) - registers_;
      product_registers_[slot_of(static_cast<Place>(offset))].issued = place;
    }
  };
  for (const auto& group : block_.async().products(index_).groups) {
    for (const simt::IssuedProduct& issued : group) {
      note(issued.d->registers, issued.place);
      note(issued.a, issued.place);
    }
  }
}

void Warp::note_product_fence() {
  for (const std::uint32_t slot : product_slots_) product_registers_[slot].touched = 0;
}

void Warp::follow_products(const Instruction& in, std::uint32_t mask) {
  if (mask == 0 || in.issues_product) return;
  const Place* operands = program_.operands.data() + in.operands;
  for (int i = 0; i < in.result_count + in.source_count; ++i) {
    ProductRegister& known = product_registers_[slot_of(operands[i])];
    if (!known.is_one) continue;
    const bool writes = i < in.result_count;
    if (known.issued != 0) {
      block_.checker()->touch_register(simt::Kind::register_in_flight, writes, place_number(),
                                       known.issued, thread(std::countr_zero(mask)));
    }
    // Compilers move values between registers behind a fence, and ptxas takes that back.
    if (!in.moves) {
      known.touched = place_number();
    } else if (writes) {
      const Place from = in.source_count > 0 ? operands[in.result_count] : no_place;
      known.touched = from == no_place ? 0 : product_registers_[slot_of(from)].touched;
    }
  }
}

}  // namespace lanescope::ptx
