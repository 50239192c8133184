#include "gates/run/seen_numbers.h"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace lanescope {

SeenNumbers read_seen_numbers(const std::string& path) {
  SeenNumbers seen;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream in(line);
    std::string word, digits;
    std::size_t kind = 0;
    in >> word;
    if (word == "block") {
      std::int64_t block = 0;
      in >> block;
      for (Marks& marks : seen.blocks.emplace_back()) {
        in >> digits;
        marks = Marks(digits);
      }
    } else if (word == "multicast") {
      seen.multicasts = true;
    } else if (word == "share") {
      seen.shares = true;
    } else if (word == "rows") {
      std::string place;
      in >> kind;
      std::getline(in >> std::ws, place);
      if (!place.empty()) seen.row_lines[kind].push_back(place);
    } else if (word == "kind") {
      in >> kind >> digits;
      seen.kinds[kind].elements.add(Marks(digits));
    } else if (word == "line") {
      std::int64_t made = 0;
      std::string place;
      in >> kind >> made;
      std::getline(in >> std::ws, place);
      seen.kinds[kind].lines.emplace_back(made, place);
    }
  }
  for (SeenNumbers::Kind& kind : seen.kinds) {
    std::stable_sort(kind.lines.begin(), kind.lines.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
  }
  return seen;
}

}  // namespace lanescope
