#include "gates/run/source_place.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>

#include "debug/causes/memory_findings.h"
#include "gates/build/module_catalogue.h"
#include "gates/build/this_build.h"

namespace lanescope {
namespace {

namespace fs = std::filesystem;

struct Source {
  std::string name;  ///< from the source root on, where it lies below
  std::vector<std::string> lines;
};

std::optional<std::vector<std::string>> read_lines(const fs::path& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

/// The kernel's file and what it includes of kernels, vocabulary and tracing left out; of a
/// specimen, as the patch makes them.
std::vector<Source> sources_at_hand(const std::string& kernel) {
  const std::vector<fs::path> files = sources_of(kernel);
  if (files.empty()) return {};
  const fs::path root = this_build::source_root(),
                 patched = fs::path(this_build::module_folder()) / kernel;
  const auto name_of_file = [&](const fs::path& file) {
    const fs::path below = file.lexically_relative(root);
    return below.empty() || below.native().starts_with("..") ? file.string() : below.string();
  };
  std::vector<std::string> names = {name_of_file(files[0])};
  std::vector<Source> sources;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string name = names[i];  // names grows below
    auto lines = read_lines(patched / name);
    if (!lines) lines = read_lines(root / name);
    if (!lines) continue;
    for (const std::string& line : *lines) {
      constexpr std::string_view start = "#include \"kernels/";
      if (!line.starts_with(start)) continue;
      const std::string included = line.substr(10, line.find('"', 10) - 10);
      const bool is_shared =
          included.starts_with("kernels/trace/") || included.starts_with("kernels/device/");
      if (is_shared || std::find(names.begin(), names.end(), included) != names.end()) continue;
      names.push_back(included);
    }
    sources.push_back({name, std::move(*lines)});
  }
  return sources;
}

/// The index of the line on which the braces that open from `first` on are closed again.
std::size_t end_of_body(const std::vector<std::string>& lines, std::size_t first) {
  int depth = 0;
  bool opened = false;
  for (std::size_t i = first; i < lines.size(); ++i) {
    for (const char c : lines[i].substr(0, lines[i].find("//"))) {
      depth += c == '{' ? 1 : c == '}' ? -1 : 0;
      opened = opened || c == '{';
    }
    if (opened && depth <= 0) return i;
    if (!opened && lines[i].find(';') != std::string::npos) return first;  // declared alone
  }
  return first;
}

std::string lines_text(const Source& source, std::size_t first, std::size_t last) {
  return source.name + ":" + std::to_string(first + 1) +
         (last > first ? "-" + std::to_string(last + 1) : "");
}

bool is_part_of_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// Lines of a source, counted from 0; both ends included.
struct Body {
  const Source* source;
  std::size_t first, last;
};

/// A function of the stage's name, defined in words of the vocabulary, where something outside of
/// it calls it: a stage that stands in a part for other kernels is none of this one.
std::optional<Body> function_of(const std::vector<Source>& sources, Stage stage) {
  const std::string name = name_of(stage);
  const bool launched = stage == Stage::combine;  // whoever launches the kernel calls it
  std::optional<Body> place;
  bool is_called = launched;
  for (const Source& source : sources) {
    for (std::size_t i = 0; i < source.lines.size(); ++i) {
      const std::string line = source.lines[i].substr(0, source.lines[i].find("//"));
      const std::size_t at = line.find(name + "(");
      if (at == line.npos || (at > 0 && is_part_of_word(line[at - 1]))) continue;
      const bool defines = line.find("LANESCOPE_DEVICE") < at || line.find("__device__") < at;
      is_called = is_called || !defines;
      if (!defines) continue;
      const std::size_t end = end_of_body(source.lines, i);
      if (end > i && !place) place = Body{&source, i, end};
      i = std::max(i, end);
    }
  }
  return is_called ? place : std::nullopt;
}

/// Whether a line begins to define a function in words of the vocabulary, which is called `name`.
bool defines_function(const std::string& line, std::string& name) {
  const std::size_t device = std::min(line.find("LANESCOPE_DEVICE"), line.find("__device__"));
  const std::size_t end = line.find('(');
  if (device == line.npos || end == line.npos || end < device) return false;
  std::size_t first = end;
  while (first > 0 && is_part_of_word(line[first - 1])) --first;
  name = line.substr(first, end - first);
  return true;
}

bool is_stage(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(Stage::combine); ++i) {
    if (name == name_of(static_cast<Stage>(i))) return true;
  }
  return false;
}

}  // namespace

std::vector<std::string> mask_places(const std::string& kernel) {
  std::vector<std::string> places;
  std::set<std::string> names;  // what stands in a part for other kernels comes behind its own
  for (const Source& source : sources_at_hand(kernel)) {
    for (std::size_t i = 0; i < source.lines.size(); ++i) {
      const std::string line = source.lines[i].substr(0, source.lines[i].find("//"));
      std::string name;
      if (!defines_function(line, name) || is_stage(name)) continue;
      const std::size_t end = end_of_body(source.lines, i);
      const bool is_of_mask = line.find(" mask") != line.npos || name.starts_with("mask");
      if (is_of_mask && names.insert(name).second) {
        places.push_back(lines_text(source, i, end) + " (" + name + ")");
      }
      i = std::max(i, end);
    }
  }
  return places;
}

std::vector<std::string> source_places(const std::string& kernel, Stage stage, SiteId site) {
  const std::vector<Source> sources = sources_at_hand(kernel);
  std::vector<std::string> places;
  if (const auto function = function_of(sources, stage)) {
    places.push_back(lines_text(*function->source, function->first, function->last) + " (" +
                     name_of(stage) + ")");
  }
  const std::string passed = std::string("site::") + name_of(site) + "(";
  for (const Source& source : sources) {
    const auto& lines = source.lines;
    const auto seam = std::find_if(lines.begin(), lines.end(), [&](const std::string& line) {
      return line.find(passed) != line.npos;
    });
    if (seam == lines.end()) continue;
    const auto at = static_cast<std::size_t>(seam - lines.begin());
    if (places.empty()) {
      std::size_t first = at;
      while (first > 0 && lines[first - 1].find("seam(") == std::string::npos) --first;
      if (first > 0) places.push_back(lines_text(source, first, at));
    }
    places.push_back(source.name + ":" + std::to_string(at + 1) + " (its seam)");
    break;
  }
  return places;
}

std::optional<Stage> stage_of_lines(const std::string& kernel,
                                    const std::vector<std::string>& lines) {
  const std::vector<Source> sources = sources_at_hand(kernel);
  std::optional<Stage> stage;
  for (const std::string& line : lines) {
    const auto place = place_in_source(line);
    if (!place) return std::nullopt;
    const auto number = static_cast<std::size_t>(place->second - 1);
    std::optional<Stage> own;
    for (int i = 0; i <= static_cast<int>(Stage::combine); ++i) {
      const auto function = function_of(sources, static_cast<Stage>(i));
      if (function && function->source->name == place->first && function->first <= number &&
          number <= function->last) {
        own = static_cast<Stage>(i);
      }
    }
    if (!own || (stage && stage != own)) return std::nullopt;
    stage = own;
  }
  return stage;
}

void place_race(const std::string& kernel, Diagnosis& diagnosis) {
  if (diagnosis.cause != Cause::race || diagnosis.memory.empty() || !diagnosis.first) return;
  const CheckReport::Item& race = diagnosis.memory.front();
  const std::optional<Stage> stage = stage_of_lines(kernel, {race.access_line, race.earlier_line});
  if (stage) diagnosis.first->stage = *stage;
}

}  // namespace lanescope
