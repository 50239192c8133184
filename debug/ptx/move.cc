// PTX ISA, mov, cvta, isspacep and mapa.

#include <bit>

#include "debug/ptx/block.h"
#include "debug/ptx/cluster.h"
#include "debug/ptx/decoder.h"
#include "debug/ptx/lanes.h"
#include "debug/ptx/program_builder.h"
#include "debug/ptx/warp.h"

namespace lanescope::ptx {
namespace {

struct Copy {
  template <class T>
  static T apply(T a) {
    return a;
  }
};
template <class Wide, class Narrow, int parts>
struct Pack {
  static Wide apply(Narrow a, Narrow b) requires(parts == 2) {
    return static_cast<Wide>(static_cast<Wide>(a) | static_cast<Wide>(b) << (8 * sizeof(Narrow)));
  }
  static Wide apply(Narrow a, Narrow b, Narrow c, Narrow d) requires(parts == 4) {
    return static_cast<Wide>(a) | static_cast<Wide>(b) << 16 | static_cast<Wide>(c) << 32 |
           static_cast<Wide>(d) << 48;
  }
};
template <class Wide, class Narrow>
void unpack(std::byte* registers, const Instruction& in, std::uint32_t mask) {
  const Place places[] = {in.d, in.d2, in.d3, in.d4};
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    const Wide x = lane_of<Wide>(registers, in.s[0], lane);
    for (std::size_t i = 0; i < sizeof(Wide) / sizeof(Narrow); ++i) {
      reinterpret_cast<Narrow*>(registers + places[i])[lane] =
          static_cast<Narrow>(x >> (8 * sizeof(Narrow) * i));
    }
  }
}

template <class Wide, class Narrow>
void set_pack(Decoder& d, Type wide, Type narrow, bool packs) {
  constexpr int parts = sizeof(Wide) / sizeof(Narrow);
  const std::vector<Operand> elements = d.elements(d.operand(packs ? 1 : 0));
  if (packs) {
    d.in.d = d.result(0, wide);
    for (std::size_t i = 0; i < parts; ++i) d.in.s[i] = d.source_of(elements[i], narrow);
    if constexpr (parts == 2)
      d.in.lanes = lane_operation<Pack<Wide, Narrow, 2>, Wide, Narrow, Narrow>();
    if constexpr (parts == 4) {
      d.in.lanes = lane_operation<Pack<Wide, Narrow, 4>, Wide, Narrow, Narrow, Narrow, Narrow>();
    }
    return;
  }
  Place* places[] = {&d.in.d, &d.in.d2, &d.in.d3, &d.in.d4};
  for (std::size_t i = 0; i < parts; ++i) *places[i] = d.result_of(elements[i], bits_of(narrow));
  d.in.s[0] = d.source(1, wide);
  d.in.lanes = unpack<Wide, Narrow>;
}

void decode_vector(Decoder& d, Type type) {
  const bool packs = d.operand(1).kind == Operand::Kind::vector;
  const std::size_t parts = d.elements(d.operand(packs ? 1 : 0)).size();
  const int bits = bits_of(type);
  d.in.packs = true;
  d.in.type = type;
  d.in.vector = static_cast<std::uint8_t>(parts);
  if (parts == 2) d.in.halves = packs ? Halves::joined : Halves::parted;
  if (bits == 32 && parts == 2)
    return set_pack<std::uint32_t, std::uint16_t>(d, Type::b32, Type::b16, packs);
  if (bits == 64 && parts == 2)
    return set_pack<std::uint64_t, std::uint32_t>(d, Type::b64, Type::b32, packs);
  if (bits == 64 && parts == 4)
    return set_pack<std::uint64_t, std::uint16_t>(d, Type::b64, Type::b16, packs);
  d.refuse("a vector of " + std::to_string(parts) + " in " + std::to_string(bits) + " bits");
}

void decode_mov(Decoder& d) {
  const Type type = d.demand_type();
  d.demand_operands(2);
  const Operand& from = d.operand(1);
  if (from.kind == Operand::Kind::vector || d.operand(0).kind == Operand::Kind::vector) {
    return decode_vector(d, type);
  }
  if (from.kind == Operand::Kind::special) return decode_special(d, from.name, type);
  if (type == Type::pred) return d.set_lanes<Copy, bool, bool>(type, {type});
  const bool known = with_integer(type, [&](auto x) {
    using T = std::make_unsigned_t<decltype(x)>;
    d.set_lanes<Copy, T, T>(type, {type});
  });
  if (!known) d.refuse("of this type");
  d.in.moves = true;
  d.in.type = type;
  if (bits_of(type) >= 32) d.in.halves = Halves::each;
}

/// To a generic address and back.
struct AddWindow {
  static std::uint64_t apply(std::uint64_t a, std::uint64_t window) { return a + window; }
};
struct SubtractWindow {
  static std::uint64_t apply(std::uint64_t a, std::uint64_t window) { return a - window; }
};

std::uint64_t window_of(Decoder& d) {
  const int space = d.modifiers.choose(
      {"global", "const", "shared", "shared::cta", "local", "param", "param::entry"}, -1);
  switch (space) {
    case 0:
    case 1:
      return 0;
    case 2:
    case 3:
      return shared_window;
    case 4:
      return local_window;
    case 5:
    case 6:
      return param_window;
    default:
      d.fail("it names no space that is executed");
  }
}

void decode_cvta(Decoder& d) {
  const bool back = d.modifiers.take("to");
  const std::uint64_t window = window_of(d);
  const Type type = d.demand_type();
  if (bits_of(type) != 64) d.fail("generic addresses have 64 bits");
  d.demand_operands(2);
  d.in.d = d.result(0, type);
  d.in.s[0] = d.source(1, type);
  d.in.s[1] = d.constant(window, 64);
  d.in.lanes = back ? lane_operation<SubtractWindow, std::uint64_t, std::uint64_t, std::uint64_t>()
                    : lane_operation<AddWindow, std::uint64_t, std::uint64_t, std::uint64_t>();
}

struct IsInWindow {
  static bool apply(std::uint64_t a, std::uint64_t window) { return (a & window_mask) == window; }
};

void decode_isspacep(Decoder& d) {
  const std::uint64_t window = window_of(d);
  d.demand_operands(2);
  d.in.d = d.result(0, Type::pred);
  d.in.s[0] = d.source(1, Type::b64);
  d.in.s[1] = d.constant(window, 64);
  d.in.lanes = lane_operation<IsInWindow, bool, std::uint64_t, std::uint64_t>();
}

/// The address in the shared memory of the block of a rank, s[1], that an own one is in the
/// block's: of .shared::cluster, or generic.
Flow map_address(Warp& warp, const Instruction& in, std::uint32_t mask) {
  for (; mask != 0; mask &= mask - 1) {
    const int lane = std::countr_zero(mask);
    const std::uint32_t rank = warp.lanes<std::uint32_t>(in.s[1])[lane];
    const int size = warp.block().cluster().size();
    if (rank >= static_cast<std::uint32_t>(size)) {
      warp.fail(lane, "rank " + std::to_string(rank) + " of a cluster of " +
                          (size == 1 ? "one block" : std::to_string(size) + " blocks"));
    }
    const std::uint64_t above = std::uint64_t{rank} << rank_shift;
    if (in.wide_address) {
      const std::uint64_t own = warp.lanes<std::uint64_t>(in.s[0])[lane];
      warp.lanes<std::uint64_t>(in.d)[lane] = (own & (window_mask | shared_offset_bits)) | above;
    } else {
      const std::uint32_t own = warp.lanes<std::uint32_t>(in.s[0])[lane];
      warp.lanes<std::uint32_t>(in.d)[lane] =
          static_cast<std::uint32_t>((own & shared_offset_bits) | above);
    }
  }
  return Flow::next;
}

/// getctarank: the rank of the block whose shared memory an address lies in.
Flow find_rank(Warp& warp, const Instruction& in, std::uint32_t mask) {
  for (; mask != 0; mask &= mask - 1) {
    const int lane = std::countr_zero(mask);
    const std::uint64_t address = in.wide_address ? warp.lanes<std::uint64_t>(in.s[0])[lane]
                                                  : warp.lanes<std::uint32_t>(in.s[0])[lane];
    warp.lanes<std::uint32_t>(in.d)[lane] =
        static_cast<std::uint32_t>((address & ~window_mask) >> rank_shift);
  }
  return Flow::next;
}

void decode_mapa(Decoder& d) {
  const bool asks = d.modifiers.base() == "getctarank";
  d.modifiers.ignore({"shared::cluster"});
  const Type type = d.demand_type();
  if (bits_of(type) != 32 && bits_of(type) != 64) d.fail("it is for .u32 and .u64");
  d.demand_operands(asks ? 2 : 3);
  d.in.wide_address = bits_of(type) == 64;
  d.in.d = d.result(0, asks ? Type::u32 : type);
  d.in.s[0] = d.source(1, type);
  if (!asks) d.in.s[1] = d.source(2, Type::u32);
  d.in.act = asks ? find_rank : map_address;
}

/// A copy of registers that may be in flight.
Flow copy_sums(Warp& warp, const Instruction& in, std::uint32_t mask) {
  if (mask == 0) return Flow::next;
  warp.do_lanes(in, mask);
  const std::size_t bytes = static_cast<std::size_t>(bits_of(in.type)) / 8;
  const std::size_t part = bytes / in.vector;
  const bool joins = in.d2 == no_place;
  const std::size_t to_bytes = joins ? bytes : part, from_bytes = joins ? part : bytes;
  const Place to[] = {in.d, in.d2, in.d3, in.d4};
  const auto half = [&](const Place* places, std::size_t width, std::size_t at) {
    return simt::HalfRegister{warp.registers() + places[at / width] + at % width, width};
  };
  for (std::size_t at = 0; at < bytes; at += 2) {
    if (to[at / to_bytes] < carry_place) continue;  // nobody reads it
    warp.block().async().copy_register(warp.index(), half(to, to_bytes, at),
                                       half(in.s, from_bytes, at), mask);
  }
  return Flow::next;
}

}  // namespace

void follow_sums(Decoder& d) {
  if (d.in.moves || d.in.packs) d.in.act = copy_sums;
}

bool decode_move(Decoder& d) {
  const std::string_view base = d.modifiers.base();
  if (base == "mov") {
    decode_mov(d);
  } else if (base == "cvta") {
    decode_cvta(d);
  } else if (base == "isspacep") {
    decode_isspacep(d);
  } else if (base == "mapa" || base == "getctarank") {
    decode_mapa(d);
  } else {
    return false;
  }
  return true;
}

}  // namespace lanescope::ptx
