#include "debug/report/locate_report.h"

#include <algorithm>

#include "debug/causes/phrases.h"
#include "debug/report/check_report.h"
#include "debug/report/suggested_command.h"
#include "debug/text/json.h"

namespace lanescope {
namespace {

/// What all runs begin with, up to an option; what is left of each tells it from the others.
std::string common_start(const std::vector<LocateRun>& runs) {
  std::string start = runs.front().options;
  for (const LocateRun& run : runs) {
    const auto end =
        std::mismatch(start.begin(), start.end(), run.options.begin(), run.options.end()).first;
    start.erase(end, start.end());
  }
  const std::size_t option = start.rfind(" --");
  return option == start.npos ? start.substr(0, start.rfind(' ') + 1) : start.substr(0, option + 1);
}

void write_runs(Page& page, const Location& location) {
  if (location.runs.empty()) return;
  const std::string start = common_start(location.runs);
  std::vector<std::vector<std::string>> rows;
  for (const LocateRun& run : location.runs) {
    const char* verdict = run.checked   ? run.match ? "clean" : "fault"
                          : run.match   ? "match"
                          : run.variant ? "variant"
                          : run.limit   ? "limit"
                                        : "diverged";
    rows.push_back({std::string("  ") + verdict, run.about, run.options.substr(start.size())});
  }
  page.line("runs", Colour::bold);
  page.whole("  " + program_name() + " diff " + start + "...");
  for (const std::string& line : table_lines(rows, 3)) page.whole(line);
  for (const std::string& line : location.not_tried) page.whole("  not tried  " + line);
  for (const std::string& line : location.limits) page.whole("  limit      " + line);
}

/// "qk", or "qk (not certain)" where the cause is certain and its stage is not.
std::string stage_text(Stage stage, const Diagnosis& diagnosis) {
  const bool open = diagnosis.certain && !diagnosis.stage_certain;
  return name_of(stage) + std::string(open ? " (not certain)" : "");
}

void write_place(Page& page, const Diagnosis& diagnosis) {
  const Divergence& at = *diagnosis.first;
  page.field("stage", stage_text(at.stage, diagnosis));
  page.field("site", name_of(at.site));
  page.field("block", std::to_string(at.block));
  if (at.tile >= 0) page.field("tile", std::to_string(at.tile));
  const std::string holder = holder_text({at.warp, at.lane, at.reg});
  if (!holder.empty()) page.field("lane", holder);
}

void write_diagnosis(Page& page, const Location& location) {
  const Diagnosis& diagnosis = *location.diagnosis;
  page.line();
  page.line("fault", Colour::bold);
  if (diagnosis.first) {
    write_place(page, diagnosis);
  } else if (const std::optional<Stage> stage = diagnosis.stage()) {
    page.field("stage", stage_text(*stage, diagnosis));
  }
  for (const std::string& place : location.source) {
    page.whole("  " + left(&place == location.source.data() ? "source" : "", 10) + place);
  }
  page.field("cause",
             std::string(name_of(diagnosis.cause)) + ": " + row_of(diagnosis.cause).explanation);
  if (!diagnosis.evidence.empty() || !location.warnings.empty()) {
    page.line();
    page.line("evidence", Colour::bold);
  }
  for (const std::string& line : diagnosis.evidence) page.whole("  " + line);
  for (const std::string& line : location.warnings) page.whole("  the compiler warns: " + line);
  if (!diagnosis.suspects.empty()) {
    page.line();
    page.line("next suspects", Colour::bold);
  }
  for (const Finding& suspect : diagnosis.suspects) {
    page.line("  " + std::string(name_of(suspect.cause)) + " (explains " +
              number_text(100 * suspect.explained, 3) + " %)" +
              (suspect.evidence.empty() ? "" : ": " + suspect.evidence[0]));
  }
  for (const Diagnosis& other : location.others) {
    page.line();
    page.line("another fault, which does not follow from it", Colour::bold);
    if (other.first) write_place(page, other);
    page.field("cause", std::string(name_of(other.cause)) + ": " + row_of(other.cause).explanation);
    for (const std::string& line : other.evidence) page.whole("  " + line);
  }
  if (location.too_large) return;
  page.line();
  page.line("look closer", Colour::bold);
  if (!diagnosis.memory.empty()) page.whole("  " + program_name() + " check " + location.options);
  page.whole("  " + program_name() + " diff " + location.options + " -o x.safetensors");
  const auto& shown = location.shown;
  if (diagnosis.first &&
      std::find(shown.begin(), shown.end(), diagnosis.first->site) != shown.end()) {
    page.whole("  " + show_command_text("x.safetensors", name_of(diagnosis.first->site),
                                        *diagnosis.first));
  }
}

/// "pv / o: not_rescaled (not certain)"; "qk (not certain) / o_final: race" where the race is.
std::string fault_text(const Diagnosis& diagnosis) {
  std::string place;
  if (const std::optional<Stage> stage = diagnosis.stage()) {
    place = stage_text(*stage, diagnosis);
    if (diagnosis.first) place += std::string(" / ") + name_of(diagnosis.first->site);
    place += ": ";
  }
  return place + name_of(diagnosis.cause) + (diagnosis.hidden_by_step ? " within a warp" : "") +
         (diagnosis.certain ? "" : " (not certain)");
}

/// "; values are right in 14 runs" where the memory checker alone finds a fault.
std::string right_values_text(const Location& location) {
  const auto is_of_values = [](const LocateRun& run) { return !run.checked; };
  const auto values = std::ranges::count_if(location.runs, is_of_values);
  const bool right = std::ranges::all_of(
      location.runs, [](const LocateRun& run) { return run.checked || run.match; });
  if (values == 0 || !right) return "";
  return "; values are right in " + std::to_string(values) + (values == 1 ? " run" : " runs");
}

}  // namespace

std::string location_text(const Location& location, const Style& style) {
  Page page(style);
  page.line("locate " + location.kernel + "  " + location.backend, Colour::bold);
  write_runs(page, location);
  if (location.diagnosis) write_diagnosis(page, location);
  page.line();
  if (!location.diagnosis && location.recurrence) {
    const auto values = std::count_if(location.runs.begin(), location.runs.end(),
                                      [](const LocateRun& run) { return !run.checked; });
    page.line("the recurrence differs from the reference's", Colour::bold);
    for (const std::string& line : location.recurrence->differences()) page.whole("  " + line);
    page.line();
    page.whole("variant: outputs are right on " + std::to_string(values) +
                   " inputs; the recurrence differs, see above (--strict makes that a fault)",
               Colour::green);
    return page.text();
  }
  if (!location.diagnosis) {
    const auto checked = std::ranges::count_if(location.runs, &LocateRun::checked);
    const auto beyond = std::ranges::count_if(location.runs, &LocateRun::limit);
    page.whole("clean: " + std::to_string(std::ssize(location.runs) - checked - beyond) +
                   " runs match the reference" +
                   (checked == 0 ? "; none was under the memory checker"
                                 : ", " + std::to_string(checked) +
                                       " under the memory checker find nothing") +
                   (location.limits.empty() ? "" : "; limits: see above"),
               Colour::green);
    return page.text();
  }
  std::string verdict = "fault: " + fault_text(*location.diagnosis);
  for (const Diagnosis& other : location.others) verdict += "; also " + fault_text(other);
  page.whole(verdict + right_values_text(location), Colour::red);
  return page.text();
}

std::string location_json(const Location& location) {
  Json json = {{"kernel", location.kernel},
               {"backend", location.backend},
               {"verdict", location.diagnosis    ? "fault"
                           : location.recurrence ? "variant"
                                                 : "clean"}};
  json["recurrence"] =
      location.recurrence ? Json(location.recurrence->differences()) : Json::array();
  json["not_tried"] = location.not_tried;
  json["limits"] = location.limits;
  json["source"] = location.source;
  json["warnings"] = location.warnings;
  const Divergence at =
      location.diagnosis ? location.diagnosis->first.value_or(Divergence{}) : Divergence{};
  const bool known = location.diagnosis && location.diagnosis->first;
  const std::optional<Stage> stage =
      location.diagnosis ? location.diagnosis->stage() : std::nullopt;
  json["stage"] = stage ? Json(name_of(*stage)) : Json();
  json["site"] = known ? Json(name_of(at.site)) : Json();
  json["tile"] = index_json(at.tile);
  json["block"] = index_json(at.block);
  json["warp"] = index_json(at.warp);
  json["lane"] = index_json(at.lane);
  json["reg"] = index_json(at.reg);
  json["row"] = index_json(at.row);
  json["col"] = index_json(at.col);
  json["cause"] = json["explanation"] = json["certain"] = json["stage_certain"] = nullptr;
  json["suspects"] = json["evidence"] = json["memory"] = json["runs"] = Json::array();
  if (location.diagnosis) {
    const Diagnosis& diagnosis = *location.diagnosis;
    json["cause"] = name_of(diagnosis.cause);
    json["explanation"] = row_of(diagnosis.cause).explanation;
    json["certain"] = diagnosis.certain;
    json["stage_certain"] = diagnosis.certain && diagnosis.stage_certain;
    json["evidence"] = diagnosis.evidence;
    for (const CheckReport::Item& item : diagnosis.memory)
      json["memory"].push_back(item_json(item));
    for (const Finding& suspect : diagnosis.suspects) {
      json["suspects"].push_back({{"cause", name_of(suspect.cause)},
                                  {"explained", suspect.explained},
                                  {"evidence", suspect.evidence}});
    }
  }
  json["options"] = location.options.empty() ? Json() : Json(location.options);
  for (const LocateRun& run : location.runs) {
    json["runs"].push_back({{"options", run.options},
                            {"about", run.about},
                            {"match", run.match},
                            {"checked", run.checked},
                            {"variant", run.variant},
                            {"limit", run.limit}});
  }
  json["others"] = Json::array();
  for (const Diagnosis& other : location.others) {
    const Divergence place = other.first.value_or(Divergence{});
    json["others"].push_back({{"stage", other.first ? Json(name_of(place.stage)) : Json()},
                              {"site", other.first ? Json(name_of(place.site)) : Json()},
                              {"tile", index_json(place.tile)},
                              {"block", index_json(place.block)},
                              {"cause", name_of(other.cause)},
                              {"certain", other.certain},
                              {"evidence", other.evidence}});
  }
  return document_text(json);
}

}  // namespace lanescope
