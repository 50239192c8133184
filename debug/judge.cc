#include "debug/judge.h"

#include <algorithm>

#include "debug/block_judge.h"
#include "debug/error.h"

namespace lanescope {
namespace {

Gate gate_of(const std::string& name) {
  for (const Gate gate : {Gate::qk_only, Gate::softmax_only, Gate::pv_only, Gate::fused}) {
    if (name == name_of(gate)) return gate;
  }
  throw UsageError("the dump is of the gate '" + name + "', which has no reference");
}

reference::Injected injected_by(Gate gate) {
  if (takes(gate, SiteId::s)) return reference::Injected::scores;
  if (takes(gate, SiteId::p)) return reference::Injected::weights;
  return reference::Injected::nothing;
}

}  // namespace

Judge::Judge(const Dump& dump)
    : dump_(dump), gate_(gate_of(dump.info.gate)), inputs_(inputs_of(dump)) {
  const DumpInfo& info = dump.info;
  for (const DumpSite& entry : info.sites) {
    if (entry.site.space == Space::global) continue;
    if (has(gate_, entry.site.id)) {
      slots_[static_cast<std::size_t>(entry.site.id)].emplace(dump, entry);
    } else {
      foreign_sites_.push_back(entry.site.id);
    }
  }

  const SiteSlots* p = slots(SiteId::p);
  const bool matrix_unit = info.products == Products::tensor_core;
  const ElementType operands = operand_type(info.dtype);
  const ElementType p_type = matrix_unit ? operands : p ? p->site().type : ElementType::f32;
  walk_ = {.br = info.br,
           .bc = info.bc,
           .width = info.head_dim,
           .arithmetic = {.products = matrix_unit ? reference::Accumulation::tensor_core(info.arch)
                                                  : reference::Accumulation::fma_chain(),
                          .operands = operands,
                          .p_type = p_type},
           .unscaled_scores = std::ranges::any_of(
               info.sites, [](const DumpSite& entry) { return entry.site.unscaled; }),
           .injected = injected_by(gate_),
           .injected_p = p ? p->site().type : p_type};
}

BlockVerdict Judge::judge(std::int64_t block, const JudgeObserver& observer) const {
  return BlockJudge(*this, block, observer).run();
}

bool Judge::lacks_outputs() const {
  // A kernel may leave no lse, and then says so in its table.
  const bool owes_lse = !dump_.find_site("o_final") || dump_.find_site("lse");
  return gate_ == Gate::fused && !(dump_.find("o_final") && (dump_.find("lse") || !owes_lse));
}

const SiteSlots* Judge::slots(SiteId id) const {
  const std::optional<SiteSlots>& found = slots_[static_cast<std::size_t>(id)];
  return found ? &*found : nullptr;
}

}  // namespace lanescope
