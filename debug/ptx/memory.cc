// PTX ISA, "Data Movement and Conversion Instructions": ld and st.

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
void load_values(Warp& warp, const Instruction& in, std::uint32_t mask, Pointers& pointers) {
  warp.locate(in, mask, sizeof(T) * in.vector, pointers);
  std::unique_lock<std::mutex> held;
  const Place* places = &warp.program().operands[in.operands];
  if (warp.block().checker()) {
    if (in.kind == orders) held = warp.hold_order();
    const bool unwritten =
        warp.check_load(mask, sizeof(T) * in.vector, pointers, in.kind == orders);
    for (std::size_t i = 0; i < in.vector; ++i) {
      if (unwritten) {
        warp.note_loaded(places[i], mask, pointers, i * sizeof(T), sizeof(T));
      } else {
        warp.set_unwritten(places[i], mask, {});
      }
    }
  }
  if (in.vector == 1 && is_contiguous(mask, sizeof(T), pointers)) {
    T values[32];
    std::memcpy(values, pointers[0], sizeof values);
    R* d = warp.lanes<R>(places[0]);
    for (int lane = 0; lane < 32; ++lane) {
      d[lane] = static_cast<R>(values[lane]);  // NOLINT(bugprone-signed-char-misuse)
    }
    return;
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
}

template <class T, class R>
Flow load(Warp& warp, const Instruction& in, std::uint32_t mask) {
  if (mask == 0) return Flow::next;
  Pointers pointers;
  load_values<T, R>(warp, in, mask, pointers);
  if (!warp.follows_numbers()) return Flow::next;
  const Place* places = &warp.program().operands[in.operands];
  for (std::size_t i = 0; i < in.vector; ++i) {
    warp.follow_load(places[i], mask, pointers, i * sizeof(T), sizeof(T));
  }
  return Flow::next;
}

/// Whether two numbers are one but for its rounding, to half of their digits.
bool are_rounded_alike(std::uint32_t a, std::uint32_t b) {
  constexpr std::int64_t most = 1 << 12;
  const auto is_normal = [](std::uint32_t x) { return (x >> 23 & 0xff) - 1 < 254; };
  return is_normal(a) && is_normal(b) && std::abs(std::int64_t{a} - std::int64_t{b}) <= most;
}

/// Whether an earlier lane of the store puts the same numbers there, .f32 and rounded another way:
/// compilers that give a value to many lanes let all of them store it, and where they fuse sums of
/// squares with the first exchange of a reduction, no two lanes have the same bits. A warp's store
/// leaves that of one of its lanes (CUDA C++ Programming Guide, "SIMT Architecture").
/// `by_compiler`: in its shared memory, which of them store is its own matter, whatever cancels in
/// what they reduced.
template <class T>
bool repeats(const Pointers& pointers, std::uint32_t mask, int lane, const T* values,
             std::size_t count, bool by_compiler) {
  if (sizeof(T) != 4) return false;
  const std::byte* at = pointers[static_cast<std::size_t>(lane)];
  for (std::size_t i = 0; i < count && !by_compiler; ++i) {
    std::uint32_t own = 0, there = 0;
    std::memcpy(&own, values + i, sizeof(T));
    std::memcpy(&there, at + i * sizeof(T), sizeof(T));
    if (own != there && !are_rounded_alike(own, there)) return false;
  }
  for (std::uint32_t earlier = mask & ((1u << lane) - 1); earlier != 0; earlier &= earlier - 1) {
    if (pointers[static_cast<std::size_t>(std::countr_zero(earlier))] == at) return true;
  }
  return false;
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
    const bool by_compiler =
        warp.block().by_compiler() && warp.block().checker()->in_shared(at, bytes);
    const bool again = repeats(pointers, mask, lane, values, in.vector, by_compiler);
    const auto* written = again ? at : reinterpret_cast<const std::byte*>(values);
    warp.check_store(lane, at, written, bytes, in.kind == orders);
    std::memcpy(at, values, bytes);
    for (std::size_t i = 0; i < in.vector; ++i) {
      warp.note_stored(places[i], lane, at + i * sizeof(T), sizeof(T));
      if (warp.follows_numbers()) warp.follow_store(places[i], lane, at + i * sizeof(T));
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
  if (d.in.type == Type::b128 && d.in.vector == 1) {
    d.in.type = Type::b64;
    d.in.vector = 2;
  }
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
  d.in.register_bytes = static_cast<std::uint8_t>(width / 8);
  d.in.act = choose(loads, d.in.type, width);
}

}  // namespace

void ignore_hints(Decoder& d) {
  d.modifiers.ignore({"weak", "cta", "cluster", "gpu", "sys", "nc", "ca", "cg", "cs", "lu", "cv",
                      "wb", "wt", "noftz"});
  const std::vector<std::string_view> words = d.modifiers.left();
  for (const std::string_view word : words) {
    if (word.starts_with("L1::") || word.starts_with("L2::")) d.modifiers.take(word);
  }
}

bool decode_memory(Decoder& d) {
  const std::string_view base = d.modifiers.base();
  if (base == "ld" || base == "ldu") {
    decode_access(d, true);
  } else if (base == "st") {
    if (d.statement().opcode.starts_with("st.async")) return decode_store_async(d), true;
    if (d.modifiers.take("bulk")) d.refuse("it is no instruction of sm_90");
    decode_access(d, false);
  } else if (base == "cp") {
    if (!d.modifiers.take("async")) d.fail("the machine does not know this instruction");
    decode_copy_async(d);
  } else {
    return false;
  }
  return true;
}

}  // namespace lanescope::ptx
