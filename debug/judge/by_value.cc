#include "debug/judge/by_value.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "debug/judge/compare.h"
#include "debug/judge/judge.h"
#include "debug/judge/tile_view.h"
#include "debug/judge/verdicts.h"
#include "debug/text/progress.h"
#include "reference/error.h"
#include "reference/inputs.h"
#include "reference/parallel.h"

namespace lanescope {

void demand_same(const char* what, bool same) {
  if (!same) throw MismatchError(std::string("the two dumps differ in their ") + what);
}

namespace {

using Key = std::tuple<SiteId, std::int64_t, std::int64_t>;  // site, block, tile
using Wants = std::map<Key, reference::Bounded>;

/// The true values of a row tile and their bounds; what was injected or copied as it was given.
Wants wants_of(const Judge& judge, std::int64_t row_tile) {
  Wants wants;
  judge.judge(row_tile, [&](SiteId site, std::int64_t block, std::int64_t tile, Judgement judgement,
                            const reference::Bounded& want) {
    const Key key{site, block, std::max<std::int64_t>(tile, 0)};
    if (judgement == Judgement::chain) {
      wants.insert_or_assign(key, want);
    } else {
      wants.try_emplace(key, want);
    }
  });
  return wants;
}

struct Valued {
  double got, want, bound;
  bool unwritten;
};

/// Whether a site stands for the same quantity in both dumps.
bool same_quantity(SiteId id, const DumpInfo& a, const DumpInfo& b) {
  if (id == SiteId::s && a.scores != b.scores) return false;
  if (is_maximum(id) && a.maxima != b.maxima) return false;
  if (id == SiteId::l && (a.lane_sums || b.lane_sums)) return false;
  // What refers to a maximum that follows otherwise.
  const bool by_maximum = id > SiteId::s && !is_output(id);
  if (by_maximum && !(a.rescale == b.rescale)) return false;
  const bool scaled = (a.dtype == ElementType::e4m3) != (b.dtype == ElementType::e4m3);
  const bool elements = id == SiteId::q_smem || id == SiteId::k_smem || id == SiteId::v_smem ||
                        id == SiteId::o || id == SiteId::o_partial;
  return !(scaled && elements);
}

bool same_tiles(const DumpInfo& a, const DumpInfo& b) {
  return a.br == b.br && a.bc == b.bc && a.splits == b.splits &&
         a.heads_per_tile == b.heads_per_tile;
}

/// Adds the comparison of one element. `where` gives its place.
template <class Where>
void compare_values(BitReport& report, const Valued& a, const Valued& b, const Where& where) {
  if (std::isnan(a.got) && std::isnan(b.got) && a.unwritten == b.unwritten) {
    ++report.compared;
    return;
  }
  const double apart = std::abs(a.want - b.want);
  const double allowed = a.bound + b.bound + (std::isfinite(apart) ? apart : 0);
  const double size = std::max({std::abs(a.want), std::abs(b.want), 1.0});
  const bool written = !a.unwritten && !b.unwritten;
  if (written && std::isfinite(size) && allowed >= size) return;
  ++report.compared;
  const bool same = a.got == b.got || std::abs(a.got - b.got) <= allowed;
  if (written && same) return;
  ++report.differing;
  if (report.first) return;
  report.first = where();
  report.first->got = b.got;
  report.first->want = a.got;
  report.first->bound = allowed;
  report.first->unwritten = b.unwritten;
}

Valued value_at(const Tensor& tensor, std::int64_t index, const reference::Bounded& want,
                std::int64_t row, std::int64_t col) {
  return {tensor.at(index), want.value(row, col), want.error(row, col),
          is_unwritten(tensor, index)};
}

Divergence place_at(const Dump& dump, SiteId id, std::int64_t block, std::int64_t tile,
                    const Place& place) {
  const DumpInfo& info = dump.info;
  const DumpSite* entry = dump.find_site(name_of(id));
  const BlockPlace at = info.place(block);
  Divergence found;
  found.site = id;
  found.block = block;
  found.batch = at.batch;
  found.head = at.head;
  found.row = place.row;
  found.col = place.col;
  if (entry) found.stage = entry->site.stage;
  if (!is_output(id)) found.tile = tile;
  if (entry && !is_output(id)) {
    const Holder holder = SiteSlots(dump, *entry).holder(place.slot);
    found.warp = holder.warp;
    found.lane = holder.lane;
    found.reg = holder.reg;
  }
  const Axes axes = entry ? entry->site.axes : Axes::query_d;
  if (axes != Axes::key_d) {
    found.head = info.head_of(at, place.row);
    found.query = info.query_of(at, place.row);
  }
  if (axes == Axes::key_d) found.key = info.key_of(at, tile) + place.row;
  if (axes == Axes::query_key) found.key = info.key_of(at, tile) + place.col;
  return found;
}

/// The traced sites of one row tile, which both dumps cut alike.
void compare_sites(const Dump& a, const Dump& b, const Wants& of_a, const Wants& of_b,
                   std::map<SiteId, BitReport>& reports) {
  for (const auto& [key, want] : of_a) {
    const auto [id, block, tile] = key;
    const auto other = of_b.find(key);
    if (is_output(id) || other == of_b.end() || !same_quantity(id, a.info, b.info)) continue;
    const std::string_view name = name_of(id);
    const Tensor &in_a = *a.find(name), &in_b = *b.find(name);
    std::map<std::pair<int, int>, std::int64_t> of_element;
    for (const Place& place : places_of(b, name, block, tile)) {
      if (place.row >= 0) of_element.try_emplace({place.row, place.col}, place.index);
    }
    for (const Place& place : places_of(a, name, block, tile)) {
      const auto found = of_element.find({place.row, place.col});
      if (place.row < 0 || place.row >= want.value.rows() || found == of_element.end()) continue;
      if (place.row >= other->second.value.rows() || place.col >= want.value.cols() ||
          place.col >= other->second.value.cols()) {
        continue;
      }
      compare_values(
          reports[id], value_at(in_a, place.index, want, place.row, place.col),
          value_at(in_b, found->second, other->second, place.row, place.col),
          [&, tile = tile, id = id, block = block] { return place_at(a, id, block, tile, place); });
    }
  }
}

/// The outputs of a whole problem and their bounds, element by element of the tensor.
struct OutputWants {
  std::map<SiteId, std::vector<Valued>> values;

  void take(const Dump& dump, const Wants& wants) {
    for (const auto& [key, want] : wants) {
      const auto [id, block, tile] = key;
      if (!is_output(id)) continue;
      const Tensor& tensor = *dump.find(name_of(id));
      auto& own = values[id];
      own.resize(static_cast<std::size_t>(tensor.size()));
      const std::int64_t cols = want.value.cols();
      const std::int64_t first = dump.info.first_q_row(dump.info.place(block)) * cols;
      for (std::int64_t row = 0; row < want.value.rows(); ++row) {
        for (std::int64_t col = 0; col < cols; ++col) {
          const std::int64_t index = first + row * cols + col;
          own[static_cast<std::size_t>(index)] = value_at(tensor, index, want, row, col);
        }
      }
    }
  }
};

/// The wants of all row tiles of a dump.
std::vector<Wants> all_wants(const Dump& dump) {
  const Judge judge(dump);
  std::vector<Wants> wants(static_cast<std::size_t>(dump.info.row_tiles()));
  Progress progress("the reference of a dump", std::ssize(wants), "row tiles");
  reference::parallel_for(std::ssize(wants), 0, [&](std::int64_t row_tile) {
    wants[static_cast<std::size_t>(row_tile)] = wants_of(judge, row_tile);
    progress.step();
  });
  return wants;
}

void compare_outputs(const Dump& a, const OutputWants& of_a, const OutputWants& of_b,
                     std::map<SiteId, BitReport>& reports) {
  const DumpInfo& info = a.info;
  for (const auto& [id, values] : of_a.values) {
    const auto other = of_b.values.find(id);
    if (other == of_b.values.end()) continue;
    const std::int64_t cols = id == SiteId::lse ? 1 : info.problem.d;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto where = [&, id = id] {
        const auto index = static_cast<std::int64_t>(i);
        const std::int64_t group = index / cols / info.group_rows();
        const std::int64_t row = index / cols % info.group_rows();
        const std::int64_t block = (group * info.q_tiles() + row / info.br) * info.splits;
        return place_at(
            a, id, block, -1,
            {index, -1, static_cast<int>(row % info.br), static_cast<int>(index % cols)});
      };
      compare_values(reports[id], values[i], other->second[i], where);
    }
  }
}

}  // namespace

void demand_same_run(const DumpInfo& a, const DumpInfo& b) {
  demand_same("kernel", a.kernel == b.kernel);
  demand_same("gate", a.gate == b.gate);
  demand_same("type", a.dtype == b.dtype);
  demand_same("shape", a.problem == b.problem && a.head_dim == b.head_dim);
  demand_same("tile", a.br == b.br && a.bc == b.bc);
  demand_same("splits", a.splits == b.splits && a.heads_per_tile == b.heads_per_tile);
  demand_same("inputs", a.input_hash == b.input_hash);
  const bool traced = !a.sites.empty() && !b.sites.empty();
  demand_same("traced blocks", !traced || a.blocks == b.blocks);
  demand_same("traced tiles", !traced || a.tiles == b.tiles);
}

bool same_kernel(const DumpInfo& a, const DumpInfo& b) {
  return a.kernel == b.kernel && a.gate == b.gate && a.dtype == b.dtype && same_tiles(a, b);
}

std::vector<BitReport> diff_by_value(const Dump& a, const Dump& b) {
  demand_same("shape", a.info.problem == b.info.problem);
  const bool rounded_apart =
      a.info.dtype != b.info.dtype && a.info.input == b.info.input && a.info.seed == b.info.seed;
  demand_same("inputs", rounded_apart || hash_inputs(inputs_of(a)) == hash_inputs(inputs_of(b)));
  const std::vector<Wants> of_a = all_wants(a), of_b = all_wants(b);
  std::map<SiteId, BitReport> reports;
  if (same_tiles(a.info, b.info)) {
    for (std::size_t i = 0; i < of_a.size(); ++i) compare_sites(a, b, of_a[i], of_b[i], reports);
  }
  OutputWants outputs_a, outputs_b;
  for (const Wants& wants : of_a) outputs_a.take(a, wants);
  for (const Wants& wants : of_b) outputs_b.take(b, wants);
  compare_outputs(a, outputs_a, outputs_b, reports);

  std::vector<BitReport> all;
  for (int i = 0; i < site_id_count; ++i) {
    const auto id = static_cast<SiteId>(i);
    if (!a.find(name_of(id)) && !b.find(name_of(id))) continue;
    all.push_back(reports[id]);
    all.back().name = name_of(id);
  }
  return all;
}

}  // namespace lanescope
