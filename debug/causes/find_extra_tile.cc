#include <algorithm>

#include "debug/causes/detectors.h"
#include "debug/causes/formulas.h"
#include "reference/elementary.h"

namespace lanescope {
namespace {

using Array = Scene::Array;
using reference::infinity;

/// m, l and o of the rows of a block.
struct State {
  Array m, l, o;
};

/// The state after one more visit, of the keys of `tile` counted from the block's first.
std::optional<State> after_visit(const Scene& scene, const State& before, std::int64_t tile) {
  const auto q = scene.held(SiteId::q_smem, 0);
  const std::int64_t first_key = scene.info().key_of(scene.place(), tile);
  if (!q || first_key >= scene.info().problem.len_kv) return std::nullopt;
  const reference::OnlineBlock& block = scene.reference();
  const auto value = [](const reference::Factor& factor) {
    return factor.none() ? 1.0 : factor.value;
  };
  const Array keys = block.k_tile(tile), values = block.v_tile(tile);
  Array s = value(block.score_factor()) * value(block.softmax_factor()) *
            product_transposed(q->top_rows(before.m.rows()), keys);
  const reference::Visible seen = block.visible(tile);
  for (reference::Index row = 0; row < s.rows(); ++row) {
    s.fill_row(row, -infinity, seen[static_cast<std::size_t>(row)]);
  }
  const Array m = before.m.max(s.row_maxima());
  const Array shift = (m == -infinity).select(0, m);
  const Array alpha = exp2(before.m - shift), p = exp2(s - shift);
  return State{m, alpha * before.l + p.row_sums(), before.o * alpha + product(p, values)};
}

void try_visit(const Scene& scene, const State& state, const std::string& text,
               const Formulas& fits) {
  const Array sum = (state.l == 0).select(1, state.l);
  const auto fit = [&](const Array& value) { fits(Cause::contribution_repeated, text, value); };
  switch (scene.site()) {
    case SiteId::o_partial:
      return fit(state.o);
    case SiteId::m_partial:
      return fit(state.m);
    case SiteId::l_partial:
      return fit(state.l);
    case SiteId::o_final:
      return fit(state.o * scene.reference().output_factor().value / sum);
    case SiteId::lse:
      return fit((state.m + log2(state.l)) * reference::ln_2);
    default:
      return;
  }
}

}  // namespace

void find_extra_tile(const Scene& scene, Findings& findings) {
  if (scene.first().stage != Stage::epilogue) return;
  const std::int64_t last = scene.last_tile();
  const auto m = scene.held(SiteId::m, last), l = scene.held(SiteId::l, last),
             o = scene.held(SiteId::o, last);
  if (!m || !l || !o) return;
  const State state{*m, *l, *o};
  const Formulas fits(scene, findings);
  if (const auto next = after_visit(scene, state, last + 1)) {
    try_visit(scene, *next, "after its last tile, the block goes on with one that is not its own",
              fits);
  }
  for (std::int64_t tile = 0; tile <= std::min<std::int64_t>(last, 8); ++tile) {
    const auto again = after_visit(scene, state, tile);
    if (!again) continue;
    try_visit(scene, *again,
              "tile " + std::to_string(tile) + " is visited again after the last one", fits);
  }
}

}  // namespace lanescope
