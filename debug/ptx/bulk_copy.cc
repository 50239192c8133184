// PTX ISA, "Data Movement and Conversion Instructions: Bulk copy" and "Tensor copy":
// cp.async.bulk and what belongs to it.

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <iterator>
#include <vector>

#include "debug/ptx/atomic.h"
#include "debug/ptx/block.h"
#include "debug/ptx/cluster.h"
#include "debug/ptx/decoder.h"
#include "debug/ptx/program_builder.h"
#include "debug/ptx/tensor_map.h"
#include "debug/ptx/warp.h"

namespace lanescope::ptx {

std::optional<simt::TensorMap> read_tensor_map(const void* bytes) {
  TensorMapBytes from;
  std::memcpy(&from, bytes, sizeof from);
  if (from.mark != TensorMapBytes::magic) return std::nullopt;
  simt::TensorMap map{
      std::bit_cast<const void*>(from.base),   from.element_bytes, from.rank, {}, {}, {},
      static_cast<simt::Swizzle>(from.swizzle)};
  for (int i = 0; i < from.rank; ++i) {
    map.size[i] = static_cast<std::int64_t>(from.size[i]);
    map.stride[i] = i == 0 ? from.element_bytes : static_cast<std::int64_t>(from.stride[i - 1]);
    map.box[i] = from.box[i];
  }
  return map;
}

TensorElements elements_of_tensor(const void* bytes) {
  TensorMapBytes from;
  std::memcpy(&from, bytes, sizeof from);
  // By CUtensorMapDataType; the last two are tf32.
  static constexpr Type types[] = {Type::u8,  Type::u16, Type::u32, Type::s32, Type::u64,
                                   Type::s64, Type::f16, Type::f32, Type::f64, Type::bf16,
                                   Type::f32, Type::b32, Type::b32};
  constexpr std::uint8_t flushing = 10;
  return {from.type < std::size(types) ? types[from.type] : Type::b8, from.type == flushing};
}

namespace {

template <class F>
void each_lane(std::uint32_t mask, F&& f) {
  for (; mask != 0; mask &= mask - 1) f(std::countr_zero(mask));
}

/// Sources in s[]: the address in shared memory, that of the tensor map or of global memory, the
/// mbarrier of a load; then coordinates, or the bytes of a plain copy, in the order of the
/// operands.
enum class CopyKind : std::uint8_t { load, store, multicast, reduce };

/// Loads into the shared memory of a block of the cluster; a multicast into that of all blocks in
/// the mask `blocks`, at the same offsets.
void load(Warp& warp, const Instruction& in, const simt::TensorMap& map, const std::int64_t* at,
          int rank, Place blocks, simt::Caller caller) {
  const int lane = caller.thread % 32;
  const auto to = warp.shared_place(in.space, warp.address_of(in, lane), 1, lane);
  const std::uint32_t address = warp.lanes<std::uint32_t>(in.s[2])[lane];
  const auto barrier = warp.shared_place(Space::shared, address, 8, lane);
  if (to.block != barrier.block) {
    warp.fail(lane, "the copy and its mbarrier lie in different blocks of the cluster");
  }
  Cluster& cluster = warp.block().cluster();
  std::uint32_t ranks = 1u << to.block->rank();
  if (blocks != no_place) ranks = warp.lanes<std::uint16_t>(blocks)[lane];
  if (ranks >> cluster.size() != 0) {
    warp.fail(lane, "the mask of a multicast names rank " +
                        std::to_string(std::bit_width(ranks) - 1) + " of a cluster of " +
                        std::to_string(cluster.size()));
  }
  each_lane(ranks, [&](int number) {
    Block& block = cluster.block(number);
    if (block.alive() == 0) {
      warp.fail(lane, "the block of rank " + std::to_string(number) + " has exited");
    }
    caller.from_outside = &block != &warp.block();
    simt::AsyncBlock& async = block.async();
    async.load(to.offset, map, at, rank, async.barrier(barrier.offset, caller), caller);
  });
}

simt::Reduction reduction_of(Update update, TensorElements elements) {
  return [=](std::byte* to, const std::byte* from, std::size_t bytes) {
    update_elements(update, elements.type, to, from, bytes, elements.flushes);
  };
}

/// Stores that the lanes before have issued with this instruction: what one writes, another writes
/// as well.
class IssuedStores {
 public:
  bool again(const std::array<std::uint64_t, 7>& store) {
    const bool known = std::find(stores_.begin(), stores_.end(), store) != stores_.end();
    if (!known) stores_.push_back(store);
    return known;
  }

 private:
  std::vector<std::array<std::uint64_t, 7>> stores_;
};

/// `vector` coordinates lie in Program::operands from `target` on, behind them a multicast's mask,
/// or the Update of a reduction.
Flow copy_tensor(Warp& warp, const Instruction& in, std::uint32_t mask) {
  simt::AsyncBlock& async = warp.block().async();
  IssuedStores issued;
  each_lane(mask, [&](int lane) {
    const simt::Caller caller = warp.caller(lane);
    const std::uint64_t map_at =
        warp.lanes<std::uint64_t>(in.s[1])[lane] + static_cast<std::uint64_t>(in.immediate2);
    const std::byte* map_bytes = warp.locate(Space::generic, map_at, 128, lane);
    const auto map = read_tensor_map(map_bytes);
    if (!map) {
      warp.fail(lane, "the 128 bytes of the tensor map are not what cuTensorMapEncodeTiled wrote");
    }
    std::int64_t at[5] = {};
    for (std::size_t i = 0; i < in.vector; ++i) {
      const Place place = warp.program().operands[in.target + i];
      at[i] = warp.lanes<std::int32_t>(place)[lane];
    }
    if (in.kind == static_cast<std::uint8_t>(CopyKind::store)) {
      const std::size_t from = warp.shared_offset(in, 1, lane);
      std::array<std::uint64_t, 7> store = {map_at, from};
      std::copy_n(at, 5, store.begin() + 2);
      return async.store(*map, at, in.vector, from, caller, {}, issued.again(store));
    }
    if (in.kind == static_cast<std::uint8_t>(CopyKind::reduce)) {
      const auto update = static_cast<Update>(warp.program().operands[in.target + in.vector]);
      const TensorElements elements = elements_of_tensor(map_bytes);
      if (const char* fault = fault_of_reduction(update, elements.type)) {
        warp.fail(lane,
                  std::string("there is no such reduction of the tensor's elements: ") + fault);
      }
      return async.store(*map, at, in.vector, warp.shared_offset(in, 1, lane), caller,
                         reduction_of(update, elements));
    }
    const bool several = in.kind == static_cast<std::uint8_t>(CopyKind::multicast);
    const Place blocks = several ? warp.program().operands[in.target + in.vector] : no_place;
    load(warp, in, *map, at, in.vector, blocks, caller);
  });
  return Flow::next;
}

/// The bytes in s[3]; a multicast's mask in Program::operands at `target`, which of a reduction is
/// the Update.
Flow copy_bytes(Warp& warp, const Instruction& in, std::uint32_t mask) {
  simt::AsyncBlock& async = warp.block().async();
  IssuedStores issued;
  each_lane(mask, [&](int lane) {
    const simt::Caller caller = warp.caller(lane);
    const std::uint32_t bytes = warp.lanes<std::uint32_t>(in.s[3])[lane];
    const std::uint64_t global =
        warp.lanes<std::uint64_t>(in.s[1])[lane] + static_cast<std::uint64_t>(in.immediate2);
    if (bytes % 16 != 0 || global % 16 != 0) {
      warp.fail(lane, std::to_string(bytes) + " bytes, and addresses, must be multiples of 16",
                FaultKind::misaligned_address);
    }
    if (bytes == 0) return;
    const simt::TensorMap map{std::bit_cast<const void*>(global),
                              1,
                              1,
                              {static_cast<std::int64_t>(bytes)},
                              {1},
                              {static_cast<int>(bytes)},
                              simt::Swizzle::none};
    const std::int64_t at[5] = {};
    if (in.kind == static_cast<std::uint8_t>(CopyKind::store)) {
      const std::size_t from = warp.shared_offset(in, 1, lane);
      return async.store(map, at, 1, from, caller, {}, issued.again({global, from, bytes}));
    }
    if (in.kind == static_cast<std::uint8_t>(CopyKind::reduce)) {
      return async.store(map, at, 1, warp.shared_offset(in, 1, lane), caller,
                         reduction_of(static_cast<Update>(in.target), {in.type, false}));
    }
    const bool several = in.kind == static_cast<std::uint8_t>(CopyKind::multicast);
    load(warp, in, map, at, 1, several ? warp.program().operands[in.target] : no_place, caller);
  });
  return Flow::next;
}

Flow commit(Warp& warp, const Instruction&, std::uint32_t mask) {
  each_lane(mask, [&](int lane) { warp.block().async().commit_stores(warp.thread(lane)); });
  return Flow::next;
}

Flow wait(Warp& warp, const Instruction& in, std::uint32_t mask) {
  each_lane(mask, [&](int lane) {
    simt::AsyncBlock& async = warp.block().async();
    const auto pending = static_cast<int>(in.immediate);
    warp.tally_wait(static_cast<int>(async.stores(warp.thread(lane)).groups.size()) > pending);
    async.wait_stores(pending, warp.thread(lane));
  });
  return Flow::next;
}

Flow do_nothing(Warp&, const Instruction&, std::uint32_t) { return Flow::next; }

/// The address that an operand is goes to `place`, its offset to `offset`.
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

void decode_plain(Decoder& d) {
  d.modifiers.take("mbarrier::complete_tx::bytes");
  const bool has_global = d.modifiers.take("global");
  const bool has_shared = d.modifiers.choose({"shared::cluster", "shared::cta"}, -1) >= 0;
  if (!has_global || !has_shared) d.refuse("between the blocks of a cluster");
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

/// cp.reduce.async.bulk from shared to global memory.
void decode_reduction(Decoder& d) {
  d.modifiers.ignore({"reduce", "async", "bulk"});
  if (d.modifiers.take("tensor")) return decode_tensor_reduction(d);
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
    d.in.act = commit;
  } else if (opcode.starts_with("cp.async.bulk.wait_group")) {
    d.modifiers.ignore({"async", "bulk", "wait_group", "read"});
    d.demand_operands(1);
    d.in.immediate = static_cast<std::int64_t>(d.integer(0, "the number of groups"));
    d.in.act = wait;
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
