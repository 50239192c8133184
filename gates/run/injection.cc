#include "gates/run/injection.h"

#include <cstring>

#include "debug/text/progress.h"
#include "reference/online.h"
#include "reference/parallel.h"

namespace lanescope {
namespace {

/// The value of `site` after a tile, [rows, cols] or [rows, 1].
const reference::Array& value_at(const Site& site, const reference::TileState& state) {
  return site.id == SiteId::s   ? state.s.value
         : site.id == SiteId::p ? state.p.value
                                : state.alpha.value;
}

/// The value of `site` after the last tile.
const reference::Array& value_at(const Site& site, const reference::Partial& partial) {
  return site.id == SiteId::o_partial   ? partial.o.value
         : site.id == SiteId::m_partial ? partial.m.value
                                        : partial.l.value;
}

reference::Injected injected_by(Gate gate) {
  return takes(gate, SiteId::s)   ? reference::Injected::scores
         : takes(gate, SiteId::p) ? reference::Injected::weights
                                  : reference::Injected::partials;
}

void put(std::byte* to, const Site& site, double value) {
  const std::uint32_t bits = round_to(site.type, value);
  std::memcpy(to, &bits, static_cast<std::size_t>(size_of(site.type)));
}

/// Rows that no query stands for: neutral, so that nothing of them is NaN.
double padding(const Site& site) { return site.id == SiteId::alpha ? 1.0 : 0.0; }

void inject_tile(const Module& module, const SlotLayout& layout, std::size_t index,
                 std::int64_t block, std::int64_t tile, const reference::Array& value,
                 double factor, std::byte* buffer) {
  const Site& site = layout.sites()[index];
  const auto value_of = [&](int row, int col) {
    return row >= 0 && row < value.rows() ? value(row, col) / factor : padding(site);
  };
  if (site.space != Space::registers) {
    for (int row = 0; row < site.rows; ++row) {
      for (int col = 0; col < site.cols; ++col) {
        put(buffer + layout.shared_offset(index, block, tile, row, col), site, value_of(row, col));
      }
    }
    return;
  }
  for (int warp = 0; warp < site.warps; ++warp) {
    for (int lane = 0; lane < 32; ++lane) {
      for (int reg = 0; reg < site.regs; ++reg) {
        int row = 0, col = 0;
        module.coordinate(site.id, warp, lane, reg, &row, &col);
        put(buffer + layout.register_offset(index, block, tile, warp, lane, reg), site,
            value_of(row, col));
      }
    }
  }
}

}  // namespace

void inject(const Module& module, const SlotLayout& layout, const Inputs& inputs,
            const DumpInfo& info, int threads, std::byte* buffer) {
  if (layout.bytes() == 0) return;
  reference::Walk walk;
  walk.br = module.br;
  walk.bc = module.bc;
  walk.width = module.head_dim;
  walk.injected = injected_by(module.gate);
  walk.splits = info.splits;
  walk.heads_per_tile = info.heads_per_tile;
  walk.scores = info.scores;
  walk.maxima = info.maxima;
  walk.rescale = info.rescale;
  for (const Site& site : layout.sites()) {
    const bool in_e4m3 = module.products == Products::tensor_core_e4m3;  // shown in wider slots
    if (site.id == SiteId::p) walk.injected_p = in_e4m3 ? ElementType::e4m3 : site.type;
  }
  Progress progress("what the gate takes from the reference", info.block_count(), "blocks");
  reference::parallel_for(info.block_count(), threads, [&](std::int64_t block) {
    const BlockPlace at = info.place(block);
    reference::OnlineBlock online(inputs, info.problem, walk, at.batch, at.head, at.q_tile,
                                  at.split);
    const auto put_sites = [&](bool per_tile, std::int64_t tile, const auto& state) {
      for (std::size_t i = 0; i < layout.sites().size(); ++i) {
        const Site& site = layout.sites()[i];
        if (site.per_tile != per_tile) continue;
        const double factor = is_maximum(site.id) ? online.maximum_factor() : 1;
        inject_tile(module, layout, i, block, tile, value_at(site, state), factor, buffer);
      }
    };
    for (std::int64_t tile = 0; tile < info.kv_tiles(); ++tile) {
      put_sites(true, tile, online.step(tile));
    }
    put_sites(false, 0, online.partial());
    progress.step();
  });
}

}  // namespace lanescope
