#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "debug/causes/diagnose.h"
#include "debug/judge/stopped_lanes.h"

namespace lanescope {
namespace {

/// Whether another block of the cluster is through with all tiles, and sends no more of them.
bool ends_before_others(const std::string& fault) {
  const std::string_view cluster = " of its cluster:\n";
  for (std::size_t at = fault.find(cluster); at != fault.npos;) {
    const std::size_t begin = at + cluster.size();
    at = fault.find(cluster, begin);
    if (fault.substr(begin, at - begin).find(" wait in mbarrier") == fault.npos) return true;
  }
  return false;
}

/// Whether lanes wait for a phase of which other bytes have come than it expects, though all that
/// arrive have: "1 of 1 arrivals and 8192 of 4096 expected bytes have come". None came where the
/// copy is missing.
bool expects_other_bytes(const std::string& fault) {
  const auto before = [&](const std::string& words) {
    const std::size_t end = fault.find(words), of = fault.rfind(" of ", end);
    if (end == fault.npos || of == fault.npos || of == 0) return std::pair(0LL, 0LL);
    const std::size_t came = fault.rfind(' ', of - 1) + 1;
    return std::pair(std::atoll(fault.c_str() + came), std::atoll(fault.c_str() + of + 4));
  };
  const auto [came, expected] = before(" expected bytes have come");
  const auto [arrived, count] = before(" arrivals and ");
  const bool is_short = came > 0 && came < expected && arrived == count;
  return came > expected || (is_short && !ends_before_others(fault));
}

/// Whether the place that an mbarrier is of is filled again before all that use it are done: a
/// lane that fills it does not wait, or those who say that it is free are more than are counted.
bool frees_too_early(const std::string& fault) {
  return fault.find("; it comes round to a place that is not free again") != fault.npos ||
         fault.find("; nobody waited for its last ") != fault.npos;
}

/// Whether a kernel never ran: the SIMT machine says so, or CUDA by an error that launches alone
/// have. An invalid argument may be any call's.
bool was_refused(const std::string& why) {
  constexpr const char* words[] = {": the launch was refused: ", "(cudaErrorInvalidConfiguration)",
                                   "(cudaErrorLaunchOutOfResources)",
                                   "(cudaErrorCooperativeLaunchTooLarge)"};
  return std::ranges::any_of(words, [&](const char* said) { return why.find(said) != why.npos; });
}

/// Which share of what lanes wait for has come. Whoever waits where few have come is why the others
/// wait for them: least of all lanes that run on, then those that miss some of their own warp,
/// unless these wait for a tile.
double share_come(const StoppedLanes& lanes, const std::vector<StoppedLanes>& all) {
  if (lanes.runs) return -2;
  const bool waits_for_tile = std::ranges::any_of(all, [&](const StoppedLanes& other) {
    return !other.runs && other.at_mbarrier() && other.first_warp == lanes.first_warp &&
           other.last_warp == lanes.last_warp;
  });
  return lanes.in_warp() && !waits_for_tile ? -1 : lanes.share_come();
}

}  // namespace

bool waits_for_tiles(const std::string& fault) {
  bool any = false;
  for (const StoppedLanes& lanes : stopped_lanes(fault)) {
    if (lanes.runs) continue;
    if (!lanes.at_mbarrier()) return false;
    any = true;
  }
  return any;
}

bool is_of_ring(Cause cause) {
  return cause == Cause::operand_overwritten || cause == Cause::wrong_expect_tx ||
         cause == Cause::wrong_phase || cause == Cause::double_arrival;
}

std::string place_of_absent(const std::string& line) {
  const std::size_t at = line.find(" has exited, which came before by ");
  return at == line.npos ? std::string() : line.substr(at);
}

std::optional<Stage> stage_of_end(const std::string& fault) {
  const std::vector<StoppedLanes> all = stopped_lanes(fault);
  std::optional<Stage> of_end;
  double least = 2;  // above all shares
  std::istringstream lines(fault);
  for (std::string line; std::getline(lines, line);) {
    // Who comes no more is at fault, not who waits for that.
    std::optional<Stage> stage = stage_named_in(place_of_absent(line));
    if (!stage) stage = stage_named_in(line);
    const auto lanes = stopped_lanes_of(line);
    const double share = lanes ? share_come(*lanes, all) : 1;
    // Lanes of a loop that does not end are anywhere in it: it begins with the first of its stages.
    const bool begins =
        lanes && lanes->runs && of_end && share == least && stage && *stage < *of_end;
    if (!stage || (of_end && share >= least && !begins)) continue;
    of_end = stage;
    least = share;
  }
  return of_end;
}

std::optional<Stage> stage_of_end(Cause cause, const std::string& fault) {
  return is_of_ring(cause) ? Stage::load : stage_of_end(fault);
}

bool may_be_of_other_wait(const std::string& fault) {
  return fault.find("one arrival too many") != fault.npos ||
         fault.find("in which the same threads arrive") != fault.npos;
}

Cause cause_of_end(Stop::Kind kind, const std::string& why) {
  if (was_refused(why)) return Cause::launch_refused;
  if (expects_other_bytes(why)) return Cause::wrong_expect_tx;
  // What came was not waited for, and what is waited for does not come: it is the parity.
  for (const char* words : {" passed by a phase that is over", "; nobody waited for its phase "}) {
    if (why.find(words) != why.npos) return Cause::wrong_phase;
  }
  if (why.find("; the same thread has arrived in it") != why.npos) return Cause::double_arrival;
  if (frees_too_early(why)) return Cause::operand_overwritten;
  if (why.find("misaligned address") != why.npos) return Cause::misaligned;
  if (why.find(" is outside of ") != why.npos) return Cause::out_of_bounds;
  if (why.find("deadlock") != why.npos) return Cause::deadlock;
  return kind == Stop::Kind::crash   ? Cause::crash
         : kind == Stop::Kind::hang  ? Cause::hang
         : kind == Stop::Kind::stray ? Cause::out_of_bounds
         : kind == Stop::Kind::input ? Cause::write_to_input
                                     : Cause::machine_rule;
}

}  // namespace lanescope
