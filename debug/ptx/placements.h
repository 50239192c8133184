#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "debug/ptx/global_memory.h"
#include "debug/ptx/history.h"
#include "debug/ptx/terms.h"

namespace lanescope::ptx {

/// Where a kernel puts elements of Q, K and V, scores and weights in memory: those of one tile
/// each, which the first block that does so puts there, until the next tile takes their place.
class Placements {
 public:
  /// An element of Q, K or V, the score or the weight of a row and a key.
  static constexpr std::size_t kinds = 5;
  /// Rows and columns that are kept: as many as show how they lie.
  static constexpr std::uint32_t most = 128;

  /// A block puts a term there; a score as the maximum of others.
  void note(const Terms& terms, const History::Run& run, const std::byte* at, TermId id,
            bool is_maximum);
  /// Lines that read_provenance (gates/run/provenance.h) takes apart: the shared variable or the
  /// allocation that they lie in, and from where on, runs of elements of a row.
  std::string text(const GlobalMemory& memory) const;

 private:
  using Element = std::pair<std::uint32_t, std::uint32_t>;  ///< row and column, or key
  struct Tile {
    const History::Run* run = nullptr;
    bool is_shared = false, is_done = false;
    Element first;
    std::map<Element, const std::byte*> places;
    std::map<const std::byte*, Element> elements;
  };
  struct Room {
    const std::byte* begin;
    std::size_t bytes;
  };
  static std::optional<std::pair<std::size_t, Element>> element_of(const Terms& terms, TermId id);
  static Room room_of(const Tile& tile, const GlobalMemory& memory);

  std::array<Tile, kinds> tiles_;
};

}  // namespace lanescope::ptx
