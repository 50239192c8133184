#include "gates/sweep/result.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>

#include "debug/text/json.h"
#include "reference/error.h"

namespace lanescope {
namespace {

constexpr const char* outcome_names[] = {"match", "diverged", "unsettled", "rule",    "crash",
                                         "hang",  "stray",    "finding",   "refused", "lost"};

Outcome parse_outcome(const std::string& name) {
  for (std::size_t i = 0; i < std::size(outcome_names); ++i) {
    if (name == outcome_names[i]) return static_cast<Outcome>(i);
  }
  throw UsageError("there is no outcome '" + name + "'");
}

/// The inverse of number_json; a number of whichever kind.
double number_of(const Json& json) {
  if (json.is_string()) {
    return json.text() == "nan" ? std::numeric_limits<double>::quiet_NaN()
                                : std::numeric_limits<double>::infinity();
  }
  return std::stod(json.dump());
}

std::optional<double> time_of(const Json* json) {
  return json == nullptr || json->is_null() ? std::nullopt : std::optional(number_of(*json));
}
Json time_json(const std::optional<double>& time) { return time ? Json(*time) : Json(); }
Json text_json(const std::string& text) { return text.empty() ? Json() : Json(text); }
std::string text_of(const Json& json) { return json.is_null() ? "" : json.text(); }

CellResult result_of(const Json& json) {
  if (json["schema"].integer() != json_schema) throw UsageError("of another version");
  CellResult result;
  result.sweep = json["sweep"].text();
  result.index = json["index"].is_null() ? -1 : json["index"].integer();
  result.cell = cell_of(json);
  result.outcome = parse_outcome(json["outcome"].text());
  result.stage = text_of(json["stage"]);
  result.site = text_of(json["site"]);
  result.tile_index = json["tile_index"].is_null() ? -1 : json["tile_index"].integer();
  result.detail = text_of(json["detail"]);
  for (int i = 0; i < site_id_count; ++i) {
    const char* name = name_of(static_cast<SiteId>(i));
    if (const Json* error = json["errors"].find(name)) result.errors[name] = number_of(*error);
  }
  result.bits = text_of(json["bits"]);
  result.seconds = number_of(json["seconds"]);
  result.cpu_seconds = number_of(json["cpu_seconds"]);
  result.microseconds = time_of(json.find("microseconds"));
  result.peer_microseconds = time_of(json.find("peer_microseconds"));
  result.build = json["build"].text();
  result.source_hash = text_of(json["source_hash"]);
  result.compile_flags = text_of(json["compile_flags"]);
  result.device = text_of(json["device"]);
  result.version = text_of(json["version"]);
  result.host = text_of(json["host"]);
  result.time = text_of(json["time"]);
  return result;
}

std::string text_in(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw UsageError("cannot read the results in " + path + ": " + std::strerror(errno));
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// Up to the end of the last whole line.
std::size_t whole_lines(const std::string& text) { return text.rfind('\n') + 1; }

}  // namespace

const char* name_of(Outcome outcome) { return outcome_names[static_cast<int>(outcome)]; }

std::string CellResult::way() const {
  std::string text = name_of(outcome);
  if (!site.empty()) text += " at " + (stage.empty() ? "" : stage + " / ") + site;
  return text;
}

std::string result_line(const CellResult& result) {
  Json json = {
      {"schema", json_schema}, {"sweep", result.sweep}, {"index", index_json(result.index)}};
  json.update(cell_json(result.cell));
  Json errors = Json::of(Json::Object());
  for (const auto& [site, error] : result.errors) errors[site] = number_json(error);
  const Json rest = {{"outcome", name_of(result.outcome)},
                     {"failed", result.failed()},
                     {"stage", text_json(result.stage)},
                     {"site", text_json(result.site)},
                     {"tile_index", index_json(result.tile_index)},
                     {"detail", text_json(result.detail)},
                     {"errors", errors},
                     {"bits", text_json(result.bits)},
                     {"seconds", result.seconds},
                     {"cpu_seconds", result.cpu_seconds},
                     {"microseconds", time_json(result.microseconds)},
                     {"peer_microseconds", time_json(result.peer_microseconds)},
                     {"build", result.build},
                     {"source_hash", text_json(result.source_hash)},
                     {"compile_flags", text_json(result.compile_flags)},
                     {"device", text_json(result.device)},
                     {"version", text_json(result.version)},
                     {"host", text_json(result.host)},
                     {"time", text_json(result.time)}};
  json.update(rest);
  return json.dump();
}

CellResult parse_result(const std::string& line) {
  const std::optional<Json> json = Json::parse(line);
  if (!json || !json->is_object()) throw UsageError("no JSON object");
  try {
    return result_of(*json);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw UsageError(std::string("no result of a sweep (") + error.what() + ")");
  }
}

std::string identity_of(const CellResult& result) {
  return result.index < 0 ? "tried " + command_of(result.cell)
                          : result.sweep + " " + std::to_string(result.index);
}

std::vector<CellResult> read_results(const std::vector<std::string>& paths) {
  std::map<std::string, std::size_t> places;
  std::vector<CellResult> results;
  for (const std::string& path : paths) {
    const std::string text = text_in(path);
    std::istringstream in(text.substr(0, whole_lines(text)));
    std::int64_t number = 0;
    for (std::string line; std::getline(in, line);) {
      ++number;
      if (line.empty()) continue;
      CellResult result;
      try {
        result = parse_result(line);
      } catch (const Error& error) {
        throw UsageError(path + ", line " + std::to_string(number) +
                         " is no result of a sweep: " + error.what());
      }
      const auto [place, is_new] = places.emplace(identity_of(result), results.size());
      if (is_new) {
        results.push_back(std::move(result));
      } else {
        results[place->second] = std::move(result);
      }
    }
  }
  return results;
}

ResultFile::ResultFile(const std::string& path) : path_(path) {
  file_ = open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file_ < 0)
    throw UsageError("cannot write the results to " + path + ": " + std::strerror(errno));
  if (flock(file_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    close(file_);
    throw UsageError("another sweep writes to " + path + ": give each a file of its own");
  }
  const std::string text = text_in(path);
  const std::size_t whole = whole_lines(text);
  if (whole < text.size() && ftruncate(file_, static_cast<off_t>(whole)) != 0) {
    throw UsageError("cannot write the results to " + path + ": " + std::strerror(errno));
  }
}

ResultFile::~ResultFile() { close(file_); }

void ResultFile::add(const std::string& line) {
  const std::string text = line + "\n";
  const ssize_t written = write(file_, text.data(), text.size());
  if (written == static_cast<ssize_t>(text.size())) return;
  throw EnvironmentError("cannot write to " + path_ + ": " +
                         (written < 0 ? std::strerror(errno) : "the disk is full"));
}

}  // namespace lanescope
