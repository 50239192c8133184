#include "debug/ptx/placements.h"

#include <algorithm>

namespace lanescope::ptx {

std::optional<std::pair<std::size_t, Placements::Element>> Placements::element_of(
    const Terms& terms, TermId id) {
  if (id <= constant_term) return std::nullopt;
  if (Terms::is_input(id)) {
    const InputElement e = terms.element(id);
    return std::pair(static_cast<std::size_t>(e.array), Element(e.row, e.column));
  }
  const Term& term = terms[id];
  const bool is_score = term.kind == TermKind::score;
  if ((!is_score && term.kind != TermKind::weight) || !term.a.is_score()) return std::nullopt;
  if (is_score && term.set != terms.all_columns()) return std::nullopt;
  return std::pair(std::size_t{is_score ? 3u : 4u}, Element(term.a.row, term.a.key()));
}

void Placements::note(const Terms& terms, const History::Run& run, const std::byte* at, TermId id,
                      bool is_maximum) {
  const auto what = is_maximum ? std::nullopt : element_of(terms, id);
  if (!what) return;
  const auto& [kind, element] = *what;
  Tile& tile = tiles_[kind];
  if (tile.is_done) return;
  const bool is_shared = run.holds(at);
  if (!tile.run) {
    tile.run = &run;
    tile.is_shared = is_shared;
    tile.first = element;
  }
  if (is_shared != tile.is_shared || (is_shared && &run != tile.run)) return;
  const auto is_far = [](std::uint32_t a, std::uint32_t b) {
    return std::max(a, b) - std::min(a, b) >= most;
  };
  if (is_far(element.first, tile.first.first) || is_far(element.second, tile.first.second)) return;
  const auto [there, is_free] = tile.elements.try_emplace(at, element);
  if (!is_free && there->second != element) {
    tile.is_done = true;
    return;
  }
  tile.places.try_emplace(element, at);
}

Placements::Room Placements::room_of(const Tile& tile, const GlobalMemory& memory) {
  const std::byte* const first = tile.places.begin()->second;
  if (!tile.is_shared) {
    const auto address = reinterpret_cast<std::uintptr_t>(first);
    const GlobalMemory::Area* area = memory.find(address, 1);
    if (!area) return {first, 0};
    return {first - (address - area->begin), area->end - area->begin};
  }
  for (const SharedRoom& room : tile.run->program->shared_rooms) {
    const std::byte* const begin = tile.run->shared + room.at;
    if (first >= begin && first < begin + room.bytes) return {begin, room.bytes};
  }
  return {tile.run->shared, 0};  // of a launch's own size, whose parts nobody names
}

std::string Placements::text(const GlobalMemory& memory) const {
  std::string text;
  for (std::size_t kind = 0; kind < kinds; ++kind) {
    const Tile& tile = tiles_[kind];
    if (tile.places.empty()) continue;
    const Room room = room_of(tile, memory);
    const std::string number = std::to_string(kind) + " ";
    text += "room " + number + std::to_string(room.bytes) + "\n";
    for (auto at = tile.places.begin(); at != tile.places.end();) {
      // Those behind it in its row, as long as they go on in the same way.
      const auto first = at;
      std::ptrdiff_t step = 0;
      std::uint32_t count = 1;
      for (auto before = at++; at != tile.places.end(); before = at++, ++count) {
        const bool follows = at->first.first == first->first.first &&
                             at->first.second == first->first.second + count;
        const std::ptrdiff_t own = at->second - before->second;
        if (!follows || (count > 1 && own != step)) break;
        step = own;
      }
      text += "put " + number + std::to_string(first->first.first) + " " +
              std::to_string(first->first.second) + " " + std::to_string(count) + " " +
              std::to_string(first->second - room.begin) + " " + std::to_string(step) + "\n";
    }
  }
  return text;
}

}  // namespace lanescope::ptx
