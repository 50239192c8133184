// Copies of boxes of tensors between global and shared memory.

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "debug/simt/async_block.h"
#include "debug/simt/block.h"
#include "debug/simt/hopper.h"
#include "debug/simt/rounding.h"

namespace lanescope::simt {
namespace {

constexpr int most_rank = TensorMap::most_dimensions;

/// The rows of a box: runs of elements of dimension 0 that lie side by side in shared memory.
struct Box {
  const TensorMap& map;
  std::int64_t at[most_rank];
  std::size_t begin;  ///< offset in shared memory

  std::size_t row_bytes() const { return static_cast<std::size_t>(map.row_bytes()); }
  std::size_t span() const { return static_cast<std::size_t>(map.span_bytes()); }
  bool is_dense() const { return map.pitch() == map.row_bytes(); }
  int rows() const { return map.box_bytes() / map.row_bytes(); }
  /// Visits chunks of 16 bytes: visit(offset in shared memory, address in global memory or nullptr
  /// where all of it lies outside, bytes that lie inside, its coordinates). What leaves the tensor
  /// in dimension 0 within a chunk is cut off.
  template <class Visit>
  void for_each_chunk(Visit&& visit) const {
    std::int64_t c[most_rank];
    for (int row = 0; row < rows(); ++row) {
      const std::byte* from = static_cast<const std::byte*>(map.base);
      bool inside = true;
      for (int i = 1, rest = row; i < map.rank; rest /= map.count(i), ++i) {
        c[i] = at[i] + rest % map.count(i) * map.step[i];
        inside = inside && c[i] >= 0 && c[i] < map.size[i];
        from += c[i] * map.stride[i];
      }
      const std::size_t line = begin + static_cast<std::size_t>(row * map.pitch());
      for (std::size_t b = 0; b < row_bytes(); b += 16) {
        c[0] = at[0] + static_cast<std::int64_t>(b) / map.element_bytes;
        const std::int64_t left = (map.size[0] - c[0]) * map.element_bytes;
        const std::int64_t bytes = !inside || c[0] < 0 || left <= 0 ? 0 : left < 16 ? left : 16;
        visit(swizzled(map.swizzle, line + b), bytes ? from + c[0] * map.element_bytes : nullptr,
              static_cast<std::size_t>(bytes), c);
      }
    }
  }
};

/// Fails where the copy is not one that a GPU takes.
Box box_of(AsyncHost& host, const TensorMap& map, const std::int64_t* at, int rank,
           std::size_t shared, const Caller& caller) {
  Box box{map, {}, shared};
  if (rank != map.rank) {
    host.fail(caller, std::to_string(rank) + " coordinates for a tensor map of rank " +
                          std::to_string(map.rank));
  }
  if (shared > host.shared_bytes() || box.span() > host.shared_bytes() - shared) {
    host.fail(caller, "the box of " + std::to_string(box.span()) +
                          " bytes leaves the block's shared memory");
  }
  const std::size_t alignment = map.swizzle == Swizzle::none ? 16 : 128;
  if (shared % alignment != 0) {
    host.fail(caller,
              "misaligned address: a multiple of " + std::to_string(alignment) + " is needed");
  }
  // An H200 stops with an illegal instruction.
  constexpr std::int64_t unit = 16;
  const std::int64_t into_row = at[0] * map.element_bytes;
  if (map.step[0] == 1 && into_row % unit != 0) {
    host.fail(caller, "misaligned address: the box begins " + std::to_string(into_row) +
                          " bytes into a row of the tensor, and a multiple of 16 is needed");
  }
  std::copy_n(at, rank, box.at);
  return box;
}

/// The lane reads or writes, for the copy, what of the box lies in the tensor.
void check_global(AsyncHost& host, const Box& box, BlockChecker::Access access,
                  const Caller& caller) {
  BlockChecker* const checker = host.checker();
  if (checker && box.map.rank > 2) checker->copy_by({box.map.size[1], box.map.stride[2]});
  box.for_each_chunk([&](std::size_t, const std::byte* global, std::size_t bytes, const auto&) {
    if (bytes == 0 || host.access_global(access, global, bytes, caller)) return;
    host.fail(caller, "the tensor map leads outside of every buffer");
  });
  if (checker) checker->copy_by({});
}

/// visit(offset in shared memory, bytes) of all that the box takes.
template <class Visit>
void for_each_part(const Box& box, Visit&& visit) {
  if (box.is_dense()) return visit(box.begin, box.span());
  box.for_each_chunk([&](std::size_t offset, const std::byte*, std::size_t, const auto&) {
    visit(offset, std::size_t{16});
  });
}

/// What comes of a chunk of which the tensor has `bytes` bytes.
void bring(const TensorMap& map, std::byte* to, const std::byte* from, std::size_t bytes) {
  constexpr std::uint16_t none = 0x7ff7;
  std::uint16_t fill[8] = {};
  if (map.fills_nan) std::fill_n(fill, 8, none);
  std::memcpy(to, fill, 16);
  if (bytes > 0) std::memcpy(to, from, bytes);
  for (std::size_t i = 0; map.is_tf32 && i < bytes; i += 4) {
    float number;
    std::memcpy(&number, to + i, 4);
    const std::uint32_t rounded =
        round_to(tf32_format, static_cast<double>(number), Rounding::nearest_even) << 13;
    std::memcpy(to + i, &rounded, 4);
  }
}

}  // namespace

const char* fault_of(const TensorMap& map) {
  if (map.rank < 1 || map.rank > 5) return "a tensor has 1 to 5 dimensions";
  if (map.element_bytes < 1) return "its elements have no type";
  if (reinterpret_cast<std::uintptr_t>(map.base) % 16 != 0) {
    return "a tensor begins at a multiple of 16 bytes";
  }
  if (map.row_bytes() % 16 != 0) return "a row of a box is a multiple of 16 bytes";
  if (map.swizzle != Swizzle::none && map.row_bytes() > bytes_of(map.swizzle)) {
    return "a row of a box is no longer than one of the swizzle's pattern";
  }
  for (int i = 0; i < map.rank; ++i) {
    if (map.box[i] < 1 || map.box[i] > 256) return "a box has 1 to 256 elements in each dimension";
    if (map.step[i] < 1 || map.step[i] > 8) return "a step over elements is 1 to 8";
    if (map.size[i] < 1) return "a tensor has elements in each dimension";
    if (i > 0 && (map.stride[i] % 16 != 0 || map.stride[i] < 0)) {
      return "strides are multiples of 16 bytes";
    }
  }
  return nullptr;
}

void AsyncBlock::load(std::size_t to, const TensorMap& map, const std::int64_t* at, int rank,
                      MbarrierState& full, const Caller& caller) {
  BlockChecker* checker = host_.checker();
  const int thread = caller.thread;
  const Box box = box_of(host_, map, at, rank, to, caller);
  const std::uint32_t place = place_of(caller);
  if (!caller.from_outside) check_global(host_, box, BlockChecker::Access::read, caller);
  if (checker) {
    const AsyncWork work{full.agent, full.phase + 1, place, thread, caller.from_outside};
    demand_fenced(full, work);
    for_each_part(box, [&](std::size_t offset, std::size_t bytes) {
      checker->write_async(offset, bytes, work);
    });
    // What is copied as bytes has no rows that a matrix descriptor must agree with.
    const std::uint32_t copy = rank > 1 ? checker->async().next_copy() : 0;
    std::size_t bytes_before = 0;
    box.for_each_chunk([&](std::size_t offset, const void*, std::size_t, const auto& c) {
      Origin& origin = checker->async().origin(offset);
      const auto line = static_cast<std::int64_t>(bytes_before / box.row_bytes());
      bytes_before += AsyncShadow::chunk;
      origin = {copy, map.swizzle, 0, c[0], line, c[0] * map.element_bytes, {}, map.base};
      for (int i = rank - 1; i >= 1; --i) {
        origin.row = origin.row * map.size[i] + c[i];
        origin.address += c[i] * map.stride[i];
        const bool is_longer = map.stride[i] > map.size[0] * map.element_bytes;
        if (i <= 2 && is_longer) origin.pitch[i - 1] = map.stride[i];
      }
    });
  }
  // The map may lie in the lane's own memory.
  deliver(full, map.box_bytes(), caller, [=, this, own = map] {
    const Box arriving{own, {box.at[0], box.at[1], box.at[2], box.at[3], box.at[4]}, box.begin};
    const bool followed = host_.follows_copies();
    arriving.for_each_chunk(
        [&](std::size_t offset, const std::byte* global, std::size_t bytes, const auto&) {
          std::byte* chunk = host_.shared_memory() + offset;
          bring(own, chunk, global, bytes);
          if (!followed) return;
          host_.note_copied(chunk, global, bytes, false, caller);
          host_.note_copied(chunk + bytes, nullptr, 16 - bytes, false, caller);
        });
    for_each_part(arriving, [&](std::size_t offset, std::size_t bytes) {
      host_.note_written(offset, bytes);
    });
  });
}

void AsyncBlock::store(const TensorMap& map, const std::int64_t* at, int rank, std::size_t from,
                       const Caller& caller, const Reduction& reduce, bool again) {
  const int thread = caller.thread;
  const Box box = box_of(host_, map, at, rank, from, caller);
  if (at[0] < 0) {  // an H200 stops with an illegal instruction
    host_.fail(caller, "the box of a store begins before the rows of the tensor");
  }
  LaneStores& stores = this->stores(thread);
  const std::uint32_t place = place_of(caller);
  if (BlockChecker* checker = host_.checker()) {
    if (stores.agent == 0) stores.agent = checker->add_agent(thread);
    const auto clock = stores.groups_done + static_cast<std::uint32_t>(stores.groups.size()) + 1;
    for_each_part(box, [&](std::size_t offset, std::size_t bytes) {
      checker->read_async(offset, bytes, {stores.agent, clock, place, thread});
    });
  }
  using enum BlockChecker::Access;
  if (!again) check_global(host_, box, reduce ? update : write, caller);
  const auto flight = std::make_shared<Flight>();
  flight->place = place;
  flight->land = [=, this, own = map] {
    const Box leaving{own, {box.at[0], box.at[1], box.at[2], box.at[3], box.at[4]}, box.begin};
    const bool followed = host_.follows_copies();
    leaving.for_each_chunk(
        [&](std::size_t offset, const std::byte* global, std::size_t bytes, const auto&) {
          if (bytes == 0) return;
          auto* to = const_cast<std::byte*>(global);
          const std::byte* source = host_.shared_memory() + offset;
          reduce ? reduce(to, source, bytes) : void(std::memcpy(to, source, bytes));
          if (followed) host_.note_copied(to, source, bytes, reduce != nullptr, caller);
        });
  };
  stores.open.push_back(flight);
  enqueue(flight);
}

void AsyncBlock::commit_stores(int thread) {
  LaneStores& stores = this->stores(thread);
  stores.groups.push_back(std::move(stores.open));
  stores.open.clear();
}

void AsyncBlock::wait_stores(int pending, int thread) {
  LaneStores& stores = this->stores(thread);
  while (static_cast<int>(stores.groups.size()) > pending) {
    for (const auto& flight : stores.groups.front()) land(*flight);
    stores.groups.pop_front();
    ++stores.groups_done;
  }
  BlockChecker* checker = host_.checker();
  if (checker && stores.agent != 0) {
    checker->clocks().learn(thread, stores.agent, stores.groups_done);
  }
}

namespace {

std::size_t offset_of(const void* shared) {
  return static_cast<std::size_t>(static_cast<const std::byte*>(shared) -
                                  BlockRunner::current()->shared_memory());
}

}  // namespace

void tensor_load(void* to, const TensorMap& map, const int* at, int rank, Mbarrier& barrier,
                 Here here) {
  BlockRunner& runner = *BlockRunner::current();
  const Caller caller{runner.thread_index(), "tensor_load", here, __builtin_return_address(0)};
  const std::vector<std::int64_t> first(at, at + rank);
  runner.async().load(offset_of(to), map, first.data(), rank,
                      runner.async().barrier(offset_of(&barrier), caller), caller);
}

void tensor_store(const TensorMap& map, const int* at, int rank, const void* from, Here here) {
  BlockRunner& runner = *BlockRunner::current();
  const Caller caller{runner.thread_index(), "tensor_store", here, __builtin_return_address(0)};
  const std::vector<std::int64_t> first(at, at + rank);
  runner.async().store(map, first.data(), rank, offset_of(from), caller);
}

void commit_stores() {
  BlockRunner& runner = *BlockRunner::current();
  runner.async().commit_stores(runner.thread_index());
}

void wait_stores(int pending) {
  BlockRunner& runner = *BlockRunner::current();
  runner.async().wait_stores(pending, runner.thread_index());
}

}  // namespace lanescope::simt
