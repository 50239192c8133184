// PTX ISA, "Data Movement and Conversion Instructions": ld, st, and cp.async.

#include <algorithm>
#include <bit>
#include <cstring>
#include <mutex>

#include "debug/ptx/block.h"
#include "debug/ptx/decoder.h"
#include "debug/ptx/program_builder.h"
#include "debug/ptx/warp.h"

namespace lanescope::ptx {
namespace {

/// The kind of an access that other blocks may look for.
constexpr std::uint8_t orders = 1;

/// Whether all lanes access memory one behind the other.
bool is_contiguous(std::uint32_t mask, std::size_t bytes, const Pointers& pointers) {
  if (mask != ~0u) return false;
  std::uintptr_t differs = 0;
  for (std::size_t i = 0; i < 32; ++i) {
    differs |= std::bit_cast<std::uintptr_t>(pointers[i]) ^
               (std::bit_cast<std::uintptr_t>(pointers[0]) + i * bytes);
  }
  return differs == 0;
}

/// T: an element in memory, R: a lane of its register.
template <class T, class R>
Flow load(Warp& warp, const Instruction& in, std::uint32_t mask) {
  if (mask == 0) return Flow::next;
  Pointers pointers;
  warp.locate(in, mask, sizeof(T) * in.vector, pointers);
  std::unique_lock<std::mutex> held;
  if (warp.block().checker()) {
    if (in.kind == orders) held = warp.hold_order();
    warp.check_load(mask, sizeof(T) * in.vector, pointers, in.kind == orders);
  }
  const Place* places = &warp.program().operands[in.operands];
  for (std::size_t i = 0; i < in.vector && warp.follows_unwritten(); ++i) {
    warp.note_loaded(places[i], mask, pointers, i * sizeof(T), sizeof(T));
  }
  if (in.vector == 1 && is_contiguous(mask, sizeof(T), pointers)) {
    T values[32];
    std::memcpy(values, pointers[0], sizeof values);
    R* d = warp.lanes<R>(places[0]);
    for (int lane = 0; lane < 32; ++lane) {
      d[lane] = static_cast<R>(values[lane]);  // NOLINT(bugprone-signed-char-misuse)
    }
    return Flow::next;
  }
  for (std::size_t i = 0; i < in.vector; ++i) {
    R* d = warp.lanes<R>(places[i]);
    for (std::uint32_t left = mask; left != 0; left &= left - 1) {
      const auto lane = static_cast<std::size_t>(std::countr_zero(left));
      T value;
      std::memcpy(&value, pointers[lane] + i * sizeof(T), sizeof(T));
      d[lane] = static_cast<R>(value);  // NOLINT(bugprone-signed-char-misuse): with its sign
    }
  }
  return Flow::next;
}

/// Lane by lane: one may write what another has written already.
template <class T, class R>
void store_checked(Warp& warp, const Instruction& in, std::uint32_t mask, const Pointers& pointers,
                   const Place* places) {
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    std::byte* at = pointers[static_cast<std::size_t>(lane)];
    T values[8];
    for (std::size_t i = 0; i < in.vector; ++i) {
      values[i] = static_cast<T>(warp.lanes<R>(places[i])[lane]);
    }
    const std::size_t bytes = sizeof(T) * in.vector;
    warp.check_store(lane, at, reinterpret_cast<const std::byte*>(values), bytes,
                     in.kind == orders);
    std::memcpy(at, values, bytes);
    for (std::size_t i = 0; i < in.vector; ++i) {
      warp.note_stored(places[i], lane, at + i * sizeof(T), sizeof(T));
    }
  }
}

/// The registers are the last of the sources, behind the address.
template <class T, class R>
Flow store(Warp& warp, const Instruction& in, std::uint32_t mask) {
  if (mask == 0) return Flow::next;
  Pointers pointers;
  warp.locate(in, mask, sizeof(T) * in.vector, pointers);
  const Place* places = &warp.program().operands[in.operands + in.source_count - in.vector];
  if (warp.block().checker()) {
    const auto held = in.kind == orders ? warp.hold_order() : std::unique_lock<std::mutex>();
    store_checked<T, R>(warp, in, mask, pointers, places);
    return Flow::next;
  }
  if (in.vector == 1 && is_contiguous(mask, sizeof(T), pointers)) {
    const R* s = warp.lanes<R>(places[0]);
    T values[32];
    for (int lane = 0; lane < 32; ++lane) values[lane] = static_cast<T>(s[lane]);
    std::memcpy(pointers[0], values, sizeof values);
    return Flow::next;
  }
  for (std::size_t i = 0; i < in.vector; ++i) {
    const R* s = warp.lanes<R>(places[i]);
    for (std::uint32_t left = mask; left != 0; left &= left - 1) {
      const auto lane = static_cast<std::size_t>(std::countr_zero(left));
      const T value = static_cast<T>(s[lane]);
      std::memcpy(pointers[lane] + i * sizeof(T), &value, sizeof(T));
    }
  }
  return Flow::next;
}

template <class T>
WarpOperation choose_register(bool loads, int width) {
  if (width == 16) return loads ? load<T, std::uint16_t> : store<T, std::uint16_t>;
  if (width == 32) return loads ? load<T, std::uint32_t> : store<T, std::uint32_t>;
  return loads ? load<T, std::uint64_t> : store<T, std::uint64_t>;
}

WarpOperation choose(bool loads, Type type, int width) {
  const bool has_sign = is_signed(type) && loads;
  switch (bytes_of(type)) {
    case 1:
      return has_sign ? choose_register<std::int8_t>(loads, width)
                      : choose_register<std::uint8_t>(loads, width);
    case 2:
      return has_sign ? choose_register<std::int16_t>(loads, width)
                      : choose_register<std::uint16_t>(loads, width);
    case 4:
      return has_sign ? choose_register<std::int32_t>(loads, width)
                      : choose_register<std::uint32_t>(loads, width);
    default:
      return choose_register<std::uint64_t>(loads, width);
  }
}

Space take_space(Decoder& d) {
  static constexpr Space spaces[] = {Space::global, Space::shared, Space::shared,
                                     Space::shared, Space::local,  Space::constant,
                                     Space::param,  Space::param,  Space::param};
  const int index = d.modifiers.choose({"global", "shared", "shared::cta", "shared::cluster",
                                        "local", "const", "param", "param::entry", "param::func"},
                                       -1);
  return index < 0 ? Space::generic : spaces[index];
}

/// How the memory system is to keep what is read or written: it says nothing about values. Blocks
/// run on one machine, so an access of any scope is seen by all.
void ignore_hints(Decoder& d) {
  d.modifiers.ignore({"weak", "cta", "cluster", "gpu", "sys", "nc", "ca", "cg", "cs", "lu", "cv",
                      "wb", "wt", "noftz"});
  const std::vector<std::string_view> words = d.modifiers.left();
  for (const std::string_view word : words) {
    if (word.starts_with("L1::") || word.starts_with("L2::")) d.modifiers.take(word);
  }
}

void decode_access(Decoder& d, bool loads) {
  const bool hinted = std::any_of(d.modifiers.left().begin(), d.modifiers.left().end(),
                                  [](std::string_view word) { return word == "L2::cache_hint"; });
  if (d.modifiers.choose({"volatile", "relaxed", "acquire", "release", "mmio"}, -1) >= 0) {
    d.in.kind = orders;
  }
  ignore_hints(d);
  d.in.space = take_space(d);
  const int vector = d.modifiers.choose({"v2", "v4", "v8"}, -1);
  d.in.vector = vector < 0 ? 1 : static_cast<std::uint8_t>(2 << vector);
  d.in.type = d.demand_type();
  if (d.in.type == Type::pred || d.in.type == Type::b128) d.refuse("of this type");
  if (bytes_of(d.in.type) * d.in.vector > 32) d.fail("more than 32 bytes at once");
  d.demand_operands(2, hinted ? 3 : 2);
  const std::vector<Operand> elements = d.elements(d.operand(loads ? 0 : 1));
  if (elements.size() != d.in.vector) {
    d.fail("it has " + std::to_string(elements.size()) + " registers for " +
           std::to_string(d.in.vector) + " elements");
  }
  if (!loads) d.address(d.operand(0));
  int width = 0;
  for (const Operand& element : elements) {
    int its_width = 0;
    if (element.kind == Operand::Kind::reg) {
      its_width = d.width_of(element);
    } else if (d.is_number(element) && !loads) {
      its_width = std::max(16, bits_of(d.in.type));
    } else if (element.kind != Operand::Kind::none || !loads) {
      d.fail("a register is expected");
    }
    if (its_width != 0 && width != 0 && its_width != width) d.refuse("registers of several widths");
    if (its_width != 0) width = its_width;
  }
  if (width == 0) width = std::max(16, bits_of(d.in.type));
  if (width < bits_of(d.in.type)) d.fail("a register is narrower than the element");
  const Type carrier = width == 16 ? Type::b16 : width == 32 ? Type::b32 : Type::b64;
  for (const Operand& element : elements) {
    if (loads) {
      d.result_of(element, width);
    } else {
      const std::size_t before = d.sources.size();
      const Place place = d.source_of(element, carrier);
      if (d.sources.size() == before) d.sources.push_back(place);  // a constant
    }
  }
  if (loads) d.address(d.operand(1));
  if (d.in.space == Space::constant) d.in.space = Space::global;  // where it lies here
  d.in.carries = d.in.addresses = true;
  d.in.act = choose(loads, d.in.type, width);
}

/// cp.async: both addresses, then how many bytes, and how many of those are read.
Flow copy_async(Warp& warp, const Instruction& in, std::uint32_t mask) {
  if (mask == 0) return Flow::next;
  const auto bytes = static_cast<std::size_t>(in.vector);
  Pointers to, from;
  warp.locate(in, mask, bytes, to);
  Instruction source = in;
  source.s[0] = in.s[1];
  source.immediate = in.immediate2;
  source.wide_address = true;
  std::array<std::uint8_t, 32> valid{};
  from.fill(nullptr);
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    std::size_t size = bytes;
    if (in.kind == 1) size = warp.lanes<std::uint32_t>(in.s[2])[lane];
    if (in.kind == 2 && warp.predicate(in.s[2]) >> lane & 1) size = 0;
    if (size > bytes) warp.fail(lane, "more bytes are to be read than copied");
    const auto i = static_cast<std::size_t>(lane);
    valid[i] = static_cast<std::uint8_t>(size);
    if (size == 0) continue;
    const std::uint64_t address = warp.address_of(source, lane);
    if (address % bytes != 0)
      warp.fail(lane,
                "the source is misaligned: a multiple of " + std::to_string(bytes) + " is needed",
                FaultKind::misaligned_address);
    from[i] = warp.locate(Space::global, address, size, lane);
  }
  warp.issue_copies(mask, bytes, to, from, valid);
  return Flow::next;
}

Flow commit_copies(Warp& warp, const Instruction&, std::uint32_t mask) {
  for (std::size_t lane = 0; lane < 32; ++lane) {
    if (mask >> lane & 1) ++warp.groups_committed[lane];
  }
  return Flow::next;
}

Flow wait_for_copies(Warp& warp, const Instruction& in, std::uint32_t mask) {
  warp.complete_copies(mask, in.kind == 1, static_cast<std::uint32_t>(in.immediate));
  return Flow::next;
}

/// cp.async.mbarrier.arrive: the lane's copies until here arrive when they are done, which is now;
/// kind 1 (.noinc): as one of the arrivals that the mbarrier counts.
Flow arrive_with_copies(Warp& warp, const Instruction& in, std::uint32_t mask) {
  for (; mask != 0; mask &= mask - 1) {
    const int lane = std::countr_zero(mask);
    warp.complete_copies(1u << lane, true, 0);
    const simt::Caller caller = warp.caller(lane);
    simt::AsyncBlock& async = warp.block().async();
    simt::MbarrierState& barrier = async.barrier(warp.shared_offset(in, 8, lane), caller);
    if (in.kind == 1) async.arrive(barrier, caller);
  }
  return Flow::next;
}

void decode_arrival(Decoder& d) {
  d.modifiers.ignore({"arrive"});
  d.in.kind = d.modifiers.take("noinc") ? 1 : 0;
  d.in.space =
      d.modifiers.choose({"shared", "shared::cta"}, -1) < 0 ? Space::generic : Space::shared;
  if (d.demand_type() != Type::b64) d.fail("an mbarrier is .b64");
  d.demand_operands(1);
  d.address(d.operand(0));
  d.in.act = arrive_with_copies;
}

void decode_copy(Decoder& d) {
  if (d.modifiers.take("commit_group")) {
    d.demand_operands(0);
    d.in.act = commit_copies;
    return;
  }
  const int wait = d.modifiers.choose({"wait_group", "wait_all"}, -1);
  if (wait >= 0) {
    d.demand_operands(wait == 0 ? 1 : 0);
    d.in.kind = static_cast<std::uint8_t>(wait);
    if (wait == 0) d.in.immediate = static_cast<std::int64_t>(d.integer(0, "the number of groups"));
    d.in.act = wait_for_copies;
    return;
  }
  if (d.modifiers.take("mbarrier")) return decode_arrival(d);
  const bool hinted = d.modifiers.take("L2::cache_hint");
  ignore_hints(d);
  d.in.space = Space::shared;
  if (d.modifiers.choose({"shared", "shared::cta"}, -1) < 0 || !d.modifiers.take("global")) {
    d.fail("it copies from .global to .shared");
  }
  d.demand_operands(3, hinted ? 5 : 4);
  d.address(d.operand(1));
  d.in.s[1] = d.in.s[0];
  d.in.immediate2 = d.in.immediate;
  if (!d.in.wide_address) d.fail("the source's address has 64 bits");
  d.in.space = Space::shared;
  d.address(d.operand(0));
  const std::uint64_t bytes = d.integer(2, "the number of bytes");
  if (bytes != 4 && bytes != 8 && bytes != 16) d.fail("it copies 4, 8 or 16 bytes");
  d.in.vector = static_cast<std::uint8_t>(bytes);
  if (d.operand_count() > (hinted ? 4u : 3u)) {
    const Operand& last = d.operand(3);
    const bool is_predicate = last.kind == Operand::Kind::reg && d.width_of(last) == 1;
    d.in.kind = is_predicate ? 2 : 1;
    d.in.s[2] = d.source_of(last, is_predicate ? Type::pred : Type::b32);
  }
  d.in.act = copy_async;
}

}  // namespace

bool decode_memory(Decoder& d) {
  const std::string_view base = d.modifiers.base();
  if (base == "ld" || base == "ldu") {
    decode_access(d, true);
  } else if (base == "st") {
    if (d.modifiers.take("async") || d.modifiers.take("bulk")) d.refuse("asynchronous stores");
    decode_access(d, false);
  } else if (base == "cp") {
    if (!d.modifiers.take("async")) d.fail("the machine does not know this instruction");
    decode_copy(d);
  } else {
    return false;
  }
  return true;
}

}  // namespace lanescope::ptx
