#include "debug/judge/block_judge.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

namespace lanescope {
namespace {

using reference::Array;
using reference::Bounded;

constexpr double infinity = std::numeric_limits<double>::infinity();

bool equal(const Array& a, const Array& b) { return (a == b).all(); }

}  // namespace

BlockJudge::BlockJudge(const Judge& judge, std::int64_t block, const JudgeObserver& observer,
                       RowTileVerdict& verdict)
    : judge_(judge),
      info_(judge.dump().info),
      block_(block),
      place_(info_.place(block)),
      reference_(judge.reference_of(block)),
      reach_(reference_),
      needed_(reference_.needed_tiles()),
      values_(judge, block, reach_, observer, verdict) {
  for (auto row = std::ssize(verdict.rows); row < reference_.rows(); ++row) {
    verdict.rows.push_back(
        {place_.batch, info_.head_of(place_, row), info_.query_of(place_, row), 0, 0});
  }
}

void BlockJudge::run() {
  const bool outputs = judge_.dump().find("o_final") || judge_.dump().find("lse");
  const std::int64_t rows = reference_.rows();
  const bool from_start = judge_.downwards() ? saw_the_end() : info_.tiles.begin == 0;
  if (info_.blocks.contains(block_) && from_start) {
    m_before_ = Array::Constant(rows, 1, judge_.start());
    l_before_ = Array::Zero(rows, 1);
    o_before_ = Array::Zero(rows, info_.head_dim);
  }
  judge_load(SiteId::q_smem, 0, reference_.q_tile(), rows);
  // Tiles of which no row sees a key leave all as it was.
  const std::int64_t tiles = needed_ == 0 && !info_.is_traced() ? 0
                             : outputs                          ? info_.kv_tiles()
                                                                : info_.tiles.end;
  values_.count_untold();
  for (std::int64_t i = 0; i < tiles; ++i) judge_tile(judge_.downwards() ? tiles - 1 - i : i);
  judge_partial();
  values_.count_untold();
}

void BlockJudge::judge_tile(std::int64_t tile) {
  const std::optional<Array> m = held(SiteId::m, tile);
  const TileState truth = reference_.step(tile, m ? &*m : nullptr);
  const Array k = reference_.k_tile(tile), v = reference_.v_tile(tile);
  reach_.step(k, v, reference_.visible(tile));
  reach_.take_maxima(truth.m.value);
  if (!info_.blocks.contains(block_) || !info_.tiles.contains(tile)) return;
  const std::int64_t keys = info_.problem.len_kv - info_.key_of(place_, tile);
  judge_load(SiteId::k_smem, tile, k, keys);
  judge_load(SiteId::v_smem, tile, v, spoils(SiteId::o, tile, truth.o) ? info_.bc : keys);
  judge_scores(tile, truth);
  judge_softmax(tile, truth);
  judge_product(tile, truth);
  remember(tile);
  values_.count_untold();
}

void BlockJudge::judge_load(SiteId id, std::int64_t tile, const Array& want, std::int64_t owed) {
  if (!traced(id, tile)) return;
  // Of a block whose rows see no key, nobody reads Q: other things may be there by then.
  if (id == SiteId::q_smem && needed_ == 0) return;
  const bool idle = owed < want.rows() &&
                    judge_.slots(id)->finite_from(block_, tile, std::max<std::int64_t>(owed, 0));
  if (idle && owed <= 0) return;
  judge(id, tile, Judgement::local, Bounded::exact(idle ? want.top_rows(owed) : want));
}

bool BlockJudge::spoils(SiteId id, std::int64_t tile, const Bounded& truth) const {
  const std::optional<Array> values = held(id, tile);
  for (reference::Index i = 0; values && i < truth.value.size(); ++i) {
    if (std::isfinite(truth.value(i)) && !std::isfinite((*values)(i))) return true;
  }
  return false;
}

void BlockJudge::judge_scores(std::int64_t tile, const TileState& truth) {
  if (!traced(SiteId::s, tile)) return;
  if (takes(judge_.gate(), SiteId::s)) {
    judge(SiteId::s, tile, Judgement::local, truth.s);
    return;
  }
  judge(SiteId::s, tile, Judgement::chain, truth.s);
  const Array q_true = reference_.q_tile().top_rows(reference_.rows());
  const Array k_true = reference_.k_tile(tile);
  const Array q = held(SiteId::q_smem, 0).value_or(q_true);
  const Array k = held(SiteId::k_smem, tile, info_.bc).value_or(k_true);
  const bool as_loaded = equal(q, q_true) && equal(k, k_true);
  judge(SiteId::s, tile, Judgement::local,
        as_loaded ? truth.s
                  : qk(q, k, reference_.visible(tile), reference_.score_factor(),
                       judge_.walk().arithmetic));
}

void BlockJudge::judge_softmax(std::int64_t tile, const TileState& truth) {
  if (takes(judge_.gate(), SiteId::p)) {
    if (!judge_.by_reference()) return;  // they come from a walk upwards, whatever the order
    judge(SiteId::alpha, tile, Judgement::local, truth.alpha);
    judge(SiteId::p, tile, Judgement::local, truth.p);
    return;
  }
  if (!judge_.judges_softmax()) return;
  const SiteSlots* p_slots = judge_.slots(SiteId::p);
  const auto as_held = [&](const Bounded& p) {
    const ElementType type = judge_.walk().injected_p;
    return p_slots && type != ElementType::f32 ? rounded(p, type) : p;
  };
  if (judge_.by_reference()) {
    judge(SiteId::m_prev, tile, Judgement::chain, truth.m_prev);
    judge(SiteId::m, tile, Judgement::chain, truth.m);
    judge(SiteId::alpha, tile, Judgement::chain, truth.alpha);
    judge(SiteId::p, tile, Judgement::chain, as_held(truth.p));
    judge(SiteId::l, tile, Judgement::chain, truth.l);
  }

  if (m_before_) judge(SiteId::m_prev, tile, Judgement::local, Bounded::exact(*m_before_));
  const std::optional<Array> s = received(SiteId::s, tile, truth.s.value);
  const std::optional<Array> m_prev =
      judge_.slots(SiteId::m_prev) ? held(SiteId::m_prev, tile) : m_before_;
  if (!s || !m_prev) return;
  const std::optional<Array> m = held(SiteId::m, tile);
  const Array l_prev = l_before_.value_or(Array::Zero(reference_.rows(), 1));
  const reference::Softmax local =
      softmax(Bounded::exact(*s), reference_.softmax_factor(), Bounded::exact(*m_prev),
              Bounded::exact(l_prev), {judge_.walk().rescale, m ? &*m : nullptr},
              judge_.walk().arithmetic, reference_.converts_maxima());
  const auto as_shifted = [&](const Bounded& x) { return shifted(x, local.m.error); };
  judge(SiteId::m, tile, Judgement::local, local.m);
  judge(SiteId::alpha, tile, Judgement::local, as_shifted(local.alpha));
  judge(SiteId::p, tile, Judgement::local, as_held(as_shifted(local.p)));
  if (l_before_) judge(SiteId::l, tile, Judgement::local, as_shifted(local.l));
}

void BlockJudge::judge_product(std::int64_t tile, const TileState& truth) {
  if (!traced(SiteId::o, tile)) return;
  if (judge_.by_reference()) judge(SiteId::o, tile, Judgement::chain, truth.o);
  const reference::Arithmetic& arithmetic = judge_.walk().arithmetic;
  const std::optional<Array> p = received(SiteId::p, tile, truth.p.value);
  const std::optional<Array> alpha = received(SiteId::alpha, tile, truth.alpha.value);
  if (!p || !alpha || !o_before_) return;
  Array v = held(SiteId::v_smem, tile, info_.bc).value_or(reference_.v_tile(tile));
  const std::int64_t keys = info_.problem.len_kv - info_.key_of(place_, tile);
  for (reference::Index key = std::max<std::int64_t>(keys, 0); key < v.rows(); ++key) {
    // What nobody wrote has no part in a product that is a number.
    if (!v.row(key).is_finite().all() && !spoils(SiteId::o, tile, truth.o)) v.fill_row(key, 0);
  }
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
  const bool given = takes(judge_.gate(), SiteId::o_partial);
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

std::vector<reference::Index> BlockJudge::rows_left_open(const reference::Outputs& want) const {
  std::vector<reference::Index> rows;
  const ElementType o_type = operand_type(info_.dtype);
  const auto open = [&](SiteId id, ElementType type, const Bounded& x, reference::Index row,
                        reference::Index col) {
    return std::isfinite(x.value(row, col)) &&
           reference::says_nothing(x.error(row, col), reach_.of(id, row, col), type);
  };
  for (reference::Index row = 0; row < reference_.rows(); ++row) {
    bool any = open(SiteId::lse, ElementType::f32, want.lse, row, 0);
    for (reference::Index col = 0; !any && col < info_.problem.d; ++col) {
      any = open(SiteId::o_final, o_type, want.o_final, row, col);
    }
    if (any) rows.push_back(row);
  }
  return rows;
}

void BlockJudge::judge_outputs(Judgement judgement, const reference::Outputs& want) {
  const Bounded o{want.o_final.value.left_cols(info_.problem.d),
                  want.o_final.error.left_cols(info_.problem.d)};
  values_.judge_output(SiteId::o_final, SiteId::o, judgement, o);
  values_.judge_output(SiteId::lse, SiteId::m, judgement, want.lse);
}

bool BlockJudge::traced(SiteId id, std::int64_t tile) const {
  const SiteSlots* slots = judge_.slots(id);
  if (!slots || !slots->holds(block_, tile)) return false;
  return tile < needed_ || !slots->untouched(block_, tile);
}

std::optional<Array> BlockJudge::held(SiteId id, std::int64_t tile, std::int64_t rows) const {
  if (!traced(id, tile)) return std::nullopt;
  const SiteSlots& slots = *judge_.slots(id);
  if (judge_.broke_off() && !slots.whole(block_, tile, rows)) return std::nullopt;
  const Array values = slots.elements(block_, tile, rows);
  return is_maximum(id) ? values * reference_.maximum_factor() : values;
}

std::optional<Array> BlockJudge::held(SiteId id, std::int64_t tile) const {
  return held(id, tile, reference_.rows());
}

std::optional<Array> BlockJudge::received(SiteId id, std::int64_t tile,
                                          const Array& injected) const {
  if (!judge_.slots(id) && takes(judge_.gate(), id)) return injected;
  return held(id, tile);
}

void BlockJudge::judge(SiteId id, std::int64_t tile, Judgement judgement, const Bounded& want) {
  if (!traced(id, tile)) return;
  if (!is_maximum(id) || !reference_.converts_maxima()) {
    values_.judge(id, tile, judgement, want);
    return;
  }
  // In the kernel's own unit; what is exact is so but for the factor, to and fro.
  constexpr double to_and_fro = 0x1p-50;
  const double factor = reference_.maximum_factor();
  Bounded own{want.value * (1 / factor), want.error * (1 / factor)};
  own.error += own.value.is_finite().select(own.value.abs() * to_and_fro, 0);
  values_.judge(id, tile, judgement, own);
}

}  // namespace lanescope
