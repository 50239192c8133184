#include "debug/causes/memory_stage.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string_view>

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

/// A line of a deadlock's story: "warp 3 lanes 0-15 wait in shfl.sync.bfly.b32 at x.cu:3", of whose
/// warp no lane waits at an mbarrier.
bool waits_in_warp(const std::string& line, const std::string& story) {
  const std::string wait = " wait in ";
  const std::size_t at = line.find(wait), lanes = line.find(" lanes ");
  if (at == line.npos) return false;
  const auto waits_at = [&](std::string_view in, const auto& names) {
    return std::ranges::any_of(names, [&](const char* name) { return in.starts_with(name); });
  };
  const std::string_view in = std::string_view(line).substr(at + wait.size());
  if (!waits_at(in, std::array{"shfl.", "vote.", "match.", "redux.", "bar.warp."})) return false;
  const std::string warp = line.substr(0, lanes == line.npos ? 0 : lanes + 1) + "lanes ";
  std::istringstream lines(story);
  for (std::string other; std::getline(lines, other);) {
    const std::size_t begin = other.find(wait);
    const bool same = lanes != line.npos && begin != other.npos && other.starts_with(warp);
    if (same && other.compare(begin + wait.size(), 8, "mbarrier") == 0) return false;
  }
  return true;
}

/// Of such a line, which share of what it waits for has come. Whoever waits where few have come is
/// why the others wait for them: least of all lanes that run on, then those that miss some of their
/// own warp.
double share_come(const std::string& line, const std::string& story) {
  if (line.find(" run in ") != line.npos) return -2;
  if (waits_in_warp(line, story)) return -1;
  int come = 0, all = 0;
  const std::size_t at = line.find(" for barrier ");
  const bool is_known =
      at != line.npos &&
      std::sscanf(line.c_str() + at, " for barrier %*d: %d of %d threads", &come, &all) == 2;
  return is_known && all > 0 ? static_cast<double>(come) / all : 1;
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

std::string place_of_absent(const std::string& line) {
  const std::size_t at = line.find(" has exited, which came before by ");
  return at == line.npos ? std::string() : line.substr(at);
}

std::optional<Stage> stage_of_end(const std::string& fault) {
  std::optional<Stage> of_end;
  std::istringstream lines(fault);
  double least = 2;  // above all shares
  for (std::string line; std::getline(lines, line);) {
    // Who comes no more is at fault, not who waits for that.
    std::optional<Stage> stage = stage_named_in(place_of_absent(line));
    if (!stage) stage = stage_named_in(line);
    const double share = share_come(line, fault);
    // Lanes of a loop that does not end are anywhere in it: it begins with the first of its stages.
    const bool begins = share == -2 && of_end && share == least && stage && *stage < *of_end;
    if (!stage || (of_end && share >= least && !begins)) continue;
    of_end = stage;
    least = share;
  }
  return of_end;
}

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
  if (!is_stage_of_reader(first)) return {};
  diagnosis.stage_certain = false;
  const bool races = cause_of(first.finding.kind) == Cause::race;
  const std::optional<Stage> beside = races ? stage_beside(report, first) : std::nullopt;
  if (beside) first.stage = beside;
  return std::string("the stage is that of the ") + (beside ? "write beside it" : "read") +
         "; of which one the write is, its numbers do not say";
}

}  // namespace lanescope
