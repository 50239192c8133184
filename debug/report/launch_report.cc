#include "debug/report/launch_report.h"

#include "debug/report/check_report.h"

namespace lanescope {
namespace {

std::string sides_text(const std::array<std::uint32_t, 3>& sides) {
  return "(" + std::to_string(sides[0]) + ", " + std::to_string(sides[1]) + ", " +
         std::to_string(sides[2]) + ")";
}

Json sides_json(const std::array<std::uint32_t, 3>& sides) {
  return {sides[0], sides[1], sides[2]};
}

}  // namespace

std::string launch_text(const LaunchReport& report, std::set<std::string>& told) {
  std::vector<std::string> notes;
  for (const std::string& note : report.notes) {
    if (told.insert(report.found.kernel + '\n' + note).second) notes.push_back(note);
  }
  Page page{Style{}};
  std::size_t again = 0;
  for (const CheckReport::Item& item : report.found.items) {
    const std::string key = report.found.kernel + '\n' + name_of(item.finding.kind) + '\n' +
                            item.access_line + '\n' + item.earlier_line + '\n' + item.region;
    told.insert(key).second ? item_lines(item, page) : void(++again);
  }
  const bool is_news = again < report.found.items.size() || !report.found.fault.empty();
  if (!is_news && notes.empty()) return {};
  if (again > 0) {
    page.whole(std::to_string(again) + (again == 1 ? " finding" : " findings") +
               " of a kind and at lines told before");
  }
  if (!report.found.fault.empty()) page.whole("fault: " + report.found.fault);
  for (const std::string& note : notes) page.whole(note);
  return "launch " + std::to_string(report.number) + ": " + report.found.kernel + "<<<" +
         sides_text(report.blocks) + ", " + sides_text(report.threads) + ", " +
         std::to_string(report.dynamic_shared) + ">>>\n" + page.text();
}

std::string launch_json(const LaunchReport& report) {
  Json findings = Json::array();
  for (const CheckReport::Item& item : report.found.items) findings.push_back(item_json(item));
  const Json json = {{"launch", report.number},
                     {"kernel", report.found.kernel},
                     {"blocks", sides_json(report.blocks)},
                     {"threads", sides_json(report.threads)},
                     {"dynamic_shared", report.dynamic_shared},
                     {"findings", findings},
                     {"fault", report.found.fault},
                     {"notes", report.notes}};
  return json.dump();
}

}  // namespace lanescope
