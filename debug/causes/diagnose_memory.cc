#include <algorithm>
#include <cmath>
#include <sstream>
#include <string_view>

#include "debug/causes/diagnose.h"
#include "debug/causes/memory_order.h"
#include "debug/causes/memory_place.h"
#include "debug/causes/memory_stage.h"

namespace lanescope {
namespace {

using simt::Kind;

/// As many bytes of an output are never written as are written twice: its rows, or parts of them,
/// are stored at the place of others.
bool is_misplaced(const CheckReport& report, const CheckReport::Item& twice) {
  if (twice.finding.kind != Kind::written_twice) return false;
  return std::any_of(report.items.begin(), report.items.end(), [&](const CheckReport::Item& item) {
    return item.finding.kind == Kind::never_written && item.region == twice.region &&
           item.finding.count * item.finding.bytes == twice.finding.count * twice.finding.bytes;
  });
}

/// Two blocks, which nothing orders, store to one place, and nobody reads there what another block
/// wrote, as sums do that lack an atomic: indices collide, no barrier is missing.
bool is_stored_by_two_blocks(const CheckReport& report, const CheckReport::Item& first) {
  return are_stores_of_two_blocks(first.finding) &&
         std::none_of(report.items.begin(), report.items.end(), [&](const CheckReport::Item& item) {
           return cause_of(item.finding.kind) == Cause::race && item.region == first.region &&
                  !(item.finding.access.write && item.finding.earlier.write);
         });
}

/// Few bytes of shared memory that nobody wrote, between more that were: padding behind a row.
bool reads_padding(const CheckReport::Item& item) {
  constexpr int most = 16;  // of what is in use
  const simt::Finding& f = item.finding;
  return f.kind == Kind::uninitialised_read && f.region == simt::shared_region && !item.site &&
         f.unwritten.bytes > 0 && f.unwritten.bytes <= most &&
         f.unwritten.beside > f.unwritten.bytes;
}

/// Two lanes store to one place between two barriers, and what others should have stored is read
/// though nobody wrote it: their indices collide.
bool collides_in_block(const CheckReport& report, const CheckReport::Item& first) {
  const simt::Finding& f = first.finding;
  const bool stores = f.kind == Kind::race && f.access.write && f.earlier.write &&
                      f.access.block == f.earlier.block && f.access.place == f.earlier.place;
  return stores && !is_hidden_by_step(report, first) &&
         std::any_of(report.items.begin(), report.items.end(), [&](const CheckReport::Item& item) {
           return item.finding.kind == Kind::uninitialised_read && item.region == first.region;
         });
}

std::string what_of(const CheckReport::Item& item) {
  if (!item.element.empty()) return item.element;
  return item.region.empty() ? "far from every buffer" : item.region;
}

std::vector<std::string> evidence_of(const CheckReport::Item& item) {
  const simt::Finding& f = item.finding;
  std::vector<std::string> lines = {what_of(item) + ": " + explanation_of(f) +
                                    (f.count > 1 ? ", " + std::to_string(f.count) + " times" : "")};
  if (f.access.place != 0) lines.push_back(party_text(f.access, item.access_line));
  if (f.earlier.place != 0) lines.push_back(party_text(f.earlier, item.earlier_line));
  if (f.waited.place != 0) lines.push_back(party_text(f.waited, item.waited_line, "waited"));
  if (f.updates) {
    lines.emplace_back(
        "who reads them stores there what it made of them: what it adds to, or "
        "scales, was never set");
  }
  if (f.passed.tile >= 0) {
    lines.push_back("the " + std::string(f.access.write ? "write" : "read") + " comes after " +
                    progress_text(f.passed));
  }
  return lines;
}

/// Numbers in memory that a kernel reads which an earlier one left there: by its own numbers alone,
/// one that takes powers of two of them may be a softmax of scores or the combine pass of splits. A
/// buffer that is too small for scores, of a byte each, holds what splits left; so does one that
/// seems to be loaded, and has no room for Q. Returns what there is to say of that.
std::string settle_parts(const CheckReport& report, Diagnosis& diagnosis) {
  CheckReport::Item& item = diagnosis.memory.front();
  const simt::Finding& f = item.finding;
  const Problem& p = report.problem;
  const bool is_between = item.region_bytes > 0 && !item.site;
  const bool is_open = !item.stage && item.access_line.ends_with(" in softmax or combine");
  const auto has_bytes = [&](const char* why) {
    return item.region + " has " + std::to_string(item.region_bytes) + " bytes, too few for " + why;
  };
  if (report.shows_stages() || f.kind == Kind::missing_map_fence) return {};
  if (item.stage == Stage::load && is_between && !f.access.write &&
      item.region_bytes < 2 * p.queries() * p.d) {
    item.stage = Stage::combine;
    return has_bytes("rows of Q, K or V: what is read are numbers of splits, in combine");
  }
  if (!is_open) return {};
  item.stage = Stage::softmax;
  const bool is_stored = f.access.write && (f.earlier.place == 0 || f.earlier.write);
  // Who writes it is a softmax as well: that keeps its own maxima and sums there.
  const bool is_own = f.earlier.place != 0 && stage_named_in(item.earlier_line) == Stage::softmax;
  if (!is_between || is_stored || is_own) return {};
  if (item.region_bytes < p.len_q * p.len_kv) {
    item.stage = is_left_out(item) ? Stage::epilogue : Stage::combine;
    return has_bytes("scores: what is weighed are the results of splits, in combine");
  }
  diagnosis.certain = false;
  return "not certain: what is weighed may be scores, or the results of splits, in combine";
}

/// A product whose operand's major-ness and start address do not go together: that of Q and K sums
/// along the rows of their tiles, which is K-major, that of V over them. Where it is right, the
/// start address is wrong.
void settle_side(Diagnosis& diagnosis) {
  const CheckReport::Item& item = diagnosis.memory.front();
  const Kind kind = item.finding.kind;
  if (kind != Kind::fits_k_major && kind != Kind::fits_mn_major) return;
  const bool of_values = item.site ? *item.site == SiteId::v_smem : item.stage == Stage::pv;
  const bool of_keys = item.site ? *item.site < SiteId::v_smem : item.stage == Stage::qk;
  if (!of_values && !of_keys) {
    diagnosis.certain = false;
  } else if ((kind == Kind::fits_k_major) == of_values) {
    diagnosis.cause = Cause::wrong_source;
    diagnosis.evidence.push_back(std::string("of ") + (of_values ? "V" : "Q and K") +
                                 " that major-ness is right: the start address advances along the "
                                 "wrong side of the tile");
  }
}

}  // namespace

Diagnosis diagnose(const CheckReport& report, std::optional<SiteId> wrong) {
  Diagnosis diagnosis;
  diagnosis.certain = true;
  diagnosis.memory = report.items;
  // Where lanes stopped, so did what they would have waited for.
  if (!report.fault.empty()) {
    std::erase_if(diagnosis.memory, [](const CheckReport::Item& item) {
      return item.finding.kind == Kind::unfinished_copy;
    });
  }
  // A kernel that never ran wrote nothing of what others read.
  const Cause of_end = cause_of_end(report.stop, report.fault);
  if (!report.fault.empty() && of_end == Cause::launch_refused) diagnosis.memory.clear();
  put_in_order(report, wrong, diagnosis.memory);
  if (diagnosis.memory.empty()) {
    diagnosis.cause = of_end;
    diagnosis.by_end = true;
    diagnosis.certain = !may_be_of_other_wait(report.fault);
    diagnosis.end_stage = stage_of_end(of_end, report.fault);
    std::istringstream lines(report.fault);
    for (std::string line; std::getline(lines, line);) diagnosis.evidence.push_back(line);
    return diagnosis;
  }
  const CheckReport::Item& first = diagnosis.memory.front();
  diagnosis.hidden_by_step = is_hidden_by_step(report, first);
  const bool misplaced = is_misplaced(report, first);
  const bool collides = is_stored_by_two_blocks(report, first) || collides_in_block(report, first);
  diagnosis.cause = misplaced              ? Cause::misplaced
                    : collides             ? Cause::written_twice
                    : reads_padding(first) ? Cause::wrong_stride
                                           : cause_of(first.finding.kind);
  const std::string of_parts = settle_parts(report, diagnosis);
  const std::string whose_stage = settle_stage(report, diagnosis);
  const Divergence at = place_of(report, first);
  if (at.row >= 0 || at.block >= 0) diagnosis.first = at;
  diagnosis.evidence = evidence_of(first);
  if (!whose_stage.empty()) diagnosis.evidence.push_back(whose_stage);
  if (!of_parts.empty()) diagnosis.evidence.push_back(of_parts);
  const bool waits = diagnosis.cause == Cause::missing_wait;
  const auto overlap = std::find_if(
      diagnosis.memory.begin(), diagnosis.memory.end(), [&](const CheckReport::Item& item) {
        const simt::Finding& f = item.finding;
        return waits && f.kind == Kind::missing_wait && f.access.write && f.earlier.write;
      });
  if (overlap != diagnosis.memory.end()) {
    diagnosis.certain = false;
    diagnosis.evidence.push_back("not certain: " + overlap->access_line +
                                 " writes what the copy brings as well: the two may overlap");
  }
  if (diagnosis.cause == Cause::wrong_stride && reads_padding(first)) {
    diagnosis.certain = false;
    diagnosis.evidence.push_back(
        "not certain: these " + std::to_string(first.finding.unwritten.bytes) +
        " bytes lie alone between others that were written, as the padding of a row does: who "
        "reads them takes rows to lie at another distance, or they were left out");
  }
  if (first.finding.kind == Kind::parts_differ) {
    diagnosis.certain = false;
    diagnosis.evidence.emplace_back(
        "not certain: who brings the parts may go through other tiles than who uses them");
  }
  settle_place(report, diagnosis);
  if (misplaced) {
    diagnosis.evidence.push_back("as many bytes of " + first.region +
                                 " are never written: what belongs there is stored in their place");
  }
  for (std::size_t i = 1; i < diagnosis.memory.size(); ++i) {
    if (i > 3) {
      diagnosis.evidence.push_back(std::to_string(diagnosis.memory.size() - i) + " more findings");
      break;
    }
    const CheckReport::Item& item = diagnosis.memory[i];
    diagnosis.evidence.push_back(std::string("also ") + name_of(item.finding.kind) + ": " +
                                 what_of(item) +
                                 (item.access_line.empty() ? "" : ", " + item.access_line));
  }
  settle_side(diagnosis);
  return diagnosis;
}

}  // namespace lanescope
