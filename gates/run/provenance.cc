#include "gates/run/provenance.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>

#include "debug/dump/dump.h"
#include "gates/process/shared_file.h"
#include "gates/run/known_numbers.h"

namespace lanescope {
namespace {

std::int64_t number_in(std::string_view text) {
  std::int64_t number = -1;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == at) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

/// "0-31,40-40"; "-".
Provenance::Set set_in(const std::string& text) {
  Provenance::Set set;
  if (text == "-" || text.empty()) return set;
  for (const std::string& range : split(text, ',')) {
    const std::size_t middle = range.find('-');
    set.emplace_back(number_in(range.substr(0, middle)), number_in(range.substr(middle + 1)));
  }
  return set;
}

/// "3:17", "3{0-31}", "-".
Provenance::Unit unit_in(const std::string& text) {
  Provenance::Unit unit;
  if (text == "-") return unit;
  unit.row = number_in(text);
  if (const std::size_t at = text.find(':'); at != text.npos) {
    unit.kind = Provenance::Unit::Kind::score;
    unit.key = number_in(text.substr(at + 1));
  } else if (const std::size_t brace = text.find('{'); brace != text.npos) {
    unit.kind = Provenance::Unit::Kind::log_sum;
    unit.keys = set_in(text.substr(brace + 1, text.size() - brace - 2));
  }
  return unit;
}

Provenance::Term term_in(const std::string& text) {
  Provenance::Term term;
  const std::vector<std::string> parts = split(text, '/');
  term.kind = parts[0];
  if (term.is_input() && parts.size() == 3) {
    term.row = number_in(parts[1]);
    term.column = number_in(parts[2]);
  } else if (parts.size() == 5) {
    term.a = unit_in(parts[1]);
    term.row = term.a.row >= 0 ? term.a.row : number_in(parts[1]);
    term.key = term.a.key;
    term.b = unit_in(parts[2]);
    term.set = set_in(parts[3]);
    term.column = number_in(parts[4]);
  }
  return term;
}

}  // namespace

std::int64_t count(const Provenance::Set& set) {
  std::int64_t count = 0;
  for (const auto& [from, to] : set) count += to - from + 1;
  return count;
}

bool has(const Provenance::Set& set, std::int64_t i) {
  return std::any_of(set.begin(), set.end(),
                     [&](const auto& range) { return range.first <= i && i <= range.second; });
}

Provenance::Set without(const Provenance::Set& a, const Provenance::Set& b) {
  Provenance::Set rest;
  for (const auto& [from, to] : a) {
    for (std::int64_t i = from; i <= to; ++i) {
      if (has(b, i)) continue;
      if (!rest.empty() && rest.back().second == i - 1) {
        ++rest.back().second;
      } else {
        rest.emplace_back(i, i);
      }
    }
  }
  return rest;
}

std::optional<Stage> Provenance::SharedMemory::stage_around(std::int64_t offset) const {
  std::pair<std::int64_t, std::int64_t> room{0, std::numeric_limits<std::int64_t>::max()};
  for (const auto& variable : variables) {
    if (variable.first <= offset && offset < variable.second) room = variable;
  }
  std::optional<Stage> before, behind;
  for (const auto& [range, stage] : stored) {
    if (range.second <= room.first || range.first >= room.second) continue;
    if (range.first <= offset) before = stage;
    if (range.second > offset && !behind) behind = stage;
  }
  const bool is_variable = room.first > 0 || room.second < std::numeric_limits<std::int64_t>::max();
  // At an end of its variable there is one side.
  if (is_variable && !before) return behind;
  if (is_variable && !behind) return before;
  return before == behind ? before : std::nullopt;
}

Provenance read_provenance(const std::string& path) {
  Provenance all;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string what, first, second;
    std::int64_t number = 0;
    words >> what;
    if (what == "launch") {
      all = {};
      continue;
    }
    words >> number;
    if (what == "fault") {
      Provenance::Meeting& meeting = all.meetings[number];
      int conflict = 0;
      words >> conflict >> meeting.count >> meeting.fresh >> meeting.block >> meeting.warp >>
          meeting.lane;
      meeting.conflict = static_cast<ptx::Conflict>(conflict);
      std::getline(words >> std::ws, meeting.line);
    } else if (what == "sample") {
      std::int64_t one = 0, other = 0;
      words >> first >> second >> one >> other;
      Provenance::Meeting& meeting = all.meetings[number];
      meeting.samples.emplace_back(term_in(first), term_in(second));
      ++meeting.roads[0][one];
      ++meeting.roads[1][other];
      for (int side = 0; side < 2; ++side) {
        words >> second;
        meeting.ordered[side] += second == "1";
        meeting.disordered[side] += second == "0";
      }
    } else if (what == "columns") {
      all.repeats_columns.insert(number);
    } else if (what == "keys") {
      all.keys_in_order = number;
      words >> all.keys_out_of_order;
    } else if (what == "columns_of_v") {
      all.columns_in_order = number;
      words >> all.columns_out_of_order;
    } else if (what == "columns_by_row") {
      all.columns_by_row = true;
    } else if (what == "weights_of_zero") {
      all.weights_of_zero = number;
    } else if (what == "stop") {
      std::getline(words >> std::ws, all.roads[number].emplace_back());
    } else if (what == "input") {
      std::int64_t times = 0, road = 0;
      words >> times >> road;
      if (number >= 0 && number < 3) all.input_roads[number][road] += times;
    } else if (what == "address") {
      std::getline(words >> std::ws, all.addresses[number].emplace_back());
    } else if (what == "rescale") {
      std::getline(words >> std::ws, all.rescales[number == 1 ? 1 : 0].emplace_back());
    } else if (what == "rounding") {
      std::getline(words >> std::ws, all.outline.roundings.emplace_back());
    } else if (what == "mask") {
      std::getline(words >> std::ws, all.masks.emplace_back());
    } else if (what == "o" || what == "lse") {
      Provenance::Output output;
      std::string term, column, values, meetings;
      words >> output.count >> term >> column >> values >> meetings >> output.road;
      output.term = term_in(term);
      output.own_column = column != "other";
      output.values = set_in(values);
      for (const auto& [from, to] : set_in(meetings)) {
        for (std::int64_t i = from; i <= to; ++i) output.meetings.push_back(i);
      }
      (what == "o" ? all.o : all.lse)[number].push_back(std::move(output));
    } else if (what == "merge") {
      std::getline(words >> std::ws, all.outline.merges.lines.emplace_back());
    } else if (what == "combine") {
      std::getline(words >> std::ws, all.outline.merges.around.emplace_back());
    } else if (what == "made") {
      all.made.emplace_back();
      std::getline(words >> std::ws, all.made.back().line);
    } else if (what == "value") {
      words >> first >> second;
      all.made.back().values.emplace_back(std::strtod(first.c_str(), nullptr), term_in(second));
    } else if (what == "room" && number < std::ssize(all.placed)) {
      words >> all.placed[static_cast<std::size_t>(number)].room;
    } else if (what == "put" && number < std::ssize(all.placed)) {
      std::int64_t row = 0, column = 0, count = 0, at = 0, step = 0;
      words >> row >> column >> count >> at >> step;
      for (std::int64_t i = 0; i < count; ++i) {
        all.placed[static_cast<std::size_t>(number)].at[{row, column + i}] = at + i * step;
      }
    } else if (what == "variable") {
      std::int64_t bytes = 0;
      words >> bytes;
      all.outline.shared.variables.emplace_back(number, number + bytes);
    } else if (what == "stored") {
      std::int64_t end = 0;
      int stage = 0;
      words >> end >> stage;
      all.outline.shared.stored.push_back({{number, end}, static_cast<Stage>(stage)});
    } else if (what == "read") {
      std::getline(words >> std::ws, second);
      all.outline.reads[second] = static_cast<Stage>(number);
    } else if (what == "weighed") {
      words >> first;
      all.weighed[number] = set_in(first);
    } else if (what == "scored") {
      while (words >> first) all.scored[number].push_back(set_in(first));
    }
  }
  // A kernel that makes no log-sum-exps stores none.
  const auto is_none = [](const auto& row) {
    return std::ranges::all_of(row.second, [](const auto& o) { return o.term.kind == "-"; });
  };
  if (std::ranges::all_of(all.lse, is_none)) all.lse.clear();
  for (auto* site : {&all.o, &all.lse}) {
    for (auto& [row, outputs] : *site) {
      for (Provenance::Output& output : outputs) {
        const auto road = all.roads.find(output.road);
        if (road != all.roads.end() && !road->second.empty()) output.line = road->second.back();
      }
    }
  }
  return all;
}

bool Provenance::Placed::is_whole(std::int64_t tile_rows, std::int64_t length, std::int64_t columns,
                                  std::int64_t element_bytes) const {
  columns = std::min<std::int64_t>(columns, ptx::Placements::most);
  // What lies behind the end of the last tile may be left out, or filled with zeros.
  if (at.empty() || length % tile_rows != 0) return false;
  const std::int64_t first_row = at.begin()->first.first;
  std::map<std::int64_t, std::vector<std::int64_t>> tiles;
  for (const auto& [element, place] : at) {
    tiles[(element.first - first_row) / tile_rows].push_back(place);
  }
  return std::ranges::all_of(tiles, [&](const auto& tile) {
    const auto elements = std::ssize(tile.second);
    const auto [first, last] = std::ranges::minmax(tile.second);
    const bool may_end = tiles.size() > 1 && &tile == &*tiles.rbegin();
    const bool is_full = may_end ? elements % columns == 0 : elements == tile_rows * columns;
    return is_full && last - first < tile_rows * columns * element_bytes;
  });
}

bool Provenance::Placed::lacks_columns(std::int64_t columns) const {
  std::set<std::int64_t> there;
  for (const auto& [element, place] : at) there.insert(element.second);
  return !there.empty() &&
         std::ssize(there) < std::min<std::int64_t>(columns, ptx::Placements::most);
}

Provenance follow_provenance(PreparedRun& run) {
  const Problem& p = run.request.problem;
  const auto side = [](std::int64_t n) { return static_cast<std::uint32_t>(n); };
  ptx::Lookout lookout;
  lookout.terms = ptx::Terms::Sides{side(p.heads),
                                    side(p.heads_kv),
                                    side(p.len_q),
                                    side(p.len_kv),
                                    side(p.d),
                                    side(size_of(run.module->dtype)),
                                    side(size_of(operand_type(run.module->dtype)))};
  const SharedFile file("provenance");
  lookout.file = file.number();
  run.request.lookout = &lookout;
  const Dump dump = launch(*run.module, run.module_name, run.request);
  run.request.lookout = nullptr;
  if (dump.info.broke_off()) return {};
  Provenance all = read_provenance(file.path());
  for (std::size_t i = 0; i < all.outline.shared.is_whole.size(); ++i) {
    all.outline.shared.is_whole[i] =
        all.placed[i].is_whole(i == 0 ? run.module->br : run.module->bc,
                               i == 0 ? p.len_q : p.len_kv, p.d, size_of(run.module->dtype));
    all.outline.shared.lacks_columns[i] = all.placed[i].lacks_columns(p.d);
  }
  return all;
}

}  // namespace lanescope
