#include "debug/dump/site_slots.h"
#include "debug/judge/by_value.h"
#include "debug/judge/tile_view.h"
#include "debug/report/report.h"
#include "debug/report/report_parts.h"

namespace lanescope {

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
