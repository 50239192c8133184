#include "debug/report/report.h"

#include <algorithm>
#include <cmath>

#include "debug/dump/site_slots.h"
#include "debug/judge/by_value.h"
#include "debug/judge/last_sites.h"
#include "debug/judge/tile_view.h"
#include "debug/report/suggested_command.h"

namespace lanescope {
namespace {

constexpr int digits = 9;              // tell any two floats apart
constexpr std::size_t rows_shown = 4;  // of the worst rows: one screen holds the rest, too

void write_header(Page& page, const DumpInfo& info) {
  page.line(info.kernel + " " + info.gate + "  " + shape_option(info.problem) +
                (info.problem.causal ? " causal" : "") + "  " + name_of(info.dtype) + "  tile " +
                std::to_string(info.br) + " x " + std::to_string(info.bc) +
                (info.splits > 1 ? "  " + std::to_string(info.splits) + " splits" : ""),
            Colour::bold);
  page.whole("input " + info.input + "  seed " + std::to_string(info.seed));
}

void write_machine(Page& page, const std::string& prefix, const DumpInfo& info) {
  page.line(prefix + info.backend + "  " + info.device + "  " + info.module);
}

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

/// "tile 0, warp 1, lane 5, register 2", or the row and column where no register holds it.
std::string slot_text(const Divergence& at) {
  std::string text;
  const auto part = [&](const char* name, std::int64_t value) {
    if (value < 0) return;
    text += std::string(text.empty() ? "" : ", ") + name + " " + std::to_string(value);
  };
  part("tile", at.tile);
  part("warp", at.warp);
  part("lane", at.lane);
  part("register", at.reg);
  if (at.reg < 0) {
    part("row", at.row);
    part("column", at.col);
  }
  return text;
}

std::string place_text(const Divergence& at) {
  std::string text;
  if (at.row >= 0) text += "row " + std::to_string(at.row) + " of the tile";
  if (at.query >= 0) text += " (query " + std::to_string(at.query) + ")";
  if (at.col >= 0) text += ", column " + std::to_string(at.col);
  if (at.key >= 0) text += " (key " + std::to_string(at.key) + ")";
  return text;
}

/// |got − want|, NaN where either is not finite and they differ.
double error_of(const Divergence& at) { return std::abs(at.got - at.want); }

std::string got_text(const Dump& dump, std::string_view name, const Divergence& at) {
  std::string value = at.unwritten ? "never written" : number_text(at.got, digits);
  const auto index = index_at(dump, name, at);
  if (!index) return value;
  const Tensor& tensor = *dump.find(name);
  return left(value, 18) + hex_text(tensor.type, tensor.bits(*index));
}

void write_place(Page& page, const DumpInfo& info, const Divergence& at) {
  if (at.block >= 0) {
    page.field("block", std::to_string(at.block) + " (" + block_text(info, at.block) + ")");
  }
  page.field("slot", slot_text(at));
  page.field("place", place_text(at));
}

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
}

void write_verdict(Page& page, const std::string& verdict, const std::string& reason) {
  page.line();
  const bool holds = verdict == "match" || verdict == "variant";
  page.whole(verdict + ": " + reason, holds ? Colour::green : Colour::red);
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
  if (report.first && !report.holds()) {
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

bool same_bits(const std::vector<BitReport>& reports) {
  std::int64_t compared = 0, differing = 0;
  for (const BitReport& report : reports) {
    compared += report.compared;
    differing += report.differing;
  }
  return compared > 0 && differing == 0;
}

std::string bits_text(const Dump& a, const Dump& b, const std::vector<BitReport>& reports,
                      const Style& style) {
  Page page(style);
  const bool bitwise = same_kernel(a.info, b.info);
  write_header(page, a.info);
  if (!bitwise) write_header(page, b.info);
  write_machine(page, "a  ", a.info);
  write_machine(page, "b  ", b.info);
  std::vector<std::vector<std::string>> rows = {{"tensor", "compared", "differing"}};
  const auto differing_text = [&](const BitReport& report) -> std::string {
    if (report.compared > 0) return std::to_string(report.differing);
    return a.find(report.name) && b.find(report.name) ? "not comparable" : "only in one";
  };
  const BitReport* first = nullptr;
  std::int64_t compared = 0;
  for (const BitReport& report : reports) {
    rows.push_back({report.name, std::to_string(report.compared), differing_text(report)});
    compared += report.compared;
    if (first == nullptr && report.first) first = &report;
  }
  page.line();
  for (const std::string& line : table_lines(rows, 1)) page.line(line);
  if (first == nullptr) {
    write_verdict(page, same_bits(reports) ? "match" : "diverged",
                  std::to_string(compared) +
                      (bitwise ? " values, bit for bit" : " values, within the bounds of both"));
    return page.text();
  }
  const Divergence& of_b = *first->first;
  Divergence of_a = of_b;
  const auto index = index_at(a, first->name, of_a);
  of_a.got = of_b.want;
  of_a.unwritten = index && is_unwritten(*a.find(first->name), *index);
  page.line();
  page.line("first difference", Colour::bold);
  page.field("tensor", first->name);
  write_place(page, a.info, of_b);
  const auto held = [&](const Dump& dump, const Divergence& at) {
    if (bitwise) return got_text(dump, first->name, at);
    return at.unwritten ? std::string("never written") : number_text(at.got, digits);
  };
  page.field("a", held(a, of_a));
  page.field("b", held(b, of_b));
  if (!bitwise) page.field("allowed", number_text(of_b.bound, digits));
  write_verdict(page, "diverged", first->name + ", " + slot_text(of_b));
  return page.text();
}

}  // namespace lanescope
