#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "debug/judge/judge.h"

namespace lanescope {

/// How one value fares against its reference.
enum class Verdict : std::uint8_t { unjudged, right, wrong, unwritten };

/// nullptr for a value that is not judged.
constexpr const char* name_of(Verdict verdict) {
  constexpr const char* names[] = {nullptr, "right", "wrong", "unwritten"};
  return names[static_cast<int>(verdict)];
}

/// One value of a tile beside its reference; want and bound are NaN where it is not judged.
struct Judged {
  Verdict verdict = Verdict::unjudged;
  double want = std::numeric_limits<double>::quiet_NaN();
  double bound = std::numeric_limits<double>::quiet_NaN();
  double error = 0;  ///< |got − want| in units of the bound; inf where NaN or inf differ
};

/// Where one value of a tile lies.
struct Place {
  std::int64_t index;  ///< in the tensor
  std::int64_t slot;   ///< registers: [warp, lane, reg]; else [row, col]
  int row, col;        ///< in the tile; −1: it stands for no element
};

/// Every value of a tile of `name` (a site, an input, an output), slot by slot.
std::vector<Place> places_of(const Dump& dump, std::string_view name, std::int64_t block,
                             std::int64_t tile);

/// What the values of one tile should be: [rows that exist, cols].
struct TileWant {
  Judgement judgement{};
  reference::Bounded values;
  /// The true values, where `values` are not: a NaN or an infinity in the place of a number is
  /// wrong even if the stage could make nothing else of what it received.
  std::optional<reference::Bounded> truth = {};

  Judged judge(const Tensor& tensor, const Place& place) const;
};

/// What the tiles of some sites of one block should be. A tile is judged locally; only where that
/// holds and the chain does not, against the chain, as a diff orders its divergences.
class BlockWants {
 public:
  /// Judges `block` of `dump` (a checked one), keeping the sites that `keep` wants.
  BlockWants(const Dump& dump, std::int64_t block, const std::function<bool(SiteId)>& keep);

  /// nullptr where the tile is not judged: an input, a tile that the kernel may leave out.
  const TileWant* find(std::string_view name, std::int64_t tile) const;
  /// Why the dump has no reference at all, e.g. an architecture whose rounding is not known.
  const std::string& missing() const { return missing_; }

 private:
  std::map<std::pair<SiteId, std::int64_t>, TileWant> wants_;
  std::string missing_;
};

/// How the values of one tile came out: those that are judged, all where none is.
struct TileTally {
  std::int64_t judged = 0, wrong = 0, unwritten = 0;
  std::int64_t nan = 0, inf = 0;          ///< values; an inf that is wanted counts as well
  double worst = 0;                       ///< the largest error in units of its bound
  std::optional<Place> worst_place = {};  ///< with that error, and furthest off
};
/// Of the values at `places`; `want`: nullptr where they are not judged.
TileTally tally(const Tensor& tensor, const std::vector<Place>& places, const TileWant* want);

}  // namespace lanescope
