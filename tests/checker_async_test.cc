// The memory checker on asynchronous work: a pipeline of copies and products that is right, and
// what is found where one thing in it is not.

#include <algorithm>
#include <set>
#include <string>

#include "kernels/device/hopper.h"
#include "tests/support/checked_block.h"

namespace device = lanescope::device;
namespace simt = lanescope::simt;
using namespace lanescope::testing;
using Catch::Matchers::ContainsSubstring;
using device::f16;
using device::Major;

namespace {

enum class Bug {
  none,
  barrier_not_fenced,
  barrier_overwritten,
  barrier_initialised_twice,
  expects_too_little,
  expects_too_much,
  wrong_parity,
  counter_as_parity,
  phase_not_carried,
  no_wait_for_tile,
  runs_ahead,  // does not wait for tiles, and releases them for others
  fills_without_waiting,
  waits_in_first_round,
  counts_one_of_four,
  tile_released_early,
  tile_released_twice,
  one_warp_releases_for_all,  // right: a product is complete for its whole warpgroup
  rows_of_two_heads,          // right: the rows of a box follow each other, whatever they are of
  descriptor_swizzle,
  descriptor_stride,
  descriptor_goes_on,
  descriptor_major,
  descriptor_rows,
  descriptor_start,
  map_box_shifted,
  accumulator_read,
  accumulator_written,
  fragment_written,
  no_register_fence,
  wait_too_weak,
  generic_write_to_operand,
  store_not_fenced,
  store_of_other_lanes,
  store_not_waited,
  source_overwritten,
  named_barrier_count,
  registers_not_given_back,
};

constexpr int tiles = 5, ring = 2, rows = 64, cols = 64;
using Tile = device::TensorTile<f16, rows, cols>;
using Output = device::Accumulator<1, cols / 8>;

struct Memory {
  Tile a, b[ring], out;
  device::Mbarrier a_full, full[ring], empty[ring];
};

/// out = a · Σ bᵀ over the tiles of b: 128 threads multiply, one of those behind them loads.
struct Pipeline {
  Bug bug;
  device::TensorMap a, b, out;

  bool has(Bug other) const { return bug == other; }

  void init(Memory& smem) const {
    device::mbarrier_init(smem.a_full, 1);
    for (int i = 0; i < ring; ++i) {
      device::mbarrier_init(smem.full[i], 1);
      const bool one = has(Bug::one_warp_releases_for_all) || has(Bug::counts_one_of_four);
      device::mbarrier_init(smem.empty[i], one ? 1 : 4);
    }
    if (has(Bug::barrier_initialised_twice)) device::mbarrier_init(smem.full[0], 1);
    if (!has(Bug::barrier_not_fenced)) device::fence_mbarrier_init();
    if (has(Bug::barrier_overwritten)) {
      using Word [[gnu::may_alias]] = int;
      *reinterpret_cast<Word*>(&smem.empty[1]) = 7;
    }
  }

  void produce(Memory& smem) const {
    device::mbarrier_arrive_expect_tx(smem.a_full, Tile::bytes);
    if (has(Bug::rows_of_two_heads)) {
      device::tensor_load(smem.a.x, a, {0, 0, 0}, smem.a_full);
    } else {
      device::tensor_load(smem.a.x, a, {0, 0}, smem.a_full);
    }
    for (int tile = 0; tile < tiles; ++tile) {
      const int slot = tile % ring, round = tile / ring;
      const int parity = has(Bug::wrong_parity)        ? round % 2
                         : has(Bug::counter_as_parity) ? round + 1
                         : has(Bug::phase_not_carried) ? 1
                                                       : round % 2 ^ 1;
      const bool is_open = has(Bug::waits_in_first_round) && round > 0;
      if (!has(Bug::fills_without_waiting) && !is_open) {
        device::mbarrier_wait(smem.empty[slot], parity);
      }
      const int bytes = has(Bug::expects_too_little) ? Tile::bytes / 2
                        : has(Bug::expects_too_much) ? Tile::bytes * 2
                                                     : Tile::bytes;
      device::mbarrier_arrive_expect_tx(smem.full[slot], bytes);
      const int first = tile * rows;
      if (has(Bug::expects_too_little)) {  // in two halves
        device::tensor_load(smem.b[slot].x, half(), {0, first}, smem.full[slot]);
        device::tensor_load(smem.b[slot].x[0][rows / 2], half(), {0, first + rows / 2},
                            smem.full[slot]);
      } else if (has(Bug::map_box_shifted)) {
        device::tensor_load(smem.b[slot].x, half(), {0, first}, smem.full[slot]);
        device::tensor_load(smem.b[slot].x[0][rows / 2], half(), {0, first + rows},
                            smem.full[slot]);
      } else {
        device::tensor_load(smem.b[slot].x, b, {0, first}, smem.full[slot]);
      }
    }
  }
  device::TensorMap half() const {
    device::TensorMap map = b;
    map.box[1] = rows / 2;
    return map;
  }

  void consume(Memory& smem) const {
    Output o;
    std::uint32_t fragment[4] = {};
    o.fill(0.0f);
    device::mbarrier_wait(smem.a_full, 0);
    for (int tile = 0; tile < tiles; ++tile) {
      const int slot = tile % ring;
      const bool waits = !has(Bug::no_wait_for_tile) && !has(Bug::runs_ahead);
      if (waits) device::mbarrier_wait(smem.full[slot], tile / ring % 2);
      if (has(Bug::generic_write_to_operand)) {
        smem.b[slot].at(device::thread() / 2, 0) = {0};
        device::barrier_sync(1, 128);
      }
      if (has(Bug::accumulator_written) || tile == 0) o[0] = o[0] + 0.0f;
      if (!has(Bug::no_register_fence)) device::wgmma_fence();
      multiply(smem, slot, fragment, o);
      if (has(Bug::tile_released_early)) release(smem, slot);
      const bool twice = has(Bug::tile_released_twice) || has(Bug::runs_ahead);
      if (twice && device::warp() == 0) {
        for (int i = 0; i < 4; ++i) release(smem, slot);
      }
      if (has(Bug::accumulator_read)) use(o[1] > 0);
      if (has(Bug::accumulator_written)) o[2] = 0;
      if (has(Bug::fragment_written)) fragment[1] = 5;
      if (has(Bug::wait_too_weak)) {
        device::wgmma_wait<1>();
      } else {
        device::wgmma_wait<0>();
      }
      if (has(Bug::no_register_fence)) o[3] = o[3] * 0.5f;
      if (!has(Bug::tile_released_early) && !has(Bug::tile_released_twice)) {
        if (!has(Bug::one_warp_releases_for_all) || device::warp() == 0) release(smem, slot);
      }
    }
    if (has(Bug::wait_too_weak)) device::wgmma_wait<0>();
    store(smem, o);
  }

  void release(Memory& smem, int slot) const {
    device::warp_sync();
    if (device::lane() == 0) device::mbarrier_arrive(smem.empty[slot]);
  }

  void multiply(Memory& smem, int slot, const std::uint32_t (&fragment)[4], Output& o) const {
    const auto swizzle =
        has(Bug::descriptor_swizzle) ? device::Swizzle::b64 : device::Swizzle::b128;
    const int stride = has(Bug::descriptor_stride)    ? 512
                       : has(Bug::descriptor_goes_on) ? 2048
                                                      : 1024;
    for (int k = 0; k < cols; k += 16) {
      const auto at = [&](Tile& tile) {
        return device::matrix_descriptor(device::shared_address(&tile.x[0][0][k]), 16, stride,
                                         swizzle);
      };
      if (has(Bug::descriptor_major)) {
        device::wgmma<f16, Major::row, Major::col>(o.x, at(smem.a), at(smem.b[slot]), true);
        continue;
      }
      if (has(Bug::descriptor_start)) {
        const std::uint64_t odd = at(smem.b[slot]) + 7;  // 112 bytes on: the next 16 of a row
        device::wgmma<f16, Major::row, Major::row>(o.x, at(smem.a), odd, true);
        continue;
      }
      if (has(Bug::descriptor_rows)) {
        const std::uint64_t rows_on = at(smem.b[slot]) - k * 2 / 16 + k * 128 / 16;
        device::wgmma<f16, Major::row, Major::row>(o.x, at(smem.a), rows_on, true);
        continue;
      }
      device::wgmma<f16, Major::row, Major::row>(o.x, at(smem.a), at(smem.b[slot]), true);
    }
    if (has(Bug::fragment_written)) {
      const auto b = device::matrix_descriptor(device::shared_address(&smem.b[slot].x[0][0][0]),
                                               Tile::box_bytes, 1024, device::Swizzle::b128);
      device::wgmma<f16, Major::col>(o.x, fragment, b, true);
    }
    device::wgmma_commit();
  }

  void store(Memory& smem, const Output& o) const {
    Tile& staged = smem.out;
    for (int i = 0; i < Output::count; ++i) {
      const device::Coordinate c = Output::coordinate(device::lane(), i);
      staged.at(device::warp() * 16 + c.row, c.col) = device::narrow<f16>(o[i]);
    }
    if (!has(Bug::store_not_fenced)) device::fence_proxy_async();
    if (!has(Bug::store_of_other_lanes)) {
      device::barrier_sync(1, has(Bug::named_barrier_count) && device::warp() > 1 ? 64 : 128);
    }
    if (device::thread() != 0) return;
    device::tensor_store(out, {0, 0}, staged.x);
    device::commit_stores();
    if (has(Bug::source_overwritten)) staged.at(5, 5) = {0};
    if (!has(Bug::store_not_waited)) device::wait_stores_read<0>();
  }

  void operator()() const {
    Memory& smem = *reinterpret_cast<Memory*>(simt::shared_memory());
    if (device::thread() == 0) init(smem);
    device::block_sync();
    if (device::thread() < 128) {
      device::increase_registers<240>();
      consume(smem);
    } else {
      if (!has(Bug::registers_not_given_back)) device::decrease_registers<24>();
      if (device::thread() == 128) produce(smem);
    }
  }
};

struct Run {
  Global<f16> a{2 * rows * cols}, b{tiles * rows * cols}, out{rows * cols};
  std::unique_ptr<Result> result;

  explicit Run(Bug bug, std::uint64_t schedule = 0) {
    for (int i = 0; i < 2 * rows * cols; ++i) a.data()[i] = device::narrow<f16>(float(i % 3));
    for (int i = 0; i < tiles * rows * cols; ++i) {
      b.data()[i] = device::narrow<f16>(float(i % 5 - 2));
    }
    Pipeline pipeline{bug, map(a, rows), map(b, tiles * rows), map(out, rows)};
    if (bug == Bug::rows_of_two_heads) {
      REQUIRE(device::make_tensor_map<f16>(pipeline.a, a.data(), {cols, rows, 2},
                                           {cols * 2, rows * cols * 2}, {cols, rows / 2, 2},
                                           device::Swizzle::b128) == nullptr);
    }
    result = check(
        pipeline,
        {a.region("a", Use::input), b.region("b", Use::input), out.region("out", Use::output_once)},
        1, schedule, 1, 384, sizeof(Memory));
  }
  static device::TensorMap map(const Global<f16>& buffer, int length) {
    device::TensorMap map;
    const char* error = device::make_tensor_map<f16>(map, buffer.data(), {cols, length}, {cols * 2},
                                                     {cols, rows}, device::Swizzle::b128);
    REQUIRE(error == nullptr);
    return map;
  }
  bool found(Kind kind) const {
    const auto kinds = result->kinds();
    return std::count(kinds.begin(), kinds.end(), kind) > 0;
  }
};

}  // namespace

TEST_CASE("async checker: a right pipeline is clean, whatever the schedule") {
  // A product is complete for all four warps of a warpgroup at once.
  const auto right = GENERATE(Bug::none, Bug::one_warp_releases_for_all);
  for (const std::uint64_t schedule : {0, 1, 2, 3}) {
    const Run run(right, schedule);
    INFO(run.result->fault);
    CHECK(run.result->fault.empty());
    CHECK(run.result->kinds().empty());
    for (int i = 0; i < rows; ++i) {
      for (int j = 0; j < cols; ++j) {
        float want = 0;
        for (int t = 0; t < tiles; ++t) {
          for (int k = 0; k < cols; ++k) {
            want += float((i * cols + k) % 3) * float(((t * rows + j) * cols + k) % 5 - 2);
          }
        }
        REQUIRE(device::widen(run.out.data()[i * cols + j]) == want);
      }
    }
  }
}

TEST_CASE("async checker: a tile of the rows of two heads lies as it was copied") {
  const Run run(Bug::rows_of_two_heads);
  INFO(run.result->fault);
  CHECK(run.result->fault.empty());
  CHECK(run.result->kinds().empty());
}

TEST_CASE("async checker: one thing wrong is found, and called by its name") {
  const struct {
    Bug bug;
    Kind kind;
    Kind or_kind = Kind::none;  ///< as the lanes run
  } cases[] = {
      {Bug::barrier_not_fenced, Kind::unfenced_barrier},
      {Bug::barrier_overwritten, Kind::barrier_overwritten},
      {Bug::expects_too_little, Kind::wrong_expect_tx},
      {Bug::no_wait_for_tile, Kind::missing_wait},
      {Bug::tile_released_early, Kind::operand_overwritten},
      {Bug::tile_released_twice, Kind::double_arrival},
      {Bug::descriptor_swizzle, Kind::layout_disagrees},
      {Bug::descriptor_stride, Kind::layout_disagrees},
      {Bug::descriptor_goes_on, Kind::layout_disagrees},
      {Bug::descriptor_major, Kind::fits_k_major},
      {Bug::descriptor_rows, Kind::fits_mn_major},
      {Bug::descriptor_start, Kind::wrong_start},
      {Bug::map_box_shifted, Kind::parts_differ},
      {Bug::accumulator_read, Kind::register_in_flight},
      {Bug::accumulator_written, Kind::register_in_flight},
      {Bug::fragment_written, Kind::register_in_flight},
      {Bug::no_register_fence, Kind::missing_register_fence},
      {Bug::wait_too_weak, Kind::operand_overwritten},
      {Bug::generic_write_to_operand, Kind::missing_proxy_fence},
      {Bug::store_not_fenced, Kind::missing_proxy_fence},
      {Bug::store_of_other_lanes, Kind::race, Kind::operand_overwritten},
      {Bug::store_not_waited, Kind::unfinished_copy},
      {Bug::source_overwritten, Kind::operand_overwritten},
  };
  for (const auto& [bug, kind, or_kind] : cases) {
    for (const std::uint64_t schedule : {0, 5}) {
      const Run run(bug, schedule);
      INFO("bug " << static_cast<int>(bug) << " schedule " << schedule << " " << run.result->fault);
      std::string kinds;
      for (const Kind k : run.result->kinds()) kinds += std::to_string(int(k)) + " ";
      INFO("found " << kinds);
      CHECK((run.found(kind) || run.found(or_kind)));
      // Who fills the place has waited for who reads it, which said so too early.
      for (const simt::Finding& finding : run.result->checker.findings()) {
        if (bug != Bug::tile_released_early || finding.kind != kind) continue;
        CHECK(finding.earlier.released);
      }
    }
  }
}

TEST_CASE("async checker: whether a wait was in vain, the mbarrier of the copy tells") {
  // A tile comes twice; the lane waits for the first one once more, then for something else.
  constexpr int none = -2;
  const auto again = [](const device::TensorMap& map, int first, int second) {
    Memory& smem = *reinterpret_cast<Memory*>(simt::shared_memory());
    if (device::thread() != 0) return;
    for (device::Mbarrier* const barrier : {&smem.a_full, &smem.full[0]}) {
      device::mbarrier_init(*barrier, 1);
    }
    device::fence_mbarrier_init();
    for (const int parity : {first, second}) {
      if (parity == none) continue;
      device::mbarrier_arrive_expect_tx(smem.full[0], Tile::bytes);
      device::tensor_load(smem.b[0].x, map, {0, 0}, smem.full[0]);
      if (parity >= 0) device::mbarrier_wait(smem.full[0], parity);
    }
    device::mbarrier_arrive(smem.a_full);
    device::mbarrier_wait(smem.a_full, 0);
    if (first < 0) device::mbarrier_wait(smem.a_full, 0);
    use(device::widen(smem.b[0].at(0, 0)) > 0);
  };
  Global<f16> b{tiles * rows * cols};
  const device::TensorMap map = Run::map(b, tiles * rows);
  const auto kinds = [&](int first, int second) {
    return check([&] { again(map, first, second); }, {b.region("b", Use::input)}, 1, 0, 1, 32,
                 sizeof(Memory))
        ->kinds();
  };
  CHECK(kinds(0, 1).empty());
  const auto has = [](const std::vector<Kind>& all, Kind kind) {
    return std::ranges::find(all, kind) != all.end();
  };
  CHECK(has(kinds(0, 0), Kind::wrong_phase));
  CHECK(has(kinds(0, -1), Kind::missing_wait));
  // In vain, and for something else alone.
  CHECK(has(kinds(-1, none), Kind::missing_wait));
  CHECK_FALSE(has(kinds(-1, none), Kind::wrong_phase));
}

TEST_CASE("async checker: who waits for each copy finds the next one too early") {
  const auto kernel = [](const device::TensorMap& map, bool waits_again) {
    Memory& smem = *reinterpret_cast<Memory*>(simt::shared_memory());
    if (device::thread() == 0) {
      device::mbarrier_init(smem.full[0], 1);
      device::fence_mbarrier_init();
    }
    device::block_sync();
    for (int tile = 0; device::thread() == 32 && tile < 2; ++tile) {
      if (tile == 1) device::mbarrier_wait(smem.full[0], 0);  // not until it has been read
      device::mbarrier_arrive_expect_tx(smem.full[0], Tile::bytes);
      device::tensor_load(smem.b[0].x, map, {0, tile * rows}, smem.full[0]);
    }
    for (int tile = 0; device::thread() == 0 && tile < 2; ++tile) {
      if (tile == 0 || waits_again) device::mbarrier_wait(smem.full[0], tile);
      use(device::widen(smem.b[0].at(0, 0)) > 0);
    }
  };
  Global<f16> b{tiles * rows * cols};
  const device::TensorMap map = Run::map(b, tiles * rows);
  // The copy may come behind the read as well, which then races with it.
  const auto kinds = [&](bool waits_again) {
    std::set<Kind> all;
    for (std::uint64_t schedule = 0; schedule < 8; ++schedule) {
      const auto found = check([&] { kernel(map, waits_again); }, {b.region("b", Use::input)}, 1,
                               schedule, 1, 64, sizeof(Memory))
                             ->kinds();
      all.insert(found.begin(), found.end());
    }
    return all;
  };
  CHECK(kinds(true) == std::set{Kind::race_with_read, Kind::operand_overwritten});
  CHECK(kinds(false) == std::set{Kind::race_with_read, Kind::missing_wait, Kind::unfinished_copy});
}

TEST_CASE("async checker: an offset between boxes that is twice too large is the descriptor's") {
  // Two tiles of two boxes each, one behind the other; the map takes the columns apart in panels.
  // Who goes on two boxes further reads a whole box of each tile.
  using Wide = device::TensorTile<f16, rows, 2 * cols>;
  struct TwoTiles {
    Wide tiles[2];
    device::Mbarrier full;
  };
  const auto kernel = [](const device::TensorMap& map, int boxes_on, int second_panel) {
    auto& [smem, full] = *reinterpret_cast<TwoTiles*>(simt::shared_memory());
    if (device::thread() == 0) {
      device::mbarrier_init(full, 1);
      device::fence_mbarrier_init();
      device::mbarrier_arrive_expect_tx(full, 2 * Wide::bytes);
      for (int tile = 0; tile < 2; ++tile) {
        device::tensor_load(smem[tile].x[0], map, {0, tile * rows, 0}, full);
        device::tensor_load(smem[tile].x[1], map, {0, tile * rows, second_panel}, full);
      }
    }
    device::block_sync();
    device::mbarrier_wait(full, 0);
    const std::uint32_t fragment[4] = {};
    device::Accumulator<1, 2 * cols / 8> o;
    o.fill(0.0f);
    device::wgmma_fence();
    const auto b =
        device::matrix_descriptor(device::shared_address(&smem[0].x[0][0][0]),
                                  boxes_on * Wide::box_bytes, 1024, device::Swizzle::b128);
    device::wgmma<f16, Major::col>(o.x, fragment, b, true);
    device::wgmma_commit();
    device::wgmma_wait<0>();
  };
  Global<f16> b{4 * rows * cols};
  device::TensorMap map;
  REQUIRE(device::make_tensor_map<f16>(map, b.data(), {cols, 2 * rows, 2}, {2 * cols * 2, cols * 2},
                                       {cols, rows, 1}, device::Swizzle::b128) == nullptr);
  const auto kinds = [&](int boxes_on, int second_panel) {
    return check([&] { kernel(map, boxes_on, second_panel); }, {b.region("b", Use::input)}, 1, 0, 1,
                 128, sizeof(TwoTiles))
        ->kinds();
  };
  CHECK(kinds(1, 1).empty());
  CHECK(kinds(2, 1) == std::vector{Kind::layout_disagrees});
  // No other offset would help where the second box is of the first's panel.
  CHECK(kinds(1, 0) == std::vector{Kind::parts_differ});
}

TEST_CASE("async checker: what stops a pipeline is told") {
  const struct {
    Bug bug;
    const char* says;
  } cases[] = {
      {Bug::barrier_initialised_twice, "is initialised a second time"},
      {Bug::expects_too_much, "8192 of 16384 expected bytes have come"},
      {Bug::wrong_parity, "wait in mbarrier_wait"},
      {Bug::counter_as_parity, "a parity is 0 or 1, and not 2"},
      {Bug::phase_not_carried, ": its last wait passed by a phase that is over"},
      {Bug::fills_without_waiting, "; it comes round to a place that is not free again"},
      {Bug::counts_one_of_four,
       "; nobody waited for its last 4 phases: more arrive than it counts"},
      {Bug::named_barrier_count, "this call counts"},
      {Bug::registers_not_given_back, "registers: a lane wants"},
  };
  for (const auto& [bug, says] : cases) {
    const Run run(bug);
    INFO("bug " << static_cast<int>(bug));
    CHECK_THAT(run.result->fault, ContainsSubstring(says));
  }
  // That a place is free at first is no phase that is over.
  const std::string fault = Run(Bug::waits_in_first_round).result->fault;
  CHECK_THAT(fault, ContainsSubstring("; it comes round to a place that is not free again"));
  CHECK_THAT(fault, !ContainsSubstring("its last wait passed"));
}

TEST_CASE("async checker: why phases complete that nobody waited for, those who arrive tell") {
  struct Item {
    device::Mbarrier full, empty;
  };
  /// Who takes two items waits for them by these parities; -1: not at all.
  const auto fault = [](int first, int second, int takers) {
    const auto kernel = [=] {
      auto& [full, empty] = *reinterpret_cast<Item*>(simt::shared_memory());
      if (device::thread() == 0) {
        device::mbarrier_init(full, 1);
        device::mbarrier_init(empty, 1);
        device::fence_mbarrier_init();
      }
      device::block_sync();
      if (device::thread() == 0) {
        device::mbarrier_arrive(full);
        device::mbarrier_wait(empty, 0);
        device::mbarrier_arrive(full);
      }
      if (device::thread() < 32 || device::thread() % 32 != 0) return;
      if (device::warp() > takers) return;
      for (const int parity : {first, second}) {
        if (parity >= 0) device::mbarrier_wait(full, parity);
        device::mbarrier_arrive(empty);
        if (takers > 1) return;
      }
    };
    return check(kernel, {}, 1, 0, 1, 96, sizeof(Item))->fault;
  };
  CHECK(fault(0, 1, 1).empty());
  CHECK_THAT(fault(0, 0, 1), ContainsSubstring("phases: the last wait of who arrives passed by a "
                                               "phase that is over"));
  CHECK_THAT(fault(0, -1, 1), ContainsSubstring("phases, in which the same threads arrive"));
  CHECK_THAT(fault(0, 0, 2), ContainsSubstring("phases: more arrive than it counts"));
}

TEST_CASE("async checker: who arrives twice behind a wait that is missing ran ahead") {
  const auto behind = [](Bug bug) {
    std::vector<bool> found;
    for (const simt::Finding& f : Run(bug).result->checker.findings()) {
      if (f.kind == Kind::double_arrival) found.push_back(f.behind_missing_wait);
    }
    return found;
  };
  CHECK(behind(Bug::runs_ahead) == std::vector{true});
  CHECK(behind(Bug::tile_released_twice) == std::vector{false});
}
