// What the memory checker found beside what values show: which of the two is the cause.
#include "gates/run/memory_beside_values.h"

#include "tests/support/catch.h"

namespace lanescope {
namespace {

Divergence at(Stage stage, SiteId site) {
  Divergence place;
  place.stage = stage;
  place.site = site;
  return place;
}

Diagnosis found(Cause cause, const Divergence& first) {
  Diagnosis diagnosis;
  diagnosis.cause = cause;
  diagnosis.certain = true;
  diagnosis.first = first;
  return diagnosis;
}

TEST_CASE(
    "a descriptor that disagrees with a tile is blamed on who reads it, where the tile shows") {
  const Divergence stored = at(Stage::load, SiteId::v_smem), o = at(Stage::pv, SiteId::o);
  Location location;
  location.diagnosis = found(Cause::unexplained, o);
  location.shown = {SiteId::v_smem, SiteId::o};
  const auto blamed = [&](simt::Kind kind) {
    Diagnosis memory = found(Cause::layout_disagrees, stored);
    memory.memory.emplace_back().finding.kind = kind;
    blame_descriptor(location, memory);
    return memory.first->stage;
  };
  CHECK(blamed(simt::Kind::layout_disagrees) == Stage::pv);
  CHECK(blamed(simt::Kind::fits_k_major) == Stage::pv);
  CHECK(blamed(simt::Kind::wrong_start) == Stage::pv);
  CHECK(blamed(simt::Kind::race) == Stage::load);  // only where it is about layouts

  // A tile that is not shown may be stored wrongly.
  location.shown = {SiteId::o};
  CHECK(blamed(simt::Kind::layout_disagrees) == Stage::load);

  // It is, where it is wrong itself.
  location.shown = {SiteId::v_smem, SiteId::o};
  location.diagnosis->first = stored;
  CHECK(blamed(simt::Kind::layout_disagrees) == Stage::load);
  location.diagnosis->first.reset();
  CHECK(blamed(simt::Kind::layout_disagrees) == Stage::load);
}

}  // namespace
}  // namespace lanescope
