#include "debug/judge/value_judge.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace lanescope {
namespace {

using reference::Bounded;

/// What the rows of a report are about: the result of the gate.
SiteId result_of(Gate gate) {
  switch (gate) {
    case Gate::qk_only:
      return SiteId::s;
    case Gate::softmax_only:
      return SiteId::p;
    case Gate::pv_only:
      return SiteId::o;
    case Gate::fused:
    case Gate::combine_only:
      return SiteId::o_final;
  }
  return SiteId::o_final;
}

}  // namespace

ValueJudge::ValueJudge(const Judge& judge, std::int64_t block, const reference::Reach& reach,
                       const JudgeObserver& observer, RowTileVerdict& verdict)
    : judge_(judge),
      observer_(observer),
      info_(judge.dump().info),
      block_(block),
      place_(info_.place(block)),
      reach_(reach),
      verdict_(verdict) {}

void ValueJudge::judge(SiteId id, std::int64_t tile, Judgement judgement, const Bounded& want) {
  if (observer_) observer_(id, block_, tile, judgement, want);
  const SiteSlots& slots = *judge_.slots(id);
  const Site& site = slots.site();
  const Tensor& tensor = slots.tensor();
  const std::int64_t first = slots.first(block_, tile);
  SiteReport& own = report(id, site.stage, judgement);
  vacuous_.clear();
  const bool is_result = id == result_of(judge_.gate()) && judgement == Judgement::chain;
  const reference::Array sums =
      slots.sums_lanes() ? slots.elements(block_, tile, want.value.rows()) : reference::Array();
  held_.resize(static_cast<std::size_t>(slots.count()));
  tensor.read(first, held_);
  for (std::int64_t slot = 0; slot < slots.count(); ++slot) {
    const int row = slots.row(slot), col = slots.col(slot);
    if (row < 0 || row >= want.value.rows()) continue;
    const auto where = [&] {
      Divergence at = place(tile, site.axes, row, col);
      const Holder holder = slots.holder(slot);
      at.warp = holder.warp;
      at.lane = holder.lane;
      at.reg = holder.reg;
      return at;
    };
    const Comparison outcome =
        take(own, tensor, first + slot,
             slots.sums_lanes() ? sums(row) : held_[static_cast<std::size_t>(slot)], want, row, col,
             where);
    if (is_result) note_row(row, outcome);
  }
  keep_untold(id);
}

template <class Where>
Comparison ValueJudge::take(SiteReport& report, const Tensor& tensor, std::int64_t index,
                            double got, const Bounded& want, std::int64_t row, std::int64_t col,
                            const Where& where) {
  const double value = want.value(row, col), bound = want.error(row, col);
  const bool vacuous =
      bound > 0 && std::isfinite(value) &&
      reference::says_nothing(bound, reach_.of(report.site, row, col), tensor.type);
  const bool unwritten = is_unwritten(tensor, index);
  // Alpha of a row that has seen no key, which is exactly 0: o and l are, too.
  const bool idle =
      report.site == SiteId::alpha && value == 0 && bound == 0 && std::isfinite(got) && !unwritten;
  const Comparison outcome =
      record(report, {got, value, bound, unwritten, vacuous, idle}, judge_.broke_off(), where);
  if (outcome.holds && vacuous) vacuous_.push_back(index);
  return outcome;
}

void ValueJudge::keep_untold(SiteId id) {
  const auto [entry, is_first] = untold_.try_emplace(id, vacuous_);
  if (is_first) return;
  std::vector<std::int64_t> both;
  std::set_intersection(entry->second.begin(), entry->second.end(), vacuous_.begin(),
                        vacuous_.end(), std::back_inserter(both));
  entry->second = std::move(both);
}

void ValueJudge::count_untold() {
  for (const auto& [id, elements] : untold_) {
    if (!elements.empty()) verdict_.untold[id] += std::ssize(elements);
  }
  untold_.clear();
}

void ValueJudge::judge_output(SiteId id, SiteId register_site, Judgement judgement,
                              const Bounded& want) {
  const Tensor* tensor = judge_.dump().find(name_of(id));
  if (!tensor) return;
  if (observer_) observer_(id, block_, -1, judgement, want);
  const std::int64_t cols = want.value.cols();
  const std::int64_t first_row = info_.first_q_row(place_);
  SiteReport& own = report(id, judge_.last_stage(), judgement);
  vacuous_.clear();
  const bool is_result = id == result_of(judge_.gate()) && judgement == Judgement::chain;
  for (std::int64_t row = 0; row < want.value.rows(); ++row) {
    for (std::int64_t col = 0; col < cols; ++col) {
      const auto where = [&] {
        Divergence at = place(-1, Axes::query_d, row, col);
        // The registers of the tiles are those of the outputs where one pass makes both.
        const bool one_pass = judge_.last_stage() == Stage::epilogue;
        const SiteSlots* slots = one_pass ? judge_.slots(register_site) : nullptr;
        const std::int64_t slot = slots ? slots->slot_of(row, col) : -1;
        if (slot < 0) return at;
        const Holder holder = slots->holder(slot);
        at.warp = holder.warp;
        at.lane = holder.lane;
        at.reg = holder.reg;
        return at;
      };
      const std::int64_t index = (first_row + row) * cols + col;
      const Comparison outcome =
          take(own, *tensor, index, tensor->at(index), want, row, col, where);
      if (is_result) note_row(row, outcome);
    }
  }
  keep_untold(id);
}

SiteReport& ValueJudge::report(SiteId id, Stage stage, Judgement judgement) {
  SiteReport& own = verdict_.sites[{id, judgement}];
  own.site = id;
  own.stage = stage;
  own.judgement = judgement;
  return own;
}

void ValueJudge::note_row(std::int64_t row, const Comparison& outcome) {
  RowError& own = verdict_.rows[static_cast<std::size_t>(row)];
  own.max_error = std::max(own.max_error, outcome.error);
  own.error_over_bound = std::max(own.error_over_bound, outcome.over_bound);
}

Divergence ValueJudge::place(std::int64_t tile, Axes axes, std::int64_t row,
                             std::int64_t col) const {
  Divergence at;
  at.block = block_;
  at.tile = tile;
  at.batch = place_.batch;
  at.head = place_.head;
  at.row = row;
  at.col = col;
  if (axes == Axes::key_d) {
    at.key = info_.key_of(place_, tile) + row;
  } else {
    at.head = info_.head_of(place_, row);
    at.query = info_.query_of(place_, row);
    if (axes == Axes::query_key) at.key = info_.key_of(place_, tile) + col;
  }
  return at;
}

}  // namespace lanescope
