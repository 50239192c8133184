// PTX ISA, atom and red. Every order and scope is taken for sequentially consistent over the grid.

#include "debug/ptx/atomic.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "debug/ptx/block.h"
#include "debug/ptx/decoder.h"
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

/// What a location becomes that holds `old`.
template <class T>
T combine(Update operation, Type type, T old, T b, T c, bool ftz) {
  using S = std::make_signed_t<T>;
  switch (operation) {
    case Update::add:
      if constexpr (sizeof(T) == 4) {
        if (type == Type::f32) return add_f32(old, b, ftz);
        if (type == Type::f16x2) return add_halves(simt::f16_format, old, b, 2);
        if (type == Type::bf16x2) return add_halves(simt::bf16_format, old, b, 2);
      }
      if constexpr (sizeof(T) == 2) {
        return static_cast<T>(
            add_halves(type == Type::f16 ? simt::f16_format : simt::bf16_format, old, b, 1));
      }
      if constexpr (sizeof(T) == 8) {
        if (type == Type::f64)
          return std::bit_cast<T>(std::bit_cast<double>(old) + std::bit_cast<double>(b));
      }
      return static_cast<T>(old + b);
    case Update::min:
    case Update::max:
      if constexpr (sizeof(T) == 2) {
        return choose_half(type == Type::f16 ? simt::f16_format : simt::bf16_format, old, b,
                           operation == Update::max);
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
    warp.check_atomic(lane, at, sizeof(T));
    const T b = warp.lanes<T>(in.s[1])[lane], c = warp.lanes<T>(in.s[2])[lane];
    const bool ftz = static_cast<std::size_t>(at - shared) >= warp.block().shared_bytes();
    const T old = exchange<T>(static_cast<Update>(in.kind), in.type, at, b, c, ftz);
    if (in.d != no_place) warp.lanes<T>(in.d)[lane] = old;
  }
  return Flow::next;
}

void decode_update(Decoder& d, bool returns) {
  const bool hinted = std::any_of(d.modifiers.left().begin(), d.modifiers.left().end(),
                                  [](std::string_view word) { return word == "L2::cache_hint"; });
  if (d.modifiers.take("async")) d.refuse("asynchronous reductions");
  d.modifiers.ignore({"relaxed", "acquire", "release", "acq_rel", "cta", "cluster", "gpu", "sys",
                      "noftz", "L2::cache_hint"});
  const int space = d.modifiers.choose({"global", "shared", "shared::cta", "shared::cluster"}, -1);
  d.in.space = space < 0 ? Space::generic : space == 0 ? Space::global : Space::shared;
  const int operation = d.modifiers.choose(
      {"add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas"}, -1);
  if (operation < 0) d.refuse("this operation");
  d.in.kind = static_cast<std::uint8_t>(operation);
  d.in.type = d.demand_type();
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
    exchange<T>(update, type, to + i, b, b, ftz);
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

bool decode_atomic(Decoder& d) {
  const std::string_view base = d.modifiers.base();
  if (base != "atom" && base != "red") return false;
  decode_update(d, base == "atom");
  return true;
}

}  // namespace lanescope::ptx
