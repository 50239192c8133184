// What diagnose makes of kernels that trace little, and of several findings of the memory checker.
#include "debug/causes/diagnose.h"

#include <limits>

#include "tests/support/catch.h"
#include "tests/support/synthetic_dump.h"

namespace lanescope {
namespace {

using testing::Setup;
using testing::synthetic_dump;

/// `dump` of a kernel whose table lacks `id`.
Dump without(const Dump& dump, SiteId id) {
  Dump less = dump;
  std::erase_if(less.info.sites, [&](const DumpSite& entry) { return entry.site.id == id; });
  std::erase_if(less.tensors, [&](const Dump::Entry& entry) { return entry.name == name_of(id); });
  return less;
}

TEST_CASE("a site that a kernel does not trace is assumed nowhere") {
  const Setup setup{.problem = Problem{1, 1, 1, 40, 70, 16, true}};
  const Dump right = synthetic_dump(setup);
  REQUIRE(diff_against_reference(right).match);
  int diagnosed = 0;
  for (const DumpSite& broken : right.info.sites) {
    for (const double value : {std::numeric_limits<double>::quiet_NaN(), 0.0, 17.25}) {
      Dump wrong = right;
      Tensor& tensor = testing::tensor_of(wrong, broken.site.id);
      for (std::int64_t i = 0; i < tensor.size(); i += 3) tensor.set(i, value);
      for (const DumpSite& left_out : right.info.sites) {
        if (left_out.site.id == broken.site.id) continue;
        const Dump less = without(wrong, left_out.site.id);
        INFO(name_of(broken.site.id)
             << " holds " << value << ", " << name_of(left_out.site.id) << " is not traced");
        const DiffReport report = diff_against_reference(less);
        if (report.match) continue;  // of a loaded tile that is 0 already
        const Diagnosis diagnosis = diagnose(less, report);
        CHECK(diagnosis.first.has_value());
        ++diagnosed;
      }
    }
  }
  CHECK(diagnosed > 100);
}

CheckReport::Item item_of(simt::Kind kind, std::optional<SiteId> site) {
  CheckReport::Item item;
  item.finding.kind = kind;
  item.site = site;
  item.element = site ? name_of(*site) : "shared memory + 8 bytes";
  return item;
}

TEST_CASE("of several findings the nearest before the first wrong value is the cause") {
  CheckReport report;
  report.items = {item_of(simt::Kind::race, SiteId::k_smem),
                  item_of(simt::Kind::out_of_bounds, SiteId::o_final),
                  item_of(simt::Kind::uninitialised_read, SiteId::p),
                  item_of(simt::Kind::race, std::nullopt)};
  CHECK(diagnose(report, SiteId::o).evidence[0].starts_with("p: "));
  CHECK(diagnose(report, SiteId::s).evidence[0].starts_with("k_smem: "));
  CHECK(diagnose(report, SiteId::o_final).evidence[0].starts_with("o_final: "));
  CHECK(diagnose(report).evidence[0].starts_with("o_final: "));
}

TEST_CASE("a race in other memory comes before what is stored at the place of others") {
  CheckReport report;
  report.items = {item_of(simt::Kind::written_twice, SiteId::o_final),
                  item_of(simt::Kind::race, std::nullopt)};
  report.items[0].region = "o";
  report.items[1].region = "shared memory";
  CHECK(diagnose(report, SiteId::o_final).cause == Cause::race);
  report.items[1].region = "o";
  CHECK(diagnose(report, SiteId::o_final).cause == Cause::written_twice);
}

}  // namespace
}  // namespace lanescope
