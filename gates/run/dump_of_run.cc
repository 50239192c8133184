#include "gates/run/dump_of_run.h"

#include <algorithm>
#include <span>

#include "debug/dump/site_slots.h"
#include "gates/build/this_build.h"
#include "gates/process/run_memory.h"
#include "gates/run/partition.h"
#include "reference/elementary.h"

namespace lanescope {
namespace {

DumpSite describe(const Module& module, const Site& site) {
  DumpSite described{site, {}, {}};
  if (site.space == Space::registers) {
    for (int warp = 0; warp < site.warps; ++warp) {
      for (int lane = 0; lane < 32; ++lane) {
        for (int reg = 0; reg < site.regs; ++reg) {
          int row = 0, col = 0;
          module.coordinate(site.id, warp, lane, reg, &row, &col);
          described.coordinates.push_back(static_cast<std::int16_t>(row));
          described.coordinates.push_back(static_cast<std::int16_t>(col));
        }
      }
    }
  } else if (site.space == Space::shared) {
    for (int row = 0; row < site.rows; ++row) {
      for (int col = 0; col < site.cols; ++col) {
        described.owners.push_back(static_cast<std::int16_t>(module.owner(site.id, row, col)));
      }
    }
  }
  return described;
}

}  // namespace

DumpInfo info_of(const Module& module, const std::string& module_name, const RunRequest& request) {
  DumpInfo info;
  info.lanescope_version = this_build::version();
  info.kernel = module.kernel;
  info.gate = name_of(module.gate);
  info.backend = module.backend;
  info.module = module_name;
  // Printed text is not in the dump.
  info.trace = std::string_view(module.trace) == "on" ? "on" : "off";
  info.dtype = module.dtype;
  info.products = module.products;
  for (const Site& site : std::span(module.sites, static_cast<std::size_t>(module.site_count))) {
    if (site.rescale.above > 0) info.rescale = site.rescale;
    if (site.id == SiteId::s) info.scores = site.unit;
    if (is_maximum(site.id) && site.unit != ScoreUnit::base_2) info.maxima = site.unit;
    if (site.id == SiteId::l) info.lane_sums = site.in_lanes;
  }
  info.problem = request.problem;
  info.head_dim = module.head_dim;
  info.br = module.br;
  info.bc = module.bc;
  const Partition partition = partition_of(module, request.problem, request.splits);
  info.splits = static_cast<int>(partition.splits);
  info.heads_per_tile = static_cast<int>(partition.heads_per_tile);
  info.input = request.input;
  info.seed = request.seed;
  info.source_hash = module.source_hash;
  info.compile_flags = module.compile_flags;
  return info;
}

Tensor take_lse(const Module& module, ElementType type, const std::vector<std::int64_t>& dims,
                const std::byte* lse) {
  Tensor natural = take_rows(type, dims, static_cast<int>(dims.back()), lse);
  if (!module.lse_base_2) return natural;
  // Rounds once, as does a kernel that multiplies by ln 2 itself: the bounds hold.
  for (std::int64_t i = 0; i < natural.size(); ++i) {
    if (!is_unwritten(natural, i)) natural.set(i, reference::ln_2 * natural.at(i));
  }
  return natural;
}

void add_sites(const Module& module, std::span<const FilledSlots> buffers, const std::byte* o,
               const std::byte* lse, Dump& dump) {
  DumpInfo& info = dump.info;
  const Problem& p = info.problem;
  for (int i = 0; i < module.site_count; ++i) {
    const Site& site = module.sites[i];
    const std::string name = name_of(site.id);
    for (const FilledSlots& slots : buffers) {
      for (std::size_t j = 0; j < slots.layout.sites().size(); ++j) {
        if (slots.layout.sites()[j].id != site.id) continue;
        info.sites.push_back(describe(module, site));
        dump.tensors.push_back(
            {name, slots.layout.unpack(j, slots.bytes, info.blocks, info.tiles)});
      }
    }
    if (!stores_outputs(module.gate) || !is_output(site.id)) continue;
    info.sites.push_back(describe(module, site));
    dump.tensors.push_back(
        {name, site.axes == Axes::query
                   ? take_lse(module, site.type, {p.batch, p.heads, p.len_q}, lse)
                   : take_rows(site.type, {p.batch, p.heads, p.len_q, p.d}, module.head_dim, o)});
  }
}

}  // namespace lanescope
