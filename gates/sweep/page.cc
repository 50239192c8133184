#include "gates/sweep/page.h"

#include "debug/page_files.h"
#include "gates/sweep_page_files.h"

namespace lanescope {
namespace {

/// The columns of a cell that the page knows, a row per cell.
Json cells_json(const SweepReport& report, Json& sites) {
  Json rows = Json::array();
  std::map<std::string, bool> judged;
  for (const CellResult& result : report.results) {
    for (const auto& [site, error] : result.errors) judged[site] = true;
  }
  sites = Json::array();
  for (const auto& [site, is_judged] : judged) sites.push_back(site);
  for (const CellResult& result : report.results) {
    Json row = {{"index", index_json(result.index)}};
    row.update(cell_json(result.cell));
    Json errors = Json::array();
    for (const auto& [site, is_judged] : judged) {
      const auto error = result.errors.find(site);
      errors.push_back(error == result.errors.end() ? Json() : number_json(error->second));
    }
    const auto time = [](const std::optional<double>& value) {
      return value ? Json(*value) : Json();
    };
    const Json rest = {{"outcome", name_of(result.outcome)},
                       {"failed", result.failed()},
                       {"way", result.failed() ? Json(result.way()) : Json()},
                       {"command", command_of(result.cell)},
                       {"seconds", result.cpu_seconds},
                       {"microseconds", time(result.microseconds)},
                       {"peer_microseconds", time(result.peer_microseconds)},
                       {"errors", errors}};
    row.update(rest);
    rows.push_back(std::move(row));
  }
  return rows;
}

/// JSON that may stand in a script element, whatever its strings hold: no "<" is left in it.
std::string script_text(const Json& json) {
  std::string safe;
  for (const char c : json.dump(-1)) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

void put(std::string& html, std::string_view mark, std::string_view text) {
  html.replace(html.find(mark), mark.size(), text);
}

}  // namespace

std::string sweep_page(const SweepReport& report) {
  Json sites;
  Json rows = cells_json(report, sites);
  const Json json = {
      {"summary", Json::parse(sweep_json(report)).value()},
      {"sites", sites},
      {"provenance",
       report.results.empty() ? Json() : Json::parse(result_line(report.results.front())).value()},
      {"cells", std::move(rows)}};
  std::string html = sweep_page_files::html;
  put(html, "/* style */", std::string(page_files::style) + sweep_page_files::style);
  put(html, "/* script */", sweep_page_files::script);
  put(html, "/* data */", script_text(json));  // last: it may hold a mark
  return html;
}

}  // namespace lanescope
