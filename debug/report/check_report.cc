#include "debug/report/check_report.h"

#include "debug/report/suggested_command.h"
#include "debug/text/json.h"

namespace lanescope {
namespace {

using simt::Party;

Json progress_json(const simt::Progress& passed) {
  if (passed.tile < 0) return nullptr;
  Json json = {{"site", lanescope::name_of(passed.site)}, {"tile", passed.tile}};
  if (passed.item >= 0) json["item"] = passed.item;
  return json;
}

Json party_json(const Party& party, const std::string& line) {
  if (party.place == 0) return nullptr;
  return {{"access", party.write ? "write" : "read"},
          {"line", line},
          {"block", party.block},
          {"warp", party.thread / 32},
          {"lane", party.thread % 32}};
}

/// "crash", "hang", or "fault" where the machine ended the run.
std::string fault_name(const CheckReport& report) {
  const bool by_itself = report.stop == Stop::Kind::crash || report.stop == Stop::Kind::hang;
  return by_itself ? name_of(report.stop) : "fault";
}

}  // namespace

void item_lines(const CheckReport::Item& item, Page& page) {
  const simt::Finding& f = item.finding;
  page.whole(std::string(name_of(f.kind)) +
                 (f.count > 1 ? ", " + std::to_string(f.count) + " times" : "") + ": " +
                 explanation_of(f),
             Colour::red);
  // Whole, since a path may be long.
  if (f.access.place != 0) page.whole("  " + party_text(f.access, item.access_line));
  if (f.earlier.place != 0) page.whole("  " + party_text(f.earlier, item.earlier_line));
  if (f.used.place != 0) page.whole("  " + party_text(f.used, item.used_line, "used"));
  if (f.waited.place != 0) page.whole("  " + party_text(f.waited, item.waited_line, "waited"));
  if (!item.element.empty()) page.field("at", item.element);
  if (f.passed.tile >= 0) page.field("after", progress_text(f.passed));
}

std::string check_text(const CheckReport& report, const Style& style) {
  Page page(style);
  page.line(report.module + ": " + shape_option(report.problem) +
            (report.problem.causal ? " causal" : ""));
  for (const CheckReport::Item& item : report.items) {
    page.line();
    item_lines(item, page);
  }
  if (!report.fault.empty()) {
    page.line();
    page.whole(fault_name(report) + ": " + report.fault, Colour::red);
  }
  if (!report.notes.empty()) page.line();
  for (const std::string& note : report.notes) page.whole(note);
  page.line();
  const std::size_t count = report.items.size() + (report.fault.empty() ? 0 : 1);
  if (report.clean()) {
    page.whole("clean: nothing found", Colour::green);
  } else {
    page.whole("fault: " + std::to_string(count) + (count == 1 ? " finding" : " findings"),
               Colour::red);
  }
  return page.text();
}

Json item_json(const CheckReport::Item& item) {
  const simt::Finding& f = item.finding;
  return {{"kind", name_of(f.kind)},
          {"count", f.count},
          {"region", item.region},
          {"element", item.element},
          {"bytes", f.bytes},
          {"passed", progress_json(f.passed)},
          {"access", party_json(f.access, item.access_line)},
          {"earlier", party_json(f.earlier, item.earlier_line)},
          {"used", party_json(f.used, item.used_line)},
          {"waited", party_json(f.waited, item.waited_line)}};
}

std::string check_json(const CheckReport& report) {
  Json findings = Json::array();
  for (const CheckReport::Item& item : report.items) findings.push_back(item_json(item));
  if (!report.fault.empty()) {
    findings.push_back({{"kind", fault_name(report)}, {"text", report.fault}});
  }
  const Json all = {{"kernel", report.kernel},
                    {"gate", report.gate},
                    {"shape", shape_json(report.problem)},
                    {"verdict", report.clean() ? "clean" : "fault"},
                    {"findings", findings},
                    {"notes", report.notes}};
  return document_text(all);
}

}  // namespace lanescope
