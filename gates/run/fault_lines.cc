// Where the source does what makes terms that do not go together.

#include <algorithm>
#include <map>

#include "gates/run/term_judging.h"

namespace lanescope {
namespace {

constexpr std::size_t most_lines = 4;  // that somebody reads

void take_line(const std::string& line, std::vector<std::string>& lines) {
  const bool known = std::find(lines.begin(), lines.end(), line) != lines.end();
  if (!known && line != "-" && lines.size() < most_lines) lines.push_back(line);
}

}  // namespace

/// Those that came most often by it, first.
std::vector<std::vector<std::string>> TermJudging::roads_of(
    const std::map<std::int64_t, std::int64_t>& counts) const {
  // Loops that are unrolled have several instructions for a line.
  std::map<std::vector<std::string>, std::int64_t> by_lines;
  for (const auto& [road, count] : counts) {
    const auto known = all_.roads.find(road);
    if (known != all_.roads.end()) by_lines[known->second] += count;
  }
  std::vector<std::vector<std::string>> roads;
  for (const auto& [lines, count] : by_lines) roads.push_back(lines);
  std::stable_sort(roads.begin(), roads.end(),
                   [&](const auto& a, const auto& b) { return by_lines.at(a) > by_lines.at(b); });
  return roads;
}

void TermJudging::tell_operand(const Found& found, TermFault& fault) const {
  static constexpr const char* names[] = {"q", "k", "v"};
  const auto array = static_cast<std::size_t>(*fault.operand);
  // By which those came that met here; else all of them.
  std::vector<std::vector<std::string>> roads;
  for (std::size_t side = 0; side < 2 && !found.samples.empty(); ++side) {
    const auto& [x, y] = found.samples.front();
    if ((side == 0 ? x : y).kind == names[array]) roads = roads_of(found.roads[side]);
  }
  if (roads.empty()) roads = roads_of(all_.input_roads[array]);
  if (roads.empty()) return;
  std::string path;
  for (const std::string& stop : roads.front()) path += (path.empty() ? "" : ", ") + stop;
  fault.evidence.push_back(std::string(1, "QKV"[array]) + " came there by " + path);
  std::vector<std::string> addresses;
  for (const auto& [number, lines] : all_.addresses) {
    const auto stops = all_.roads.find(number);
    if (stops != all_.roads.end() && stops->second == roads.front()) addresses = lines;
  }
  // How it is filled, or who takes it from there.
  const std::vector<std::string>& road = roads.front();
  std::vector<std::string> lines;
  if (fault.stage == Stage::load) {
    const bool by_address = fault.cause == Cause::wrong_head ||
                            fault.cause == Cause::wrong_stride ||
                            fault.cause == Cause::operand_of_other_row;
    for (const std::string& line : by_address ? addresses : lines) take_line(line, lines);
    for (const std::string& stop : road) take_line(stop, lines);
    for (std::size_t i = 1; i < roads.size(); ++i) take_line(roads[i].front(), lines);
  } else {
    take_line(road.back(), lines);
  }
  for (const std::string& line : fault.lines) take_line(line, lines);
  fault.lines = lines;
}

std::map<Stage, std::vector<std::string>> TermJudging::stage_lines() const {
  std::map<Stage, std::vector<std::string>> lines;
  for (const auto& counts : all_.input_roads) {
    for (const auto& road : roads_of(counts)) take_line(road.front(), lines[Stage::load]);
  }
  for (const std::string& line : all_.masks) take_line(line, lines[Stage::qk]);
  for (const Provenance::Made& made : all_.made) {
    const std::string& kind = made.values.empty() ? std::string() : made.values.front().second.kind;
    const Stage stage = kind == "score" ? Stage::qk : kind == "output" ? Stage::pv : Stage::softmax;
    if (!kind.empty()) take_line(made.line, lines[stage]);
  }
  for (const std::string& line : all_.outline.merges.lines) take_line(line, lines[Stage::combine]);
  for (const std::int64_t row : wrong_) {
    each_output(row, [&](const Provenance::Output& output, bool) {
      const auto road = all_.roads.find(output.road);
      if (road == all_.roads.end()) return;
      for (const std::string& stop : road->second) take_line(stop, lines[Stage::epilogue]);
    });
  }
  return lines;
}

void TermJudging::tell_lines(const Found& found, TermFault& fault) const {
  if (fault.operand) return tell_operand(found, fault);
  if (fault.cause == Cause::not_rescaled || fault.cause == Cause::rescaled_twice) {
    for (const std::string& line : all_.rescales[is_output(found) ? 1 : 0]) {
      take_line(line, fault.lines);
    }
  }
  // Who made them.
  for (const std::size_t side : {1u, 0u}) {
    const std::vector<std::vector<std::string>> roads = roads_of(found.roads[side]);
    if (!roads.empty()) take_line(roads.front().front(), fault.lines);
  }
}

}  // namespace lanescope
