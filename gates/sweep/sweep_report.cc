#include <algorithm>
#include <cmath>

#include "debug/report/suggested_command.h"
#include "gates/sweep/sweep.h"

namespace lanescope {
namespace {

constexpr Outcome outcomes[] = {
    Outcome::match, Outcome::diverged, Outcome::unsettled, Outcome::rule,    Outcome::crash,
    Outcome::hang,  Outcome::stray,    Outcome::finding,   Outcome::refused, Outcome::lost};
constexpr std::size_t most_listed = 10;

std::string number(std::int64_t value) { return std::to_string(value); }

std::string plural(std::int64_t count, const char* what) {
  return number(count) + " " + what + (count == 1 ? "" : "s");
}

std::int64_t cells_of(const SweepReport& report) {
  return std::count_if(report.results.begin(), report.results.end(),
                       [](const CellResult& result) { return result.index >= 0; });
}

double per_minute(const SweepReport& report) {
  return report.seconds > 0 ? 60 * static_cast<double>(report.run_now) / report.seconds : 0;
}

/// "1874 match, 123 diverged".
std::string counts_text(const SweepReport& report) {
  std::string text;
  for (const Outcome outcome : outcomes) {
    const std::int64_t cells = report.count(outcome);
    if (cells == 0) continue;
    text += (text.empty() ? "" : ", ") + number(cells) + " " + name_of(outcome);
  }
  return text;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Of a benchmark.
void add_times(const SweepReport& report, Page& page) {
  std::vector<double> times, ratios;
  for (const CellResult& result : report.results) {
    if (result.microseconds) times.push_back(*result.microseconds);
    if (result.microseconds && result.peer_microseconds) {
      ratios.push_back(*result.microseconds / *result.peer_microseconds);
    }
  }
  if (!times.empty()) {
    page.line("a launch takes " + number_text(median(times), 3) + " us (median of " +
              plural(std::ssize(times), "cell") + ")");
  }
  if (ratios.empty()) return;
  const auto slower = std::count_if(ratios.begin(), ratios.end(), [](double x) { return x > 1; });
  page.line("times the peer's time: median " + number_text(median(ratios), 3) + ", from " +
            number_text(*std::min_element(ratios.begin(), ratios.end()), 3) + " to " +
            number_text(*std::max_element(ratios.begin(), ratios.end()), 3) + "; slower in " +
            number(slower) + " of " + plural(std::ssize(ratios), "cell"));
}

void add_head(const SweepReport& report, Page& page) {
  std::string text = plural(cells_of(report), "cell");
  if (report.wanted > 0) text = number(cells_of(report)) + " of " + plural(report.wanted, "cell");
  page.whole(text + ": " + counts_text(report));
  if (report.run_now > 0) {
    page.line(plural(report.run_now, "cell") + " run in " + number_text(report.seconds, 3) +
              " s on " + number(report.workers) +
              (report.workers == 1 ? " process: " : " processes: ") +
              number(std::llround(per_minute(report))) + " a minute");
  }
  add_times(report, page);
  if (!report.stopped.empty()) {
    page.whole("ended early (" + report.stopped + "): the same command with -o goes on from there",
               Colour::yellow);
  }
}

void add_exceptions(const std::vector<std::string>& exceptions, std::int64_t all, Page& page) {
  for (const std::string& command : exceptions) {
    page.whole("      " + program_name() + " " + command);
  }
  const std::int64_t more = all - std::ssize(exceptions);
  if (more > 0 && !exceptions.empty()) page.line("      and " + number(more) + " more");
}

void add_rule(const SweepReport::KernelRule& of, Page& page) {
  const Rule& rule = of.rule;
  page.line();
  page.whole(of.kernel + ": " + number(rule.failing) + " of " + plural(rule.cells, "cell") +
                 " fail, with those tried to make failures smaller",
             Colour::bold);
  if (rule.failing == rule.cells) {
    page.line("  in every cell");
  } else if (rule.clauses.empty()) {
    page.line("  no rule is shorter than a list of them");
  }
  bool first = true;
  for (const Clause& clause : rule.clauses) {
    page.whole(std::string("  ") + (first ? "fails whenever " : "else whenever ") + clause.text() +
               ": " + number(clause.failing) + " of " +
               plural(clause.failing + clause.passing, "cell"));
    first = false;
    if (clause.passing == 0) continue;
    page.line("    exceptions, which are right:");
    add_exceptions(clause.exceptions, clause.passing, page);
  }
  if (rule.clauses.empty()) return;
  page.line("  else never" + (rule.unexplained == 0
                                  ? ": none of the others"
                                  : ", but for " + plural(rule.unexplained, "cell") + ":"));
  add_exceptions(rule.exceptions, rule.unexplained, page);
}

void add_way(const FailingWay& way, Page& page) {
  page.line();
  page.line(way.kernel + ": " + way.way + " in " + plural(way.cells, "cell"), Colour::bold);
  page.whole("  smallest  " + program_name() + " " + command_of(way.smallest.cell));
  if (!way.smallest.detail.empty()) page.field("", way.smallest.detail);
  if (way.cause && way.cause->diagnosis) {
    const Diagnosis& diagnosis = *way.cause->diagnosis;
    page.whole(std::string("  cause     ") + name_of(diagnosis.cause) +
               (diagnosis.certain ? "" : " (not certain)") + ": " +
               row_of(diagnosis.cause).explanation);
    if (!diagnosis.evidence.empty()) page.whole("            " + diagnosis.evidence.front());
  } else if (way.cause) {
    page.line("  locate finds nothing wrong there");
  } else if (!way.not_located.empty()) {
    page.whole("  locate    " + way.not_located);
  }
}

void add_list(const char* title, const std::vector<CellResult>& results, Page& page) {
  if (results.empty()) return;
  page.line();
  page.line(std::string(title) + ": " + plural(std::ssize(results), "cell"), Colour::bold);
  for (std::size_t i = 0; i < std::min(results.size(), most_listed); ++i) {
    page.whole("  " + program_name() + " " + command_of(results[i].cell) + "  " + results[i].way());
  }
  if (results.size() > most_listed) page.line("  ...");
}

void add_baseline(const SweepReport& report, Page& page) {
  add_list("newly failing", report.newly_failing, page);
  add_list("right again", report.newly_right, page);
  std::vector<CellResult> changed;
  for (const Change& change : report.changed_bits) changed.push_back(change.now);
  add_list("other bits than in the baseline", changed, page);
  if (report.not_in_baseline > 0) {
    page.line();
    page.line(plural(report.not_in_baseline, "cell") + " not in the baseline");
  }
}

std::string verdict_text(const SweepReport& report) {
  if (report.has_baseline) {
    if (report.holds()) {
      return "as the baseline: " + number(report.failing()) + " fail, all of which failed before";
    }
    std::string text = plural(std::ssize(report.newly_failing), "cell") + " newly failing";
    if (!report.changed_bits.empty()) {
      text += ", other bits in " + number(std::ssize(report.changed_bits));
    }
    return text;
  }
  if (report.failing() > 0) {
    return number(report.failing()) + " of " + plural(cells_of(report), "cell") + " fail";
  }
  return "no failure in " + plural(cells_of(report), "cell");
}

Json list_json(const std::vector<CellResult>& results) {
  Json list = Json::array();
  for (const CellResult& result : results) list.push_back(command_of(result.cell));
  return list;
}

Json way_json(const FailingWay& way) {
  Json json = {{"kernel", way.kernel},
               {"way", way.way},
               {"cells", way.cells},
               {"tried", way.tried},
               {"smallest", Json::parse(result_line(way.smallest)).value()},
               {"command", command_of(way.smallest.cell)},
               {"cause", nullptr},
               {"certain", nullptr},
               {"explanation", nullptr}};
  if (way.cause && way.cause->diagnosis) {
    const Diagnosis& diagnosis = *way.cause->diagnosis;
    json["cause"] = name_of(diagnosis.cause);
    json["certain"] = diagnosis.certain;
    json["explanation"] = row_of(diagnosis.cause).explanation;
  }
  return json;
}

Json rule_json(const SweepReport::KernelRule& of) {
  Json clauses = Json::array();
  for (const Clause& clause : of.rule.clauses) {
    clauses.push_back(Json{{"conditions", clause.conditions},
                           {"failing", clause.failing},
                           {"passing", clause.passing},
                           {"exceptions", clause.exceptions}});
  }
  return {{"kernel", of.kernel},
          {"cells", of.rule.cells},
          {"failing", of.rule.failing},
          {"clauses", clauses},
          {"unexplained", of.rule.unexplained},
          {"exceptions", of.rule.exceptions}};
}

}  // namespace

std::string sweep_text(const SweepReport& report, const Style& style) {
  Page page(style);
  add_head(report, page);
  for (const SweepReport::KernelRule& rule : report.rules) add_rule(rule, page);
  for (const FailingWay& way : report.ways) add_way(way, page);
  add_baseline(report, page);
  page.line();
  page.whole(verdict_text(report), report.holds() ? Colour::green : Colour::red);
  return page.text();
}

std::string sweep_json(const SweepReport& report) {
  Json counts = Json::of(Json::Object());
  for (const Outcome outcome : outcomes) counts[name_of(outcome)] = report.count(outcome);
  Json ways = Json::array(), rules = Json::array();
  for (const FailingWay& way : report.ways) ways.push_back(way_json(way));
  for (const SweepReport::KernelRule& rule : report.rules) rules.push_back(rule_json(rule));
  Json json = {{"cells", cells_of(report)},
               {"wanted", report.wanted > 0 ? Json(report.wanted) : Json()},
               {"outcomes", counts},
               {"failing", report.failing()},
               {"seconds", report.seconds},
               {"cells_per_minute", per_minute(report)},
               {"stopped", report.stopped.empty() ? Json() : Json(report.stopped)},
               {"ways", ways},
               {"rules", rules},
               {"baseline", nullptr},
               {"holds", report.holds()}};
  if (report.has_baseline) {
    std::vector<CellResult> changed;
    for (const Change& change : report.changed_bits) changed.push_back(change.now);
    json["baseline"] = Json{{"newly_failing", list_json(report.newly_failing)},
                            {"newly_right", list_json(report.newly_right)},
                            {"changed_bits", list_json(changed)},
                            {"not_in_baseline", report.not_in_baseline}};
  }
  return document_text(json);
}

}  // namespace lanescope
