#include "gates/injection.h"

#include <cstring>
#include <limits>

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

void put(std::byte* to, const Site& site, double value) {
  const std::uint32_t bits = round_to(site.type, value);
  std::memcpy(to, &bits, static_cast<std::size_t>(size_of(site.type)));
}

/// Rows that no query stands for: neutral, so that nothing of them is NaN.
double padding(const Site& site) { return site.id == SiteId::alpha ? 1.0 : 0.0; }

void inject_tile(const Module& module, const SlotLayout& layout, std::size_t index,
                 std::int64_t block, std::int64_t tile, const reference::Array& value,
                 std::byte* buffer) {
  const Site& site = layout.sites()[index];
  const auto value_of = [&](int row, int col) {
    return row < value.rows() ? value(row, col) : padding(site);
  };
  if (site.space == Space::shared) {
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

std::vector<std::byte> inject(const Module& module, const SlotLayout& layout, const Inputs& inputs,
                              const Problem& problem, int threads) {
  std::vector<std::byte> buffer(static_cast<std::size_t>(layout.bytes()));
  if (buffer.empty()) return buffer;
  reference::Walk walk;
  walk.br = module.br;
  walk.bc = module.bc;
  walk.width = module.head_dim;
  walk.injected = module.gate == Gate::softmax_only ? reference::Injected::scores
                                                    : reference::Injected::weights;
  for (const Site& site : layout.sites()) {
    if (site.id == SiteId::p) walk.injected_p = site.type;
    if (site.unscaled) walk.unscaled_scores = true;
  }
  const std::int64_t q_tiles = (problem.len_q + module.br - 1) / module.br;
  const std::int64_t kv_tiles = (problem.len_kv + module.bc - 1) / module.bc;
  reference::parallel_for(
      problem.batch * problem.heads * q_tiles, threads, [&](std::int64_t block) {
        const std::int64_t sequence = block / q_tiles;
        reference::OnlineBlock online(inputs, problem, walk, sequence / problem.heads,
                                      sequence % problem.heads, block % q_tiles);
        for (std::int64_t tile = 0; tile < kv_tiles; ++tile) {
          const reference::TileState state = online.step(tile);
          for (std::size_t i = 0; i < layout.sites().size(); ++i) {
            inject_tile(module, layout, i, block, tile, value_at(layout.sites()[i], state),
                        buffer.data());
          }
        }
      });
  return buffer;
}

}  // namespace lanescope
