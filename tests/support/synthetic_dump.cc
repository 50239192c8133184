#include "tests/support/synthetic_dump.h"

#include <cstring>

#include "debug/dump/site_slots.h"
#include "reference/gate.h"
#include "reference/inputs.h"
#include "reference/online.h"
#include "tests/support/plain_info.h"

namespace lanescope::testing {
namespace {

using reference::Array;

DumpInfo info_of(const Setup& setup, const Inputs& inputs) {
  DumpInfo info = plain_info("emulated", setup.problem, inputs,
                             setup.inputs ? "given" : setup.input, 0, setup.br, setup.bc);
  info.gate = setup.gate;
  info.arch = setup.arch;
  info.products = setup.products;
  if (!setup.traced) return info;
  info.blocks = setup.blocks.count() > 0 ? setup.blocks : Range{0, info.block_count()};
  info.tiles = setup.tiles.count() > 0 ? setup.tiles : Range{0, info.kv_tiles()};
  return info;
}

DumpSite shared_site(const DumpInfo& info, SiteId id, Stage stage, ElementType type, Axes axes) {
  DumpSite entry;
  const int rows = axes == Axes::key_d ? info.bc : info.br;
  const int cols = axes == Axes::query_key ? info.bc : info.head_dim;
  entry.site = {id, stage, Space::shared, type, axes, id != SiteId::q_smem, rows, cols, 0, 0};
  const int threads = info.products == Products::tensor_core ? info.br * 2 : info.br;
  for (int i = 0; i < rows * cols; ++i) {
    entry.owners.push_back(static_cast<std::int16_t>(i % threads));
  }
  return entry;
}

/// Coordinates as the accumulators of mma.m16n8 have them, or a row per thread.
DumpSite register_site(const DumpInfo& info, SiteId id, Stage stage, ElementType type, Axes axes) {
  const bool fragments = info.products == Products::tensor_core;
  const int cols = axes == Axes::query ? 1 : axes == Axes::query_key ? info.bc : info.head_dim;
  const int warps = fragments ? info.br / 16 : info.br / 32;
  const int regs = !fragments ? cols : axes == Axes::query ? 2 : cols / 8 * 4;
  DumpSite entry;
  entry.site = {id, stage, Space::registers, type, axes, true, info.br, cols, warps, regs};
  for (int i = 0; i < warps * 32 * regs; ++i) {
    const int reg = i % regs, lane = i / regs % 32, warp = i / regs / 32;
    int row = warp * 32 + lane, col = reg;
    if (fragments && axes == Axes::query) {
      row = warp * 16 + lane / 4 + 8 * reg;
      col = 0;
    } else if (fragments) {
      row = warp * 16 + lane / 4 + 8 * (reg % 4 / 2);
      col = reg / 4 * 8 + lane % 4 * 2 + reg % 2;
    }
    entry.coordinates.push_back(static_cast<std::int16_t>(row));
    entry.coordinates.push_back(static_cast<std::int16_t>(col));
  }
  return entry;
}

std::vector<DumpSite> all_sites(const DumpInfo& info, bool unrounded_p) {
  const bool fragments = info.products == Products::tensor_core;
  const ElementType f32 = ElementType::f32;
  const auto tile_site = fragments ? register_site : shared_site;
  return {
      shared_site(info, SiteId::q_smem, Stage::load, info.dtype, Axes::query_d),
      shared_site(info, SiteId::k_smem, Stage::load, info.dtype, Axes::key_d),
      shared_site(info, SiteId::v_smem, Stage::load, info.dtype, Axes::key_d),
      tile_site(info, SiteId::s, Stage::qk, f32, Axes::query_key),
      register_site(info, SiteId::m_prev, Stage::softmax, f32, Axes::query),
      register_site(info, SiteId::m, Stage::softmax, f32, Axes::query),
      register_site(info, SiteId::alpha, Stage::softmax, f32, Axes::query),
      tile_site(info, SiteId::p, Stage::softmax, fragments && !unrounded_p ? info.dtype : f32,
                Axes::query_key),
      register_site(info, SiteId::l, Stage::softmax, f32, Axes::query),
      register_site(info, SiteId::o, Stage::pv, f32, Axes::query_d),
  };
}

bool is_in_gate(const std::string& gate, SiteId id) {
  for (const Gate g : all_gates) {
    if (gate == name_of(g)) return has(g, id);
  }
  return false;
}

const Array& values_of(const EmulatedTile& tile, SiteId id) {
  switch (id) {
    case SiteId::s:
      return tile.s;
    case SiteId::m_prev:
      return tile.m_prev;
    case SiteId::m:
      return tile.m;
    case SiteId::alpha:
      return tile.alpha;
    case SiteId::p:
      return tile.p;
    case SiteId::l:
      return tile.l;
    default:
      return tile.o;
  }
}

void fill_tile(Dump& dump, SiteId id, std::int64_t block, std::int64_t tile, const Array& values) {
  const SiteSlots slots(dump, *dump.find_site(name_of(id)));
  if (!slots.holds(block, tile)) return;
  const std::int64_t first = slots.first(block, tile);
  for (std::int64_t slot = 0; slot < slots.count(); ++slot) {
    tensor_of(dump, id).set(first + slot, values(slots.row(slot), slots.col(slot)));
  }
}

/// Rows of the block that exist, of `values`, at their place in an output tensor.
void store_rows(Tensor& tensor, std::int64_t first_row, std::int64_t rows, std::int64_t cols,
                const Array& values) {
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t col = 0; col < cols; ++col) {
      tensor.set((first_row + row) * cols + col, values(row, col));
    }
  }
}

}  // namespace

Dump synthetic_dump(const Setup& setup) {
  Dump dump;
  const Problem& problem = setup.problem;
  const Inputs inputs =
      setup.inputs ? *setup.inputs : generate_inputs(problem, setup.dtype, setup.input, 0);
  dump.info = info_of(setup, inputs);
  const DumpInfo& info = dump.info;
  dump.tensors = {{"q", inputs.q}, {"k", inputs.k}, {"v", inputs.v}};
  if (setup.traced) {
    for (DumpSite& entry : all_sites(info, setup.unrounded_p)) {
      if (!is_in_gate(info.gate, entry.site.id)) continue;
      const Site& site = entry.site;
      const std::int64_t tiles = site.per_tile ? info.tiles.count() : 1;
      const auto dims =
          site.space == Space::shared
              ? std::vector<std::int64_t>{info.blocks.count(), tiles, site.rows, site.cols}
              : std::vector<std::int64_t>{info.blocks.count(), tiles, site.warps, 32, site.regs};
      dump.tensors.push_back({name_of(site.id), Tensor(site.type, dims)});
      Tensor& tensor = dump.tensors.back().tensor;
      for (std::int64_t i = 0; i < tensor.size(); ++i) poison(tensor, i);
      dump.info.sites.push_back(std::move(entry));
    }
  }
  Tensor o_final(info.dtype, {problem.batch, problem.heads, problem.len_q, problem.d});
  Tensor lse(ElementType::f32, {problem.batch, problem.heads, problem.len_q});

  for (std::int64_t block = 0; block < info.block_count(); ++block) {
    const EmulatedBlock emulated = emulate(info, inputs, block, setup.fault);
    const std::int64_t q_tile = block % info.q_tiles(), sequence = block / info.q_tiles();
    const reference::OnlineBlock tiles(
        inputs, problem, {.br = info.br, .bc = info.bc, .width = info.head_dim, .arithmetic = {}},
        sequence / problem.heads, sequence % problem.heads, q_tile);
    for (const DumpSite& entry : info.sites) {
      const SiteId id = entry.site.id;
      if (id == SiteId::q_smem) fill_tile(dump, id, block, 0, tiles.q_tile());
      for (std::int64_t tile = 0; id != SiteId::q_smem && tile < tiles.needed_tiles(); ++tile) {
        fill_tile(dump, id, block, tile,
                  id == SiteId::k_smem   ? tiles.k_tile(tile)
                  : id == SiteId::v_smem ? tiles.v_tile(tile)
                  : id == SiteId::p && setup.unrounded_p
                      ? emulated.tiles[std::size_t(tile)].unrounded_p
                      : values_of(emulated.tiles[std::size_t(tile)], id));
      }
    }
    const std::int64_t first_row = sequence * problem.len_q + q_tile * info.br;
    store_rows(o_final, first_row, tiles.rows(), problem.d, emulated.o_final);
    store_rows(lse, first_row, tiles.rows(), 1, emulated.lse);
  }
  if (info.gate == "fused") {
    dump.tensors.push_back({"o_final", std::move(o_final)});
    dump.tensors.push_back({"lse", std::move(lse)});
  }
  return dump;
}

std::int64_t slot_index(const Dump& dump, SiteId id, std::int64_t block, std::int64_t tile,
                        std::int64_t row, std::int64_t col, int copy) {
  const SiteSlots slots(dump, *dump.find_site(name_of(id)));
  for (std::int64_t slot = 0; slot < slots.count(); ++slot) {
    const bool stands_for_it = slots.row(slot) == row && slots.col(slot) == col;
    if (stands_for_it && copy-- == 0) return slots.first(block, tile) + slot;
  }
  return -1;
}

Tensor& tensor_of(Dump& dump, SiteId id) { return const_cast<Tensor&>(*dump.find(name_of(id))); }

void poison(Tensor& tensor, std::int64_t index) {
  const std::size_t width = static_cast<std::size_t>(size_of(tensor.type));
  std::memcpy(tensor.bytes.data() + index * size_of(tensor.type), &poison32, width);
}

}  // namespace lanescope::testing
