// PTX ISA, tensormap.replace, tensormap.cp_fenceproxy and fence.proxy.tensormap: tensor maps that a
// kernel makes.

#include <bit>
#include <cstring>
#include <iterator>

#include "debug/ptx/block.h"
#include "debug/ptx/decoder.h"
#include "debug/ptx/program_builder.h"
#include "debug/ptx/tensor_map.h"
#include "debug/ptx/warp.h"

namespace lanescope::ptx {
namespace {

constexpr std::size_t map_bytes = sizeof(TensorMapBytes);

/// Tells the checker that a lane has written a map, which nobody uses where it is in shared memory.
void note_map(Warp& warp, int lane, const std::byte* map, bool releases) {
  simt::BlockChecker* checker = warp.block().checker();
  if (!checker || checker->in_shared(map, map_bytes)) return;
  warp.block().maps().write(std::bit_cast<std::uint64_t>(map), warp.moment(lane), releases);
}

enum class Field : std::uint8_t {
  global_address,
  rank,
  box_dim,
  global_dim,
  global_stride,
  element_stride,
  elemtype,
  interleave_layout,
  swizzle_mode,
  swizzle_atomicity,
  fill_mode
};

/// CUtensorMapDataType of each .elemtype of PTX, and the bytes of such an element.
struct Elements {
  std::uint8_t type, bytes;
};
constexpr Elements elements[] = {{0, 1}, {1, 2},  {2, 4}, {3, 4}, {4, 8},  {5, 8}, {6, 2},
                                 {7, 4}, {10, 4}, {8, 8}, {9, 2}, {11, 4}, {12, 4}};

void check_map(Warp& warp, Warp::Access access, std::uint32_t mask, Pointers pointers) {
  constexpr std::size_t piece = 16;
  for (std::size_t at = 0; at < map_bytes; at += piece) {
    warp.check(access, mask, piece, pointers, false);
    for (std::byte*& pointer : pointers) pointer += piece;
  }
}

/// A map of bytes that are zero has one dimension: the rank is given less one. Triton leaves it so.
TensorMapBytes of_zeroes(const TensorMapBytes& given) {
  TensorMapBytes map = given;
  map.mark = TensorMapBytes::magic;
  map.rank = 1;
  return map;
}

/// Nothing is wrong: nullptr.
const char* replace(TensorMapBytes& map, Field field, std::size_t ord, std::uint64_t value) {
  switch (field) {
    case Field::global_address:
      map.base = value;
      break;
    case Field::rank:
      if (value > 4) return "a tensor has 1 to 5 dimensions, and the rank is given less one";
      map.rank = static_cast<std::uint8_t>(value + 1);
      break;
    case Field::box_dim:
      if (value < 1 || value > 256) return "a box has 1 to 256 elements in each dimension";
      map.box[ord] = static_cast<std::uint16_t>(value);
      break;
    case Field::global_dim:
      map.size[ord] = value;
      break;
    case Field::global_stride:
      map.stride[ord] = value;
      break;
    case Field::element_stride:
      if (value < 1 || value > 8) return "a step over elements is 1 to 8";
      map.step[ord] = static_cast<std::uint8_t>(value - 1);
      break;
    case Field::elemtype:
      map.type = elements[value].type;
      map.element_bytes = elements[value].bytes;
      break;
    case Field::swizzle_mode:
      map.swizzle = static_cast<std::uint8_t>(swizzles[value]);
      break;
    case Field::fill_mode:
      map.fills_nan = static_cast<std::uint8_t>(value);
      break;
    default:
      break;
  }
  return nullptr;
}

Flow replace_field(Warp& warp, const Instruction& in, std::uint32_t mask) {
  if (mask == 0) return Flow::next;
  const auto field = static_cast<Field>(in.kind);
  const bool wide = field == Field::global_address || field == Field::global_stride;
  Pointers pointers{};
  warp.locate(in, mask, map_bytes, pointers);
  check_map(warp, Warp::Access::read, mask, pointers);
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    std::byte* at = pointers[static_cast<std::size_t>(lane)];
    TensorMapBytes map;
    std::memcpy(&map, at, map_bytes);
    if (map.mark == 0) map = of_zeroes(map);
    const char* fault = map.mark == TensorMapBytes::magic
                            ? replace(map, field, in.vector,
                                      wide ? warp.lanes<std::uint64_t>(in.s[1])[lane]
                                           : warp.lanes<std::uint32_t>(in.s[1])[lane])
                            : "its 128 bytes are neither a tensor map nor zeroes";
    if (fault) warp.fail(lane, std::string("the tensor map: ") + fault);
    std::memcpy(at, &map, map_bytes);
    note_map(warp, lane, at, false);
  }
  check_map(warp, Warp::Access::write, mask, pointers);
  return Flow::next;
}

/// A warp copies it as one: its first lane does.
Flow copy_map(Warp& warp, const Instruction& in, std::uint32_t mask) {
  if (mask == 0) return Flow::next;
  const std::uint32_t first = mask & -mask;
  const int lane = std::countr_zero(mask);
  Pointers to{}, from{};
  warp.locate(in, first, map_bytes, to);
  const std::uint64_t source = in.vector != 0 ? warp.lanes<std::uint64_t>(in.s[1])[lane]
                                              : warp.lanes<std::uint32_t>(in.s[1])[lane];
  from[static_cast<std::size_t>(lane)] = warp.locate(
      Space::shared, source + static_cast<std::uint64_t>(in.immediate2), map_bytes, lane);
  check_map(warp, Warp::Access::read, first, from);
  check_map(warp, Warp::Access::write, first, to);
  std::memcpy(to[static_cast<std::size_t>(lane)], from[static_cast<std::size_t>(lane)], map_bytes);
  note_map(warp, lane, to[static_cast<std::size_t>(lane)], true);
  return Flow::next;
}

Flow release_maps(Warp& warp, const Instruction&, std::uint32_t mask) {
  if (!warp.block().checker()) return Flow::next;
  for (; mask != 0; mask &= mask - 1) {
    warp.block().maps().release(warp.moment(std::countr_zero(mask)), warp.block().order());
  }
  return Flow::next;
}

Flow acquire_map(Warp& warp, const Instruction& in, std::uint32_t mask) {
  Pointers pointers{};
  warp.locate(in, mask, map_bytes, pointers);
  if (!warp.block().checker()) return Flow::next;
  for (; mask != 0; mask &= mask - 1) {
    const int lane = std::countr_zero(mask);
    const std::byte* map = pointers[static_cast<std::size_t>(lane)];
    warp.block().maps().acquire(std::bit_cast<std::uint64_t>(map), warp.moment(lane),
                                warp.block().order());
  }
  return Flow::next;
}

void decode_replace(Decoder& d) {
  d.modifiers.ignore({"replace", "tile", "b1024"});
  const int field = d.modifiers.choose(
      {"global_address", "rank", "box_dim", "global_dim", "global_stride", "element_stride",
       "elemtype", "interleave_layout", "swizzle_mode", "swizzle_atomicity", "fill_mode"},
      -1);
  if (field < 0) d.fail("it names no field of a tensor map");
  d.in.kind = static_cast<std::uint8_t>(field);
  const auto its = static_cast<Field>(field);
  static constexpr Space spaces[] = {Space::global, Space::shared};
  const int space = d.modifiers.choose({"global", "shared::cta"}, -1);
  d.in.space = space < 0 ? Space::generic : spaces[space];
  const Type type = d.demand_type();
  const bool wide = its == Field::global_address || its == Field::global_stride;
  if (type != (wide ? Type::b64 : Type::b32)) d.fail(wide ? ".b64 is taken" : ".b32 is taken");
  const bool counts = its >= Field::box_dim && its <= Field::element_stride;
  d.demand_operands(counts ? 3 : 2);
  d.address(d.operand(0));
  d.in.vector = 0;
  if (counts) {
    const std::uint64_t ord = d.integer(1, "the dimension");
    if (ord > (its == Field::global_stride ? 3 : 4)) d.fail("a tensor has 1 to 5 dimensions");
    d.in.vector = static_cast<std::uint8_t>(ord);
  }
  if (its >= Field::elemtype) {
    const std::uint64_t value = d.integer(1, "what the field becomes");
    if (its == Field::elemtype && value >= std::size(elements)) {
      d.refuse("elements of this type");
    }
    if (its == Field::swizzle_mode && value >= std::size(swizzles)) d.refuse("this swizzle");
    if (its == Field::fill_mode && value > 1) d.fail("it is 0, zeroes, or 1, NaN");
    if (its == Field::interleave_layout && value != 0) d.refuse("interleaving");
    if (its == Field::swizzle_atomicity && value != 0) d.refuse("another atomicity of a swizzle");
  }
  d.in.s[1] = d.source(counts ? 2 : 1, type);
  d.in.act = replace_field;
}

void decode_copy(Decoder& d) {
  d.modifiers.ignore({"cp_fenceproxy", "global", "shared::cta", "tensormap::generic", "release",
                      "cta", "cluster", "gpu", "sys", "sync", "aligned"});
  d.demand_operands(3);
  if (d.integer(2, "the bytes of a tensor map") != map_bytes) d.fail("a tensor map has 128 bytes");
  bool wide = false;
  take_address(d, d.operand(1), Space::shared, d.in.s[1], d.in.immediate2, wide);
  d.in.vector = wide ? 1 : 0;
  d.in.space = Space::global;
  d.address(d.operand(0));
  d.in.act = copy_map;
}

void decode_map_fence(Decoder& d) {
  d.modifiers.ignore({"proxy", "tensormap::generic", "cta", "cluster", "gpu", "sys"});
  if (d.modifiers.take("release")) {
    d.demand_operands(0);
    d.in.act = release_maps;
    return;
  }
  if (!d.modifiers.take("acquire")) d.fail(".release or .acquire is missing");
  d.demand_operands(2);
  if (d.integer(1, "the bytes of a tensor map") != map_bytes) d.fail("a tensor map has 128 bytes");
  d.in.space = Space::generic;
  d.address(d.operand(0));
  d.in.act = acquire_map;
}

}  // namespace

bool decode_tensor_map(Decoder& d) {
  const std::string_view opcode = d.statement().opcode;
  if (opcode.starts_with("tensormap.replace.")) {
    decode_replace(d);
  } else if (opcode.starts_with("tensormap.cp_fenceproxy.")) {
    decode_copy(d);
  } else if (opcode.starts_with("fence.proxy.tensormap::generic.")) {
    decode_map_fence(d);
  } else {
    return false;
  }
  return true;
}

}  // namespace lanescope::ptx
