#include "debug/causes/memory_order.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "debug/causes/diagnose.h"

namespace lanescope {
namespace {

using simt::Kind;

/// Where a finding stands among those of one site: what is wrong with a descriptor, all with the
/// layout.
Cause order_of(Kind kind) {
  const bool of_descriptor =
      kind == Kind::fits_k_major || kind == Kind::fits_mn_major || kind == Kind::wrong_start;
  return of_descriptor ? Cause::layout_disagrees : cause_of(kind);
}

/// How far before `wrong` the finding's site is; a stray access may have met anything.
int distance_to(SiteId wrong, const CheckReport::Item& item) {
  if (item.site) return static_cast<int>(wrong) - static_cast<int>(*item.site);
  const bool is_stray = cause_of(item.finding.kind) == Cause::out_of_bounds;
  return is_stray ? 0 : site_id_count;
}

/// What may be why values are wrong comes first, then what is nearest before them. What follows
/// from other findings comes after them: reads of bytes that a stray or racing write should have
/// filled, arrivals of a thread that ran ahead because it did not wait. Of one kind, the largest
/// tile comes first: a barrier that is missing for P is missing for the row values beside it.
auto rank(const CheckReport& report, const CheckReport::Item& item, std::optional<SiteId> wrong) {
  int elements = 0;
  for (const Site& site : report.sites) {
    if (site.id == item.site) elements = site.rows * site.cols;
  }
  const bool behind = wrong && item.site && !feeds(*item.site, *wrong);
  return std::tuple(is_hidden_by_step(report, item), behind,
                    wrong && !behind ? distance_to(*wrong, item) : 0,
                    item.finding.behind_missing_wait, order_of(item.finding.kind), -elements,
                    item.site.value_or(SiteId{}));
}

/// Rows that go to the place of others, or are stored by two blocks, may be so because what says
/// where, or who, was overwritten or read too early: races in other memory come before them.
void put_races_first(std::vector<CheckReport::Item>& items) {
  const simt::Finding& first = items.front().finding;
  if (first.kind != Kind::written_twice && first.kind != Kind::never_written &&
      !are_stores_of_two_blocks(first)) {
    return;
  }
  const std::string region = items.front().region;
  std::stable_partition(items.begin(), items.end(), [&](const CheckReport::Item& item) {
    const simt::Finding& finding = item.finding;
    const bool reads_early =
        finding.kind == Kind::uninitialised_read && finding.region == simt::shared_region;
    const bool races = cause_of(finding.kind) == Cause::race && !are_stores_of_two_blocks(finding);
    return (races || reads_early) && item.region != region;
  });
}

/// The same place of the source. Loops are unrolled, and functions inlined: the same line is
/// several places.
bool is_same_line(const std::string& a, const std::string& b) {
  return a.substr(0, a.find(',')) == b.substr(0, b.find(','));
}

bool is_wait(const CheckReport::Item& item) {
  return item.finding.kind == Kind::missing_wait || item.finding.kind == Kind::wrong_phase;
}

/// Bytes of a copy that its own lane takes too early are taken too early by the others as well: no
/// barrier orders what was not waited for. Where the first finding is such a race, the wait that is
/// missing comes before it; likewise where who reads too early gives the place back too early.
void put_waits_first(std::vector<CheckReport::Item>& items) {
  const CheckReport::Item& first = items.front();
  const simt::Finding& found = first.finding;
  const bool races = cause_of(found.kind) == Cause::race;
  if (!races && found.kind != Kind::operand_overwritten) return;
  // Of operands that are overwritten, the read is the earlier access.
  const auto access = races ? found.access.place : found.earlier.place;
  const auto earlier = races ? found.earlier.place : found.access.place;
  const std::string& access_line = races ? first.access_line : first.earlier_line;
  const std::string& earlier_line = races ? first.earlier_line : first.access_line;
  const auto is_its_wait = [&](const CheckReport::Item& item) {
    const bool same_places =
        item.finding.access.place == access && item.finding.earlier.place == earlier;
    const bool same_lines = !item.earlier_line.empty() &&
                            is_same_line(item.access_line, access_line) &&
                            is_same_line(item.earlier_line, earlier_line);
    return is_wait(item) && (same_places || same_lines);
  };
  // Who passes a wait by a phase that is over overwrites too early what lies there.
  const auto is_early = [&](const CheckReport::Item& item) {
    return !races && item.finding.kind == Kind::wrong_phase &&
           item.finding.access.place == found.access.place;
  };
  const auto wait = std::find_if(items.begin(), items.end(), [&](const CheckReport::Item& item) {
    return is_its_wait(item) || is_early(item);
  });
  if (wait != items.end()) std::rotate(items.begin(), wait, wait + 1);
}

/// Of a copy that is not waited for, who takes what it brings says more than who writes over it
/// later, as what goes out through the same memory does.
void put_takers_first(std::vector<CheckReport::Item>& items) {
  const CheckReport::Item& first = items.front();
  if (!is_wait(first) || !first.finding.access.write) return;
  const auto takes = std::find_if(items.begin(), items.end(), [&](const CheckReport::Item& item) {
    return is_wait(item) && !item.finding.access.write && item.region == first.region;
  });
  if (takes != items.end()) std::rotate(items.begin(), takes, takes + 1);
}

/// A product that reads a tile in another layout than it was stored in comes to bytes beside it, of
/// which some may be unwritten, or a copy that nobody waits for here may still bring them.
void put_layouts_first(std::vector<CheckReport::Item>& items) {
  const CheckReport::Item& read = items.front();
  const bool strays =
      read.finding.kind == Kind::uninitialised_read || read.finding.kind == Kind::missing_wait;
  if (!strays || read.finding.access.write) return;
  const auto is_its_layout = [&](const CheckReport::Item& item) {
    return order_of(item.finding.kind) == Cause::layout_disagrees && !read.access_line.empty() &&
           is_same_line(item.access_line, read.access_line);
  };
  const auto layout = std::find_if(items.begin(), items.end(), is_its_layout);
  if (layout != items.end()) std::rotate(items.begin(), layout, layout + 1);
}

}  // namespace

bool are_stores_of_two_blocks(const simt::Finding& finding) {
  return cause_of(finding.kind) == Cause::race && finding.access.write && finding.earlier.write &&
         finding.access.block != finding.earlier.block;
}

Cause cause_of(Kind kind) {
  switch (kind) {
    case Kind::race:
    case Kind::race_with_read:
    case Kind::copies_overlap:
      return Cause::race;
    case Kind::missing_wait:
      return Cause::missing_wait;
    case Kind::wrong_phase:
      return Cause::wrong_phase;
    case Kind::uninitialised_read:
      return Cause::uninitialised_read;
    case Kind::uninitialised_register:
    case Kind::absent_lane:
      return Cause::uninitialised_register;
    case Kind::out_of_bounds:
    case Kind::beyond_array:
      return Cause::out_of_bounds;
    case Kind::map_disagrees:
      return Cause::wrong_stride;
    case Kind::misaligned:
      return Cause::misaligned;
    case Kind::write_to_input:
      return Cause::write_to_input;
    case Kind::written_twice:
      return Cause::written_twice;
    case Kind::never_written:
      return Cause::never_written;
    case Kind::missing_proxy_fence:
    case Kind::missing_map_fence:
    case Kind::unfenced_read:
      return Cause::missing_proxy_fence;
    case Kind::operand_overwritten:
      return Cause::operand_overwritten;
    case Kind::register_in_flight:
      return Cause::register_in_flight;
    case Kind::missing_register_fence:
    case Kind::late_register_access:
      return Cause::missing_register_fence;
    case Kind::layout_disagrees:
    case Kind::rank_in_descriptor:
      return Cause::layout_disagrees;
    case Kind::fits_k_major:
    case Kind::fits_mn_major:
      return Cause::transposed;
    case Kind::wrong_start:
    case Kind::parts_differ:
      return Cause::wrong_source;
    case Kind::wrong_expect_tx:
      return Cause::wrong_expect_tx;
    case Kind::unfenced_barrier:
      return Cause::unfenced_barrier;
    case Kind::barrier_overwritten:
      return Cause::barrier_overwritten;
    case Kind::unfinished_copy:
      return Cause::unfinished_copy;
    case Kind::overtaken_wait:
      return Cause::deadlock;
    case Kind::double_arrival:
      return Cause::double_arrival;
    case Kind::missing_grid_wait:
      return Cause::missing_grid_wait;
    case Kind::none:
      break;
  }
  return Cause::unexplained;
}

bool is_hidden_by_step(const CheckReport& report, const CheckReport::Item& item) {
  const simt::Finding& f = item.finding;
  return report.in_step && cause_of(f.kind) == Cause::race && is_within_warp(f) &&
         f.access.place != f.earlier.place;
}

bool feeds(SiteId from, SiteId to) {
  return from <= to && (from != SiteId::v_smem || to == from || to >= SiteId::o);
}

void put_in_order(const CheckReport& report, std::optional<SiteId> wrong,
                  std::vector<CheckReport::Item>& items) {
  std::stable_sort(items.begin(), items.end(), [&](const auto& a, const auto& b) {
    return rank(report, a, wrong) < rank(report, b, wrong);
  });
  if (items.empty()) return;
  put_races_first(items);
  put_waits_first(items);
  put_layouts_first(items);
  put_takers_first(items);
  // Who waits for one copy reads what another brings to its place.
  std::stable_partition(items.begin(), items.end(), [](const CheckReport::Item& item) {
    return item.finding.kind == Kind::copies_overlap;
  });
}

}  // namespace lanescope
