// PTX ISA, atom and red. Every order and scope is taken for sequentially consistent over the grid.

#include "debug/ptx/atomic.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "debug/ptx/block.h"
#include "debug/ptx/decoder.h"
#include "debug/ptx/program_builder.h"
#include "debug/ptx/warp.h"
#include "debug/simt/numerics.h"
#include "debug/simt/rounding.h"

namespace lanescope::ptx {
namespace {

float flush(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }

/// .add.f32: of global memory what is subnormal counts as zero (PTX ISA, atom).
std::uint32_t add_f32(std::uint32_t a, std::uint32_t b, bool ftz) {
  auto x = std::bit_cast<float>(a), y = std::bit_cast<float>(b);
  if (ftz) x = flush(x), y = flush(y);
  const float sum = simt::canonical(x + y);
  return std::bit_cast<std::uint32_t>(ftz ? flush(sum) : sum);
}

/// A NaN of global memory stays as it is, the number's before what was there; of shared memory what
/// was there comes first, and becomes quiet (as an H200 has it).
std::uint64_t add_f64(std::uint64_t a, std::uint64_t b, bool global) {
  const auto x = std::bit_cast<double>(a), y = std::bit_cast<double>(b);
  if (!std::isnan(x) && !std::isnan(y)) return std::bit_cast<std::uint64_t>(x + y);
  if (global) return std::isnan(y) ? b : a;
  return (std::isnan(x) ? a : b) | std::uint64_t{1} << 51;
}

std::uint32_t add_halves(const simt::Format& format, std::uint32_t a, std::uint32_t b, int count) {
  std::uint32_t result = 0;
  for (int i = 0; i < count; ++i) {
    const double x = simt::value_of(format, a >> (16 * i) & 0xffff),
                 y = simt::value_of(format, b >> (16 * i) & 0xffff);
    const double sum = std::isfinite(x + y) ? simt::add_to_odd(x, y) : x + y;
    result |= simt::round_to(format, sum, simt::Rounding::nearest_even) << (16 * i);
  }
  return result;
}

/// min and max of .f16 and .bf16: a NaN loses against a number, and of the zeroes −0 is the lesser
/// (as an H200's bulk copies have it).
std::uint16_t choose_half(const simt::Format& format, std::uint16_t a, std::uint16_t b,
                          bool greater) {
  const double x = simt::value_of(format, a), y = simt::value_of(format, b);
  if (std::isnan(x) && std::isnan(y)) return 0x7fff;
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) ? b : a;
  if (x == 0 && y == 0) return greater ? a & b : a | b;
  return (greater ? x < y : y < x) ? b : a;
}

bool is_half(Type type) {
  return type == Type::f16 || type == Type::bf16 || type == Type::f16x2 || type == Type::bf16x2;
}

template <class T>
T choose_halves(Type type, T a, T b, bool greater) {
  const bool f16 = type == Type::f16 || type == Type::f16x2;
  std::uint32_t result = 0;
  for (std::size_t i = 0; i < 8 * sizeof(T); i += 16) {
    const auto half = [&](T x) { return static_cast<std::uint16_t>(x >> i); };
    result |= std::uint32_t{choose_half(f16 ? simt::f16_format : simt::bf16_format, half(a),
                                        half(b), greater)}
              << i;
  }
  return static_cast<T>(result);
}

/// What a location becomes that holds `old`.
template <class T>
T combine(Update operation, Type type, T old, T b, T c, bool global) {
  using S = std::make_signed_t<T>;
  switch (operation) {
    case Update::add:
      if constexpr (sizeof(T) == 4) {
        if (type == Type::f32) return add_f32(old, b, global);
        if (type == Type::f16x2) return add_halves(simt::f16_format, old, b, 2);
        if (type == Type::bf16x2) return add_halves(simt::bf16_format, old, b, 2);
      }
      if constexpr (sizeof(T) == 2) {
        return static_cast<T>(
            add_halves(type == Type::f16 ? simt::f16_format : simt::bf16_format, old, b, 1));
      }
      if constexpr (sizeof(T) == 8) {
        if (type == Type::f64) return add_f64(old, b, global);
      }
      return static_cast<T>(old + b);
    case Update::min:
    case Update::max:
      if constexpr (sizeof(T) <= 4) {
        if (is_half(type)) return choose_halves<T>(type, old, b, operation == Update::max);
      }
      if (operation == Update::max) {
        return is_signed(type) ? (static_cast<S>(b) > static_cast<S>(old) ? b : old)
                               : std::max(old, b);
      }
      return is_signed(type) ? (static_cast<S>(b) < static_cast<S>(old) ? b : old)
                             : std::min(old, b);
    case Update::inc:
      return old >= b ? 0 : static_cast<T>(old + 1);
    case Update::dec:
      return old == 0 || old > b ? b : static_cast<T>(old - 1);
    case Update::bit_and:
      return old & b;
    case Update::bit_or:
      return old | b;
    case Update::bit_xor:
      return old ^ b;
    case Update::exchange:
      return b;
    default:
      return old == b ? c : old;
  }
}

/// Returns what was there.
template <class T>
T exchange(Update update, Type type, std::byte* at, T b, T c, bool ftz) {
  T* target = reinterpret_cast<T*>(at);
  T old = __atomic_load_n(target, __ATOMIC_SEQ_CST);
  while (!__atomic_compare_exchange_n(target, &old, combine<T>(update, type, old, b, c, ftz), false,
                                      __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
  }
  return old;
}

/// s[1]: b, s[2]: c; d: what was there, no_place for red.
template <class T>
Flow update(Warp& warp, const Instruction& in, std::uint32_t mask) {
  if (mask == 0) return Flow::next;
  Pointers pointers;
  warp.locate(in, mask, sizeof(T), pointers);
  const std::byte* shared = warp.block().shared();
  const auto held = warp.hold_order();
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    std::byte* at = pointers[static_cast<std::size_t>(lane)];
    warp.check_update(in.d, lane, at, sizeof(T), static_cast<Update>(in.kind) != Update::exchange);
    const T b = warp.lanes<T>(in.s[1])[lane], c = warp.lanes<T>(in.s[2])[lane];
    const bool ftz = static_cast<std::size_t>(at - shared) >= warp.block().shared_bytes();
    const T old = exchange<T>(static_cast<Update>(in.kind), in.type, at, b, c, ftz);
    if (in.d != no_place) warp.lanes<T>(in.d)[lane] = old;
  }
  return Flow::next;
}

/// The same of `vector` elements side by side in global memory, each for itself. Its operands are
/// in Program::operands: what was there, where it is wanted, and last the numbers.
template <class T>
Flow update_vector(Warp& warp, const Instruction& in, std::uint32_t mask) {
  if (mask == 0) return Flow::next;
  const std::size_t count = in.vector, bytes = sizeof(T) * count;
  Pointers pointers;
  warp.locate(in, mask, bytes, pointers);
  const Place* results = &warp.program().operands[in.operands];
  const Place* numbers = results + in.result_count + in.source_count - count;
  const auto held = warp.hold_order();
  for (; mask != 0; mask &= mask - 1) {
    const int lane = std::countr_zero(mask);
    std::byte* at = pointers[static_cast<std::size_t>(lane)];
    if (static_cast<std::size_t>(at - warp.block().shared()) < warp.block().shared_bytes()) {
      warp.fail(lane, "vectors are updated in global memory alone, and this is shared memory");
    }
    warp.check_update(no_place, lane, at, bytes, true);
    T old[8];
    for (std::size_t i = 0; i < count; ++i) {
      const T b = warp.lanes<T>(numbers[i])[lane];
      old[i] = exchange<T>(static_cast<Update>(in.kind), in.type, at + i * sizeof(T), b, b, true);
    }
    for (std::size_t i = 0; i < in.result_count; ++i) warp.lanes<T>(results[i])[lane] = old[i];
  }
  return Flow::next;
}

/// PTX ISA, atom and red "with vector type".
void decode_vector(Decoder& d, bool returns, std::size_t count, bool hinted) {
  const Type type = d.in.type;
  const bool halves = is_half(type), packed = halves && bits_of(type) == 32;
  if ((!halves && type != Type::f32) || (count == 8 && (packed || !halves))) {
    d.fail("vectors are of .f32, .f16x2 and .bf16x2 (.v2, .v4), or of .f16 and .bf16 (and .v8)");
  }
  const auto chosen = static_cast<Update>(d.in.kind);
  if (chosen > Update::max || (!halves && chosen != Update::add)) {
    d.fail(halves ? "of vectors of halves .add, .min and .max" : "of vectors of .f32 only .add");
  }
  if (d.in.space == Space::shared) d.fail("vectors are updated in global memory alone");
  const std::size_t operands = returns ? 3 : 2;
  d.demand_operands(operands, operands + (hinted ? 1 : 0));
  const auto take = [&](std::size_t operand, bool result) {
    const std::vector<Operand> elements = d.elements(d.operand(operand));
    if (elements.size() != count) {
      d.fail(std::to_string(elements.size()) + " registers for " + std::to_string(count) +
             " elements");
    }
    for (const Operand& element : elements) {
      if (result) {
        d.result_of(element, bits_of(type));
        continue;
      }
      const std::size_t before = d.sources.size();
      const Place place = d.source_of(element, packed ? Type::b32 : type);
      if (d.sources.size() == before) d.sources.push_back(place);  // a constant
    }
  };
  if (returns) take(0, true);
  d.address(d.operand(operands - 2));
  take(operands - 1, false);
  d.in.vector = static_cast<std::uint8_t>(count);
  d.in.act = bits_of(type) == 16 ? update_vector<std::uint16_t> : update_vector<std::uint32_t>;
}

void decode_update(Decoder& d, bool returns) {
  const bool hinted = std::any_of(d.modifiers.left().begin(), d.modifiers.left().end(),
                                  [](std::string_view word) { return word == "L2::cache_hint"; });
  d.modifiers.ignore({"relaxed", "acquire", "release", "acq_rel", "cta", "cluster", "gpu", "sys",
                      "noftz", "L2::cache_hint"});
  const int space = d.modifiers.choose({"global", "shared", "shared::cta", "shared::cluster"}, -1);
  d.in.space = space < 0 ? Space::generic : space == 0 ? Space::global : Space::shared;
  const int operation = d.modifiers.choose(
      {"add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas"}, -1);
  if (operation < 0) d.refuse("this operation");
  d.in.kind = static_cast<std::uint8_t>(operation);
  const int vector = d.modifiers.choose({"v2", "v4", "v8"}, -1);
  d.in.type = d.demand_type();
  if (vector >= 0) return decode_vector(d, returns, std::size_t{2} << vector, hinted);
  const Type type = d.in.type;
  const auto chosen = static_cast<Update>(operation);
  if (is_float(type) && chosen != Update::add) d.refuse("of this type only .add");
  const int bits = bits_of(type);
  if (bits < 16 || bits > 64 || (bits == 16 && !is_float(type) && chosen != Update::compare)) {
    d.refuse("of this type");
  }
  std::size_t at = 0;
  const std::size_t count = (returns ? 1u : 0u) + (chosen == Update::compare ? 3 : 2);
  d.demand_operands(count, count + (hinted ? 1 : 0));
  if (returns) d.in.d = d.result(at++, type);
  const bool draws = returns && !is_float(type) && d.in.space != Space::shared;
  if (draws) d.program().program().draws = true;
  d.address(d.operand(at++));
  d.in.s[1] = d.source(at++, type);
  d.in.s[2] = chosen == Update::compare ? d.source(at++, type) : d.in.s[1];
  d.in.act = bits == 16   ? update<std::uint16_t>
             : bits == 32 ? update<std::uint32_t>
                          : update<std::uint64_t>;
}

template <class T>
void update_each(Update update, Type type, std::byte* to, const std::byte* from, std::size_t bytes,
                 bool ftz) {
  for (std::size_t i = 0; i < bytes; i += sizeof(T)) {
    T b;
    std::memcpy(&b, from + i, sizeof b);
    // Sums of .f64 are of global memory, as they are for atom.
    exchange<T>(update, type, to + i, b, b, ftz || type == Type::f64);
  }
}

}  // namespace

void update_elements(Update update, Type type, std::byte* to, const std::byte* from,
                     std::size_t bytes, bool ftz) {
  const int bits = bits_of(type);
  const auto update_all = bits == 16   ? update_each<std::uint16_t>
                          : bits == 32 ? update_each<std::uint32_t>
                                       : update_each<std::uint64_t>;
  update_all(update, type, to, from, bytes, ftz);
}

const char* fault_of_reduction(Update update, Type type) {
  const int bits = bits_of(type);
  const bool half = type == Type::f16 || type == Type::bf16;
  if (half) return update <= Update::max ? nullptr : "of this type only .add, .min and .max";
  if (bits != 32 && bits != 64) return "of this type";
  if (is_float(type)) return update == Update::add ? nullptr : "of this type only .add";
  const bool counts = update == Update::inc || update == Update::dec;
  return counts && type != Type::u32 ? ".inc and .dec are for .u32" : nullptr;
}

const char* fault_of_shared_reduction(Update update, Type type) {
  switch (update) {
    case Update::add:
      if (type == Type::u32 || type == Type::s32 || type == Type::u64) return nullptr;
      return "in shared memory .add is for .u32, .s32 and .u64";
    case Update::min:
    case Update::max:
      if (type == Type::u32 || type == Type::s32) return nullptr;
      return "in shared memory .min and .max are for .u32 and .s32";
    case Update::inc:
    case Update::dec:
      return type == Type::u32 ? nullptr : ".inc and .dec are for .u32";
    default:
      return type == Type::b32 ? nullptr : "in shared memory .and, .or and .xor are for .b32";
  }
}

bool decode_atomic(Decoder& d) {
  const std::string_view base = d.modifiers.base();
  if (base == "multimem") d.refuse("of memory that several GPUs share");
  if (base != "atom" && base != "red") return false;
  if (d.statement().opcode.starts_with("red.async")) return decode_store_async(d), true;
  decode_update(d, base == "atom");
  return true;
}

}  // namespace lanescope::ptx
