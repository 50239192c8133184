#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "debug/causes/detectors.h"
#include "debug/causes/phrases.h"
#include "debug/judge/compare.h"
#include "reference/elementary.h"

namespace lanescope {
namespace {

using reference::Index;

/// By how many steps of the type that the site holds the wrong values are off at most.
double steps_off(const Scene& scene, ElementType type) {
  const Format format = format_of(type);
  double most = 0;
  for (const Element& e : scene.elements()) {
    if (!e.wrong || e.want == 0) continue;
    const int exponent = std::max(std::ilogb(e.want), format.min_exponent);
    most =
        std::max(most, std::abs(e.got - e.want) / std::ldexp(1, exponent - format.fraction_bits));
  }
  return most;
}

/// Whether the block's log-sum-exp is wrong, too: then scores or their sums are.
bool is_sum_wrong(const Scene& scene) {
  const DumpInfo& info = scene.info();
  const Dump& dump = scene.dump();
  const Tensor* const lse = dump.find("lse");
  if (!lse || !owes_lse(scene.dump())) return false;
  bool wrong = false;
  const std::int64_t row_tile = scene.block() / info.splits;
  const std::int64_t from = info.first_q_row(info.place(row_tile * info.splits));
  scene.judge().judge(row_tile, [&](SiteId id, std::int64_t, std::int64_t, Judgement judgement,
                                    const reference::Bounded& want) {
    if (judgement != Judgement::chain || id != SiteId::lse) return;
    for (Index row = 0; row < want.value.rows(); ++row) {
      wrong = wrong || !compare(lse->at(from + row), want.value(row), want.error(row)).holds;
    }
  });
  return wrong;
}

}  // namespace

void find_lost_precision(const Scene& scene, Findings& findings) {
  // Every other type holds the numbers of e4m3: who loads them rounds nothing.
  if (scene.site() <= SiteId::v_smem && scene.info().dtype == ElementType::e4m3) return;
  double largest = 0, largest_want = 0, smallest_want = reference::infinity;
  int near = 0, above = 0;
  for (Index i = 0; i < scene.want().size(); ++i) {
    const double want = std::abs(scene.want()(i));
    if (!std::isfinite(want)) continue;
    largest_want = std::max(largest_want, want);
    smallest_want = std::min(smallest_want, want);
  }
  for (const Element& e : scene.elements()) {
    if (!e.wrong || e.unwritten || !std::isfinite(e.got) || !std::isfinite(e.want)) continue;
    const double scale = std::max(std::abs(e.want), largest_want / 64);
    const double relative = std::abs(e.got - e.want) / scale;
    if (relative > 0.01) continue;
    largest = std::max(largest, relative);
    ++near;
    above += std::abs(e.got) > std::abs(e.want);
  }
  if (near == 0) return;
  const double share = static_cast<double>(near) / scene.wrong_count();
  if (share < 0.98) return;
  Finding finding{Cause::precision_lost, share};
  finding.bits = symptom_bits * near;
  // Of outputs alone, any stage may have rounded.
  if (!scene.info().is_traced() && scene.at_end()) finding.explained *= 0.9;
  finding.evidence = {"the largest error is " + value_text(largest) +
                      " of the value: right but for rounding"};
  // Of numbers that are nearly the same, each is near to what any other should be.
  if (largest_want - smallest_want <= 4 * largest * largest_want) {
    finding.explained *= 0.9;
    finding.evidence.emplace_back("all that should stand there is as near to each other");
  }
  // To nearest, it goes either way; by truncation, always down.
  if (near >= 8 && above == near) {
    finding.explained *= 0.9;
    finding.evidence.push_back("all are too large, which rounding does not explain");
  }
  const Tensor* const tensor = scene.dump().find(name_of(scene.site()));
  const ElementType held = tensor ? tensor->type : ElementType::f32;
  bool through_type = false;
  for (const ElementType type : {ElementType::f16, ElementType::bf16}) {
    if (type == held) continue;  // which says nothing
    std::vector<double> rounded;
    for (const Element& e : scene.elements()) {
      const bool exact = held_as(type, e.got) == e.got;
      if (e.wrong) rounded.push_back(exact ? 1 : 0);
    }
    if (std::count(rounded.begin(), rounded.end(), 1) == std::ssize(rounded)) {
      finding.evidence.push_back(std::string("every wrong value is a number of type ") +
                                 name_of(type) + ": it went through that type");
      through_type = true;
      break;
    }
  }
  // O may be rounded before it is divided by l and behind: by half a step each.
  constexpr double most_of_epilogue = 1.5;
  const bool alone = !scene.info().is_traced() && scene.site() == SiteId::o_final;
  const double steps = alone && !through_type ? steps_off(scene, held) : 0;
  if (steps > most_of_epilogue && held != ElementType::f32 && !is_sum_wrong(scene)) {
    finding.stage = Stage::pv;
    finding.evidence.push_back("it is off by up to " + number_text(steps, 2) + " steps of " +
                               name_of(held) + ", more than a rounding of O at the end is");
  }
  findings.push_back(finding);
}

}  // namespace lanescope
