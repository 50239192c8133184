#include "gates/build/marked_module.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <span>
#include <string_view>

#include "kernels/trace/site_table.h"
#include "reference/error.h"

namespace lanescope {
namespace {

bool has_marker(const std::vector<Marker>& markers, Marker::Kind kind, SiteId id) {
  return std::any_of(markers.begin(), markers.end(), [&](const Marker& marker) {
    return marker.kind == kind && marker.site == id;
  });
}

/// Whether its values are kept.
bool is_shown(const std::vector<Marker>& markers, SiteId id) {
  return std::any_of(markers.begin(), markers.end(),
                     [&](const Marker& marker) { return shows(marker) && marker.site == id; });
}

/// Of the values of `id`; nothing where none is marked.
std::optional<ElementType> type_of(const Module& plain, const std::vector<Marker>& markers,
                                   SiteId id, const std::filesystem::path& ptx) {
  std::optional<ElementType> type;
  for (const Marker& marker : markers) {
    if (!has_site(marker) || marker.site != id) continue;
    const ElementType own =
        marker.form == Marker::Form::f32 ? ElementType::f32 : operand_type(plain.dtype);
    if (type && *type != own) {
      throw UsageError(ptx.string() + ": the markers have " + name_of(id) + " as " +
                       name_of(*type) + " and as " + name_of(own) + ": it is of one type");
    }
    type = own;
  }
  return type;
}

/// In which unit the scores are, or the maxima.
ScoreUnit unit_of(const std::vector<Marker>& markers, bool maxima,
                  const std::filesystem::path& ptx) {
  std::optional<ScoreUnit> unit;
  for (const Marker& marker : markers) {
    if (!has_site(marker) || (maxima ? !is_maximum(marker.site) : marker.site != SiteId::s)) {
      continue;
    }
    if (unit && *unit != marker.unit) {
      throw UsageError(ptx.string() + ": the markers have " + (maxima ? "maxima" : "scores") +
                       " in the units " + name_of(*unit) + " and " + name_of(marker.unit) +
                       ": they are in one (kernels/trace/lanescope.h: s, qk, s_base_e; m, m_raw, "
                       "m_base_e)");
    }
    unit = marker.unit;
  }
  return unit.value_or(ScoreUnit::base_2);
}

Site site_of(const Module& plain, SiteId id, ElementType type) {
  const SiteFacts facts = facts_of(id);
  const bool of_lanes = facts.axes == Axes::query;  // debug/ptx/marker_run.h
  return {id,
          facts.stage,
          of_lanes ? Space::registers : Space::shared,
          type,
          facts.axes,
          facts.per_tile,
          facts.axes == Axes::key_d ? plain.bc : plain.br,
          of_lanes                        ? 1
          : facts.axes == Axes::query_key ? plain.bc
                                          : plain.head_dim,
          of_lanes ? 1 : 0,
          of_lanes ? plain.br : 0};
}

void demand_markers(const std::vector<Marker>& markers, Gate gate,
                    const std::filesystem::path& ptx) {
  const std::string gate_text = std::string(name_of(gate)) + ": " + ptx.string();
  if (gate == Gate::combine_only) {
    throw UsageError(gate_text + " is one pass: there is no such gate of a marked kernel");
  }
  bool leaves_any = gate == Gate::fused;
  for (int i = 0; i < site_id_count; ++i) {
    const auto id = static_cast<SiteId>(i);
    leaves_any = leaves_any || (leaves(gate, id) && is_shown(markers, id));
    if (!takes(gate, id) || has_marker(markers, Marker::Kind::inject, id)) continue;
    throw UsageError(gate_text + " has no marker lanescope::inject(lanescope::" + name_of(id) +
                     ", ...), and the gate takes " + name_of(id) + " from the reference");
  }
  if (leaves_any) return;
  const char* wanted = gate == Gate::qk_only ? "s" : gate == Gate::pv_only ? "o" : "p";
  throw UsageError(gate_text + " has no marker lanescope::trace(lanescope::" + wanted +
                   ", ...), and the gate is judged by it");
}

}  // namespace

std::optional<std::filesystem::path> ptx_beside(const std::filesystem::path& module) {
  const auto ptx = std::filesystem::path(module).replace_extension(".ptx");
  std::error_code error;
  if (!std::filesystem::is_regular_file(ptx, error)) return std::nullopt;
  return ptx;
}

std::vector<Marker> read_markers(const std::filesystem::path& ptx) {
  std::ifstream file(ptx);
  if (!file) throw UsageError("cannot read " + ptx.string() + ": " + std::strerror(errno));
  std::vector<Marker> markers;
  for (std::string line; std::getline(file, line);) {
    const std::size_t slashes = line.find("//");
    if (slashes == line.npos) continue;
    std::string_view words = std::string_view(line).substr(slashes + 2);
    while (words.starts_with(' ') || words.starts_with('\t')) words.remove_prefix(1);
    const auto marker = take_marker(words);
    if (marker && std::find(markers.begin(), markers.end(), *marker) == markers.end()) {
      markers.push_back(*marker);
    }
  }
  return markers;
}

std::shared_ptr<const MarkedModule> marked_module(const Module& plain,
                                                  const std::vector<Marker>& markers, Gate gate,
                                                  const std::filesystem::path& ptx) {
  if (markers.empty()) return nullptr;
  demand_markers(markers, gate, ptx);
  auto marked = std::make_shared<MarkedModule>();
  marked->ptx = std::filesystem::absolute(ptx).string();
  const std::span outputs(plain.sites, static_cast<std::size_t>(plain.site_count));
  for (int i = 0; i < site_id_count; ++i) {
    const auto id = static_cast<SiteId>(i);
    for (const Site& output : outputs) {
      if (output.id == id) marked->sites.push_back(output);
    }
    if (!is_marked_site(id)) continue;
    const auto type = type_of(plain, markers, id, ptx);
    if (!type) continue;
    marked->sites.push_back(site_of(plain, id, *type));
    if (id == SiteId::s || is_maximum(id)) {
      marked->sites.back().unit = unit_of(markers, is_maximum(id), ptx);
    }
  }
  Module& module = marked->module;
  module = plain;
  module.gate = gate;
  module.trace = "on";
  module.sites = marked->sites.data();
  module.site_count = static_cast<int>(marked->sites.size());
  module.coordinate = [](SiteId, int, int, int reg, int* row, int* col) {
    *row = reg;
    *col = 0;
  };
  module.marked_ptx = marked->ptx.c_str();
  return marked;
}

}  // namespace lanescope
