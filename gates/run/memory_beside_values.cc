#include "gates/run/memory_beside_values.h"

#include <algorithm>
#include <string>

#include "debug/causes/cause_families.h"

namespace lanescope {
namespace {

/// Whether what is read at a place has rows that a wrong stride could miss: a value per row has
/// not.
bool has_stride(const CheckReport& report, const std::optional<Divergence>& at) {
  return !at || std::none_of(report.sites.begin(), report.sites.end(), [&](const Site& site) {
    return site.id == at->site && site.cols == 1;
  });
}

/// The tile was whole where the stage got it, and by its values the stage takes another one: that
/// it races with who fills that one follows, if it does so in whatever order lanes come.
bool takes_other_buffer(const Diagnosis& memory, const Diagnosis& values) {
  const bool of_operand = memory.first && values.first && memory.first->stage == Stage::load &&
                          values.first->stage != Stage::load;
  return of_operand && values.cause == Cause::stale_operand && values.predicts && values.sure() &&
         (memory.cause == Cause::race || memory.cause == Cause::missing_wait);
}

/// Whether values differ at a place that the run came to. Where no warp came to a site, that the
/// run ended before the first of all says nothing of a place.
bool have_place(const Diagnosis& values) {
  return values.first && !(values.by_end && values.first->warp < 0);
}

/// Whether the checker's first finding is about how a product takes a tile.
bool is_of_descriptor(const Diagnosis& memory) {
  return !memory.memory.empty() && is_of_layout(memory.memory.front().finding.kind) &&
         memory.memory.front().finding.kind != simt::Kind::parts_differ;
}

/// Whether what is wrong with values may be why a place is read that nobody wrote. What a kernel
/// before should have left in memory of its own, the reader finds where it takes others' places.
bool may_lead_to(Cause cause, const Diagnosis& memory) {
  const CheckReport::Item& item = memory.memory.front();
  const bool is_left = item.region_bytes > 0 && !item.site;
  return !is_left || takes_others(cause) || cause == Cause::wrong_head || cause == Cause::misplaced;
}

/// NaN where registers are used that nothing was assigned to: they hold it.
bool is_nan_of_registers(const Diagnosis& values, const Diagnosis& memory) {
  return memory.cause == Cause::uninitialised_register && values.cause == Cause::non_finite;
}

/// What a zero leaves in the place of a number: on a GPU, what nobody wrote often is one.
bool may_come_of_zero(Cause cause) {
  return cause == Cause::written_zero || cause == Cause::accumulator_lost ||
         cause == Cause::contribution_missing || cause == Cause::never_updated;
}

}  // namespace

bool is_of_layout(simt::Kind kind) {
  return kind == simt::Kind::layout_disagrees || kind == simt::Kind::fits_k_major ||
         kind == simt::Kind::fits_mn_major || kind == simt::Kind::wrong_start ||
         kind == simt::Kind::parts_differ;
}

void blame_reader(const Location& location, Diagnosis& memory) {
  const std::optional<Divergence>& wrong = location.diagnosis->first;
  if (memory.cause != Cause::uninitialised_read || !memory.first || !wrong) return;
  if (memory.first->stage != Stage::load || wrong->stage == Stage::load) return;
  // Who reads the tile; what shows it first may be behind that.
  const bool of_values = memory.first->site == SiteId::v_smem;
  const Stage reader = of_values ? Stage::pv : Stage::qk;
  const SiteId shows = of_values ? SiteId::o : SiteId::s;
  memory.first = wrong;
  if (wrong->stage > reader && std::ranges::find(location.shown, shows) != location.shown.end()) {
    memory.first->stage = reader;
    memory.first->site = shows;
  }
  // A tile has more bytes than that, of whatever kernel.
  constexpr std::int64_t bytes_of_half_a_tile = 2048;
  const simt::Finding& read = memory.memory.front().finding;
  const bool strays = read.count * read.bytes < bytes_of_half_a_tile;
  memory.cause = strays ? Cause::wrong_source : Cause::stale_operand;
  memory.certain = false;
  memory.evidence.insert(
      memory.evidence.begin(),
      std::string(name_of(memory.first->stage)) + " got its tiles whole, yet it reads " +
          (strays ? "a little that nobody wrote: it strays from the tile"
                  : "one that nobody wrote: it takes another buffer than the one that was filled"));
}

void blame_descriptor(const Location& location, Diagnosis& memory) {
  const std::optional<Divergence>& wrong = location.diagnosis->first;
  if (!is_of_descriptor(memory) || !memory.first || !wrong) return;
  if (memory.first->stage != Stage::load || wrong->stage == Stage::load) return;
  if (std::ranges::find(location.shown, memory.first->site) == location.shown.end()) return;
  memory.evidence.push_back(std::string(name_of(memory.first->site)) +
                            " is right as it was stored: the fault is in how " +
                            name_of(wrong->stage) + " reads it");
  memory.first = wrong;
}

bool adds_nothing(const Diagnosis& values, const Diagnosis& memory, const CheckReport& report,
                  const std::function<bool()>& depends_on_order) {
  // Of what values do not settle, a race says more, wherever it shows. A rule may be broken far
  // from the bytes that it is about.
  const bool upstream = !memory.first || !have_place(values) ||
                        values.cause == Cause::machine_rule ||
                        feeds(memory.first->site, values.first->site) ||
                        (memory.cause == Cause::race && !values.sure());
  // NaN may have been in registers that nothing was assigned to before anyone asked for a number.
  const bool was_nan = is_nan_of_registers(values, memory);
  // What is read in the wrong place may be what nobody wrote: that follows from it.
  const bool reads_unwritten =
      memory.cause == Cause::uninitialised_read || memory.cause == Cause::wrong_stride;
  // Heads that do not exist lie beyond the end; so do rows that are copied up to another length,
  // where that is the longer one.
  const bool may_read_beyond =
      values.cause == Cause::wrong_head || (values.cause == Cause::written_zero && values.predicts);
  const bool reads_beyond = memory.cause == Cause::out_of_bounds && may_read_beyond &&
                            values.sure() && !memory.memory.front().finding.access.write;
  const bool is_unwritten =
      memory.cause == Cause::uninitialised_read && may_come_of_zero(values.cause);
  // What goes on from a number that nobody wrote, in the array that is wrong, has no wrong index,
  // if no number says so.
  const auto goes_on = [&](const CheckReport::Item& item) {
    return item.finding.updates ||
           (values.first && !values.sure() && item.site == values.first->site);
  };
  const bool follows = reads_unwritten && !is_unwritten && !goes_on(memory.memory.front()) &&
                       may_lead_to(values.cause, memory) &&
                       ((values.predicts && values.sure()) ||
                        (values.cause == Cause::wrong_stride && has_stride(report, memory.first)));
  // Rows that are stored with too short a distance overlap.
  const bool overlaps = memory.cause == Cause::written_twice && values.sure() &&
                        values.cause == Cause::wrong_stride && values.stage() == memory.stage();
  return memory.cause == values.cause || !(upstream || was_nan) || follows || reads_beyond ||
         overlaps || (takes_other_buffer(memory, values) && !depends_on_order());
}

void take_as_unwritten(const Diagnosis& values, Diagnosis& memory) {
  if (memory.cause != Cause::misplaced || values.cause != Cause::never_written) return;
  if (!values.sure()) return;
  memory.cause = Cause::never_written;
  memory.evidence.insert(memory.evidence.begin(), values.evidence.begin(), values.evidence.end());
  memory.evidence.push_back("what is written twice is right: nothing stands in its place");
}

void take_as_left_out(const Diagnosis& values, Diagnosis& memory) {
  const std::optional<Stage> reader = memory.stage();
  const bool is_read = memory.cause == Cause::uninitialised_read && !memory.memory.empty() &&
                       !memory.memory.front().site && (reader == Stage::qk || reader == Stage::pv);
  if (is_read && !values.sure() && values.stage() == Stage::load) memory.first = values.first;
}

bool confirm_unwritten(const Diagnosis& values, Diagnosis& memory) {
  const bool confirms = memory.cause == Cause::uninitialised_read && !memory.memory.empty() &&
                        values.cause == Cause::written_zero && values.sure() &&
                        memory.stage() == values.stage();
  if (!confirms) return false;
  memory.certain = true;
  std::erase_if(memory.evidence,
                [](const std::string& line) { return line.starts_with("not certain: "); });
  memory.evidence.insert(memory.evidence.end(), values.evidence.begin(), values.evidence.end());
  return true;
}

void tell_where_values_differ(const Diagnosis& values, const CheckReport& report,
                              Diagnosis& memory) {
  if (!have_place(values)) return;
  const Divergence& at = *values.first;
  memory.evidence.push_back(
      std::string("so values differ from ") + name_of(at.stage) + " / " + name_of(at.site) +
      (at.tile < 0 ? "" : ", tile " + std::to_string(at.tile)) +
      ", on; by values alone: " + name_of(values.cause) + (values.sure() ? "" : " (not certain)"));
  // Where a kernel shows its outputs alone, they say nothing of the stage that spoiled them.
  const bool shows_stage = !memory.memory.empty() && memory.memory.front().stage.has_value();
  // A register that nothing was assigned to is of the stage whose values show it.
  const bool of_register =
      memory.cause == Cause::uninitialised_register && memory.first &&
      (values.first->site > memory.first->site || is_nan_of_registers(values, memory));
  if (!of_register && (memory.first || (!report.shows_stages() && !shows_stage))) return;
  memory.first = values.first;
  // Where the kernel's own code says which stage the accesses belong to.
  if (shows_stage) {
    memory.first->stage = *memory.memory.front().stage;
  }
}

void judge_unfinished_tile(const UnfinishedTile& run, Diagnosis& values) {
  const bool unfinished =
      values.cause == Cause::never_written || values.cause == Cause::stale_value;
  if (!unfinished || values.untaken || !values.first || values.first->stage != Stage::load) return;
  if (run.outputs_right) {
    values.certain = false;
    values.evidence.push_back(std::string("the outputs are right and the memory checker finds ") +
                              "nothing: the trace point of " + name_of(values.first->site) +
                              " may come before the barrier that completes the tile");
  } else if (run.lanes_skip && values.cause == Cause::never_written) {
    values.cause = Cause::tile_skipped;
    values.certain = false;
    values.evidence.emplace_back(
        "some lanes come to no site of the tile: they skip it, and with it their part of what all "
        "load, and barriers");
  } else if (run.clean && values.cause == Cause::never_written) {
    values.cause = Cause::uninitialised_register;
    values.evidence.push_back(
        "the memory checker finds nothing: the bytes were written, with registers that nothing was "
        "assigned to");
  }
}

}  // namespace lanescope
