// PTX ISA, mov, cvta, isspacep, and the special registers.

#include <chrono>

#include "debug/ptx/block.h"
#include "debug/ptx/decoder.h"
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

enum class Special : std::uint8_t {
  tid,
  ntid,
  ctaid,
  nctaid,
  laneid,
  warpid,
  nwarpid,
  lanemask_eq,
  lanemask_lt,
  lanemask_le,
  lanemask_gt,
  lanemask_ge,
  clock,
  globaltimer,
  dynamic_shared,
  total_shared,
  zero,
  one,
};

std::uint64_t value_of(Warp& warp, Special special, int axis, int lane) {
  const Grid& grid = warp.block().grid();
  const auto i = static_cast<std::size_t>(axis);
  const auto thread = static_cast<std::uint32_t>(warp.thread(lane));
  const std::uint32_t bit = 1u << lane;
  switch (special) {
    case Special::tid: {
      const std::uint32_t x = grid.threads[0], y = grid.threads[1];
      return axis == 0 ? thread % x : axis == 1 ? thread / x % y : thread / x / y;
    }
    case Special::ntid:
      return grid.threads[i];
    case Special::ctaid:
      return warp.block().coordinates()[i];
    case Special::nctaid:
      return grid.blocks[i];
    case Special::laneid:
      return static_cast<std::uint64_t>(lane);
    case Special::warpid:
      return static_cast<std::uint64_t>(warp.index());
    case Special::nwarpid:
      return static_cast<std::uint64_t>((grid.thread_count() + 31) / 32);
    case Special::lanemask_eq:
      return bit;
    case Special::lanemask_lt:
      return bit - 1;
    case Special::lanemask_le:
      return bit | (bit - 1);
    case Special::lanemask_gt:
      return ~(bit | (bit - 1));
    case Special::lanemask_ge:
      return ~(bit - 1);
    case Special::clock:  // a cycle per instruction: the same in every run
      return static_cast<std::uint64_t>(warp.instructions());
    case Special::globaltimer:
      return static_cast<std::uint64_t>(
          std::chrono::steady_clock::now().time_since_epoch().count());
    case Special::dynamic_shared:
      return grid.dynamic_shared;
    case Special::total_shared:
      return warp.block().shared_bytes();
    case Special::one:
      return 1;
    default:
      return 0;
  }
}

Flow read_special(Warp& warp, const Instruction& in, std::uint32_t mask) {
  const auto special = static_cast<Special>(in.kind);
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    const std::uint64_t value = value_of(warp, special, static_cast<int>(in.immediate), lane);
    const int bits = bits_of(in.type);
    if (bits == 64) warp.lanes<std::uint64_t>(in.d)[lane] = value;
    if (bits == 32) warp.lanes<std::uint32_t>(in.d)[lane] = static_cast<std::uint32_t>(value);
    if (bits == 16) warp.lanes<std::uint16_t>(in.d)[lane] = static_cast<std::uint16_t>(value);
  }
  return Flow::next;
}

void decode_special(Decoder& d, std::string_view name, Type type) {
  static constexpr std::pair<std::string_view, Special> specials[] = {
      {"%tid", Special::tid},
      {"%ntid", Special::ntid},
      {"%ctaid", Special::ctaid},
      {"%nctaid", Special::nctaid},
      {"%laneid", Special::laneid},
      {"%warpid", Special::warpid},
      {"%nwarpid", Special::nwarpid},
      {"%lanemask_eq", Special::lanemask_eq},
      {"%lanemask_lt", Special::lanemask_lt},
      {"%lanemask_le", Special::lanemask_le},
      {"%lanemask_gt", Special::lanemask_gt},
      {"%lanemask_ge", Special::lanemask_ge},
      {"%clock", Special::clock},
      {"%clock64", Special::clock},
      {"%globaltimer", Special::globaltimer},
      {"%globaltimer_lo", Special::globaltimer},
      {"%dynamic_smem_size", Special::dynamic_shared},
      {"%total_smem_size", Special::total_shared},
      {"%smid", Special::zero},
      {"%gridid", Special::zero},
      {"%nsmid", Special::one},
      // A block alone is a cluster of its own.
      {"%cluster_ctaid", Special::zero},
      {"%cluster_ctarank", Special::zero},
      {"%cluster_nctaid", Special::one},
      {"%cluster_nctarank", Special::one},
      {"%clusterid", Special::ctaid},
      {"%nclusterid", Special::nctaid}};
  int axis = 0;
  std::string_view stem = name;
  if (name.ends_with(".x") || name.ends_with(".y") || name.ends_with(".z")) {
    axis = name.back() - 'x';
    stem.remove_suffix(2);
  }
  d.demand_operands(2);
  d.in.type = type;
  d.in.d = d.result(0, type);
  d.in.immediate = axis;
  d.in.act = read_special;
  if (name == "WARP_SZ") {
    d.in.s[0] = d.constant(32, bits_of(type));
    d.in.act = nullptr;
    with_integer(type,
                 [&](auto x) { d.in.lanes = lane_operation<Copy, decltype(x), decltype(x)>(); });
    return;
  }
  for (const auto& [known, special] : specials) {
    if (stem != known) continue;
    d.in.kind = static_cast<std::uint8_t>(special);
    return;
  }
  d.refuse("the special register " + std::string(name));
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

/// An address in the block of a rank of the cluster: a block alone is of rank 0.
Flow map_address(Warp& warp, const Instruction& in, std::uint32_t mask) {
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    if (const std::uint32_t rank = warp.lanes<std::uint32_t>(in.s[1])[lane]; rank != 0) {
      warp.fail(lane, "rank " + std::to_string(rank) + " of a cluster of one block");
    }
    if (in.wide_address) {
      warp.lanes<std::uint64_t>(in.d)[lane] = warp.lanes<std::uint64_t>(in.s[0])[lane];
    } else {
      warp.lanes<std::uint32_t>(in.d)[lane] = warp.lanes<std::uint32_t>(in.s[0])[lane];
    }
  }
  return Flow::next;
}

void decode_mapa(Decoder& d) {
  const bool asks = d.modifiers.base() == "getctarank";
  d.modifiers.ignore({"shared::cluster"});
  const Type type = d.demand_type();
  if (bits_of(type) != 32 && bits_of(type) != 64) d.fail("it is for .u32 and .u64");
  d.demand_operands(asks ? 2 : 3);
  if (asks) {
    d.in.d = d.result(0, Type::u32);
    d.in.s[0] = d.constant(0, 32);
    d.in.lanes = lane_operation<Copy, std::uint32_t, std::uint32_t>();
    return;
  }
  d.in.wide_address = bits_of(type) == 64;
  d.in.d = d.result(0, type);
  d.in.s[0] = d.source(1, type);
  d.in.s[1] = d.source(2, Type::u32);
  d.in.act = map_address;
}

}  // namespace

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
