#include "debug/report/report.h"

#include <algorithm>
#include <cmath>

#include "debug/dump/site_slots.h"
#include "debug/judge/by_value.h"
#include "debug/judge/last_sites.h"
#include "debug/judge/tile_view.h"
#include "debug/report/report_parts.h"
#include "debug/report/suggested_command.h"

namespace lanescope {
namespace {

constexpr std::size_t rows_shown = 4;  // of the worst rows: one screen holds the rest, too

void write_sites(Page& page, const std::vector<SiteReport>& sites) {
  std::vector<std::vector<std::string>> rows = {{"stage", "site", "judged", "compared", "failed",
                                                 "unwritten", "not finite", "max error",
                                                 "error/bound"}};
  for (const SiteReport& site : sites) {
    rows.push_back({name_of(site.stage), name_of(site.site), name_of(site.judgement),
                    std::to_string(site.compared), std::to_string(site.failed),
                    std::to_string(site.unwritten), std::to_string(site.non_finite),
                    number_text(site.max_error, 3), number_text(site.max_error_over_bound, 3)});
  }
  const auto vacuous = [](const SiteReport& site) { return site.vacuous > 0; };
  if (std::any_of(sites.begin(), sites.end(), vacuous)) {
    rows[0].push_back("says nothing");
    for (std::size_t i = 0; i < sites.size(); ++i) {
      rows[i + 1].push_back(std::to_string(sites[i].vacuous));
    }
  }
  const std::vector<std::string> lines = table_lines(rows, 3);
  page.line();
  page.line(lines[0], Colour::dim);
  for (std::size_t i = 0; i < sites.size(); ++i) {
    if (sites[i].failed > 0 || sites[i].unwritten > 0) {
      page.line(lines[i + 1], Colour::red);
    } else {
      page.line(lines[i + 1]);
    }
  }
}

/// |got − want|, NaN where either is not finite and they differ.
double error_of(const Divergence& at) { return std::abs(at.got - at.want); }

void write_first(Page& page, const Dump& dump, const Divergence& at) {
  const DumpSite* site = dump.find_site(name_of(at.site));
  page.line();
  page.line("first divergence", Colour::bold);
  page.field("stage", name_of(at.stage));
  page.field("site",
             std::string(name_of(at.site)) + (site ? std::string(" (") + name_of(site->site.type) +
                                                         ", " + name_of(site->site.space) + ")"
                                                   : std::string()));
  page.field("judged", at.judgement == Judgement::local
                           ? "local: against the reference applied to what this stage received"
                           : "chain: against the true value, from the gate's inputs on");
  write_place(page, dump.info, at);
  page.field("got", got_text(dump, name_of(at.site), at));
  page.field("want", number_text(at.want, digits));
  page.field("bound", number_text(at.bound, digits));
  if (!at.unwritten) page.field("error", number_text(error_of(at), digits));
}

void write_worst(Page& page, const DiffReport& report) {
  const Divergence& first = *report.first;
  const auto site =
      std::find_if(report.sites.begin(), report.sites.end(), [&](const SiteReport& candidate) {
        return candidate.site == first.site && candidate.judgement == first.judgement;
      });
  if (site != report.sites.end() && site->worst) {
    const Divergence& worst = *site->worst;
    page.line();
    page.line(std::string("worst of ") + name_of(worst.site), Colour::bold);
    page.field("slot", "block " + std::to_string(worst.block) + ", " + slot_text(worst));
    page.field("place", place_text(worst));
    page.field("got", (worst.unwritten ? "never written" : number_text(worst.got, digits)) +
                          ", want " + number_text(worst.want, digits) + ", bound " +
                          number_text(worst.bound, digits));
  }
  if (report.rows.empty()) return;
  page.line();
  page.line("worst rows of the output", Colour::bold);
  std::vector<std::vector<std::string>> rows = {
      {"  batch", "head", "query", "max error", "error/bound"}};
  for (std::size_t i = 0; i < std::min(rows_shown, report.rows.size()); ++i) {
    const RowError& row = report.rows[i];
    rows.push_back({std::to_string(row.batch), std::to_string(row.head), std::to_string(row.query),
                    number_text(row.max_error, 3), number_text(row.error_over_bound, 3)});
  }
  for (const std::string& line : table_lines(rows, 0)) page.line(line);
}

void write_command(Page& page, const Dump& dump, std::string_view path, const Divergence& at) {
  const std::string_view file = path.empty() ? "x.safetensors" : path;
  page.line();
  page.line("look closer", Colour::bold);
  if (path.empty()) {
    page.whole("  " + program_name() + " diff " + run_text(dump.info, dump.info.gate) +
               " -o x.safetensors");
  }
  page.whole("  " + show_command_text(file, name_of(at.site), at));
  // Outputs alone say where, and no more: what they are those of, and whether another way to round
  // gives them, the other command tells.
  const bool shows_more =
      std::ranges::any_of(dump.info.sites, [](const DumpSite& s) { return !is_output(s.site.id); });
  if (is_module_path(dump.info.module) && !shows_more) {
    page.whole("  " + program_name() + " locate " + shell_word(dump.info.module));
  }
}

std::int64_t total(const DiffReport& report, std::int64_t SiteReport::*count) {
  std::int64_t sum = 0;
  for (const SiteReport& site : report.sites) sum += site.*count;
  return sum;
}

/// "4 comparisons within their bounds", and how many of them say nothing.
std::string comparisons_text(const DiffReport& report) {
  const std::int64_t vacuous = total(report, &SiteReport::vacuous);
  return std::to_string(total(report, &SiteReport::compared)) + " comparisons within their bounds" +
         (vacuous > 0 ? ", of " + std::to_string(vacuous) + " the bound says nothing" : "");
}

/// "64 values of o_final, 2 of lse".
std::string untold_text(const DiffReport& report) {
  std::string text;
  for (const auto& [site, values] : report.untold) {
    text += (text.empty() ? std::to_string(values) + " values of "
                          : ", " + std::to_string(values) + " of ") +
            std::string(name_of(site));
  }
  return text;
}

void write_last_sites(Page& page, const DiffReport& report) {
  if (report.last_sites.empty()) return;
  page.line();
  page.line("last site reached", Colour::bold);
  for (const std::string& line : last_site_lines(report.last_sites)) page.whole("  " + line);
}

/// What finds out more where the run broke off.
void write_next_step(Page& page, const DumpInfo& info) {
  if (info.stop.kind != Stop::Kind::crash && info.stop.kind != Stop::Kind::hang) return;
  const bool by_path = is_module_path(info.module);
  const std::string run = program_file() + " diff " + run_text(info, info.gate);
  page.line();
  page.line("look closer", Colour::bold);
  page.whole("  " +
             (!by_path ? program_name() + " locate " + run_text(info, "")
              : info.backend == "sim"
                  // Before that, the module is loaded on trial in a child that is not the one.
                  ? "gdb -ex 'tbreak lanescope::run_isolated' -ex run -ex 'set follow-fork-mode "
                    "child' -ex continue --args " +
                        run + " --timeout 1e6"
                  : "compute-sanitizer --target-processes all " + run));
}

/// What of the sites was judged, where that is a part.
std::string part_text(const DumpInfo& info) {
  const std::string where = info.sites.empty() ? "" : where_option(info);
  if (where.empty()) return {};
  return "; of the sites only " + where;
}

/// "m is kept ...; the tiles ...", on one line.
std::string recurrence_text(const Recurrence& recurrence) {
  std::string text;
  for (const std::string& line : recurrence.differences())
    text += (text.empty() ? "" : "; ") + line;
  return text;
}

bool has_outputs(const DiffReport& report) {
  return std::any_of(report.sites.begin(), report.sites.end(),
                     [](const SiteReport& site) { return is_output(site.site); });
}

std::string verdict_reason(const DumpInfo& info, const DiffReport& report) {
  if (report.match) return comparisons_text(report);
  if (report.unsettled) {
    return comparisons_text(report) + ", and nothing else is known of " + untold_text(report);
  }
  if (info.strayed()) return info.end_text();
  if (report.holds()) {
    return std::string(has_outputs(report) ? "outputs are right; " : "") +
           "the recurrence differs here: " + recurrence_text(*report.recurrence);
  }
  if (report.rounded) {
    return report.rounded->what_text();
  }
  if (report.first) {
    return std::string(name_of(report.first->stage)) + " / " + name_of(report.first->site) + ", " +
           slot_text(*report.first);
  }
  if (!info.incomplete.empty()) {
    return info.end_text().substr(0, info.end_text().find('\n'));
  }
  if (!report.contradictions.empty()) return "the dump contradicts itself";
  return "what was compared holds, but see the warnings";
}

}  // namespace

std::string diff_text(const Dump& dump, const DiffReport& report, const Style& style,
                      std::string_view path) {
  Page page(style);
  write_header(page, dump.info);
  write_machine(page, "", dump.info);
  write_sites(page, report.sites);
  if (report.recurrence && !report.holds()) {
    page.line();
    page.whole("outputs are right; it may be the recurrence that differs: " +
                   recurrence_text(*report.recurrence) + ". `locate` tries inputs that tell",
               Colour::yellow);
  }
  if (report.softmax) {
    page.line();
    page.whole(std::string(report.softmax->of_maxima ? "m follows" : "m to l follow") +
                   " from the scores, by another recurrence than the reference's: " +
                   recurrence_text(*report.softmax) + "; the rest is judged by that",
               Colour::yellow);
  }
  const bool any_failed = std::any_of(report.sites.begin(), report.sites.end(),
                                      [](const SiteReport& site) { return site.failed > 0; });
  if (report.first && any_failed && !report.holds()) {
    write_first(page, dump, *report.first);
    write_worst(page, report);
    write_command(page, dump, path, *report.first);
  }
  write_last_sites(page, report);
  write_next_step(page, dump.info);
  if (!report.warnings.empty()) page.line();
  for (const std::string& warning : report.warnings) {
    page.whole("warning: " + warning, Colour::yellow);
  }
  if (report.rounded) {
    page.line();
    for (const std::string& line : report.rounded->text()) page.whole(line, Colour::red);
  }
  for (const std::string& line : report.contradictions) {
    page.whole("contradiction: " + line, Colour::red);
  }
  if (!report.unchecked.empty()) {
    std::string claims;
    for (const std::string& claim : report.unchecked)
      claims += (claims.empty() ? "" : "; ") + claim;
    page.line();
    page.whole("as the dump says, unchecked: " + claims);
  }
  write_verdict(page, verdict_of(report), verdict_reason(dump.info, report) + part_text(dump.info));
  return page.text();
}

}  // namespace lanescope
