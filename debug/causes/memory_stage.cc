#include "debug/causes/memory_stage.h"

#include <algorithm>
#include <cstdlib>

#include "debug/causes/memory_order.h"

namespace lanescope {
namespace {

using simt::Kind;

/// The line of the write of a race of a read and a write.
const std::string& write_line(const CheckReport::Item& race) {
  return race.finding.access.write ? race.access_line : race.earlier_line;
}

/// Whether the stage of a race is that of the lane that reads: what the other one writes says
/// nothing of its own.
bool is_stage_of_reader(const CheckReport::Item& item) {
  const simt::Finding& f = item.finding;
  if (item.site || !item.stage || f.earlier.place == 0 || f.access.write == f.earlier.write) {
    return false;
  }
  return !stage_named_in(write_line(item));
}

/// The line of the read of such a race.
const std::string& read_line(const CheckReport::Item& race) {
  return race.finding.access.write ? race.earlier_line : race.access_line;
}

/// Whether who reads in a race takes bytes of the same memory, too, that nobody wrote: it is the
/// read that strays.
bool reads_unwritten_too(const CheckReport& report, const CheckReport::Item& race) {
  const simt::Finding& f = race.finding;
  const bool is_read_of_other =
      cause_of(f.kind) == Cause::race && f.access.write != f.earlier.write && f.earlier.place != 0;
  return is_read_of_other && std::ranges::any_of(report.items, [&](const CheckReport::Item& item) {
           return item.finding.kind == Kind::uninitialised_read && item.region == race.region &&
                  item.access_line == read_line(race);
         });
}

/// Of a write that says nothing of its own stage: that of another one beside it in the source,
/// which races as well.
std::optional<Stage> stage_beside(const CheckReport& report, const CheckReport::Item& race) {
  constexpr int near = 3;  // lines
  const auto own = place_in_source(write_line(race));
  for (const CheckReport::Item& item : report.items) {
    if (cause_of(item.finding.kind) != Cause::race) continue;
    const auto other = place_in_source(write_line(item));
    const bool is_beside =
        own && other && own->first == other->first && std::abs(own->second - other->second) <= near;
    const std::optional<Stage> stage = stage_named_in(write_line(item));
    if (stage && is_beside) return stage;
  }
  return std::nullopt;
}

/// What a block leaves in memory of its own for a stage before the epilogue is no result: of a
/// write that seems to be one, the stage that it races with.
std::optional<Stage> stage_fed(const CheckReport& report, const CheckReport::Item& first) {
  const bool is_own = first.region_bytes > 0 && !first.site;
  if (!is_own || first.stage != Stage::epilogue) return std::nullopt;
  for (const CheckReport::Item& item : report.items) {
    const simt::Finding& f = item.finding;
    const bool reads = cause_of(f.kind) == Cause::race && f.access.write != f.earlier.write;
    if (!reads || item.region != first.region || write_line(item) != write_line(first)) continue;
    const auto reader = stage_named_in(f.access.write ? item.earlier_line : item.access_line);
    if (reader && *reader > Stage::load && *reader < Stage::epilogue) return reader;
  }
  return std::nullopt;
}

/// What one block wrote and another one reads is a part of a result, which that one merges.
bool is_between_blocks(const CheckReport::Item& item) {
  const simt::Finding& f = item.finding;
  return cause_of(f.kind) == Cause::race && !item.site && f.region != simt::shared_region &&
         f.earlier.place != 0 && f.access.write != f.earlier.write &&
         f.access.block != f.earlier.block;
}

/// A number in global memory that blocks count in without making anything of it: which of them
/// comes last, and merges.
bool is_counter(const CheckReport::Item& item) {
  return item.finding.kind == Kind::uninitialised_read && item.finding.updates &&
         item.finding.region != simt::shared_region;
}

/// Where the line of an access does not say whose it is, one of its kind in the same memory may, or
/// that where what it read is used; a counter is the merge's. None of them is certain.
void take_stage_of_others(const CheckReport& report, Diagnosis& diagnosis) {
  CheckReport::Item& first = diagnosis.memory.front();
  const auto alike = std::ranges::find_if(diagnosis.memory, [&](const CheckReport::Item& item) {
    return item.stage && item.finding.kind == first.finding.kind &&
           item.finding.region == first.finding.region;
  });
  first.stage = alike == diagnosis.memory.end() ? stage_named_in(first.used_line) : alike->stage;
  if (!first.stage && is_counter(first)) first.stage = Stage::combine;
  // What leaves shared memory are results.
  if (!first.stage && first.finding.kind == Kind::unfinished_copy && !report.shows_stages()) {
    first.stage = first.finding.access.write ? Stage::load : Stage::epilogue;
  }
  if (first.stage) diagnosis.stage_certain = false;
}

}  // namespace

std::string settle_stage(const CheckReport& report, Diagnosis& diagnosis) {
  CheckReport::Item& first = diagnosis.memory.front();
  if (is_between_blocks(first)) {
    first.stage = Stage::combine;
    diagnosis.stage_certain = false;
    return "one block reads there what another one stored";
  }
  if (!first.stage) take_stage_of_others(report, diagnosis);
  if (const std::optional<Stage> fed = stage_fed(report, first)) {
    first.stage = fed;
    diagnosis.stage_certain = false;
    return std::string("what is stored there is read by ") + name_of(*fed);
  }
  const std::optional<Stage> reader = stage_named_in(read_line(first));
  if (reader && reads_unwritten_too(report, first)) {
    first.stage = reader;
    diagnosis.stage_certain = false;
    return "the same read takes bytes that nobody wrote";
  }
  if (!is_stage_of_reader(first)) return {};
  diagnosis.stage_certain = false;
  const bool races = cause_of(first.finding.kind) == Cause::race;
  const std::optional<Stage> beside = races ? stage_beside(report, first) : std::nullopt;
  if (beside) first.stage = beside;
  return std::string("the stage is that of the ") + (beside ? "write beside it" : "read") +
         "; of which one the write is, its numbers do not say";
}

}  // namespace lanescope
