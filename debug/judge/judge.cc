#include "debug/judge/judge.h"

#include <algorithm>
#include <iterator>

#include "debug/judge/block_judge.h"
#include "reference/error.h"
#include "reference/possible.h"
#include "reference/stage_errors.h"

namespace lanescope {
namespace {

Gate gate_of(const std::string& name) {
  for (const Gate gate : all_gates) {
    if (name == name_of(gate)) return gate;
  }
  throw UsageError("the dump is of the gate '" + name + "', which has no reference");
}

reference::Injected injected_by(Gate gate) {
  if (takes(gate, SiteId::s)) return reference::Injected::scores;
  if (takes(gate, SiteId::p)) return reference::Injected::weights;
  if (takes(gate, SiteId::o_partial)) return reference::Injected::partials;
  return reference::Injected::nothing;
}

reference::Accumulation accumulation_of(Products products, const std::string& arch) {
  using reference::Accumulation;
  switch (products) {
    case Products::fp32_fma:
      break;
    case Products::tensor_core:
      return Accumulation::tensor_core(arch);
    case Products::tensor_core_e4m3:
      return Accumulation::tensor_core_e4m3(arch);
    case Products::tensor_core_tf32:
      return Accumulation::tensor_core_tf32(arch);
  }
  return Accumulation::fma_chain();
}

}  // namespace

Judge::Judge(const Dump& dump, const Recurrence* softmax)
    : dump_(dump),
      gate_(gate_of(dump.info.gate)),
      inputs_(inputs_of(dump)),
      by_reference_(!softmax),
      judges_softmax_(!softmax || softmax->of_maxima),
      downwards_(softmax && !softmax->order.empty()),
      start_(softmax ? softmax->start : -reference::infinity) {
  const DumpInfo& info = dump.info;
  const bool sums_lanes = softmax && softmax->sum_of_lanes;
  for (const DumpSite& entry : info.sites) {
    if (is_output(entry.site.id)) {
      last_stage_ = entry.site.stage;
      continue;
    }
    if (has(gate_, entry.site.id)) {
      slots_[static_cast<std::size_t>(entry.site.id)].emplace(dump, entry, sums_lanes);
    } else {
      foreign_sites_.push_back(entry.site.id);
    }
  }

  const SiteSlots* p = slots(SiteId::p);
  const bool in_e4m3 = info.products == Products::tensor_core_e4m3;
  const ElementType operands = in_e4m3 ? ElementType::e4m3 : operand_type(info.dtype);
  const ElementType p_type =
      type_of_weights(info.products, info.dtype, p ? p->site().type : ElementType::f32);
  constexpr SiteId of_softmax[] = {SiteId::m, SiteId::alpha, SiteId::p, SiteId::l};
  const bool shows_softmax = std::any_of(std::begin(of_softmax), std::end(of_softmax),
                                         [&](SiteId id) { return slots(id) != nullptr; });
  walk_ = {.br = info.br,
           .bc = info.bc,
           .width = info.head_dim,
           .arithmetic = {.products = accumulation_of(info.products, info.arch),
                          .operands = operands,
                          .p_type = p_type,
                          .any_softmax = info.dtype == ElementType::f32 && !shows_softmax,
                          .any_maximum = !shows_softmax},
           .scores = info.scores,
           .maxima = info.maxima,
           .rescale = info.rescale,
           .injected = injected_by(gate_),
           .injected_p = p && !in_e4m3 ? p->site().type : p_type,
           .splits = info.splits,
           .heads_per_tile = info.heads_per_tile};
  if (info.splits > 1) last_stage_ = Stage::combine;
}

RowTileVerdict Judge::judge(std::int64_t row_tile, const JudgeObserver& observer) const {
  RowTileVerdict verdict;
  const std::int64_t splits = dump_.info.splits, first = row_tile * splits;
  const bool outputs = dump_.find("o_final") || dump_.find("lse");
  const Range blocks = dump_.info.blocks;
  if (!outputs && (blocks.end <= first || first + splits <= blocks.begin)) return verdict;

  std::vector<reference::Partial> truth, received;
  BlockJudge outputs_of(*this, first, observer, verdict);
  for (std::int64_t split = 0; split < splits; ++split) {
    BlockJudge block(*this, first + split, observer, verdict);
    block.run();
    outputs_of.reach().merge(block.reach());
    truth.push_back(block.truth());
    if (auto left = block.left()) received.push_back(std::move(*left));
  }
  const reference::Factor output_factor = reference_of(first).output_factor();
  const bool converts = reference_of(first).converts_maxima();
  const auto finished = [&](const std::vector<reference::Partial>& partials) {
    const reference::Partial all =
        last_stage_ == Stage::combine ? reference::combine(partials, converts) : partials.front();
    return reference::epilogue(all.o, all.l, all.m, output_factor, walk_.arithmetic, converts);
  };
  reference::Outputs want = finished(truth);
  for (reference::Index row = 0; walk_.arithmetic.any_maximum && row < want.lse.value.rows();
       ++row) {
    want.lse.error(row) +=
        reference::stage_errors::rescaled_by_one(dump_.info.kv_tiles(), want.lse.value(row));
  }
  if (walk_.injected == reference::Injected::nothing) {
    const BlockPlace at = dump_.info.place(first);
    narrow(want, outputs_of.rows_left_open(want), inputs_, dump_.info.problem, walk_, at.batch,
           at.head, at.q_tile);
  }
  outputs_of.judge_outputs(Judgement::chain, want);
  if (std::ssize(received) == splits)
    outputs_of.judge_outputs(Judgement::local, finished(received));
  outputs_of.count_untold();
  return verdict;
}

reference::OnlineBlock Judge::reference_of(std::int64_t block) const {
  const BlockPlace at = dump_.info.place(block);
  return {inputs_, dump_.info.problem, walk_, at.batch, at.head, at.q_tile, at.split};
}

bool Judge::lacks_outputs() const {
  return stores_outputs(gate_) &&
         !(dump_.find("o_final") && (dump_.find("lse") || !owes_lse(dump_)));
}

bool owes_lse(const Dump& dump) { return !dump.find_site("o_final") || dump.find_site("lse"); }

const SiteSlots* Judge::slots(SiteId id) const {
  const std::optional<SiteSlots>& found = slots_[static_cast<std::size_t>(id)];
  return found ? &*found : nullptr;
}

}  // namespace lanescope
