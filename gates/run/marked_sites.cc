#include "gates/run/marked_sites.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "gates/run/run_plan.h"
#include "gates/run/slot_layout.h"

namespace lanescope {
namespace {

bool is_marked(const Site& site) { return site.space != Space::global; }

ptx::MarkedSlots slots_of(const Site& site) {
  ptx::MarkedSlots slots;
  slots.rows = site.rows;
  slots.cols = site.cols;
  slots.element = size_of(site.type);
  slots.per_tile = site.per_tile;
  slots.of_lanes = site.axes == Axes::query;
  return slots;
}

std::span<const Site> sites_of(const Module& module) {
  return {module.sites, static_cast<std::size_t>(module.site_count)};
}

/// A value of a tile: its place, and the thread that traced it, < 0: none did.
struct Value {
  int row, col;
  std::int64_t index;  ///< in a tile of the dump's tensor: [row, col], or [lane, row]
  int thread;
};

/// The values of a site in the order of their rows and columns, each with a thread. Of a site over
/// queries those are that a lane traced, and one for a row that none did.
std::vector<Value> values_of(const ptx::MarkedSlots& slots, const std::int16_t* holders) {
  std::vector<Value> values;
  int any = 0;
  for (std::int64_t i = slots.count(); i-- > 0;) {
    if (holders[i] >= 0) any = holders[i];
  }
  for (int row = 0; row < slots.rows; ++row) {
    const std::size_t first = values.size();
    const int places = slots.of_lanes ? 32 : slots.cols;
    int of_row = -1;
    for (int place = 0; place < places; ++place) {
      const int col = slots.of_lanes ? 0 : place;
      const int holder = holders[slots.index(row, col, place)];
      if (slots.of_lanes && holder < 0) continue;
      const auto rows = std::int64_t{slots.rows}, cols = std::int64_t{slots.cols};
      values.push_back({row, col, slots.of_lanes ? place * rows + row : row * cols + col, holder});
      if (of_row < 0) of_row = holder;
    }
    if (values.size() == first) values.push_back({row, 0, row, -1});
    for (std::size_t i = first; i < values.size(); ++i) {
      if (values[i].thread < 0) values[i].thread = of_row >= 0 ? of_row : any;
    }
  }
  return values;
}

/// The site in registers, [block, tile, warp, lane, reg].
void settle_registers(const ptx::MarkedSlots& slots, const std::int16_t* holders, DumpSite& entry,
                      Tensor& tensor) {
  const std::vector<Value> values = values_of(slots, holders);
  int threads = 0;
  for (const Value& value : values) threads = std::max(threads, value.thread + 1);
  const int warps = (threads + 31) / 32;
  std::vector<int> held(static_cast<std::size_t>(warps) * 32);
  std::vector<int> regs;  // of each value
  for (const Value& value : values) {
    regs.push_back(held[static_cast<std::size_t>(value.thread)]++);
  }
  const int most = *std::max_element(held.begin(), held.end());

  Site& site = entry.site;
  site.space = Space::registers;
  site.warps = warps;
  site.regs = most;
  entry.owners.clear();
  entry.coordinates.assign(static_cast<std::size_t>(warps) * 32 * most * 2, -1);
  const auto slot = [&](std::size_t i) {
    return static_cast<std::size_t>(values[i].thread) * most + regs[i];
  };
  for (std::size_t i = 0; i < values.size(); ++i) {
    entry.coordinates[2 * slot(i)] = static_cast<std::int16_t>(values[i].row);
    entry.coordinates[2 * slot(i) + 1] = static_cast<std::int16_t>(values[i].col);
  }
  const auto element = static_cast<std::size_t>(slots.element);
  Tensor settled(site.type, {tensor.dims[0], tensor.dims[1], warps, 32, most});
  std::byte* to = settled.bytes.data();
  const std::byte* from = std::as_const(tensor).bytes.data();
  for (std::size_t i = 0; i < settled.bytes.size(); i += sizeof poison16) {
    std::memcpy(to + i, &poison16, sizeof poison16);
  }
  const std::int64_t tiles = tensor.dims[0] * tensor.dims[1];
  const std::size_t from_tile = static_cast<std::size_t>(slots.count()) * element;
  const std::size_t to_tile = static_cast<std::size_t>(site.bytes());
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::memcpy(to + static_cast<std::size_t>(tile) * to_tile + slot(i) * element,
                  from + static_cast<std::size_t>(tile) * from_tile +
                      static_cast<std::size_t>(values[i].index) * element,
                  element);
    }
  }
  tensor = std::move(settled);
}

/// The threads that wrote the elements of a tile in shared memory.
void settle_owners(const ptx::MarkedSlots& slots, const std::int16_t* holders, DumpSite& entry) {
  entry.owners.clear();
  for (std::int64_t i = 0; i < slots.count(); ++i) {
    entry.owners.push_back(std::max(holders[i], std::int16_t{-1}));
  }
}

}  // namespace

std::int64_t holder_bytes(const Module& module) {
  std::int64_t values = 0;
  if (!module.marked_ptx) return 0;
  for (const Site& site : sites_of(module)) {
    if (is_marked(site)) values += slots_of(site).count();
  }
  return values * std::int64_t{sizeof(std::int16_t)};
}

ptx::MarkerRun marker_run_of(const Module& module, const ModuleRun& run) {
  ptx::MarkerRun markers;
  const Problem& p = run.problem;
  markers.br = module.br;
  markers.heads = p.heads;
  markers.q_tiles = (p.len_q + module.br - 1) / module.br;
  markers.row_tiles = p.batch * p.heads * markers.q_tiles;
  auto* holders = static_cast<std::int16_t*>(run.holders.data);
  for (const Site& site : sites_of(module)) {
    if (!is_marked(site)) continue;
    markers.sites[static_cast<std::size_t>(site.id)].holders = holders;
    holders += slots_of(site).count();
  }
  const auto place = [&](const SlotLayout& layout, const ModuleBuffer& buffer, const Window& window,
                         ptx::MarkedSlots ptx::MarkerRun::OfSite::*slots) {
    for (std::size_t i = 0; i < layout.sites().size(); ++i) {
      const Site& site = layout.sites()[i];
      ptx::MarkedSlots& own = markers.sites[static_cast<std::size_t>(site.id)].*slots;
      own = slots_of(site);
      own.window = window;
      own.base = static_cast<std::byte*>(buffer.data) +
                 layout.shared_offset(i, window.block_begin, window.tile_begin, 0, 0);
    }
  };
  using OfSite = ptx::MarkerRun::OfSite;
  const SlotLayout taken(module, is_taken, run.all);
  place(SlotLayout(module, is_left, run.all), run.left, run.all, &OfSite::shown);
  place(SlotLayout(module, traces, run.window), run.traced, run.window, &OfSite::shown);
  place(taken, run.injected, run.all, &OfSite::given);
  markers.injects = !taken.sites().empty();
  return markers;
}

void settle_marked(const Module& module, const std::int16_t* holders, Dump& dump) {
  for (const Site& site : sites_of(module)) {
    if (!is_marked(site)) continue;
    const ptx::MarkedSlots slots = slots_of(site);
    const auto has_name = [&](const auto& entry) { return entry.name == name_of(site.id); };
    const auto is_site = [&](const DumpSite& entry) { return entry.site.id == site.id; };
    const auto entry = std::find_if(dump.info.sites.begin(), dump.info.sites.end(), is_site);
    const auto tensor = std::find_if(dump.tensors.begin(), dump.tensors.end(), has_name);
    if (entry != dump.info.sites.end() && tensor != dump.tensors.end()) {
      const bool held = std::any_of(holders, holders + slots.count(),
                                    [](std::int16_t thread) { return thread >= 0; });
      if (site.stage == Stage::load || (!held && !slots.of_lanes)) {
        settle_owners(slots, holders, *entry);
      } else {
        settle_registers(slots, holders, *entry, tensor->tensor);
      }
    }
    holders += slots.count();
  }
}

}  // namespace lanescope
