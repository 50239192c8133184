#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "debug/dump/site_slots.h"
#include "debug/judge/by_value.h"
#include "debug/judge/diff.h"
#include "reference/error.h"

namespace lanescope {
namespace {

/// The place of element `index` of tensor `name`.
Divergence place_of(const Dump& dump, const std::string& name, std::int64_t index) {
  const DumpInfo& info = dump.info;
  Divergence at;
  const DumpSite* entry = dump.find_site(name);
  if (!entry) return at;
  at.site = entry->site.id;
  at.stage = entry->site.stage;
  const auto locate = [&](std::int64_t block) {
    const BlockPlace place = info.place(block);
    at.block = block;
    at.batch = place.batch;
    at.head = place.head;
    if (entry->site.axes != Axes::key_d) {
      at.head = info.head_of(place, at.row);
      at.query = info.query_of(place, at.row);
    }
    if (entry->site.axes == Axes::key_d) at.key = info.key_of(place, at.tile) + at.row;
    if (entry->site.axes == Axes::query_key) at.key = info.key_of(place, at.tile) + at.col;
  };
  if (is_output(entry->site.id)) {
    const std::int64_t cols = entry->site.axes == Axes::query ? 1 : info.problem.d;
    const std::int64_t group = index / cols / info.group_rows();
    const std::int64_t row = index / cols % info.group_rows();
    at.row = row % info.br;
    at.col = index % cols;
    locate((group * info.q_tiles() + row / info.br) * info.splits);
    return at;
  }
  const SiteSlots slots(dump, *entry);
  const std::int64_t tiles = entry->site.per_tile ? info.tiles.count() : 1;
  const std::int64_t slot = index % slots.count(), tile = index / slots.count() % tiles;
  const Holder holder = slots.holder(slot);
  at.tile = entry->site.per_tile ? info.tiles.begin + tile : 0;
  at.warp = holder.warp;
  at.lane = holder.lane;
  at.reg = holder.reg;
  at.row = slots.row(slot);
  at.col = slots.col(slot);
  locate(info.blocks.begin + index / slots.count() / tiles);
  return at;
}

/// Of a tensor that only one of the dumps holds.
BitReport nothing_compared(const std::string& name) {
  BitReport report;
  report.name = name;
  return report;
}

BitReport compare_tensor(const Dump& a, const std::string& name, const Tensor& of_a,
                         const Tensor& of_b) {
  if (of_a.type != of_b.type || of_a.dims != of_b.dims) {
    throw MismatchError("the two dumps hold tensor '" + name + "' in different types or shapes");
  }
  BitReport report;
  report.name = name;
  report.compared = of_a.size();
  const auto look_at = [&](std::int64_t i) {
    if (of_a.bits(i) == of_b.bits(i)) return;
    const double want = of_a.at(i), got = of_b.at(i);
    const bool unwritten = is_unwritten(of_a, i) || is_unwritten(of_b, i);
    if (!unwritten && std::isnan(want) && std::isnan(got)) return;
    ++report.differing;
    if (report.first) return;
    report.first = place_of(a, name, i);
    report.first->got = got;
    report.first->want = want;
    report.first->unwritten = is_unwritten(of_b, i);
  };
  constexpr std::int64_t step = 16384;  // most of two large dumps is the same
  for (std::int64_t begin = 0; begin < report.compared; begin += step) {
    const std::int64_t end = std::min(begin + step, report.compared);
    const auto at = static_cast<std::size_t>(begin * size_of(of_a.type));
    const auto size = static_cast<std::size_t>((end - begin) * size_of(of_a.type));
    if (std::memcmp(of_a.bytes.data() + at, of_b.bytes.data() + at, size) == 0) continue;
    for (std::int64_t i = begin; i < end; ++i) look_at(i);
  }
  return report;
}

}  // namespace

std::vector<BitReport> diff_dumps(const Dump& a, const Dump& b) {
  std::vector<BitReport> reports;
  std::int64_t compared = 0;
  if (!same_kernel(a.info, b.info)) {
    reports = diff_by_value(a, b);
    for (const BitReport& report : reports) compared += report.compared;
    if (compared == 0) demand_same_run(a.info, b.info);
    return reports;
  }
  demand_same_run(a.info, b.info);
  for (const auto& [name, tensor] : a.tensors) {
    const Tensor* other = b.find(name);
    if (is_input(name)) {
      demand_same("inputs", other && tensor.bytes == other->bytes);
      continue;
    }
    reports.push_back(other ? compare_tensor(a, name, tensor, *other) : nothing_compared(name));
    compared += reports.back().compared;
  }
  for (const auto& [name, tensor] : b.tensors) {
    if (!a.find(name)) reports.push_back(nothing_compared(name));
  }
  if (compared == 0)
    throw MismatchError("the two dumps have no traced site and no output in common");
  return reports;
}

}  // namespace lanescope
