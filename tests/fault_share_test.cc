// What verdicts rest on (debug/judge/README.md): how small a fault in one element is found, and
// that right values in wrong places are.

#include <cmath>
#include <cstdio>
#include <map>

#include "debug/judge/compare.h"
#include "debug/judge/verdicts.h"
#include "reference/reach.h"
#include "tests/support/catch.h"
#include "tests/support/synthetic_dump.h"
#include "tests/support/verdict.h"

namespace lanescope {
namespace {

using testing::synthetic_dump;
using testing::tensor_of;
using testing::verdict;

constexpr int sizes[] = {1, 4, 16};

struct Share {
  std::int64_t planted = 0, found = 0;
  double value() const {
    return planted == 0 ? 1 : static_cast<double>(found) / static_cast<double>(planted);
  }
};

using Shares = std::map<std::pair<SiteId, Judgement>, std::array<Share, 3>>;

/// Plants faults of 1, 4 and 16 bounds, of both signs, in one element after the other, and counts
/// those that the element's own comparison finds. A fault that the element's type rounds away is
/// none. What a site is judged against does not depend on what it holds itself.
Shares count(const Dump& dump) {
  Shares shares;
  const auto plant = [&](SiteId site, std::int64_t block, std::int64_t tile, Judgement judgement,
                         const reference::Bounded& want) {
    const std::string_view name = name_of(site);
    Tensor cell(dump.find(name)->type, {1});
    for (const Place& place : places_of(dump, name, block, std::max<std::int64_t>(tile, 0))) {
      if (place.row < 0 || place.row >= want.value.rows() || place.col >= want.value.cols()) {
        continue;
      }
      const double held = dump.find(name)->at(place.index);
      const double value = want.value(place.row, place.col);
      const double bound = want.error(place.row, place.col);
      if (!std::isfinite(value) || bound == 0) continue;
      for (std::size_t i = 0; i < std::size(sizes); ++i) {
        for (const double sign : {1.0, -1.0}) {
          cell.set(0, held + sign * sizes[i] * bound);
          if (cell.at(0) == held) continue;
          Share& share = shares[{site, judgement}][i];
          ++share.planted;
          share.found += !compare(cell.at(0), value, bound).holds;
        }
      }
    }
  };
  diff_row_tiles(dump, {0, 1}, 1, plant);
  return shares;
}

TEST_CASE("fault share: faults of 4 bounds in one element are found in every site, of 1 often") {
  std::printf("%-8s %-6s %10s %8s %8s %8s\n", "site", "judged", "faults", "1 bound", "4", "16");
  for (const auto& [key, of_size] : count(synthetic_dump({.problem = testing::ragged}))) {
    const char* judged = key.second == Judgement::local ? "local" : "chain";
    INFO(name_of(key.first) << " " << judged);
    std::printf("%-8s %-6s %10lld %7.1f%% %7.1f%% %7.1f%%\n", name_of(key.first), judged,
                static_cast<long long>(of_size[0].planted), 100 * of_size[0].value(),
                100 * of_size[1].value(), 100 * of_size[2].value());
    CHECK(of_size[0].value() > 0.1);  // the least where values are exact, as alpha = 1
    CHECK(of_size[1].value() == 1);
    CHECK(of_size[2].value() == 1);
  }
}

TEST_CASE("fault share: a bit in what is copied is found") {
  const Dump good = synthetic_dump({.problem = testing::ragged});
  for (const SiteId id : {SiteId::q_smem, SiteId::k_smem, SiteId::v_smem}) {
    Dump dump = good;
    Tensor& tensor = tensor_of(dump, id);
    tensor.bytes.data()[size_of(tensor.type) * 7] ^= std::byte{1};
    INFO(name_of(id));
    CHECK_FALSE(diff_against_reference(dump).match);
  }
}

TEST_CASE("fault share: right values in the wrong row are found in every site") {
  const Dump good = synthetic_dump({.problem = testing::ragged});
  for (const auto& [name, tensor] : good.tensors) {
    if (is_input(name)) continue;
    Dump dump = good;
    SiteId id{};
    for (int i = 0; i < site_id_count; ++i) {
      if (name == name_of(static_cast<SiteId>(i))) id = static_cast<SiteId>(i);
    }
    // Rows 2 and 3 of the first block and the second tile, which are not alike.
    Tensor& held = tensor_of(dump, id);
    const std::int64_t tile = id == SiteId::q_smem || is_output(id) ? 0 : 1;
    std::map<std::pair<int, int>, Place> of_element;
    const std::vector<Place> places = places_of(good, name, 0, tile);
    for (const Place& place : places) of_element.try_emplace({place.row, place.col}, place);
    bool alike = true;
    for (const Place& place : places) {
      if (place.row != 2 && place.row != 3) continue;
      const Place& other = of_element.at({5 - place.row, place.col});
      held.set(place.index, tensor.at(other.index));
      alike &= tensor.at(other.index) == tensor.at(place.index);
    }
    INFO(name);
    REQUIRE_FALSE(alike);
    CHECK_FALSE(diff_against_reference(dump).match);
  }
}

TEST_CASE("fault share: a reference of other inputs does not match") {
  const Dump good = synthetic_dump({.problem = testing::ragged, .traced = false});
  for (const char* name : {"q", "k", "v"}) {
    Dump dump = good;
    dump.info.input = "given";
    for (Dump::Entry& entry : dump.tensors) {
      if (entry.name != name) continue;
      entry.tensor.set(40, -3 * entry.tensor.at(40) - 1);  // of query or key 1
    }
    dump.info.input_hash.clear();
    INFO(name);
    const DiffReport report = diff_against_reference(dump);
    CHECK(report.contradictions.empty());
    CHECK(report.first);
  }
}

}  // namespace
}  // namespace lanescope
