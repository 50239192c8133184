#include "debug/causes/memory_place.h"

#include <algorithm>

#include "debug/causes/memory_order.h"

namespace lanescope {
namespace {

using simt::Kind;

/// The site whose values are on their way where a lane has passed `passed`: the next of its tile.
std::optional<Site> site_after(const std::vector<Site>& sites, const simt::Progress& passed) {
  for (const Site& site : sites) {
    if (site.per_tile && site.id > passed.site && site.id != SiteId::m_prev) return site;
  }
  return std::nullopt;
}

/// What lacks a fence.proxy.async is the writer's. One that comes to no site supplies the others:
/// the tile that they have loaded last.
std::optional<Site> site_of_supplier(const CheckReport& report, const simt::Finding& f) {
  const bool supplies = f.kind == Kind::missing_proxy_fence && report.knows_progress &&
                        f.earlier.place != 0 && f.earlier_passed.tile < 0 && f.passed.tile >= 0;
  for (const Site& site : report.sites) {
    if (supplies && site.id == f.passed.site && site.stage == Stage::load) return site;
  }
  return std::nullopt;
}

/// Whether both lanes had passed a site of the epilogue, and go on to no other item: what the bytes
/// held before says nothing.
bool is_behind_outputs(const CheckReport& report, const simt::Finding& f) {
  const auto has_passed = [&](const simt::Progress& passed) {
    return passed.tile >= 0 && passed.item < 0 &&
           std::ranges::any_of(report.sites, [&](const Site& site) {
             return site.id == passed.site && site.stage == Stage::epilogue;
           });
  };
  return report.knows_progress && f.earlier.place != 0 && has_passed(f.passed) &&
         has_passed(f.earlier_passed);
}

/// Whether the problem has the row of a tile that an element of a split's results is of.
bool has_row(const CheckReport& report, const CheckReport::Item& item) {
  const auto site =
      std::ranges::find_if(report.sites, [&](const Site& known) { return known.id == item.site; });
  if (site == report.sites.end() || item.region_bytes <= 0) return true;
  const Problem& p = report.problem;
  const std::int64_t rows = p.heads / p.heads_kv * p.len_q,  // of a kv head
      tiles = (rows + site->rows - 1) / site->rows;
  const std::int64_t bytes = site->rows * site->cols * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t blocks = item.region_bytes / bytes, block = item.finding.offset / bytes;
  const std::int64_t splits = std::max<std::int64_t>(blocks / (p.batch * p.heads_kv * tiles), 1);
  return block / splits % tiles * site->rows + item.row < rows;
}

/// Of what splits leave: who reads it merges them. That nobody wrote all of it is the merge's fault
/// where it leaves out what was written, or takes rows that there are none of.
bool is_read_by_merge(const CheckReport& report, const CheckReport::Item& item) {
  const simt::Finding& f = item.finding;
  if (!item.site || !is_partial(*item.site) || f.access.write || f.access.place == 0) return false;
  return f.kind != Kind::uninitialised_read || f.unread > 0 || !has_row(report, item);
}

/// What takes the scales of an input, by the name of their buffer: the scores, or O.
std::optional<SiteId> site_of_scales(const std::string& region) {
  if (region == "q_scale" || region == "k_scale") return SiteId::s;
  if (region == "v_scale") return SiteId::o_final;
  return std::nullopt;
}

}  // namespace

Divergence place_of(const CheckReport& report, const CheckReport::Item& item) {
  const simt::Finding& f = item.finding;
  Divergence at;
  std::optional<Site> site;
  const std::optional<SiteId> of_item =
      item.site || f.access.write ? item.site : site_of_scales(item.region);
  for (const Site& known : report.sites) {
    if (known.id == of_item) site = known;
  }
  for (const Site& known : report.sites) {
    if (!site && item.stage == known.stage) site = known;
  }
  if (!site) site = site_of_supplier(report, f);
  if (!site && f.access.place != 0 && report.knows_progress) {
    site = site_after(report.sites, f.passed);
  }
  const bool is_operand = item.site && *item.site <= SiteId::v_smem;  // of a kernel that shows none
  if (!site && !is_operand) return at;
  at.site = site ? site->id : *item.site;
  at.stage = site ? site->stage : Stage::load;
  // Outputs may be what a kernel goes on from: its own code says which stage does.
  if (item.site && is_output(*item.site) && item.stage) at.stage = *item.stage;
  // The fence is the product's, whoever wrote its operand.
  const bool lacks_fence = cause_of(f.kind) == Cause::missing_register_fence;
  if (lacks_fence && at.site == SiteId::p) at.stage = Stage::pv;
  if (is_behind_outputs(report, f)) at.stage = Stage::epilogue;
  if (is_read_by_merge(report, item)) at.stage = Stage::combine;
  at.row = item.row;
  at.col = item.col;
  at.tile = site && site->per_tile ? f.passed.tile : -1;
  if (f.access.place != 0) {
    at.block = f.passed.item >= 0 ? f.passed.item : f.access.block;
    at.warp = f.access.thread / 32;
    at.lane = f.access.thread % 32;
  }
  return at;
}

}  // namespace lanescope
