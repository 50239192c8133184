// The memory checker on copies by tensor maps that are not their tensors'.

#include <string>
#include <vector>

#include "debug/causes/memory_findings.h"
#include "kernels/device/hopper.h"
#include "tests/support/checked_block.h"

namespace device = lanescope::device;
namespace simt = lanescope::simt;
using namespace lanescope;
using namespace lanescope::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr int heads = 3, keys = 20, width = 64, box = 8;

/// What is found where a lane loads the last rows of the last head of V, [heads, keys, width], by a
/// map that says `rows` to a head, the heads `pitch` rows apart.
CheckReport found_of(int rows, int pitch) {
  const Global<device::f16> v(heads * keys * width);
  struct alignas(128) Memory {
    device::f16 tile[box * width];
    device::Mbarrier full;
  };
  device::TensorMap map;
  const char* error = device::make_tensor_map<device::f16>(
      map, v.data(), {width, rows, heads}, {width * 2, std::int64_t{pitch} * width * 2},
      {width, box, 1}, device::Swizzle::b128);
  REQUIRE(error == nullptr);
  const auto kernel = [&] {
    auto& memory = *reinterpret_cast<Memory*>(simt::shared_memory());
    if (device::thread() == 0) {
      device::mbarrier_init(memory.full, 1);
      device::fence_mbarrier_init();
      device::mbarrier_arrive_expect_tx(memory.full, sizeof memory.tile);
      device::tensor_load(memory.tile, map, {0, keys - 4, heads - 1}, memory.full);
    }
    device::block_sync();
    device::mbarrier_wait(memory.full, 0);
  };
  const auto result = check(kernel, {v.region("v", Use::input)}, 1, 0, 1, threads, sizeof(Memory));
  INFO(result->fault);
  CheckReport report;
  report.problem = {1, heads, heads, 32, keys, width, false};
  report.head_dim = width;
  describe_findings(
      result->checker, [](std::int64_t) { return std::nullopt; }, report);
  return report;
}

}  // namespace

TEST_CASE("checker: a tensor map whose heads lie elsewhere than the tensor's") {
  CHECK(found_of(keys, keys).items.empty());
  const CheckReport stride = found_of(32, 32);
  REQUIRE(stride.items.size() == 1);
  CHECK(stride.items[0].finding.kind == Kind::map_disagrees);
  CHECK_THAT(stride.items[0].element, ContainsSubstring("its tensor map has 32 rows to a head"));
  // Rows beyond the end of the last head, which lies where it should.
  const CheckReport rows = found_of(24, keys);
  REQUIRE(rows.items.size() == 1);
  CHECK(rows.items[0].finding.kind == Kind::out_of_bounds);
}

TEST_CASE("checker: what lies between two buffers is before one and behind the other") {
  constexpr std::size_t guard = simt::guard_bytes, bytes = 256;
  std::vector<std::byte> memory(4 * guard + 2 * bytes);
  std::byte* const o = memory.data() + guard;
  std::byte* const lse = o + bytes + 2 * guard;
  const auto result = check(
      [&] {
        if (device::thread() == 0) *reinterpret_cast<int*>(lse - 400) = 1;
      },
      {{"o", o, bytes, Use::output, 4}, {"lse", lse, bytes, Use::output, 4}});
  CheckReport report;
  report.problem = {1, 1, 1, 64, 64, 1, false};
  report.head_dim = 1;
  describe_findings(
      result->checker, [](std::int64_t) { return std::nullopt; }, report);
  REQUIRE(!report.items.empty());
  CHECK(report.items[0].element ==
        "400 bytes before lse, " + std::to_string(2 * guard - 400) + " bytes behind the end of o");
}
