#include "gates/sweep/page.h"

#include <map>
#include <string>

#include "debug/page/frame.h"
#include "debug/page_files.h"
#include "gates/sweep/sweep_page_files.h"

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
  return framed_page({.title = "lanescope sweep",
                      .told_by = "\"lanescope sweep --report\" of the results",
                      .body = sweep_page_files::body,
                      .style = std::string(page_files::style) + sweep_page_files::style,
                      .script = sweep_page_files::script},
                     json);
}

}  // namespace lanescope
