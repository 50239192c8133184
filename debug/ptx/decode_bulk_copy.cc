// PTX ISA, "Data Movement and Conversion Instructions: Bulk copy" and "Tensor copy": the operands
// of cp.async.bulk and of what belongs to it.

#include <cstddef>

#include "debug/ptx/atomic.h"
#include "debug/ptx/bulk_copy.h"
#include "debug/ptx/decoder.h"
#include "debug/ptx/program_builder.h"

namespace lanescope::ptx {
void take_address(Decoder& d, const Operand& operand, Space space, Place& place,
                  std::int64_t& offset, bool& wide) {
  const Instruction kept = d.in;
  d.in.space = space;
  d.address(operand);
  const Instruction taken = d.in;
  d.in = kept;
  place = taken.s[0];
  offset = taken.immediate;
  wide = taken.wide_address;
}

namespace {

/// [map, {coordinates}]: the map's address to s[1] and immediate2, coordinates behind `target`.
void take_map(Decoder& d, const Operand& operand, int rank) {
  if (operand.kind != Operand::Kind::address || operand.parts.size() != 2) {
    d.fail("[the tensor map, {its coordinates}] is expected");
  }
  bool wide = true;
  take_address(d, operand, Space::generic, d.in.s[1], d.in.immediate2, wide);
  if (!wide) d.fail("the address of a tensor map has 64 bits");
  const std::vector<Operand> coordinates = d.elements(operand.parts[1]);
  if (static_cast<int>(coordinates.size()) != rank) {
    d.fail(std::to_string(coordinates.size()) + " coordinates for a tensor of " +
           std::to_string(rank) + " dimensions");
  }
  std::vector<Place> places;
  for (const Operand& coordinate : coordinates)
    places.push_back(d.source_of(coordinate, Type::s32));
  auto& all = d.program().program().operands;
  d.in.target = static_cast<std::uint32_t>(all.size());
  d.in.vector = static_cast<std::uint8_t>(rank);
  all.insert(all.end(), places.begin(), places.end());
}

void take_shared(Decoder& d, const Operand& operand) {
  take_address(d, operand, Space::shared, d.in.s[0], d.in.immediate, d.in.wide_address);
  d.in.space = Space::shared;
}

void take_barrier(Decoder& d, const Operand& operand) {
  std::int64_t offset = 0;
  bool wide = false;
  take_address(d, operand, Space::shared, d.in.s[2], offset, wide);
  if (wide || offset != 0) d.refuse("an mbarrier's address of 64 bits, or with an offset");
}

/// The last operands of a load: the mask of a multicast, and how caches are to keep it, which says
/// nothing here. Those before them are `count`.
void take_last_operands(Decoder& d, std::size_t count) {
  const bool several = d.modifiers.take("multicast::cluster");
  const bool hinted = d.modifiers.take("L2::cache_hint");
  d.demand_operands(count + (several ? 1 : 0) + (hinted ? 1 : 0));
  d.in.kind = static_cast<std::uint8_t>(several ? CopyKind::multicast : CopyKind::load);
  if (!several) return;
  const Place mask = d.source(count, Type::b16);
  d.program().program().operands.push_back(mask);
}

bool is_store(Decoder& d) {
  return d.statement().opcode.find("global.shared") != std::string_view::npos;
}

int take_rank(Decoder& d) {
  const int rank = d.modifiers.choose({"1d", "2d", "3d", "4d", "5d"}, -1) + 1;
  if (rank == 0) d.fail("it names no number of dimensions");
  return rank;
}

void decode_tensor(Decoder& d) {
  const int rank = take_rank(d);
  d.modifiers.take("tile");
  for (const std::string_view word : d.modifiers.left()) {
    if (word.starts_with("im2col")) d.refuse("im2col");
    if (word.starts_with("tile::")) d.refuse("scattered rows");
    if (word.starts_with("cta_group")) d.refuse("of pairs of blocks");
  }
  d.modifiers.take("mbarrier::complete_tx::bytes");
  if (d.modifiers.choose({"shared::cluster", "shared::cta"}, -1) >= 0 && !is_store(d) &&
      d.modifiers.take("global")) {
    take_map(d, d.operand(1), rank);
    take_barrier(d, d.operand(2));
    take_shared(d, d.operand(0));
    take_last_operands(d, 3);
  } else if (d.modifiers.take("global") && d.modifiers.take("bulk_group")) {
    d.demand_operands(d.modifiers.take("L2::cache_hint") ? 3 : 2);
    d.in.kind = static_cast<std::uint8_t>(CopyKind::store);
    take_map(d, d.operand(0), rank);
    take_shared(d, d.operand(1));
  } else {
    d.fail(is_store(d)
               ? ".bulk_group is missing"
               : "it copies from .global to .shared::cluster, or from .shared::cta to .global");
  }
  d.in.act = copy_tensor;
}

/// From the block's shared memory into that of another one of the cluster.
void decode_send(Decoder& d) {
  if (!d.modifiers.take("shared::cluster") || !d.modifiers.take("shared::cta")) {
    d.fail("between blocks of a cluster it goes from .shared::cta to .shared::cluster");
  }
  if (!d.modifiers.take("mbarrier::complete_tx::bytes")) {
    d.fail(".mbarrier::complete_tx::bytes is missing");
  }
  d.demand_operands(4);
  const Place bytes = d.source(2, Type::u32);
  bool wide = false;
  take_address(d, d.operand(1), Space::shared, d.in.s[1], d.in.immediate2, wide);
  if (wide) d.refuse("an address of shared memory of 64 bits");
  take_barrier(d, d.operand(3));
  take_shared(d, d.operand(0));
  d.in.s[3] = bytes;
  d.in.act = send_bytes;
}

void decode_plain(Decoder& d) {
  const bool has_global = d.modifiers.take("global");
  if (!has_global) return decode_send(d);
  d.modifiers.take("mbarrier::complete_tx::bytes");
  const bool has_shared = d.modifiers.choose({"shared::cluster", "shared::cta"}, -1) >= 0;
  if (!has_shared) d.fail("it copies between .global and shared memory");
  Place bytes = no_place;
  bool wide = true;
  if (d.modifiers.take("bulk_group")) {
    d.demand_operands(d.modifiers.take("L2::cache_hint") ? 4 : 3);
    if (d.modifiers.take("cp_mask")) d.refuse("of some bytes of each 16");
    d.in.kind = static_cast<std::uint8_t>(CopyKind::store);
    bytes = d.source(2, Type::u32);
    take_address(d, d.operand(0), Space::global, d.in.s[1], d.in.immediate2, wide);
    take_shared(d, d.operand(1));
  } else {
    if (is_store(d)) d.fail(".bulk_group is missing");
    bytes = d.source(2, Type::u32);
    take_address(d, d.operand(1), Space::global, d.in.s[1], d.in.immediate2, wide);
    take_barrier(d, d.operand(3));
    take_shared(d, d.operand(0));
    d.in.target = static_cast<std::uint32_t>(d.program().program().operands.size());
    take_last_operands(d, 4);
  }
  if (!wide) d.fail("an address of global memory has 64 bits");
  d.in.s[3] = bytes;
  d.in.act = copy_bytes;
}

int take_update(Decoder& d) {
  const int update =
      d.modifiers.choose({"add", "min", "max", "inc", "dec", "and", "or", "xor"}, -1);
  if (update < 0) d.fail("it names no operation");
  return update;
}

/// cp.reduce.async.bulk.tensor: the map says what its elements are.
void decode_tensor_reduction(Decoder& d) {
  const int rank = take_rank(d);
  const int update = take_update(d);
  d.modifiers.ignore({"tile"});
  if (!d.modifiers.take("global") || !d.modifiers.take("shared::cta") ||
      !d.modifiers.take("bulk_group")) {
    d.refuse("but from .shared::cta to .global with .bulk_group");
  }
  d.demand_operands(d.modifiers.take("L2::cache_hint") ? 3 : 2);
  d.in.kind = static_cast<std::uint8_t>(CopyKind::reduce);
  take_map(d, d.operand(0), rank);
  d.program().program().operands.push_back(static_cast<Place>(update));
  take_shared(d, d.operand(1));
  d.in.act = copy_tensor;
}

/// cp.reduce.async.bulk into the shared memory of another block of the cluster.
void decode_sent_reduction(Decoder& d) {
  const int update = take_update(d);
  d.in.type = d.demand_type();
  if (const char* fault = fault_of_shared_reduction(static_cast<Update>(update), d.in.type)) {
    d.fail(fault);
  }
  d.in.kind = static_cast<std::uint8_t>(CopyKind::reduce);
  d.in.target = static_cast<std::uint32_t>(update);
  decode_send(d);
}

/// cp.reduce.async.bulk from shared to global memory.
void decode_reduction(Decoder& d) {
  d.modifiers.ignore({"reduce", "async", "bulk"});
  if (d.modifiers.take("tensor")) return decode_tensor_reduction(d);
  if (d.statement().opcode.find("shared::cluster") != std::string_view::npos) {
    return decode_sent_reduction(d);
  }
  if (!d.modifiers.take("global") || !d.modifiers.take("shared::cta") ||
      !d.modifiers.take("bulk_group")) {
    d.refuse("but from .shared::cta to .global with .bulk_group");
  }
  const bool hinted = d.modifiers.take("L2::cache_hint");
  const int update = take_update(d);
  const bool keeps_subnormal = d.modifiers.take("noftz");
  const Type type = d.demand_type();
  const bool half = type == Type::f16 || type == Type::bf16;
  if (const char* fault = fault_of_reduction(static_cast<Update>(update), type)) d.refuse(fault);
  if ((half && update == 0) != keeps_subnormal) {
    d.fail(".noftz is for .add of .f16 and .bf16, which has it");
  }
  d.demand_operands(hinted ? 4 : 3);
  const Place bytes = d.source(2, Type::u32);
  bool wide = true;
  take_address(d, d.operand(0), Space::global, d.in.s[1], d.in.immediate2, wide);
  if (!wide) d.fail("an address of global memory has 64 bits");
  take_shared(d, d.operand(1));
  d.in.s[3] = bytes;
  d.in.kind = static_cast<std::uint8_t>(CopyKind::reduce);
  d.in.target = static_cast<std::uint32_t>(update);
  d.in.type = type;
  d.in.act = copy_bytes;
}

}  // namespace

bool decode_bulk_copy(Decoder& d) {
  const std::string_view opcode = d.statement().opcode;
  if (opcode.starts_with("cp.reduce.async.bulk")) {
    decode_reduction(d);
  } else if (opcode.starts_with("cp.async.bulk.commit_group")) {
    d.modifiers.ignore({"async", "bulk", "commit_group"});
    d.demand_operands(0);
    d.in.act = commit_bulk_copies;
  } else if (opcode.starts_with("cp.async.bulk.wait_group")) {
    d.modifiers.ignore({"async", "bulk", "wait_group", "read"});
    d.demand_operands(1);
    d.in.immediate = static_cast<std::int64_t>(d.integer(0, "the number of groups"));
    d.in.act = wait_for_bulk_copies;
  } else if (opcode.starts_with("cp.async.bulk.prefetch") ||
             opcode.starts_with("prefetch.tensormap") ||
             opcode.starts_with("prefetch.param.tensormap") ||
             opcode.starts_with("prefetch.const.tensormap")) {
    while (!d.modifiers.left().empty()) d.modifiers.take(d.modifiers.left().front());
    d.in.act = do_nothing;
  } else if (opcode.starts_with("cp.async.bulk")) {
    d.modifiers.ignore({"async", "bulk"});
    d.modifiers.take("tensor") ? decode_tensor(d) : decode_plain(d);
  } else {
    return false;
  }
  return true;
}

}  // namespace lanescope::ptx
