#include "debug/block_judge.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace lanescope {
namespace {

using reference::Array;
using reference::Bounded;

constexpr double infinity = std::numeric_limits<double>::infinity();

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

bool equal(const Array& a, const Array& b) { return (a == b).all(); }

}  // namespace

BlockJudge::BlockJudge(const Judge& judge, std::int64_t block, const JudgeObserver& observer,
                       RowTileVerdict& verdict)
    : judge_(judge),
      observer_(observer),
      info_(judge.dump_.info),
      broke_off_(!info_.incomplete.empty()),
      block_(block),
      place_(info_.place(block)),
      reference_(judge.reference_of(block)),
      needed_(reference_.needed_tiles()),
      verdict_(verdict) {
  for (auto row = std::ssize(verdict_.rows); row < reference_.rows(); ++row) {
    verdict_.rows.push_back(
        {place_.batch, info_.head_of(place_, row), info_.query_of(place_, row), 0, 0});
  }
}

void BlockJudge::run() {
  const bool outputs = judge_.dump_.find("o_final") || judge_.dump_.find("lse");
  const std::int64_t rows = reference_.rows();
  if (info_.blocks.contains(block_) && info_.tiles.begin == 0) {
    m_before_ = Array::Constant(rows, 1, -infinity);
    l_before_ = Array::Zero(rows, 1);
    o_before_ = Array::Zero(rows, info_.head_dim);
  }
  judge(SiteId::q_smem, 0, Judgement::local, Bounded::exact(reference_.q_tile()));
  const std::int64_t tiles = outputs ? info_.kv_tiles() : info_.tiles.end;
  for (std::int64_t tile = 0; tile < tiles; ++tile) judge_tile(tile);
  judge_partial();
}

void BlockJudge::judge_tile(std::int64_t tile) {
  const TileState truth = reference_.step(tile);
  if (!info_.blocks.contains(block_) || !info_.tiles.contains(tile)) return;
  judge(SiteId::k_smem, tile, Judgement::local, Bounded::exact(reference_.k_tile(tile)));
  judge(SiteId::v_smem, tile, Judgement::local, Bounded::exact(reference_.v_tile(tile)));
  judge_scores(tile, truth);
  judge_softmax(tile, truth);
  judge_product(tile, truth);
  remember(tile);
}

void BlockJudge::judge_scores(std::int64_t tile, const TileState& truth) {
  if (!traced(SiteId::s, tile)) return;
  if (takes(judge_.gate_, SiteId::s)) {
    judge(SiteId::s, tile, Judgement::local, truth.s);
    return;
  }
  judge(SiteId::s, tile, Judgement::chain, truth.s);
  const Array q_true = reference_.q_tile().topRows(reference_.rows());
  const Array k_true = reference_.k_tile(tile);
  const Array q = held(SiteId::q_smem, 0).value_or(q_true);
  const Array k = held(SiteId::k_smem, tile, info_.bc).value_or(k_true);
  const bool as_loaded = equal(q, q_true) && equal(k, k_true);
  judge(SiteId::s, tile, Judgement::local,
        as_loaded ? truth.s
                  : qk(q, k, reference_.visible(tile), reference_.score_factor(),
                       judge_.walk_.arithmetic));
}

void BlockJudge::judge_softmax(std::int64_t tile, const TileState& truth) {
  if (takes(judge_.gate_, SiteId::p)) {
    judge(SiteId::alpha, tile, Judgement::local, truth.alpha);
    judge(SiteId::p, tile, Judgement::local, truth.p);
    return;
  }
  const SiteSlots* p_slots = judge_.slots(SiteId::p);
  const auto as_held = [&](const Bounded& p) {
    const bool narrow = p_slots && p_slots->site().type != ElementType::f32;
    return narrow ? rounded(p, p_slots->site().type) : p;
  };
  judge(SiteId::m_prev, tile, Judgement::chain, truth.m_prev);
  judge(SiteId::m, tile, Judgement::chain, truth.m);
  judge(SiteId::alpha, tile, Judgement::chain, truth.alpha);
  judge(SiteId::p, tile, Judgement::chain, as_held(truth.p));
  judge(SiteId::l, tile, Judgement::chain, truth.l);

  if (m_before_) judge(SiteId::m_prev, tile, Judgement::local, Bounded::exact(*m_before_));
  const std::optional<Array> s = received(SiteId::s, tile, truth.s.value);
  const std::optional<Array> m_prev =
      judge_.slots(SiteId::m_prev) ? held(SiteId::m_prev, tile) : m_before_;
  if (!s || !m_prev) return;
  const Array l_prev = l_before_.value_or(Array::Zero(reference_.rows(), 1));
  const reference::Softmax local =
      softmax(Bounded::exact(*s), reference_.softmax_factor(), Bounded::exact(*m_prev),
              Bounded::exact(l_prev), judge_.walk_.arithmetic);
  const auto as_shifted = [&](const Bounded& x) { return shifted(x, local.m.error); };
  judge(SiteId::m, tile, Judgement::local, local.m);
  judge(SiteId::alpha, tile, Judgement::local, as_shifted(local.alpha));
  judge(SiteId::p, tile, Judgement::local, as_held(as_shifted(local.p)));
  if (l_before_) judge(SiteId::l, tile, Judgement::local, as_shifted(local.l));
}

void BlockJudge::judge_product(std::int64_t tile, const TileState& truth) {
  if (!traced(SiteId::o, tile)) return;
  judge(SiteId::o, tile, Judgement::chain, truth.o);
  const reference::Arithmetic& arithmetic = judge_.walk_.arithmetic;
  const std::optional<Array> p = received(SiteId::p, tile, truth.p.value);
  const std::optional<Array> alpha = received(SiteId::alpha, tile, truth.alpha.value);
  if (!p || !alpha || !o_before_) return;
  const Array v = held(SiteId::v_smem, tile, info_.bc).value_or(reference_.v_tile(tile));
  const Array weights =
      arithmetic.p_type == ElementType::f32 ? *p : reference::round_values(*p, arithmetic.p_type);
  judge(SiteId::o, tile, Judgement::local,
        pv(Bounded::exact(weights), Bounded::exact(*alpha), v, Bounded::exact(*o_before_),
           arithmetic));
}

void BlockJudge::judge_partial() {
  const reference::Partial truth = reference_.partial();
  const std::tuple<SiteId, Bounded, const std::optional<Array>&> all[] = {
      {SiteId::o_partial, shifted(truth.o, truth.m.error), o_before_},
      {SiteId::m_partial, truth.m, m_before_},
      {SiteId::l_partial, shifted(truth.l, truth.m.error), l_before_}};
  const bool given = takes(judge_.gate_, SiteId::o_partial);
  for (const auto& [id, want, before] : all) {
    judge(id, 0, given ? Judgement::local : Judgement::chain, want);
    if (!given && saw_the_end() && before) {
      judge(id, 0, Judgement::local, Bounded::exact(*before));
    }
  }
}

std::optional<reference::Partial> BlockJudge::left() const {
  const auto exact = [](const std::optional<Array>& o, const std::optional<Array>& m,
                        const std::optional<Array>& l) -> std::optional<reference::Partial> {
    if (!o || !m || !l) return std::nullopt;
    return reference::Partial{Bounded::exact(*o), Bounded::exact(*m), Bounded::exact(*l)};
  };
  if (judge_.slots(SiteId::o_partial)) {
    return exact(held(SiteId::o_partial, 0), held(SiteId::m_partial, 0),
                 held(SiteId::l_partial, 0));
  }
  return saw_the_end() ? exact(o_before_, m_before_, l_before_) : std::nullopt;
}

void BlockJudge::remember(std::int64_t tile) {
  const auto update = [&](SiteId id, std::optional<Array>& before) {
    if (traced(id, tile) || tile < needed_) before = held(id, tile);
  };
  update(SiteId::m, m_before_);
  update(SiteId::l, l_before_);
  update(SiteId::o, o_before_);
}

void BlockJudge::judge_outputs(Judgement judgement, const reference::Outputs& want) {
  const Bounded o{want.o_final.value.leftCols(info_.problem.d),
                  want.o_final.error.leftCols(info_.problem.d)};
  judge_output(SiteId::o_final, SiteId::o, judgement, o);
  judge_output(SiteId::lse, SiteId::m, judgement, want.lse);
}

bool BlockJudge::traced(SiteId id, std::int64_t tile) const {
  const SiteSlots* slots = judge_.slots(id);
  if (!slots || !slots->holds(block_, tile)) return false;
  return tile < needed_ || !slots->untouched(block_, tile);
}

std::optional<Array> BlockJudge::held(SiteId id, std::int64_t tile, std::int64_t rows) const {
  if (!traced(id, tile)) return std::nullopt;
  const SiteSlots& slots = *judge_.slots(id);
  if (broke_off_ && !slots.whole(block_, tile, rows)) return std::nullopt;
  return slots.elements(block_, tile, rows);
}

std::optional<Array> BlockJudge::held(SiteId id, std::int64_t tile) const {
  return held(id, tile, reference_.rows());
}

std::optional<Array> BlockJudge::received(SiteId id, std::int64_t tile,
                                          const Array& injected) const {
  if (!judge_.slots(id) && takes(judge_.gate_, id)) return injected;
  return held(id, tile);
}

void BlockJudge::judge(SiteId id, std::int64_t tile, Judgement judgement, const Bounded& want) {
  if (!traced(id, tile)) return;
  if (observer_) observer_(id, block_, tile, judgement, want);
  const SiteSlots& slots = *judge_.slots(id);
  const Site& site = slots.site();
  const Tensor& tensor = slots.tensor();
  const std::int64_t first = slots.first(block_, tile);
  SiteReport& own = report(id, site.stage, judgement);
  const bool is_result = id == result_of(judge_.gate_) && judgement == Judgement::chain;
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
        record(own, tensor.at(first + slot), is_unwritten(tensor, first + slot),
               want.value(row, col), want.error(row, col), broke_off_, where);
    if (is_result) note_row(row, outcome);
  }
}

void BlockJudge::judge_output(SiteId id, SiteId register_site, Judgement judgement,
                              const Bounded& want) {
  const Tensor* tensor = judge_.dump_.find(name_of(id));
  if (!tensor) return;
  if (observer_) observer_(id, block_, -1, judgement, want);
  const std::int64_t cols = want.value.cols();
  const std::int64_t first_row = info_.first_q_row(place_);
  SiteReport& own = report(id, judge_.last_stage(), judgement);
  const bool is_result = id == result_of(judge_.gate_) && judgement == Judgement::chain;
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
          record(own, tensor->at(index), is_unwritten(*tensor, index), want.value(row, col),
                 want.error(row, col), broke_off_, where);
      if (is_result) note_row(row, outcome);
    }
  }
}

SiteReport& BlockJudge::report(SiteId id, Stage stage, Judgement judgement) {
  SiteReport& own = verdict_.sites[{id, judgement}];
  own.site = id;
  own.stage = stage;
  own.judgement = judgement;
  return own;
}

void BlockJudge::note_row(std::int64_t row, const Comparison& outcome) {
  RowError& own = verdict_.rows[static_cast<std::size_t>(row)];
  own.max_error = std::max(own.max_error, outcome.error);
  own.error_over_bound = std::max(own.error_over_bound, outcome.over_bound);
}

Divergence BlockJudge::place(std::int64_t tile, Axes axes, std::int64_t row,
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
